"""Placement by predicted interference: Horus' cap on utilisation, Co-scheML's least predicted slowdown.

The predictor itself lives elsewhere; it reaches these policies as an array over rows of the throughput table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.cluster.policies.serving_order import serve
from eunomia.contract.allocation import Allocation, ClusterView, Needs, PairShares
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

Rule = Literal["horus", "coscheml", "random", "alone"]
RULES: tuple[Rule, ...] = ("horus", "coscheml", "random", "alone")


@dataclass
class InterferencePlacement:
    """First come, first served; who finds no free devices may share a running job's, two on one device at most.

    ``relative`` (R, R, J): predicted speed of table row a beside row b on type j, over its speed alone; None takes the
    engine's own estimates of pairs. ``rule``:

    * ``coscheml``: the partner with the largest predicted sum of both relative speeds, if above ``least_gain``.
    * ``horus``: the partner with the least utilisation, if both (trait ``utilisation``, 0 to 1) stay under ``cap``.
    * ``random``: any partner that fits; ``alone``: nobody shares.

    Pairs that do not fit into memory together (engine's estimate 0) are never made. Does badly when the predictor
    is wrong in favour of sharing: both jobs of a pair are slowed for as long as they run. Horus' rule assumes that
    utilisations add up, which measurements contradict.
    """

    rule: Rule = "coscheml"
    relative: Floats | None = None
    least_gain: float = 1.1
    cap: float = 1.0
    needs: Needs = Needs(answer="devices", pairs=True)
    _rng: np.random.Generator | None = None

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(
                f"interference placement: rule is '{self.rule}'; choose one of: {', '.join(RULES)}"
            )
        if not self.least_gain >= 1.0:
            raise ConfigError(
                f"interference placement: least_gain is {self.least_gain}; below 1 sharing is a loss"
            )

    def reset(self, seed: int) -> None:
        """New draws."""
        self._rng = np.random.default_rng(seed)

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices for those that have them or find free ones, pairs for some of the others."""
        runs = view.held.any(axis=1)
        devices = serve(view, np.lexsort((view.first_start_s, ~runs)))
        if self.rule == "alone" or view.beside is None:
            return Allocation(devices=devices)
        return Allocation(devices=devices, pairs=self._pairs(view, devices))

    def _pairs(self, view: ClusterView, devices: Ints) -> PairShares | None:
        hosts, guests = np.flatnonzero(devices.any(axis=1)), np.flatnonzero(~devices.any(axis=1))
        if not len(hosts) or not len(guests):
            return None
        second, first = (grid.ravel() for grid in np.meshgrid(guests, hosts, indexing="ij"))
        kind = devices[first].argmax(axis=1)
        speed = view.pair_speed(first, second)
        fits = (speed[np.arange(len(first)), kind] > 0.0).all(axis=1)
        score = np.where(fits, self.score(view, first, second, kind), -np.inf)
        chosen: list[int] = []
        taken: set[int] = set()
        for g, guest in enumerate(guests.tolist()):  # in order of arrival
            mine = slice(g * len(hosts), (g + 1) * len(hosts))
            free = np.array([int(h) not in taken for h in hosts])
            best = int(np.argmax(np.where(free, score[mine], -np.inf)))
            if free[best] and np.isfinite(score[mine][best]):
                chosen.append(g * len(hosts) + best)
                taken |= {int(hosts[best]), guest}
        if not chosen:
            return None
        rows = devices[first[chosen]].copy()
        devices[first[chosen]] = 0
        return PairShares(first[chosen], second[chosen], rows.astype(float), speed[chosen])

    def score(self, view: ClusterView, first: Ints, second: Ints, kind: Ints) -> Floats:
        """(P,) the larger the better; -inf = the rule forbids it."""
        if self.rule == "random":
            assert self._rng is not None, "reset comes first"
            return self._rng.random(len(first))
        if self.rule == "horus":
            busy = view.traits.get("utilisation", np.ones(len(view)))
            total = np.nan_to_num(busy[first], nan=1.0) + np.nan_to_num(busy[second], nan=1.0)
            return np.where(total <= self.cap, -total, -np.inf)
        a, b = view.row[first], view.row[second]
        if self.relative is not None:
            gain = self.relative[a, b, kind] + self.relative[b, a, kind]
        else:
            speed = view.pair_speed(first, second)[np.arange(len(first)), kind]
            alone = np.stack([view.throughput[first, kind], view.throughput[second, kind]], axis=1)
            gain = (speed / np.maximum(alone, 1e-300)).sum(axis=1)
        return np.where(gain > self.least_gain, gain, -np.inf)


def horus(cap: float = 1.0) -> InterferencePlacement:
    """Share while predicted utilisations add up to at most ``cap`` (Yeung et al., TPDS 2022)."""
    return InterferencePlacement("horus", cap=cap)


def coscheml(relative: Floats | None = None, least_gain: float = 1.1) -> InterferencePlacement:
    """Share with whom the predicted interference is least (Kim and Kim, CLUSTER 2020)."""
    return InterferencePlacement("coscheml", relative, least_gain)

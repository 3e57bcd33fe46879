"""Gandiva: time slices in turn, packing by what was observed, migration to fewer servers (OSDI 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.policies.servers import place_tight
from eunomia.cluster.policies.serving_order import Memory, Types, serve
from eunomia.contract.allocation import Allocation, ClusterView, Needs, PairShares
from eunomia.core.arrays import Ints
from eunomia.core.errors import ConfigError


@dataclass
class Gandiva:
    """Over-subscribed devices go round: who has waited longest since his last slice is next.

    A slice lasts ``slice_s``; within it nobody is preempted. ``pack``: a waiting job joins a running one of
    the same scale factor and type, best sum first. Their normalised speed v_a / v_a alone + v_b / v_b alone
    must exceed ``pack_gain``; packing needs pair throughputs. ``migrate``: a job that lies on more servers
    than it must moves as soon as its gang fits on fewer (not while pairs run: the engine places those).

    Written from the paper's description; Gavel's ``gandiva`` (random pairs, equal time) is another policy, here
    ``gandiva_packed`` (:mod:`.random_packing`). The paper's grow-shrink is left out. Does badly on fairness by design:
    nothing is promised to anyone, and equal turns favour whoever has many jobs.
    """

    slice_s: float = 60.0
    pack: bool = True
    pack_gain: float = 1.1
    migrate: bool = True
    types: Types = "stay"
    needs: Needs = field(init=False)
    _since_s: Memory = field(default_factory=Memory, repr=False)  # when the last slice ended, or the arrival
    _began_s: Memory = field(default_factory=Memory, repr=False)  # when the present slice began

    def __post_init__(self) -> None:
        if not self.slice_s > 0.0:
            raise ConfigError(f"gandiva: slice_s is {self.slice_s}; it must be positive")
        if not self.pack_gain >= 1.0:
            raise ConfigError(f"gandiva: pack_gain is {self.pack_gain}; below 1 packing is a loss")
        self.needs = Needs(answer="devices", pairs=self.pack)

    def reset(self, seed: int) -> None:
        """Forget slices."""
        self._since_s, self._began_s = Memory(), Memory()

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices in turn; pairs for some of those that wait."""
        devices = serve(view, self._order(view), types=self.types)
        self._began_s.put(view.key, np.where(devices.any(axis=1), self._began_s.of(view.key), np.nan))
        fresh = devices.any(axis=1) & np.isnan(self._began_s.of(view.key))
        self._began_s.put(view.key[fresh], view.now_s)
        pairs = self._pairs(view, devices) if self.pack and view.beside is not None else None
        servers = place_tight(view, devices) if self.migrate and pairs is None else None
        return Allocation(devices=devices, pairs=pairs, servers=servers)

    def _order(self, view: ClusterView) -> Ints:
        """Slices that go on first, then by time since the last slice, longest first."""
        began = self._began_s.of(view.key)
        runs = view.held.any(axis=1)
        goes_on = runs & (view.now_s - began < self.slice_s)
        since = self._since_s.of(view.key)
        since = np.where(runs, view.now_s, np.where(np.isnan(since), view.arrival_s, since))
        self._since_s.put(view.key, since)
        return np.lexsort((since, ~goes_on))

    def _pairs(self, view: ClusterView, devices: Ints) -> PairShares | None:
        """Greedy by normalised sum: each running job takes at most one guest."""
        hosts, guests = np.flatnonzero(devices.any(axis=1)), np.flatnonzero(~devices.any(axis=1))
        if not len(hosts) or not len(guests):
            return None
        first, second = (grid.ravel() for grid in np.meshgrid(hosts, guests, indexing="ij"))
        kind = devices[first].argmax(axis=1)
        speed = view.pair_speed(first, second)
        here = speed[np.arange(len(first)), kind]  # (P, 2)
        alone = np.stack([view.throughput[first, kind], view.throughput[second, kind]], axis=1)
        gain = np.where((here > 0.0).all(axis=1), (here / np.maximum(alone, 1e-300)).sum(axis=1), 0.0)
        chosen, taken = [], set()
        for p in np.argsort(-gain, kind="stable").tolist():
            if gain[p] <= self.pack_gain:
                break
            if first[p] not in taken and second[p] not in taken:
                chosen.append(p)
                taken |= {first[p], second[p]}
        if not chosen:
            return None
        rows = devices[first[chosen]].copy()
        devices[first[chosen]] = 0
        return PairShares(first[chosen], second[chosen], rows.astype(float), speed[chosen])

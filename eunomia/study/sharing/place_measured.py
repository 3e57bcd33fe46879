"""Paragon's rules on measured slowdowns: applications of a table of co-runs on servers of its device kinds, two slots.

Applications arrive one by one and stay. How fast each runs alone on every kind is known. Half of the types are unknown
to the predictor (``completed``) but for ``probes`` measured co-runs each. Acceptable is a server where neither newcomer
nor resident loses more than 5 %, as predicted: Paragon's D1 and D2 with pairs in place of scores per source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.metrics.metric import Metric
from eunomia.sharing.interference import Completed, CoRun
from eunomia.study.cluster.worlds import Figures, Worlds
from eunomia.study.sharing.misses import Pairs, pairs_of

METRICS = {
    "within_5": Metric(
        "applications within 5 % of their best speed alone", "within 5 % of best", "share", "higher"
    ),
    "kept": Metric(
        "applications within 5 % of their speed alone on the same kind",
        "within 5 % of kind",
        "share",
        "higher",
    ),
    "speed": Metric("mean speed over the best speed alone", "mean speed", "share", "higher"),
}
ACCEPTED = 1.0 / 0.95  # slowdown
Speeds = Mapping[str, Mapping[str, float]]  # of each type alone on each kind


@dataclass(frozen=True)
class MeasuredPlaceStudy:
    """``filled``: applications per server."""

    servers: int = 30  # of each kind
    filled: float = 1.25
    probes: int = 2
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __post_init__(self) -> None:
        if self.servers < 1 or not 0.0 < self.filled <= 2.0 or self.probes < 0:
            raise ConfigError(
                f"{self.servers} servers of each kind, {self.filled} applications each, {self.probes} probes; "
                "at least 1, more than 0 and at most 2, at least 0"
            )


@dataclass(frozen=True)
class _Offer:
    """A server with room: its kind's speed for the newcomer, and the slowdowns of both beside each other."""

    server: int
    alone: bool
    speed: float
    own: float
    other: float
    other_speed: float

    @property
    def worst(self) -> float:
        """The larger slowdown."""
        return max(self.own, self.other)

    @property
    def gain(self) -> float:
        """Speed won less speed lost."""
        return self.speed / self.own - self.other_speed * (1.0 - 1.0 / self.other)

    @property
    def within(self) -> int:
        """Applications within 5 % of their best speed that are won, less those that are lost."""
        before = not self.alone and self.other_speed >= 0.95
        after = not self.alone and self.other_speed / self.other >= 0.95
        return int(self.speed / self.own >= 0.95) + int(after) - int(before)


def _acceptable(offer: _Offer) -> bool:
    return offer.worst <= ACCEPTED


RULES: dict[str, Callable[[_Offer], tuple[float, ...]]] = {  # greatest first
    "least loaded": lambda o: (o.alone,),
    "heterogeneity only": lambda o: (o.speed,),
    "interference only": lambda o: (1.0, o.worst) if _acceptable(o) else (0.0, -o.worst),
    "two-step": lambda o: (1.0, o.speed, o.worst) if _acceptable(o) else (0.0, -o.worst, o.speed),
    "least degradation": lambda o: (o.gain,),
    "most within 5 %": lambda o: (o.within, o.gain),
}


def run_measured_place(
    rows: Sequence[CoRun], speeds: Speeds, study: MeasuredPlaceStudy | None = None
) -> Worlds:
    """Every rule as predicted; two-step and the last one with the measured slowdowns, too. Raises ConfigError."""
    study, truth = study or MeasuredPlaceStudy(), pairs_of(rows)
    types = sorted({target for target, _, _ in truth} & speeds.keys())
    if len(types) < 2:
        raise ConfigError(f"{len(types)} types with speeds and co-runs in both directions; at least 2")
    best = {t: max(speeds[t].values()) for t in types}
    shares = {t: {kind: v / best[t] for kind, v in speeds[t].items()} for t in types}
    methods = {name: (name, False) for name in RULES}
    methods |= {"two-step, measured": ("two-step", True), "oracle": ("most within 5 %", True)}
    figures: dict[str, list[Figures]] = {name: [] for name in methods}
    for seed in study.seeds:
        rng = np.random.default_rng([seed, 75])
        believed = _believed(rows, truth, types, study.probes, rng)
        kinds = sorted({kind for _, _, kind in truth}) * study.servers
        apps = rng.choice(types, round(study.filled * len(kinds))).tolist()
        for name, (rule, truly) in methods.items():
            placed = _placed(RULES[rule], apps, kinds, truth if truly else believed, shares)
            figures[name].append(_figures(placed, kinds, truth, shares))
    found = {name: tuple(runs) for name, runs in figures.items()}
    return Worlds("Placement on measured slowdowns", study.seeds, found, "within_5", METRICS)


def _believed(
    rows: Sequence[CoRun], truth: Pairs, types: Sequence[str], probes: int, rng: np.random.Generator
) -> Pairs:
    unknown = set(rng.permutation(types)[: len(types) // 2].tolist())
    seen = [row for row in rows if not unknown & {row.target, *row.neighbours}]
    for name in sorted(unknown):
        own = [row for row in rows if row.target == name and not unknown & set(row.neighbours)]
        seen += [own[i] for i in rng.permutation(len(own))[:probes].tolist()]
    model = Completed()
    model.fit(seen)
    return {(a, b, kind): model.predict(a, [b], kind)[0] for a, b, kind in truth}


def _placed(
    rule: Callable[[_Offer], tuple[float, ...]],
    apps: Sequence[str],
    kinds: Sequence[str],
    slow: Pairs,
    shares: Speeds,
) -> list[list[str]]:
    """Who is on each server. A pair that was never measured does not share one; among equals the first server."""
    residents: list[list[str]] = [[] for _ in kinds]
    for app in apps:
        offers = []
        for server, (kind, there) in enumerate(zip(kinds, residents, strict=True)):
            if not there:
                offers.append(_Offer(server, True, shares[app][kind], 1.0, 1.0, 0.0))
            elif len(there) == 1 and (app, there[0], kind) in slow:
                own, other = slow[app, there[0], kind], slow[there[0], app, kind]
                offers.append(_Offer(server, False, shares[app][kind], own, other, shares[there[0]][kind]))
        if offers:
            residents[max(offers, key=rule).server].append(app)
    return residents


def _figures(residents: list[list[str]], kinds: Sequence[str], truth: Pairs, shares: Speeds) -> Figures:
    best, kept = list[float](), list[float]()
    for kind, there in zip(kinds, residents, strict=True):
        for n, app in enumerate(there):
            slow = truth[app, there[1 - n], kind] if len(there) == 2 else 1.0
            best.append(shares[app][kind] / slow)
            kept.append(1.0 / slow)
    speed: Floats = np.array(best)
    return {
        "within_5": float((speed >= 0.95).mean()),
        "kept": float((np.array(kept) >= 0.95).mean()),
        "speed": float(speed.mean()),
    }

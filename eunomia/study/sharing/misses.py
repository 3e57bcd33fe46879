"""What predictions are good for: how many applications miss their SLO when servers are chosen by each predictor.

Servers of each device kind with two slots. Applications arrive one by one (Poisson) and stay until their work is done,
at the measured slowdown beside whoever shares the server. A choice looks at all servers with room: least loss of the
newcomer and of the resident together, as predicted; among equals the emptier server. Half of the applications are
unknown to the predictors, as targets and as neighbours. A slowdown miss runs longer than
``slack`` times its time alone; ``late`` counts the time in the queue as well. ``completed, learning`` sees
the true mean slowdown of each pair that it makes, without noise: real learning is slower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eunomia.core.errors import ConfigError
from eunomia.metrics.metric import Metric
from eunomia.sharing.interference import Completed, CoRun
from eunomia.study.cluster.worlds import Figures, Worlds
from eunomia.study.sharing.predict import Evidence

METRICS = {
    "missed": Metric(
        "applications whose slowdown exceeds the slack, waiting not counted",
        "slowdown misses",
        "share",
        "lower",
    ),
    "late": Metric(
        "applications whose time from arrival to end exceeds the slack", "with waiting", "share", "lower"
    ),
    "slowdown": Metric("mean time on a server over time alone", "slowdown", "ratio", "lower"),
    "waited": Metric("applications that found no room", "waited", "share", "lower"),
}
ONLINE = "completed, learning"
Pairs = Mapping[tuple[str, str, str], float]  # (target, neighbour, kind) -> slowdown


@dataclass(frozen=True)
class MissStudy:
    """``load``: work that arrives over what the servers could do, each for one application alone."""

    servers: int = 8  # of each kind
    applications: int = 400
    load: float = 1.0
    slack: float = 1.5
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __post_init__(self) -> None:
        if not (0.0 < self.load < math.inf and self.slack >= 1.0):
            raise ConfigError(f"load {self.load} and slack {self.slack}; more than 0, and at least 1")


@dataclass
class _Server:
    kind: str
    residents: list[int] = field(default_factory=list)


@dataclass
class _World:
    """The study, what is true, and what a method believes: pairs, or a predictor that takes in what it sees."""

    study: MissStudy
    truth: Pairs
    believed: Pairs | Completed
    _asked: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def slow(self, target: str, other: str, kind: str) -> float:
        """As believed now."""
        key = target, other, kind
        if not isinstance(self.believed, Completed):
            return self.believed[key]
        if key not in self._asked:
            self._asked[key] = self.believed.predict(target, [other], kind)[0]
        return self._asked[key]

    def notice(self, server: _Server, names: Sequence[str]) -> None:
        """Two have begun to share a server: a predictor that learns sees both slowdowns."""
        if isinstance(self.believed, Completed) and len(server.residents) == 2:
            a, b = (names[n] for n in server.residents)
            for target, other in ((a, b), (b, a)):
                slow = self.truth[target, other, server.kind]
                self.believed.observe(CoRun(target, (other,), server.kind, slow))
            self._asked.clear()

    def chosen(self, servers: Sequence[_Server], n: int, names: Sequence[str]) -> _Server | None:
        """The least predicted loss; a pair that was never measured does not fit."""
        best, least = None, (math.inf, 0)
        for server in servers:
            if len(server.residents) == 2:
                continue
            loss = 0.0
            if server.residents:
                mine, other, kind = names[n], names[server.residents[0]], server.kind
                if (mine, other, kind) not in self.truth:
                    continue
                loss = self.slow(mine, other, kind) + self.slow(other, mine, kind) - 2.0
            if (loss, len(server.residents)) < least:
                best, least = server, (loss, len(server.residents))
        return best


def run_misses(evidence: Evidence, study: MissStudy | None = None) -> Worlds:
    """Each back end, fewest residents, and the measured slowdowns themselves.

    Raises ConfigError where no pair was measured in both directions.
    """
    study = study or MissStudy()
    truth = pairs_of(evidence.rows)
    if not truth:
        raise ConfigError(
            "no pair was measured in both directions; placing needs what each does to the other"
        )
    methods = ["least loaded", *evidence.back_ends(), ONLINE, "oracle"]
    figures: dict[str, list[Figures]] = {name: [] for name in methods}
    for seed in study.seeds:
        rng = np.random.default_rng([seed, 73])
        jobs = sorted({target for target, _, _ in truth})
        unknown = set(rng.permutation(jobs)[: len(jobs) // 2].tolist())
        seen = [row for row in evidence.rows if not unknown & {row.target, *row.neighbours}]
        for name in methods:
            world = _World(study, truth, _believed(evidence, name, seen, truth))
            figures[name].append(_played(world, np.random.default_rng([seed, 74])))
    found = {name: tuple(runs) for name, runs in figures.items()}
    return Worlds("Slowdown misses by predictor", study.seeds, found, "missed", METRICS)


def pairs_of(rows: Sequence[CoRun]) -> Pairs:
    """Mean slowdowns, never below 1, of pairs that were measured in both directions."""
    logs: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if len(row.neighbours) == 1:
            logs.setdefault((row.target, row.neighbours[0], row.kind), []).append(math.log(row.slowdown))
    means = {key: math.exp(float(np.mean(found))) for key, found in logs.items()}
    return {(a, b, kind): max(1.0, slow) for (a, b, kind), slow in means.items() if (b, a, kind) in means}


def _believed(evidence: Evidence, name: str, seen: Sequence[CoRun], truth: Pairs) -> Pairs | Completed:
    if name == "oracle":
        return truth
    if name == "least loaded":
        return dict.fromkeys(truth, 1.0)
    if name == ONLINE:
        learning = Completed()
        learning.fit(seen)
        return learning
    model = evidence.fitted(name, seen)
    return {(a, b, kind): model.predict(a, [b], kind)[0] for a, b, kind in truth}


def _played(world: _World, rng: np.random.Generator) -> Figures:
    """One run of events: arrivals, and the ends of whoever shares a server at the measured rates."""
    study, truth = world.study, world.truth
    jobs, kinds = sorted({key[0] for key in truth}), sorted({key[2] for key in truth})
    servers = [_Server(kind) for kind in kinds for _ in range(study.servers)]
    names = rng.choice(jobs, study.applications).tolist()
    work = rng.exponential(1.0, study.applications)
    at_s = np.cumsum(rng.exponential(1.0 / (study.load * len(servers)), study.applications))
    left, took = work.copy(), np.full(study.applications, np.nan)
    begun, whole = np.full(study.applications, np.nan), np.zeros(study.applications)
    queue: list[int] = []
    now_s, coming, waited = 0.0, 0, 0
    while np.isnan(took).any():
        rates = {n: _rate(server, n, names, truth) for server in servers for n in server.residents}
        ends = [(now_s + left[n] / rate, n) for n, rate in rates.items()]
        next_s, ending = min(ends, default=(math.inf, -1))
        arrives = coming < study.applications and at_s[coming] <= next_s
        until_s = float(at_s[coming]) if arrives else next_s
        for n, rate in rates.items():
            left[n] -= (until_s - now_s) * rate
        now_s = until_s
        if arrives:
            queue.append(coming)
            coming += 1
        else:
            took[ending] = (now_s - begun[ending]) / work[ending]
            whole[ending] = (now_s - at_s[ending]) / work[ending]
            next(server for server in servers if ending in server.residents).residents.remove(ending)
        while queue and (server := world.chosen(servers, queue[0], names)) is not None:
            begun[queue[0]] = now_s
            waited += bool(now_s > at_s[queue[0]])
            server.residents.append(queue.pop(0))
            world.notice(server, names)
    return {
        "missed": float((took > study.slack).mean()),
        "late": float((whole > study.slack).mean()),
        "slowdown": float(took.mean()),
        "waited": waited / study.applications,
    }


def _rate(server: _Server, n: int, names: Sequence[str], truth: Pairs) -> float:
    others = [names[other] for other in server.residents if other != n]
    return 1.0 / truth[names[n], others[0], server.kind] if others else 1.0

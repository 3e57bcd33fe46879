"""The learned order: fitted by CMA-ES on the first part of Philly, gated on the next, tested on the last.

Writes the weights into the package, where ``learned`` reads them. Needs the shared data; some minutes, and costs of
finished windows are kept in runs/.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from benchmarks.cluster.scenes import KINDS, throughputs
from benchmarks.kept import kept
from benchmarks.page import shared
from benchmarks.table import Cell, Options, Table, table
from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.learned import START, Learned
from eunomia.cluster.policies.learned_features import FEATURES
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.traces import philly
from eunomia.cluster.traces.job_trace import JobTrace
from eunomia.cluster.traces.jobs import to_jobs
from eunomia.contract.allocation import Allocator
from eunomia.contract.cluster import Cluster
from eunomia.metrics.statistics import interval, paired_difference

WEIGHTS = "eunomia/data/cluster_learned.json"
JOBS, DEVICES, LOAD, LONGEST_S = 200, 24, 1.1, 21_600.0
TRAIN, VALIDATE, TEST = range(0, 24), range(24, 44), range(44, 64)
GENERATIONS, CANDIDATES = 24, 8
DRAWN = 6  # windows drawn anew for each generation, the same for all its candidates
PENALTY = 0.01  # per squared weight
OPTIONS = SimulationOptions(restart=Restart(10.0, 20.0, 10.0), record="jobs")
HEURISTICS = ("least_attained_service", "tiresias", "gittins", "drf", "srtf")


@dataclass(frozen=True)
class Outcome:
    """One window under one policy."""

    jct_s: float
    worst_tenant: float  # largest mean bounded slowdown of a tenant with at least 10 jobs
    p99_slowdown: float

    def cost(self, base: Outcome) -> float:
        """Latency plus fairness: mean completion time over the base's, and half the worst tenant's over the base's."""
        return self.jct_s / base.jct_s + 0.5 * self.worst_tenant / base.worst_tenant


@cache
def _trace() -> JobTrace:
    return philly.read(shared() / "traces" / "philly_reduced.csv")


@cache
def window(number: int) -> ClusterProblem:
    """``JOBS`` consecutive jobs of up to 8 devices, from the ``number``-th of equal parts of the trace."""
    trace, measured = _trace(), throughputs()
    usable = np.flatnonzero(np.isin(trace.gpus, (1, 2, 4, 8)))
    first = number * len(usable) // TEST.stop
    part = trace.select(usable[first : first + JOBS])
    length_s = np.minimum(part.duration_s, LONGEST_S)
    gaps = part.arrival_s - part.arrival_s[0]
    stretch = float((length_s * part.gpus).sum()) / LOAD / DEVICES / max(float(gaps[-1]), 1.0)
    part = replace(part, arrival_s=gaps * stretch, duration_s=length_s)
    cluster = Cluster.of(dict.fromkeys(KINDS, DEVICES // 3), 4)
    return build_problem(to_jobs(part, measured, "p100", number), cluster, measured)


def play(problem: ClusterProblem, policy: Allocator) -> Outcome:
    """Completion times and bounded slowdowns (time alone counted as at least 600 s)."""
    run = simulate_cluster(problem, policy, OPTIONS)
    jct = run.ledger.finish_s - problem.arrival_s
    assert not np.isnan(jct).any()
    slowdown = jct / np.maximum(problem.total_steps / problem.speed.max(axis=1), 600.0)
    number = np.bincount(problem.tenant)
    means = np.bincount(problem.tenant, slowdown) / np.maximum(number, 1)
    counted = means[number >= min(10, number.max())]
    return Outcome(float(jct.mean()), float(counted.max()), float(np.quantile(slowdown, 0.99)))


@cache
def base(number: int) -> Outcome:
    """Least attained service."""
    return play(window(number), allocator("least_attained_service"))


def costs(policy: Allocator, numbers: Sequence[int]) -> list[float]:
    """Cost of a policy on each window, kept: training that was stopped repeats its way and goes on."""

    def cost(number: int) -> dict[str, float]:
        return {"cost": play(window(number), policy).cost(base(number))}

    what = {"policy": repr(policy)}
    return [float(kept("order", what | {"window": n}, partial(cost, n))["cost"]) for n in numbers]


def train(generations: int) -> tuple[float, ...]:
    """CMA-ES from Tiresias; the mean of its last distribution, which fits noise less than its luckiest draw."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import cma

    options = {"seed": 1, "verbose": -9, "popsize": CANDIDATES, "bounds": [-3.0, 3.0]}
    search = cma.CMAEvolutionStrategy(list(START), 0.4, options)
    rng = np.random.default_rng(1)
    for generation in range(generations):
        drawn = rng.choice(TRAIN, DRAWN, replace=False).tolist()
        asked = search.ask()
        each = [float(np.mean(costs(Learned(tuple(map(float, w))), drawn))) for w in asked]
        found = [cost + PENALTY * float(w @ w) for cost, w in zip(each, asked, strict=True)]
        search.tell(asked, found)
        print(f"generation {generation}: best {min(found):.4f}", flush=True)
    return tuple(round(float(w), 4) for w in search.result.xfavorite)


def measure(options: Options) -> Iterator[Table]:
    """Train, gate, test; the quick run has one generation and two windows."""
    few = slice(0, 2 if options.quick else None)
    validate, test = VALIDATE[few], TEST[few]
    weights = train(1 if options.quick else GENERATIONS)
    validated = {name: costs(allocator(name), validate) for name in HEURISTICS[:2]}
    rival = min(validated, key=lambda name: float(np.mean(validated[name])))
    gain = paired_difference(validated[rival], costs(Learned(weights), validate))
    passed = bool(gain.low > 0.0)
    made = {
        "features": list(FEATURES),
        "weights": list(weights),
        "kept": passed,
        "rival": rival,
        "validation_gain": [round(gain.mean, 4), round(gain.low, 4), round(gain.high, 4)],
        "trained_on": f"Philly (CC-BY 4.0), {len(TRAIN)} windows of {JOBS} jobs, load {LOAD}",
    }
    verdict = "passed, the weights are used" if passed else "not passed, `learned` serves by Tiresias' queues"
    notes = [
        f"Gate, gain in cost: {gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] against {rival}: {verdict}. "
        f"Weights: {', '.join(f'{n} {w:+.2f}' for n, w in zip(FEATURES, weights, strict=True))}."
    ]
    columns = "; cost|.3f; over the rival|+.3f; mean completion, h|.2f; worst tenant's slowdown|.1f; p99 slowdown|.1f"
    found = table("test", columns, rows(weights, rival, test), notes)
    yield replace(found, files={WEIGHTS: json.dumps(made, indent=1) + "\n"})


def rows(weights: tuple[float, ...], rival: str, numbers: Sequence[int]) -> Iterator[list[Cell]]:
    """The learned weights and every heuristic on the test windows."""
    against = costs(allocator(rival), numbers)
    for label in ("learned weights", *HEURISTICS):
        policies = [Learned(weights) if label == "learned weights" else allocator(label) for _ in numbers]
        outcomes = [play(window(n), policy) for n, policy in zip(numbers, policies, strict=True)]
        found = [o.cost(base(n)) for n, o in zip(numbers, outcomes, strict=True)]
        parts = zip(*((o.jct_s / 3600.0, o.worst_tenant, o.p99_slowdown) for o in outcomes), strict=True)
        yield [label, interval(found), paired_difference(found, against), *map(interval, parts)]

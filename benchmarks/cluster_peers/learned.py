"""The learned order: fitted by CMA-ES on the first part of Philly, gated on the next, tested on the last."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_peers.kept import kept
from benchmarks.cluster_peers.report import cell, machine, table
from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.learned import START, Learned
from eunomia.cluster.policies.learned_features import FEATURES
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.traces import philly
from eunomia.cluster.traces.job_trace import JobTrace
from eunomia.cluster.traces.jobs import to_jobs
from eunomia.contract.allocation import Allocator
from eunomia.contract.cluster import Cluster
from eunomia.metrics.statistics import paired_difference

WEIGHTS = Path(__file__).resolve().parents[2] / "eunomia" / "data" / "cluster_learned.json"
JOBS, DEVICES, LOAD, LONGEST_S = 200, 24, 1.1, 21_600.0
TRAIN, VALIDATE, TEST = range(0, 24), range(24, 44), range(44, 64)
GENERATIONS, CANDIDATES, DRAWN = (
    24,
    8,
    6,
)  # windows drawn anew for each generation, the same for all its candidates
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


def window(trace: JobTrace, measured: ThroughputTable, number: int, windows: int) -> ClusterProblem:
    """``JOBS`` consecutive jobs of up to 8 devices, from the ``number``-th of ``windows`` equal parts of the trace."""
    usable = np.flatnonzero(np.isin(trace.gpus, (1, 2, 4, 8)))
    first = number * len(usable) // windows
    rows = usable[first : first + JOBS]
    part = trace.select(rows)
    length_s = np.minimum(part.duration_s, LONGEST_S)
    gaps = part.arrival_s - part.arrival_s[0]
    stretch = float((length_s * part.gpus).sum()) / LOAD / DEVICES / max(float(gaps[-1]), 1.0)
    part = replace(part, arrival_s=gaps * stretch, duration_s=length_s)
    cluster = Cluster.of(dict.fromkeys(("v100", "p100", "k80"), DEVICES // 3), 4)
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


class Windows:
    """Problems and the base's outcomes, made once."""

    def __init__(self, trace: JobTrace, measured: ThroughputTable) -> None:
        count = TEST.stop
        self.problem = cache(lambda number: window(trace, measured, number, count))
        self.base = cache(lambda number: play(self.problem(number), allocator("least_attained_service")))

    def costs(self, policy: Allocator, numbers: Sequence[int]) -> list[float]:
        """Cost of a policy on each window."""
        return [self._cost(policy, number)["cost"] for number in numbers]

    def _cost(self, policy: Allocator, number: int) -> dict[str, float]:
        """Kept, so that training that was stopped repeats its way and goes on."""
        what = {"study": "learned", "policy": repr(policy), "window": number}
        return kept(what, lambda: {"cost": play(self.problem(number), policy).cost(self.base(number))})


def train(windows: Windows) -> tuple[float, ...]:
    """CMA-ES from Tiresias; the mean of its last distribution, which fits noise less than its luckiest draw."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import cma

    search = cma.CMAEvolutionStrategy(
        list(START), 0.4, {"seed": 1, "verbose": -9, "popsize": CANDIDATES, "bounds": [-3.0, 3.0]}
    )
    rng = np.random.default_rng(1)
    for generation in range(GENERATIONS):
        drawn = rng.choice(TRAIN, DRAWN, replace=False).tolist()
        asked = search.ask()
        costs = [
            float(np.mean(windows.costs(Learned(tuple(map(float, w))), drawn)) + PENALTY * float(w @ w))
            for w in asked
        ]
        search.tell(asked, costs)
        print(f"generation {generation}: best {min(costs):.4f}", flush=True)
    return tuple(round(float(w), 4) for w in search.result.xfavorite)


def study(philly_csv: Path, gavel_json: Path) -> str:
    """Train, gate, test; writes the weights."""
    windows = Windows(philly.read(philly_csv), ThroughputTable.from_gavel_json(gavel_json))
    weights = train(windows)
    validated = {
        name: windows.costs(allocator(name), VALIDATE) for name in ("least_attained_service", "tiresias")
    }
    best = min(validated, key=lambda name: float(np.mean(validated[name])))
    ours = windows.costs(Learned(weights), VALIDATE)
    gain = paired_difference(validated[best], ours)
    kept = bool(gain.low > 0.0)
    made = {
        "features": list(FEATURES), "weights": list(weights), "kept": kept, "rival": best,
        "validation_gain": [round(gain.mean, 4), round(gain.low, 4), round(gain.high, 4)],
        "trained_on": f"Philly (CC-BY 4.0), {len(TRAIN)} windows of {JOBS} jobs, load {LOAD}",
    }  # fmt: skip
    WEIGHTS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return TEXT.format(
        machine=machine(), train=len(TRAIN), validate=len(VALIDATE), test=len(TEST), jobs=JOBS, load=LOAD,
        evaluations=GENERATIONS * CANDIDATES, drawn=DRAWN, rows=table(
            ("", "cost", "over the rival", "mean completion, h", "worst tenant's slowdown", "p99 slowdown"),
            _rows(windows, weights, best),
        ),
        gate=f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] against {best}: "
        + ("passed, the weights are used" if kept else "not passed, `learned` serves by Tiresias' queues"),
        weights=", ".join(f"{n} {w:+.2f}" for n, w in zip(FEATURES, weights, strict=True)),
    )  # fmt: skip


def _rows(windows: Windows, weights: tuple[float, ...], rival: str) -> list[list[str]]:
    policies: list[tuple[str, Any]] = [("learned weights", lambda: Learned(weights))]
    policies += [(name, lambda name=name: allocator(name)) for name in HEURISTICS]
    base = windows.costs(allocator(rival), TEST)
    lines = []
    for label, build in policies:
        outcomes = [play(windows.problem(n), build()) for n in TEST]
        costs = [o.cost(windows.base(n)) for n, o in zip(TEST, outcomes, strict=True)]
        gain = paired_difference(costs, base)
        lines.append([
            label, cell(costs, 3), f"{gain.mean:+.3f} ± {gain.half_width:.3f}",
            cell([o.jct_s / 3600.0 for o in outcomes]), cell([o.worst_tenant for o in outcomes], 1),
            cell([o.p99_slowdown for o in outcomes], 1),
        ])  # fmt: skip
    return lines


TEXT = """## A learned order on production traces

`python -m benchmarks.cluster_peers learned --write` ({machine}). Windows of {jobs} consecutive Philly jobs (1,
2, 4 or 8 devices, run times cut at six hours), 24 devices of three types in equal number, gaps between arrivals
stretched to load {load}; job types drawn by seed. Cost = mean completion time over that of least attained
service + 0.5 * the worst tenant's mean bounded slowdown over the same. CMA-ES, {evaluations} evaluations, from
weights 0, which are Tiresias, on {train} windows of the first three eighths of the trace, {drawn} drawn per
generation; its mean is what is taken. Gate on {validate} windows of the next part (paired 95 % interval above 0
against the better of two heuristics that do not know run times either); test on {test} of the last part. SRTF
knows run times and is no rival.

Gate, gain in cost: {gate}. Weights: {weights}.

{rows}
"""

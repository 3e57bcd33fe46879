"""Shockwave and Sia in their papers' own settings, the published figure beside ours.

``shockwave``: 120 jobs of 0.2 to 5 h on 32 devices of one type, gangs of 1, 2, 4, 8 for 60, 30, 9, 1 %, rounds of
120 s; published are the repository's stored simulations. ``sia``: 160 jobs at 20 an hour on 64 devices of three types,
elastic where the policy can use it; published is the mean over its Philly workloads. Both over the policy that the
paper is about. Jobs keep their batch size here. Needs the shared data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from benchmarks.cluster import elastic
from benchmarks.cluster.apps import fairness
from benchmarks.cluster.scenes import throughputs
from benchmarks.kept import kept
from benchmarks.table import Cell, Options, Table, by_name, table
from eunomia.cluster.job import TrainingJob
from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.contract.cluster import Cluster
from eunomia.metrics.statistics import interval, paired_ratio

ROUND_S, GAP_S = 120.0, 100.0
OPTIONS = SimulationOptions(round_s=ROUND_S, restart=Restart(5.0, 5.0, 5.0), record="jobs")
SIZES, SHARES, HOURS = (1, 2, 4, 8), (0.60, 0.30, 0.09, 0.01), (0.2, 5.0)
Published = Mapping[str, float]
SHOCKWAVE: dict[str, tuple[dict[str, float], Published | None]] = {  # policy -> settings, published
    "shockwave": ({"round_s": ROUND_S}, {"makespan": 1.0, "completion": 1.0, "rho": 1.50, "unfair": 0.042}),
    "finish_time_fairness_perf": ({}, {"makespan": 1.344, "completion": 1.108, "rho": 3.44, "unfair": 0.217}),
    "max_min_fairness_perf": ({}, {"makespan": 1.413, "completion": 1.115, "rho": 2.92, "unfair": 0.250}),
    "min_total_duration_perf": ({}, {"makespan": 1.030, "completion": 1.949, "rho": 7.37, "unfair": 0.733}),
    "max_sum_throughput_perf": ({}, {"makespan": 1.349, "completion": 0.956, "rho": 4.90, "unfair": 0.233}),
    "themis": ({}, None),
    "srtf": ({}, None),
}
SIA: dict[str, tuple[str, dict[str, float], str, float]] = {  # label -> policy, settings, jobs, published
    "sia": ("sia", {"gap": 0.01}, "elastic", 1.0),
    "sia, p = -0.5": ("sia", {"gap": 0.01, "power": -0.5}, "elastic", 1.0),
    "pollux": ("pollux", {}, "elastic", 1.0 / 0.6),
    "max_min_fairness_perf, tuned jobs": ("max_min_fairness_perf", {}, "tuned", 1.9 / 0.6),
}


def static(seed: int) -> ClusterProblem:
    """Shockwave's setting without changes of the batch size."""
    rng, speeds = np.random.default_rng([seed, 61]), throughputs()
    column, jobs = speeds.types.index("v100"), []
    arrival_s = np.cumsum(rng.exponential(GAP_S, 120))
    for n, at in enumerate(arrival_s.tolist()):
        scale = int(rng.choice(SIZES, p=SHARES))
        kind = str(rng.choice([name for name in speeds.job_types if scale in speeds.scales(name)]))
        hours = float(np.exp(rng.uniform(*np.log(HOURS))))
        steps = hours * 3600.0 * float(speeds.alone[speeds.row(kind, scale), column])
        jobs.append(TrainingJob(str(n), kind, max(steps, 1.0), scale, at))
    return build_problem(jobs, Cluster.of({"v100": 32}, 4), speeds)


def shockwave(policy: str, seed: int, more: Mapping[str, float]) -> dict[str, float]:
    """Fairness of one run by Themis' ideal time, which is Shockwave's, too."""
    settings = {**SHOCKWAVE[policy][0], **more}
    run = simulate_cluster(static(seed), allocator(policy, **settings), OPTIONS.with_seed(seed), policy)
    return fairness(run)


def sia(label: str, seed: int) -> dict[str, float]:
    """Completion and makespan, h."""
    policy, settings, form, _ = SIA[label]
    problem = elastic.problem(seed, elastic.Load(160, 64, gap_s=180.0), form)
    ledger = simulate_cluster(
        problem, allocator(policy, **settings), elastic.OPTIONS.with_seed(seed), policy
    ).ledger
    took_h = (ledger.finish_s - problem.arrival_s) / 3600.0
    return {"completion": float(took_h.mean()), "p99": float(np.quantile(took_h, 0.99)),
            "makespan": float(ledger.finish_s.max() / 3600.0)}  # fmt: skip


def of_shockwave(seeds: range, more: Mapping[str, float]) -> Iterator[list[Cell]]:
    """Every policy over Shockwave, published and ours."""
    found = {
        policy: by_name([
            kept("published", {"policy": policy, "seed": seed, **more}, partial(shockwave, policy, seed, more))
            for seed in seeds
        ])
        for policy in SHOCKWAVE
    }  # fmt: skip
    for policy, (_, told) in SHOCKWAVE.items():
        own, first, nothing = found[policy], found["shockwave"], float("nan")
        said = told or dict.fromkeys(("makespan", "completion", "rho", "unfair"), nothing)
        over = [paired_ratio(own[name], first[name]) for name in ("makespan_h", "completion_h")]
        yield [
            policy, said["makespan"], over[0], said["completion"], over[1], said["rho"], interval(own["max_rho"]),
            said["unfair"], interval(own["unfair"]), interval(own["makespan_h"]), interval(own["completion_h"]),
        ]  # fmt: skip


def of_sia(seeds: range) -> Iterator[list[Cell]]:
    """The same over Sia."""
    found = {
        label: by_name([kept("published", {"sia": label, "seed": s}, partial(sia, label, s)) for s in seeds])
        for label in SIA
    }
    for label, (*_, told) in SIA.items():
        ratio = paired_ratio(found[label]["completion"], found["sia"]["completion"])
        yield [
            label,
            told,
            ratio,
            *(interval(found[label][name]) for name in ("completion", "p99", "makespan")),
        ]


def measure(options: Options) -> Iterator[Table]:
    """Two tables; ``--set power=2`` and the like are settings of Shockwave; the quick run has one seed."""
    seeds, names = options.seeds_or(5), ("power", "makespan_price", "rounds")
    more = {name: float(options.given[name]) for name in names if name in options.given}
    columns = (
        "policy; makespan, published|.2f; ours|.2f; mean completion, published|.2f; ours|.2f; worst rho, "
        "published|.2f; ours|.2f; rho > 1.05, published|.1p; ours|.1p; makespan, h|.1f; completion, h|.2f"
    )
    if options.wants("shockwave"):
        yield table("shockwave", columns, of_shockwave(seeds, more))
    if options.wants("sia"):
        columns = "policy; over Sia, published|.2f; ours|.2f; completion, h|.2f; p99, h|.2f; makespan, h|.1f"
        yield table("sia", columns, of_sia(seeds))

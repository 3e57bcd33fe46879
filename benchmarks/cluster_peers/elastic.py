"""Elastic jobs: who chooses the number of workers, the scheduler or the user; against fixed-scale peers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_peers.report import cell, machine, table
from eunomia.cluster.job import TrainingJob
from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.goodput import efficiency
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.cluster import Cluster
from eunomia.metrics.statistics import paired_ratio

SEEDS, JOBS, DEVICES, LOADS = range(5), 80, 48, (0.6, 1.2)
SCALES, SUBMITTED = (1, 2, 4, 8), (0.70, 0.10, 0.15, 0.05)
NOISE = (2.0, 200.0)  # gradient noise phi of a job type, log-uniform
OPTIONS = SimulationOptions(restart=Restart(10.0, 10.0, 10.0), record="jobs")
RIVAL = ("finish-time fairness, as submitted", "finish_time_fairness_perf", {}, "submitted")
POLICIES: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("Pollux (genetic search)", "pollux", {}, "elastic"),
    ("Sia (integer programme)", "elastic", {"gap": 0.01}, "elastic"),
    ("Optimus", "optimus", {}, "elastic"),
    RIVAL,
    ("finish-time fairness, tuned", "finish_time_fairness_perf", {}, "tuned"),
    ("max-min, as submitted", "max_min_fairness_perf", {}, "submitted"),
    ("max-min, tuned", "max_min_fairness_perf", {}, "tuned"),
    ("Tiresias, as submitted", "tiresias", {}, "submitted"),
    ("Tiresias, tuned", "tiresias", {}, "tuned"),
    ("SRTF, as submitted", "srtf", {}, "submitted"),
    ("SRTF, tuned", "srtf", {}, "tuned"),
)


def goodputs(measured: ThroughputTable) -> ThroughputTable:
    """Measured steps/s of the job types known at 1 to 8 workers, times the efficiency of their batch; phi by type."""
    names = [name for name in measured.job_types if set(SCALES) <= set(measured.scales(name))]
    phi = np.exp(np.random.default_rng(5).uniform(*np.log(NOISE), len(names)))
    keys = tuple((name, scale) for name in names for scale in SCALES)
    rows = np.array([measured.row(*key) for key in keys])
    worth = np.array(
        [float(efficiency(np.array(s), np.array(1), np.array(phi[names.index(n)]))) for n, s in keys]
    )
    spread = measured.spread
    assert spread is not None
    return ThroughputTable(
        keys, measured.types, measured.alone[rows] * worth[:, None], spread[rows] * worth[:, None]
    )


def problem(worth: ThroughputTable, seed: int, load: float, form: str) -> ClusterProblem:
    """``form``: jobs keep the scale they were ``submitted`` with, have one ``tuned`` to their type, or are ``elastic``.

    Run times 10^U(1.5, 3) min at the submitted scale on a V100; Poisson arrivals at ``load``: device-time at that
    scale, averaged over types, over capacity.
    """
    rng = np.random.default_rng([seed, 51])
    cluster = Cluster.of(dict.fromkeys(("v100", "p100", "k80"), DEVICES // 3), 4)
    jobs, work_s = [], 0.0
    fastest = worth.alone[:, worth.types.index("v100")]
    for n in range(JOBS):
        kind, scale = str(rng.choice(worth.job_types)), int(rng.choice(SCALES, p=SUBMITTED))
        steps = 60.0 * 10.0 ** rng.uniform(1.5, 3.0) * fastest[worth.row(kind, scale)]
        work_s += steps / float(worth.alone[worth.row(kind, scale)].mean()) * scale
        jobs.append(TrainingJob(str(n), kind, steps, scale))
    arrival_s = np.cumsum(rng.exponential(work_s / load / DEVICES / JOBS, JOBS))
    made = []
    for job, at in zip(jobs, arrival_s.tolist(), strict=True):
        if form == "elastic":
            job = replace(job, min_scale=1, max_scale=SCALES[-1])
        if form == "tuned":
            job = replace(job, scale_factor=_tuned(worth, job.job_type))
        made.append(replace(job, arrival_s=at))
    return build_problem(made, cluster, worth)


def _tuned(worth: ThroughputTable, kind: str) -> int:
    """The largest scale at which a worker is worth at least half of a single one, on a V100."""
    speed = {s: worth.alone[worth.row(kind, s), worth.types.index("v100")] for s in SCALES}
    return max(s for s in SCALES if speed[s] / s >= 0.5 * speed[1])


def run(
    worth: ThroughputTable, name: str, settings: dict[str, Any], form: str, load: float, seed: int
) -> tuple[float, ...]:
    """Mean and 99th percentile of completion times and makespan, h; largest slowdown; restarts per job; unfinished."""
    p = problem(worth, seed, load, form)
    g = simulate_cluster(p, allocator(name, **settings), OPTIONS.with_seed(seed), name).ledger
    took = g.finish_s - p.arrival_s
    submitted = problem(worth, seed, load, "submitted")
    alone_s = submitted.total_steps / submitted.speed.max(axis=1)
    changes = (g.preemptions + g.moves + g.resizes).sum() / len(p)
    return (
        float(took.mean() / 3600.0), float(np.quantile(took, 0.99) / 3600.0), float((g.finish_s.max()) / 3600.0),
        float((took / alone_s).max()), float(changes), float(len(g.unfinished)),
    )  # fmt: skip


COLUMNS = ("mean completion, h", "over the rival", "p99, h", "makespan, h", "largest slowdown", "restarts per job",
           "unfinished")  # fmt: skip


def study(gavel_json: Path) -> str:
    """The whole part of the page."""
    worth = goodputs(ThroughputTable.from_gavel_json(gavel_json))
    parts = []
    for load in LOADS:
        rival = [run(worth, *RIVAL[1:], load, seed)[0] for seed in SEEDS]
        lines = []
        for label, name, settings, form in POLICIES:
            found = [run(worth, name, settings, form, load, seed) for seed in SEEDS]
            of = list(zip(*found, strict=True))
            ratio = paired_ratio(of[0], rival)
            lines.append([
                label, cell(of[0]), f"{ratio.mean:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]", cell(of[1]),
                cell(of[2], 1), cell(of[3], 1), cell(of[4], 1), f"{sum(of[5]):g}",
            ])  # fmt: skip
            print("  ".join(lines[-1]), flush=True)
        parts.append(f"### Load {load:g}\n\n" + table(("", *COLUMNS), lines))
    return TEXT.format(
        machine=machine(), jobs=JOBS, devices=DEVICES, seeds=len(SEEDS), parts="\n\n".join(parts)
    )


TEXT = """## Elastic jobs: who chooses the number of workers

`python -m benchmarks.cluster_peers elastic --write` ({machine}). {jobs} jobs per seed, {seeds} seeds, Poisson arrivals,
{devices} devices of three types in equal number, servers of 4; rounds of 360 s, 30 s for every restart or resize. Job
types measured at 1, 2, 4 and 8 workers (Gavel's table); goodput = measured steps/s x efficiency (phi + 1) / (phi + s)
with phi by type, log-uniform from 2 to 200, the same for simulator and policies. Run times 32 to 1,000 min at the
submitted scale (1, 2, 4, 8 workers for 70, 10, 15, 5 %). Tuned: the largest scale at which a worker is worth at least
half of a single one. Elastic: 1 to 8 workers, the policy's choice. Over the rival: mean completion time over that of
finish-time fairness with scales as submitted, paired, geometric mean. Slowdown: completion time over time alone at the
submitted scale on the fastest type. Load: work at the submitted scale over capacity. The others know what they know
elsewhere; all but Tiresias know goodputs.

{parts}
"""

"""Elastic jobs: who chooses the number of workers, the scheduler or the user; against fixed-scale peers.

Parts: ``load 0.6``, ``load 1.2``. Ratios are of mean completion times, paired by seed, over those of finish-time
fairness with scales as submitted. Needs the shared data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from benchmarks.cluster.scenes import KINDS, throughputs
from benchmarks.kept import kept
from benchmarks.table import Options, Table, by_name, means, table
from eunomia.cluster.job import TrainingJob
from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.goodput import efficiency
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.cluster import Cluster
from eunomia.metrics.statistics import paired_ratio

JOBS, DEVICES, LOADS = 80, 48, (0.6, 1.2)
SCALES, SUBMITTED = (1, 2, 4, 8), (0.70, 0.10, 0.15, 0.05)
NOISE = (2.0, 200.0)  # gradient noise phi of a job type, log-uniform
OPTIONS = SimulationOptions(restart=Restart(10.0, 10.0, 10.0), record="jobs")
Case = tuple[str, str, dict[str, float], str]  # label, policy, settings, form of the jobs
FIXED = {
    "finish-time fairness": "finish_time_fairness_perf",
    "max-min": "max_min_fairness_perf",
    "Tiresias": "tiresias",
    "SRTF": "srtf",
}
CASES: list[Case] = [
    ("Pollux (genetic search)", "pollux", {}, "elastic"),
    ("Sia (integer programme)", "sia", {"gap": 0.01}, "elastic"),
    ("Optimus", "optimus", {}, "elastic"),
]
for _label, _name in FIXED.items():
    CASES += [(f"{_label}, as submitted", _name, {}, "submitted"), (f"{_label}, tuned", _name, {}, "tuned")]
RIVAL = CASES[3]


@cache
def goodputs() -> ThroughputTable:
    """Measured steps/s of the job types known at 1 to 8 workers, times the efficiency of their batch; phi by type."""
    measured = throughputs()
    names = [name for name in measured.job_types if set(SCALES) <= set(measured.scales(name))]
    phi = dict(zip(names, np.exp(np.random.default_rng(5).uniform(*np.log(NOISE), len(names))), strict=True))
    keys = tuple((name, scale) for name in names for scale in SCALES)
    rows = np.array([measured.row(*key) for key in keys])
    worth = [float(efficiency(np.array(s), np.array(1), np.array(phi[n]))) for n, s in keys]
    assert measured.spread is not None
    alone, spread = (speed[rows] * np.array(worth)[:, None] for speed in (measured.alone, measured.spread))
    return ThroughputTable(keys, measured.types, alone, spread)


@dataclass(frozen=True)
class Load:
    """Jobs on so many devices; ``gap_s``: mean time between arrivals, None = by the load."""

    jobs: int = JOBS
    devices: int = DEVICES
    load: float = 1.0
    gap_s: float | None = None


def problem(seed: int, given: Load, form: str) -> ClusterProblem:
    """``form``: jobs keep the scale they were ``submitted`` with, have one ``tuned`` to their type, or are ``elastic``.

    Run times 10^U(1.5, 3) min at the submitted scale on a V100; Poisson arrivals, by the load: device-time at that
    scale, averaged over types, over capacity.
    """
    rng, worth = np.random.default_rng([seed, 51]), goodputs()
    cluster = Cluster.of(dict(zip(KINDS, _thirds(given.devices), strict=True)), 4)
    jobs, work_s = [], 0.0
    fastest = worth.alone[:, worth.types.index("v100")]
    for n in range(given.jobs):
        kind, scale = str(rng.choice(worth.job_types)), int(rng.choice(SCALES, p=SUBMITTED))
        steps = 60.0 * 10.0 ** rng.uniform(1.5, 3.0) * fastest[worth.row(kind, scale)]
        work_s += steps / float(worth.alone[worth.row(kind, scale)].mean()) * scale
        jobs.append(TrainingJob(str(n), kind, steps, scale))
    gap_s = given.gap_s or work_s / given.load / given.devices / given.jobs
    arrival_s = np.cumsum(rng.exponential(gap_s, given.jobs))
    made = []
    for job, at in zip(jobs, arrival_s.tolist(), strict=True):
        if form == "elastic":
            job = replace(job, min_scale=1, max_scale=SCALES[-1])
        if form == "tuned":
            job = replace(job, scale_factor=_tuned(worth, job.job_type))
        made.append(replace(job, arrival_s=at))
    return build_problem(made, cluster, worth)


def _thirds(devices: int) -> list[int]:
    """Whole servers of 4 for three types, the first ones more."""
    servers = devices // 4
    return [4 * ((servers + 2 - n) // 3) for n in range(3)]


def _tuned(worth: ThroughputTable, kind: str) -> int:
    """The largest scale at which a worker is worth at least half of a single one, on a V100."""
    speed = {s: worth.alone[worth.row(kind, s), worth.types.index("v100")] for s in SCALES}
    return max(s for s in SCALES if speed[s] / s >= 0.5 * speed[1])


def run(case: Case, load: float, seed: int) -> dict[str, float]:
    """Completion times and makespan, h; largest slowdown; restarts per job; unfinished."""
    _, name, settings, form = case
    p, submitted = (problem(seed, Load(load=load), one) for one in (form, "submitted"))
    g = simulate_cluster(p, allocator(name, **settings), OPTIONS.with_seed(seed), name).ledger
    took = g.finish_s - p.arrival_s
    return {
        "mean_h": float(took.mean() / 3600.0),
        "p99_h": float(np.quantile(took, 0.99) / 3600.0),
        "makespan_h": float(g.finish_s.max() / 3600.0),
        "slowdown": float((took / (submitted.total_steps / submitted.speed.max(axis=1))).max()),
        "restarts": float((g.preemptions + g.moves + g.resizes).sum() / len(p)),
        "unfinished": float(len(g.unfinished)),
    }


def over(case: Case, load: float, seeds: range) -> dict[str, list[float]]:
    """All seeds; kept on disk."""
    what = {"case": case, "load": load}
    return by_name([kept("elastic", {**what, "seed": s}, partial(run, case, load, s)) for s in seeds])


def measure(options: Options) -> Iterator[Table]:
    """A table for each load; the quick run has one seed and leaves out the two that search."""
    seeds = options.seeds_or(5)
    columns = (
        "; mean completion, h|.2f; over the rival|.2f; p99, h|.2f; makespan, h|.1f; largest slowdown|.1f; "
        "restarts per job|.1f; unfinished|g"
    )
    for load in LOADS:
        if options.wants(f"load {load:g}"):
            rival, rows = over(RIVAL, load, seeds)["mean_h"], []
            for case in CASES[2 if options.quick else 0 :]:
                found = over(case, load, seeds)
                mean, *rest = means(found, "mean_h", "p99_h", "makespan_h", "slowdown", "restarts")
                ratio = paired_ratio(found["mean_h"], rival)
                rows.append((case[0], mean, ratio, *rest, sum(found["unfinished"])))
            yield table(f"load {load:g}", columns, rows)

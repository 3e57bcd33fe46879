"""What each fair policy would change against Slurm's and Kueue's model, on five public traces.

Windows of consecutive jobs with run times, sizes and users as logged, on one device type in servers of 8, as many
devices as make the window's own demand ``LOAD`` times what there is. Slurm: multifactor priority with fair share of
users and backfill by exact limits, which favours it; Kueue: one cohort, a queue for each user. ``--set traces=FOLDER``
holds the four files that are not in the shared data; the page says where they are from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.kept import kept
from benchmarks.page import shared
from benchmarks.table import Cell, Options, Table, by_name, table
from eunomia.cluster.options import Restart, SimulationOptions, Slowdown
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.traces import JobTrace, read_jobs
from eunomia.cluster.traces.logged import logged
from eunomia.contract.cluster import Cluster
from eunomia.metrics.statistics import interval, paired_difference, paired_ratio

LOAD, JOBS, WINDOWS, SERVER = 1.2, 200, 4, 8
FEW = 3  # jobs that make a user; users of fewer count together
SHORT_S = 600.0  # a shorter job's completion is set against so much
OPTIONS = SimulationOptions(
    events="at_once", restart=Restart(10.0, 10.0, 10.0), slowdown=Slowdown("none"), record="jobs"
)
QUO = ("slurm", "kueue")
FAIR = ("drf", "tiresias", "max_min_fairness", "finish_time_fairness_perf", "themis", "shockwave")
DLRM = dict(
    submit="creation_time",
    start="scheduled_time",
    end="deletion_time",
    gpus="gpu_request",
    tenant="app_name",
    job="instance_sn",
)
TIRESIAS = dict(submit="submit_time", duration="duration", gpus="num_gpu", tenant="model_name", job="job_id")
TRACES: dict[str, Callable[[Path], JobTrace]] = {
    "Philly, 2017": lambda folder: read_jobs(shared() / "traces" / "philly_reduced.csv"),
    "Alibaba openb, 2023": lambda folder: read_jobs(folder / "openb_pod_list_default.csv"),
    "Alibaba DLRM, 2025": lambda folder: read_jobs(folder / "dlrm.csv", "columns", columns=DLRM),
    "Acme Kalos, 2023": lambda folder: read_jobs(folder / "kalos.csv", "columns"),
    "Tiresias, 2019": lambda folder: read_jobs(folder / "60_job.csv", "columns", columns=TIRESIAS),
}


def windows(trace: JobTrace) -> list[JobTrace]:
    """Four parts of 200 consecutive jobs, thirds of a short trace, or all of 60; without users every job is one."""
    trace = replace(trace, more={})  # any type, no limits
    if len(trace.tenants) == 1:
        trace = replace(trace, tenants=trace.ids, tenant=np.arange(len(trace), dtype=np.int32))
    size = JOBS if len(trace) > WINDOWS * JOBS else max(len(trace) // 3, 60)
    parts = min(len(trace) // size, WINDOWS)
    starts = np.arange(1, parts + 1) * len(trace) // (parts + 1) if size == JOBS else size * np.arange(parts)
    return [trace.select(slice(int(start), int(start) + size)) for start in starts]


def devices(part: JobTrace) -> int:
    """Whole servers, so that what is asked for until the last arrival is LOAD times what there is."""
    end_s = float(part.arrival_s.max())
    asked_s = np.minimum(part.duration_s, np.maximum(end_s - part.arrival_s, 0.0)) * part.gpus
    count = float(asked_s.sum()) / max(end_s - float(part.arrival_s.min()), 1.0) / LOAD
    return SERVER * max(int(np.ceil(count / SERVER)), int(np.ceil(part.gpus.max() / SERVER)), 1)


def run(part: JobTrace, policy: str) -> dict[str, float]:
    """Mean completion; the worst user's completion over its run times; useful part of the devices; preemptions."""
    cluster = Cluster.of({"gpu": devices(part)}, SERVER)
    jobs, speeds, _ = logged(part, cluster, {"gpu": 1.0})
    done = simulate_cluster(build_problem(jobs, cluster, speeds), allocator(policy), OPTIONS, policy)
    p, g = done.problem, done.ledger
    took_s, run_s = g.finish_s - p.arrival_s, p.total_steps / p.speed[:, 0]
    count = np.bincount(p.tenant)
    user = np.where(count[p.tenant] >= min(FEW, count.max()), p.tenant, len(count))
    alone_s = np.bincount(user, np.maximum(run_s, SHORT_S))
    stretch = np.bincount(user, took_s)[alone_s > 0.0] / alone_s[alone_s > 0.0]
    wait_s = took_s - run_s
    span_s = float(g.finish_s.max() - p.arrival_s.min())
    return {
        "completion_h": float(took_s.mean()) / 3600.0,
        "wait_h": float(wait_s.mean()) / 3600.0,
        "worst": float(stretch.max()),
        "busy": float((run_s * p.scale).sum()) / (span_s * float(cluster.counts.sum())),
        "preemptions": float(g.preemptions.sum()) / len(p),
        "unfinished": float(len(g.unfinished)),
    }


def figures(name: str, policy: str, folder: Path) -> dict[str, list[float]]:
    """Of every window; kept on disk."""
    parts = windows(TRACES[name](folder))
    what = {"trace": name, "policy": policy, "load": LOAD, "jobs": JOBS}
    return by_name(
        [kept("public", {**what, "window": n}, partial(run, one, policy)) for n, one in enumerate(parts)]
    )


def line(policy: str, found: dict[str, dict[str, list[float]]]) -> list[Cell]:
    """A policy, and its change against both models of what is run today."""
    own = found[policy]
    cells: list[Cell] = [
        policy,
        *(interval(own[name]) for name in ("completion_h", "worst", "busy", "preemptions")),
    ]
    for quo in QUO:
        if policy == quo:
            cells += [None, None, None]
            continue
        mean, worst = (paired_ratio(own[name], found[quo][name]) for name in ("completion_h", "worst"))
        cells += [mean, worst, paired_difference(own["busy"], found[quo]["busy"])]
    return cells


COLUMNS = (
    "policy; mean completion, h|.2f; worst user|.2f; useful|.1p; preemptions per job|.1f; completion over Slurm|.2f; "
    "worst user over Slurm|.2f; useful, points|+.1p; completion over Kueue|.2f; worst user over Kueue|.2f; "
    "useful, points|+.1p"
)


def measure(options: Options) -> Iterator[Table]:
    """A table for each trace; the quick run has Philly's first window and two policies."""
    folder = Path(options.given.get("traces", "."))
    for name in options.chosen(TRACES)[: 1 if options.quick else None]:
        policies = [*QUO, *(("drf",) if options.quick else FAIR)]
        parts = windows(TRACES[name](folder))
        found = {policy: figures(name, policy, folder) for policy in policies}
        users = [len(np.unique(part.tenant)) for part in parts]
        rooms = [devices(part) for part in parts]
        note = (
            f"{len(parts)} windows of {len(parts[0])} jobs, {min(users)} to {max(users)} users, {min(rooms)} to "
            f"{max(rooms)} devices; unfinished: {sum(sum(one['unfinished']) for one in found.values()):g}."
        )
        yield table(name, COLUMNS, [line(policy, found) for policy in policies], [note])

"""What knowing run times is worth: no run times, those that users' histories predict, and the true ones.

Windows of 2,000 consecutive jobs of a log, devices and costs as in :mod:`benchmarks.cluster.public`; what ended before
a window is its history. And Gavel's generator, whose run times depend on nothing. ``predicted`` was set up on four
other windows of Philly. ``--set traces=FOLDER`` holds ``dlrm.csv`` of the public page. Finished runs are kept in runs/.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np

from benchmarks.cluster.public import LOAD, OPTIONS, SERVER, SHORT_S, TRACES, devices
from benchmarks.cluster.scenes import drawn
from benchmarks.kept import kept
from benchmarks.table import Cell, Options, Table, by_name, table
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.traces.job_trace import JobTrace
from eunomia.cluster.traces.logged import logged
from eunomia.contract.allocation import Allocator
from eunomia.contract.cluster import Cluster
from eunomia.metrics.statistics import interval, paired_difference, paired_ratio

JOBS, PAST = 2000, 20_000
PHILLY, DLRM, DRAWN = "Philly, 2017", "Alibaba DLRM, 2025", "Gavel's generator"
PARTS = 24  # of Philly: windows begin at the odd ones; four even ones set the policy up
BLIND, TRUTH, TYPES = ("least_attained_service", "tiresias", "gittins"), "srsf", "max_min_fairness_perf"
FORMS: dict[str, dict[str, object]] = {
    "predicted": {},
    "predicted, no patience": {"patience": 0.0},
    "predicted, all users alike": {"strength": 1e9},
    "predicted, no history": {},
}
COLUMNS = (
    "policy; mean completion, h|.2f; over the best without run times|.3f; part of the head-room|.0p; worst rho|.2f; "
    "its worst rho less|+.2f; 99th percentile|.2f; worst user|.2f; preemptions per job|.2f"
)


@cache
def log(name: str, folder: Path) -> JobTrace:
    """A whole trace."""
    return TRACES[name](folder)


def starts(name: str, folder: Path) -> list[int]:
    """First job of each window."""
    whole = len(log(name, folder))
    return [whole * part // PARTS for part in range(1, PARTS, 2)] if name == PHILLY else [whole - JOBS]


def scene(name: str, number: int, folder: Path) -> tuple[ClusterProblem, JobTrace | None]:
    """Jobs and what may be known of earlier ones."""
    if name == DRAWN:
        return drawn(JOBS, 600.0, (36, 36, 36), number, multi_gpu=False), None
    trace, start = log(name, folder), starts(name, folder)[number]
    part = trace.select(slice(start, start + JOBS))
    past = np.flatnonzero(trace.arrival_s[:start] + trace.duration_s[:start] <= trace.arrival_s[start])
    cluster = Cluster.of({"gpu": devices(part)}, SERVER)
    jobs, speeds, _ = logged(part, cluster, {"gpu": 1.0})
    return build_problem(jobs, cluster, speeds), trace.select(past[-PAST:])


def run(name: str, number: int, policy: str, folder: Path) -> dict[str, float]:
    """Completion, rho over at least ten minutes, the user with the longest completions over run times."""
    problem, past = scene(name, number, folder)
    made: Allocator
    if policy in FORMS:
        made = allocator("predicted", history=None if "no history" in policy else past, **FORMS[policy])
    else:
        made = allocator(policy)
    done = simulate_cluster(problem, made, OPTIONS, policy)
    took_s, run_s = done.ledger.finish_s - problem.arrival_s, problem.total_steps / problem.speed.max(axis=1)
    rho = took_s / np.maximum(done.ledger.isolated_s, SHORT_S)
    many = np.bincount(problem.tenant) >= 10
    stretch = np.bincount(problem.tenant, took_s) / np.bincount(problem.tenant, np.maximum(run_s, SHORT_S))
    return {
        "completion_h": float(took_s.mean()) / 3600.0,
        "rho": float(rho.max()),
        "p99": float(np.quantile(rho, 0.99)),
        "user": float(stretch[many].max()),
        "preemptions": float(done.ledger.preemptions.sum()) / len(problem),
    }


def figures(name: str, policy: str, numbers: range, folder: Path) -> dict[str, list[float]]:
    """Of every window; kept on disk."""
    what = {"trace": name, "policy": policy, "jobs": JOBS, "load": LOAD}
    runs = [kept("predicted", {**what, "window": n}, partial(run, name, n, policy, folder)) for n in numbers]
    return by_name(runs)


def line(policy: str, found: dict[str, dict[str, list[float]]], rival: str) -> list[Cell]:
    """A policy beside the one that completes soonest on average of those without run times."""
    own, best = found[policy], found[rival]
    room = float(np.mean(best["completion_h"])) - float(np.mean(found[TRUTH]["completion_h"]))
    gain = float(np.mean(best["completion_h"])) - float(np.mean(own["completion_h"]))
    ratio = paired_ratio(own["completion_h"], best["completion_h"]) if policy != rival else None
    less = paired_difference(own["rho"], best["rho"]) if policy != rival else None
    rest = (interval(own[one]) for one in ("p99", "user", "preemptions"))
    part = gain / room if room > 0.0 else float("nan")
    return [policy, interval(own["completion_h"]), ratio, part, interval(own["rho"]), less, *rest]


def measure(options: Options) -> Iterator[Table]:
    """A table for each source; the quick run has the generator's first seed and two policies."""
    folder = Path(options.given.get("traces", "."))
    for name in [DRAWN] if options.quick else options.chosen((PHILLY, DLRM, DRAWN)):
        numbers = options.seeds_or(2) if name == DRAWN else range(len(starts(name, folder)))
        blind = (*BLIND, *((TYPES,) if name == DRAWN else ()))
        forms = [form for form in FORMS if name != DRAWN or form == "predicted, no history"]
        policies = [BLIND[1], TRUTH] if options.quick else [*blind, *forms, TRUTH]
        found = {policy: figures(name, policy, numbers, folder) for policy in policies}
        rival = min((p for p in policies if p in blind), key=lambda p: np.mean(found[p]["completion_h"]))
        yield table(name, COLUMNS, [line(policy, found, rival) for policy in policies])

"""Traces, tables and clusters that several measurements of the cluster wing share."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Unpack

import numpy as np

from benchmarks.page import shared
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.traces import read_jobs
from eunomia.cluster.traces.generate import Draws, generate
from eunomia.cluster.traces.jobs import extended, to_jobs
from eunomia.contract.cluster import Cluster

KINDS = ("v100", "p100", "k80")
PRICES = {"v100": 2.5, "p100": 1.5, "k80": 0.5}  # per hour, for policies of cost


def throughputs(name: str = "simulation") -> ThroughputTable:
    """Gavel's measured table, of its ``simulation`` or of its ``physical_cluster``."""
    return ThroughputTable.from_gavel_json(shared() / "gavel" / f"{name}_throughputs.json")


def trace_a(name: str = "simulation") -> ClusterProblem:
    """60 jobs on 8:8:8, 4 GPUs per server."""
    table = throughputs(name)
    jobs = to_jobs(read_jobs(shared() / "gavel" / "trace_a_60jobs.trace"), table, "v100")
    return build_problem(jobs, Cluster.of(dict.fromkeys(KINDS, 8), 4, PRICES), table)


def philly() -> ClusterProblem:
    """82,247 jobs on 256:256:256, 8 GPUs per server; models drawn by seed 0, more than 8 workers estimated."""
    trace = read_jobs(shared() / "traces" / "philly_reduced.csv")
    table = extended(throughputs(), sorted(set(trace.gpus.tolist())))
    return build_problem(to_jobs(trace, table, "v100"), Cluster.of(dict.fromkeys(KINDS, 256), 8), table)


def philly_window(number: int, jobs: int = 200, counts: int = 8, load: float = 1.1) -> ClusterProblem:
    """So many consecutive jobs of 1, 2, 4 or 8 devices from the ``number``-th of 64 parts, gaps stretched to a load.

    Run times are cut at six hours, models drawn by ``number``.
    """
    trace, measured = read_jobs(shared() / "traces" / "philly_reduced.csv"), throughputs()
    usable = np.flatnonzero(np.isin(trace.gpus, (1, 2, 4, 8)))
    first = number * len(usable) // 64
    part = trace.select(usable[first : first + jobs])
    length_s = np.minimum(part.duration_s, 21_600.0)
    gaps = part.arrival_s - part.arrival_s[0]
    devices = counts * len(KINDS)
    stretch = float((length_s * part.gpus).sum()) / load / devices / max(float(gaps[-1]), 1.0)
    part = replace(part, arrival_s=gaps * stretch, duration_s=length_s)
    cluster = Cluster.of(dict.fromkeys(KINDS, counts), 4)
    return build_problem(to_jobs(part, measured, "p100", number), cluster, measured)


def drawn(
    jobs: int,
    gap_s: float,
    counts: tuple[int, int, int],
    seed: int,
    kind: Literal["continuous", "hours", "static"] = "continuous",
    **draws: Unpack[Draws],
) -> ClusterProblem:
    """Jobs of a generator on so many V100, P100 and K80, 4 per server; ``draws``: what else is drawn."""
    table = throughputs()
    trace = generate(table, "v100", jobs, gap_s, kind, seed=seed, **draws)
    cluster = Cluster.of(dict(zip(KINDS, counts, strict=True)), 4, PRICES)
    return build_problem(to_jobs(trace, table, "v100"), cluster, table)


def generated(
    jobs: int,
    gap_s: float,
    counts: tuple[int, int, int],
    priorities: bool,
    seed: int,
    kind: Literal["continuous", "hours", "static"] = "continuous",
) -> ClusterProblem:
    """The same with or without priorities."""
    return drawn(jobs, gap_s, counts, seed, kind, priorities=priorities)

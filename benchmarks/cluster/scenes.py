"""Traces, tables and clusters that several measurements of the cluster wing share."""

from __future__ import annotations

from typing import Literal

from benchmarks.page import shared
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.traces import read_jobs
from eunomia.cluster.traces.generate import generate
from eunomia.cluster.traces.jobs import extended, to_jobs
from eunomia.contract.cluster import Cluster

KINDS = ("v100", "p100", "k80")


def throughputs(name: str = "simulation") -> ThroughputTable:
    """Gavel's measured table, of its ``simulation`` or of its ``physical_cluster``."""
    return ThroughputTable.from_gavel_json(shared() / "gavel" / f"{name}_throughputs.json")


def trace_a(name: str = "simulation") -> ClusterProblem:
    """60 jobs on 8:8:8, 4 GPUs per server."""
    table = throughputs(name)
    jobs = to_jobs(read_jobs(shared() / "gavel" / "trace_a_60jobs.trace"), table, "v100")
    return build_problem(jobs, Cluster.of(dict.fromkeys(KINDS, 8), 4), table)


def philly() -> ClusterProblem:
    """82,247 jobs on 256:256:256, 8 GPUs per server; models drawn by seed 0, more than 8 workers estimated."""
    trace = read_jobs(shared() / "traces" / "philly_reduced.csv")
    table = extended(throughputs(), sorted(set(trace.gpus.tolist())))
    return build_problem(to_jobs(trace, table, "v100"), Cluster.of(dict.fromkeys(KINDS, 256), 8), table)


def generated(
    jobs: int,
    gap_s: float,
    counts: tuple[int, int, int],
    priorities: bool,
    seed: int,
    kind: Literal["continuous", "hours", "static"] = "continuous",
) -> ClusterProblem:
    """Jobs of a generator on so many V100, P100 and K80."""
    table = throughputs()
    trace = generate(table, "v100", jobs, gap_s, kind, priorities=priorities, seed=seed)
    cluster = Cluster.of(dict(zip(KINDS, counts, strict=True)), 4)
    return build_problem(to_jobs(trace, table, "v100"), cluster, table)

"""Parity with Gavel's simulator, and speed. Parts: trace-a, philly.

Trace A (60 jobs) in compatible mode against what Gavel's own code gives; then the 82,247 jobs of the
reduced Philly trace in realistic mode. Times are of one process: wall clock, and processor time, which does
not depend on what else the machine does. Needs the shared data.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.cluster.scenes import philly, trace_a
from benchmarks.page import shared
from benchmarks.table import Cell, Options, Table, table
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem
from eunomia.cluster.simulate import ClusterRun, simulate_cluster
from eunomia.cluster.solver.solve import DEFAULT
from eunomia.cluster.tabulate import facts_of, offered_load, tables_of
from eunomia.metrics.cluster import summarise_cluster

Row = tuple[Cell, ...]
AS_GAVEL = {"solver": "as_gavel"}
PARITY: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("fifo_perf", {}),
    ("max_min_fairness_perf", AS_GAVEL),
    ("max_min_fairness_perf", {}),
    ("max_min_fairness", {}),
)
TRACE_A_S = 0.3  # target of the simulation of trace A
PHILLY = ("least_attained_service", "max_min_fairness", "max_min_fairness_perf")


def timed(
    problem: ClusterProblem, name: str, settings: Mapping[str, str], options: SimulationOptions
) -> tuple[ClusterRun, float, float]:
    """The run, its wall and its processor time."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    run = simulate_cluster(problem, allocator(name, **settings), options, name)
    return run, time.perf_counter() - wall_s, time.process_time() - cpu_s


def parity() -> Iterator[Row]:
    """Each policy of trace A against Gavel's figures; the fastest of five runs is timed."""
    problem = trace_a()
    stored = json.loads((shared() / "gavel" / "trace_a_expected.json").read_text(encoding="utf-8"))["results"]
    for name, settings in PARITY:
        expected = np.array([stored[name]["per_job_jct_s"][str(n)] for n in range(len(problem))])
        tries = [timed(problem, name, settings, SimulationOptions.gavel()) for _ in range(6)]
        finish_s = tries[0][0].ledger.finish_s
        jct = finish_s - problem.arrival_s
        near = [float((np.abs(jct / expected - 1.0) <= within).mean()) for within in (0.002, 0.005)]
        label = name + (f" ({settings['solver']})" if settings else "")
        times = [label, jct.mean(), stored[name]["avg_jct_s"], jct.max(), expected.max()]
        done = f"{(~np.isnan(finish_s)).sum()} of {len(problem)}"
        yield *times, *near, done, min(t[1] for t in tries[1:]), min(t[2] for t in tries[1:])


def scale() -> Iterator[Row]:
    """The Philly trace."""
    problem = philly()
    load = offered_load(problem)
    for name in PHILLY:
        run, wall_s, cpu_s = timed(problem, name, {}, SimulationOptions(record="jobs"))
        found, asked = summarise_cluster(tables_of(run), facts_of(run)), run.recorder.asked
        done = int(found["finished"]), int(found["unfinished"]), load, max(a.jobs for a in asked), len(asked)
        memory_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        yield name, *done, found["jct_mean_s"] / 3600.0, wall_s, cpu_s, memory_gb


def trace_a_reading(rows: Sequence[Row], load: float, cores: int) -> str:
    """Whether trace A meets its target of 0.3 s, per policy, and what the load says about it."""
    times = [(str(row[0]), float(row[-2]), float(row[-1])) for row in rows]  # type: ignore[arg-type]
    slow = [(name, wall_s, cpu_s) for name, wall_s, cpu_s in times if wall_s >= TRACE_A_S]
    text = f"Target: {TRACE_A_S:g} s. Met by wall time by {len(rows) - len(slow)} of {len(rows)} policies"
    if slow:
        text += "; not by " + ", ".join(f"{name} ({wall_s:.2f} s)" for name, wall_s, _ in slow)
        able = sum(cpu_s < TRACE_A_S for *_, cpu_s in slow)
        text += f", of which {able} take less than that in processor time"
        if load > cores:
            text += f" (load average {load:.0f} on {cores} cores, so wall times hold what others ran)"
    return text + "."


def measure(options: Options) -> Iterator[Table]:
    """Both tables; the quick run leaves Philly out."""
    if options.wants("trace-a"):
        rows = list(parity())
        columns = (
            "policy; average, s|.1f; Gavel|.1f; worst job, s|.1f; Gavel|.1f; jobs within 0.2 %|.0%; within 0.5 %|.0%; "
            "finished; wall, s|.3f; CPU, s|.3f"
        )
        reading = trace_a_reading(rows, os.getloadavg()[1], os.cpu_count() or 1)
        yield table("trace-a", columns, rows, [f"Default solver: `{DEFAULT}`.", reading])
    if options.wants("philly") and not options.quick:
        columns = (
            "policy; finished; unfinished; load|.2f; most jobs present; policy calls; average JCT, h|.2f; wall, s|.1f; "
            "CPU, s|.1f; GB|.2f"
        )
        yield table("philly", columns, scale())

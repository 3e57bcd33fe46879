"""Compatible mode against a second implementation of Gavel: ``python -m benchmarks.cluster_parity --write [--light]``.

:mod:`benchmarks.cluster_gavel_twin` follows Gavel's rules job by job with cvxpy and ECOS, and gives the stored
figures of trace A. Here it judges other traces and policies: Gavel's generator with Poisson arrivals, priorities,
several sizes of cluster. Needs the shared data, cvxpy and ecos; some minutes, and rows that are done are kept in runs/.
"""

from __future__ import annotations

import argparse
import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks import cluster_gavel_twin as twin
from benchmarks.cluster_peers.kept import kept
from benchmarks.cluster_sim import SHARED, throughputs, trace_a
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.traces import read_jobs
from eunomia.cluster.traces.generate import generate
from eunomia.cluster.traces.jobs import to_jobs
from eunomia.contract.cluster import Cluster

RESULTS = Path(__file__).parents[1] / "results" / "cluster-parity.md"


@dataclass(frozen=True)
class Case:
    """A policy, its twin, and what both must be told."""

    name: str
    make: Callable[[], twin.Policy]
    settings: dict[str, Any]
    agnostic: bool = False
    only_shares: bool = False

    @property
    def light(self) -> bool:
        """Whether the twin answers with one linear programme at most."""
        return not self.name.startswith(("min_total", "finish_time"))


HEAD = [
    "# Parity with Gavel beyond trace A",
    "",
    "Written by `python -m benchmarks.cluster_parity --write`. The judge is a second implementation of Gavel's",
    "rules, job by job with cvxpy and ECOS (`benchmarks/cluster_gavel_twin.py`); it shares no code with the wing and",
    "gives the stored figures of Gavel's own code on trace A. Gavel's rule that drops jobs is on in both. Without",
    "`as_gavel`, ours is the default solver. Agnostic finish-time fairness and makespan take every type for a V100:",
    "where a job is too wide for the V100s (4:8:16), they have no answer and no row.",
    "",
    "| trace | policy | average JCT, s | by Gavel's rules | difference | of the longest | jobs within 0.5 % "
    "| dropped, ours / theirs |",
    "|---|---|---|---|---|---|---|---|",
]
GAVEL = {"solver": "as_gavel"}
CASES = [
    Case("fifo_perf", lambda: twin.first_come, {}, only_shares=True),
    Case("max_min_fairness_perf", lambda: twin.max_min, GAVEL),
    Case("max_min_fairness_perf", lambda: twin.max_min, {}),
    Case("min_total_duration_perf", lambda: twin.makespan, GAVEL),
    Case("min_total_duration_perf", lambda: twin.makespan, {}),
    Case("max_sum_throughput_perf", lambda: twin.throughput_sum, GAVEL),
    Case("max_sum_throughput_perf", lambda: twin.throughput_sum, {}),
    Case("finish_time_fairness_perf", twin.FinishTime, GAVEL),
    Case("finish_time_fairness_perf", twin.FinishTime, {}),
    Case("max_min_fairness", lambda: twin.blind_max_min, GAVEL, agnostic=True),
    Case("max_min_fairness", lambda: twin.blind_max_min, {}, agnostic=True),
    Case("finish_time_fairness", twin.blind_finish_time, GAVEL | {"reference_type": "v100"}, agnostic=True),
    Case("finish_time_fairness", twin.blind_finish_time, {"reference_type": "v100"}, agnostic=True),
    Case(
        "min_total_duration", lambda: twin.blind_makespan, GAVEL | {"reference_type": "v100"}, agnostic=True
    ),
    Case("proportional", lambda: twin.proportional, {}, agnostic=True),
    Case("isolated", lambda: twin.isolated, {}, agnostic=True),
]


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
    cluster = Cluster.of(dict(zip(("v100", "p100", "k80"), counts, strict=True)), 4)
    return build_problem(to_jobs(trace, table, "v100"), cluster, table)


def measured_cluster() -> ClusterProblem:
    """Trace A with the throughputs of Gavel's physical cluster;"""
    table = ThroughputTable.from_gavel_json(SHARED / "gavel" / "physical_cluster_throughputs.json")
    jobs = to_jobs(read_jobs(SHARED / "gavel" / "trace_a_60jobs.trace"), table, "v100")
    return build_problem(jobs, Cluster.of({"v100": 8, "p100": 8, "k80": 8}, 4), table)


SCENES: dict[str, Callable[[], ClusterProblem]] = {
    "trace A, 8:8:8": trace_a,
    "80 jobs, gap 1800 s, priorities, 8:8:8": lambda: generated(80, 1800.0, (8, 8, 8), True, 1),
    "120 jobs, gap 600 s, 36:36:36": lambda: generated(120, 600.0, (36, 36, 36), False, 2),
    "100 jobs, gap 900 s, priorities, 16:16:16": lambda: generated(100, 900.0, (16, 16, 16), True, 3),
    "trace A, throughputs of the physical cluster": measured_cluster,
    "100 jobs, gap 600 s, 4:8:16": lambda: generated(100, 600.0, (4, 8, 16), False, 4),
    "100 jobs at once, hours, 16:8:8": lambda: generated(100, 1.0, (16, 8, 8), False, 5, "static"),
    "60 jobs, gap 3600 s, 8:8:8": lambda: generated(60, 3600.0, (8, 8, 8), True, 6),
    "80 jobs, gap 300 s, hours, 12:12:12": lambda: generated(80, 300.0, (12, 12, 12), True, 7, "hours"),
}


def both(problem: ClusterProblem, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Completion times, ours and the twin's; nan = dropped by Gavel's rule, which both follow."""
    names = problem.cluster.names
    jobs = [
        twin.Job(m, dict(zip(names, problem.speed[m].tolist(), strict=True)), int(problem.scale[m]),
                 float(problem.weight[m]), int(problem.total_steps[m]), float(problem.arrival_s[m]))
        for m in range(len(problem))
    ]  # fmt: skip
    counts = dict(zip(names, problem.cluster.counts.tolist(), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = twin.simulate(jobs, counts, case.make(), case.agnostic, only_shares=case.only_shares)
    options = SimulationOptions.gavel(drop_rule=True, record="jobs")
    run = simulate_cluster(problem, allocator(case.name, **case.settings), options, case.name)
    ours = run.ledger.finish_s - problem.arrival_s
    return ours, np.array([np.nan if jct is None else jct for jct in expected])


def figures(problem: ClusterProblem, case: Case) -> dict[str, float]:
    """What a line of the table says."""
    ours, expected = both(problem, case)
    known = ~np.isnan(ours) & ~np.isnan(expected)
    error = np.abs(ours[known] / expected[known] - 1.0)
    return {
        "ours_s": float(np.nanmean(ours)),
        "theirs_s": float(np.nanmean(expected)),
        "longest": float(np.nanmax(ours) / np.nanmax(expected) - 1.0),
        "near": float((error <= 0.005).mean()),
        "dropped": float(np.isnan(ours).sum()),
        "dropped_theirs": float(np.isnan(expected).sum()),
    }


def comparable(problem: ClusterProblem, case: Case) -> bool:
    """Whether every job runs on the type that an agnostic programme takes for all; otherwise Gavel's has no answer."""
    reference = case.settings.get("reference_type")
    if reference is None:
        return True
    return bool((problem.speed[:, problem.cluster.names.index(reference)] > 0.0).all())


def row(scene: str, build: Callable[[], ClusterProblem], case: Case) -> str:
    """One line of the table; kept in runs/, so that a command that was stopped goes on where it was."""
    rules = hashlib.sha256(Path(twin.__file__).read_bytes() + Path(__file__).read_bytes()).hexdigest()
    what = {"study": "parity", "scene": scene, "policy": case.name, "settings": case.settings, "rules": rules}
    found = kept(what, lambda: figures(build(), case))
    name = case.name + (" (as_gavel)" if "solver" in case.settings else "")
    return (
        f"| {scene} | {name} | {found['ours_s']:.0f} | {found['theirs_s']:.0f} "
        f"| {found['ours_s'] / found['theirs_s'] - 1.0:+.2%} | {found['longest']:+.2%} "
        f"| {found['near']:.0%} | {found['dropped']:.0f} / {found['dropped_theirs']:.0f} |"
    )


def main() -> None:
    """Measure, print as it goes, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write results/cluster-parity.md")
    parser.add_argument("--light", action="store_true", help="leave out makespan and finish-time fairness")
    options = parser.parse_args()
    lines = [*HEAD]
    if options.light:
        lines[2] = lines[2].replace("--write`", "--light --write`")
    for scene, build in SCENES.items():
        for case in [case for case in CASES if case.light or not options.light]:
            if not comparable(build(), case):
                continue
            lines.append(row(scene, build, case))
            print(lines[-1], flush=True)
    if options.write:
        RESULTS.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()

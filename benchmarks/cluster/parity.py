"""Compatible mode against a second implementation of Gavel.

:mod:`tests.cluster.gavel_rules` follows Gavel's rules job by job with cvxpy and ECOS, and gives the stored
figures of trace A. Here it judges other traces and policies: Gavel's generator with Poisson arrivals, priorities,
several sizes of cluster. Needs the shared data, cvxpy and ecos; some minutes, and finished rows are kept in runs/.
``--set heavy=yes``: makespan and finish-time fairness, too, whose judge takes long.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from benchmarks.cluster.scenes import generated, trace_a
from benchmarks.kept import kept
from benchmarks.table import Options, Table, table
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem
from eunomia.cluster.simulate import simulate_cluster
from tests.cluster import gavel_rules

COLUMNS = (
    "trace; policy; average JCT, s|.0f; by Gavel's rules|.0f; difference|+.2%; of the longest|+.2%; "
    "jobs within 0.5 %|.0%; dropped, ours / theirs"
)


@dataclass(frozen=True)
class Case:
    """A policy, the same by Gavel's rules, and the settings of both."""

    name: str
    make: Callable[[], gavel_rules.Policy]
    settings: Mapping[str, str] = field(default_factory=dict)
    agnostic: bool = False
    only_shares: bool = False

    @property
    def light(self) -> bool:
        """Whether the judge answers with one linear programme at most."""
        return not self.name.startswith(("min_total", "finish_time"))

    @property
    def title(self) -> str:
        """For the table."""
        return self.name + (" (as_gavel)" if "solver" in self.settings else "")


def _cases() -> Iterator[Case]:
    """Every policy with the solver that stops where Gavel's does, and with the default one."""
    rules, v100 = gavel_rules, {"reference_type": "v100"}
    yield Case("fifo_perf", lambda: rules.first_come, only_shares=True)
    for solver in ({"solver": "as_gavel"}, {}):
        yield Case("max_min_fairness_perf", lambda: rules.max_min, solver)
        yield Case("min_total_duration_perf", lambda: rules.makespan, solver)
        yield Case("max_sum_throughput_perf", lambda: rules.throughput_sum, solver)
        yield Case("finish_time_fairness_perf", rules.FinishTime, solver)
        yield Case("max_min_fairness", lambda: rules.blind_max_min, solver, agnostic=True)
        yield Case("finish_time_fairness", rules.blind_finish_time, solver | v100, agnostic=True)
    as_gavel = {"solver": "as_gavel"} | v100
    yield Case("min_total_duration", lambda: rules.blind_makespan, as_gavel, agnostic=True)
    yield Case("proportional", lambda: rules.proportional, agnostic=True)
    yield Case("isolated", lambda: rules.isolated, agnostic=True)


SCENES: dict[str, Callable[[], ClusterProblem]] = {
    "trace A, 8:8:8": trace_a,
    "80 jobs, gap 1800 s, priorities, 8:8:8": partial(generated, 80, 1800.0, (8, 8, 8), True, 1),
    "120 jobs, gap 600 s, 36:36:36": partial(generated, 120, 600.0, (36, 36, 36), False, 2),
    "100 jobs, gap 900 s, priorities, 16:16:16": partial(generated, 100, 900.0, (16, 16, 16), True, 3),
    "trace A, throughputs of the physical cluster": partial(trace_a, "physical_cluster"),
    "100 jobs, gap 600 s, 4:8:16": partial(generated, 100, 600.0, (4, 8, 16), False, 4),
    "100 jobs at once, hours, 16:8:8": partial(generated, 100, 1.0, (16, 8, 8), False, 5, "static"),
    "60 jobs, gap 3600 s, 8:8:8": partial(generated, 60, 3600.0, (8, 8, 8), True, 6),
    "80 jobs, gap 300 s, hours, 12:12:12": partial(generated, 80, 300.0, (12, 12, 12), True, 7, "hours"),
}


def both(problem: ClusterProblem, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Completion times, ours and by the rules; nan = dropped by Gavel's rule, which both follow."""
    names = problem.cluster.names
    jobs = []
    for m, speed in enumerate(problem.speed.tolist()):
        facts = int(problem.scale[m]), float(problem.weight[m]), int(problem.total_steps[m])
        made = gavel_rules.Job(m, dict(zip(names, speed, strict=True)), *facts, float(problem.arrival_s[m]))
        jobs.append(made)
    counts = dict(zip(names, problem.cluster.counts.tolist(), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = case.only_shares
        expected = gavel_rules.simulate(jobs, counts, case.make(), case.agnostic, only_shares=shares)
    options = SimulationOptions.gavel(drop_rule=True, record="jobs")
    run = simulate_cluster(problem, allocator(case.name, **case.settings), options, case.name)
    ours = run.ledger.finish_s - problem.arrival_s
    return ours, np.array([np.nan if jct is None else jct for jct in expected])


def figures(problem: ClusterProblem, case: Case) -> dict[str, float | str]:
    """What a line of the table says."""
    ours, expected = both(problem, case)
    known = ~np.isnan(ours) & ~np.isnan(expected)
    means = float(np.nanmean(ours)), float(np.nanmean(expected))
    return {
        "ours_s": means[0],
        "theirs_s": means[1],
        "difference": means[0] / means[1] - 1.0,
        "longest": float(np.nanmax(ours) / np.nanmax(expected) - 1.0),
        "near": float((np.abs(ours[known] / expected[known] - 1.0) <= 0.005).mean()),
        "dropped": f"{np.isnan(ours).sum()} / {np.isnan(expected).sum()}",
    }


def comparable(problem: ClusterProblem, case: Case) -> bool:
    """Whether every job runs on the type that an agnostic programme takes for all; otherwise Gavel's has no answer."""
    reference = case.settings.get("reference_type")
    if reference is None:
        return True
    return bool((problem.speed[:, problem.cluster.names.index(reference)] > 0.0).all())


def measure(options: Options) -> Iterator[Table]:
    """One table; the quick run has one trace and three policies."""
    rows = []
    cases = [case for case in _cases() if case.light or "heavy" in options.given]
    cases.sort(key=lambda case: [c.name for c in _cases()].index(case.name))
    for scene, build in list(SCENES.items())[: 1 if options.quick else None]:
        problem = build()
        for case in cases[: 3 if options.quick else None]:
            if comparable(problem, case):
                what = {"scene": scene, "policy": case.name, "settings": dict(case.settings)}
                found = kept("parity", what, lambda: figures(problem, case))  # noqa: B023
                rows.append((scene, case.title, *found.values()))
    yield table("all", COLUMNS, rows)

"""Compatible mode does what a second, plain implementation of Gavel's rules with cvxpy and ECOS does."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.traces import read_jobs
from eunomia.cluster.traces.generate import generate
from eunomia.cluster.traces.jobs import to_jobs
from eunomia.contract.cluster import Cluster
from tests.cluster.views import random_view
from tests.shared_data import shared

pytest.importorskip("ecos", reason="ecos is not installed")
twin = pytest.importorskip("tests.cluster.gavel_rules", reason="cvxpy is not installed")
GAVEL = {"solver": "as_gavel"}


@pytest.fixture(scope="module")
def table() -> ThroughputTable:
    return ThroughputTable.from_gavel_json(shared("gavel/simulation_throughputs.json"))


@pytest.fixture(scope="module")
def stream(table: ThroughputTable) -> ClusterProblem:
    """30 jobs with priorities on 5:4:6."""
    trace = generate(table, "v100", 30, 1200.0, "hours", priorities=True, seed=7)
    return build_problem(
        to_jobs(trace, table, "v100"), Cluster.of({"v100": 5, "p100": 4, "k80": 6}, 2), table
    )


def _both(
    problem: ClusterProblem, name: str, make: Callable[[], Any], settings: dict[str, Any], **twins: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Completion times, ours and by the rules; nan = dropped by Gavel's rule, which both follow."""
    names = problem.cluster.names
    jobs = []
    for m, speed in enumerate(problem.speed.tolist()):
        facts = int(problem.scale[m]), float(problem.weight[m]), int(problem.total_steps[m])
        jobs.append(twin.Job(m, dict(zip(names, speed, strict=True)), *facts, float(problem.arrival_s[m])))
    counts = dict(zip(names, problem.cluster.counts.tolist(), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = twin.simulate(jobs, counts, make(), **twins)
    options = SimulationOptions.gavel(drop_rule=True, record="jobs")
    run = simulate_cluster(problem, allocator(name, **settings), options, name)
    ours = run.ledger.finish_s - problem.arrival_s
    return ours, np.array([np.nan if jct is None else jct for jct in expected])


@pytest.mark.parametrize(
    ("name", "make", "settings", "only_shares"),
    [
        ("fifo_perf", lambda: twin.first_come, {}, True),
        ("max_min_fairness_perf", lambda: twin.max_min, GAVEL, False),
        ("max_sum_throughput_perf", lambda: twin.throughput_sum, GAVEL, False),
        ("min_total_duration_perf", lambda: twin.makespan, GAVEL, False),
        ("finish_time_fairness_perf", lambda: twin.FinishTime(), GAVEL, False),
    ],
)
def test_policies_that_know_throughputs_give_the_twins_times(
    stream: ClusterProblem, name: str, make: Callable[[], Any], settings: dict[str, Any], only_shares: bool
) -> None:
    ours, expected = _both(stream, name, make, settings, only_shares=only_shares)
    assert np.array_equal(np.isnan(ours), np.isnan(expected))
    known = ~np.isnan(ours)
    error = np.abs(ours[known] / expected[known] - 1.0)
    # ECOS's own last digits rank jobs that starve (the sum) and jobs below the largest rho
    loose = name.startswith(("finish", "max_sum"))
    assert (error <= 0.005).mean() >= (0.7 if loose else 0.9)
    assert ours[known].mean() == pytest.approx(
        expected[known].mean(), rel=0.01 if "finish" in name else 0.003
    )


def test_isolated_shares_meet_the_types_in_gavels_random_order(stream: ClusterProblem) -> None:
    ours, expected = _both(stream, "isolated", lambda: twin.isolated, {}, agnostic=True)
    assert ours == pytest.approx(expected, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("jobs", [1, 12])
def test_the_cone_method_stops_where_ecos_stops(table: ThroughputTable, jobs: int) -> None:
    view = random_view(table, Cluster.of({"k80": 4, "p100": 4, "v100": 4}, 4), jobs, seed=jobs)
    facts = twin.Facts(view.throughput, view.scale.astype(float), view.weight, view.steps_left, view.age_s,
                       view.cluster.counts.astype(float), list(range(jobs)))  # fmt: skip
    judge = twin.FinishTime()
    judge.isolated_s = dict(enumerate(view.isolated_s.tolist()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = judge(facts) * (view.throughput > 0.0)
    answer = allocator("finish_time_fairness_perf", solver="as_gavel").allocate(view)
    exact = allocator("finish_time_fairness_perf").allocate(view)
    assert answer.shares == pytest.approx(expected, abs=5e-3)
    assert answer.objective == pytest.approx(exact.objective, rel=1e-5)


@pytest.mark.study
def test_the_twin_gives_gavels_stored_times_on_trace_a(table: ThroughputTable) -> None:
    jobs = to_jobs(read_jobs(shared("gavel/trace_a_60jobs.trace")), table, "v100")
    problem = build_problem(jobs, Cluster.of({"v100": 8, "p100": 8, "k80": 8}, 4), table)
    stored = json.loads(shared("gavel/trace_a_expected.json").read_text())["results"]
    for name, make, agnostic in (
        ("max_min_fairness_perf", lambda: twin.max_min, False),
        ("max_min_fairness", lambda: twin.blind_max_min, True),
    ):
        _, found = _both(problem, name, make, GAVEL, agnostic=agnostic)
        expected = np.array([stored[name]["per_job_jct_s"][str(n)] for n in range(60)])
        assert found == pytest.approx(expected, abs=2e-3)

"""Compatible mode gives Gavel's own numbers on trace A (spec: cluster.md 5.3)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.traces import read_jobs
from eunomia.cluster.traces.jobs import to_jobs
from eunomia.contract.cluster import Cluster
from tests.shared_data import shared


@pytest.fixture(scope="module")
def trace_a() -> ClusterProblem:
    table = ThroughputTable.from_gavel_json(shared("gavel/simulation_throughputs.json"))
    jobs = to_jobs(read_jobs(shared("gavel/trace_a_60jobs.trace")), table, "v100")
    return build_problem(jobs, Cluster.of({"v100": 8, "p100": 8, "k80": 8}, devices_per_server=4), table)


def times(problem: ClusterProblem, name: str, **settings: str) -> np.ndarray:
    run = simulate_cluster(
        problem, allocator(name, **settings), SimulationOptions.gavel(0, record="jobs"), name
    )
    assert len(run.ledger.unfinished) == 0
    return run.ledger.finish_s - problem.arrival_s


def gavels(name: str) -> tuple[np.ndarray, dict[str, float]]:
    found = json.loads(shared("gavel/trace_a_expected.json").read_text())["results"][name]
    return np.array([found["per_job_jct_s"][str(n)] for n in range(60)]), found


def test_first_in_first_out_is_gavels_to_the_millisecond(trace_a: ClusterProblem) -> None:
    expected, facts = gavels("fifo_perf")
    jct = times(trace_a, "fifo_perf")
    assert jct == pytest.approx(expected, abs=2e-3)
    assert jct.mean() == pytest.approx(facts["avg_jct_s"], abs=1e-3)
    assert (jct + trace_a.arrival_s).max() == pytest.approx(facts["makespan_s"], abs=2e-3)


def test_max_min_with_gavels_kind_of_solver_is_gavels_for_nine_jobs_in_ten(trace_a: ClusterProblem) -> None:
    expected, facts = gavels("max_min_fairness_perf")
    jct = times(trace_a, "max_min_fairness_perf", solver="as_gavel")
    assert (np.abs(jct / expected - 1.0) <= 0.005).mean() >= 0.9
    assert jct.mean() == pytest.approx(facts["avg_jct_s"], rel=0.003)


def test_max_min_with_the_default_solver_is_near_and_no_worse_for_the_worst_off(
    trace_a: ClusterProblem,
) -> None:
    expected, facts = gavels("max_min_fairness_perf")
    jct = times(trace_a, "max_min_fairness_perf")
    assert jct.mean() == pytest.approx(facts["avg_jct_s"], rel=0.03)
    assert jct.max() <= expected.max()


def test_the_agnostic_form_is_near_gavels(trace_a: ClusterProblem) -> None:
    _, facts = gavels("max_min_fairness")
    assert times(trace_a, "max_min_fairness").mean() == pytest.approx(facts["avg_jct_s"], rel=0.03)


def test_the_drop_rule_drops_only_jobs_at_risk_and_says_so(trace_a: ClusterProblem) -> None:
    options = SimulationOptions.gavel(0, drop_rule=True)
    run = simulate_cluster(trace_a, allocator("fifo_perf"), options, "fifo_perf")
    dropped = np.flatnonzero(run.ledger.dropped)
    assert len(dropped) + int((~np.isnan(run.ledger.finish_s)).sum()) + len(run.ledger.unfinished) == 60
    assert (trace_a.scale[dropped] > 1).all()
    assert len(dropped) == sum("was dropped" in text for text in run.recorder.notes)

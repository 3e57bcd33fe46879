"""Which of many optima: the default takes the one that finishes jobs sooner, and gives up nothing of the level."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cluster.scenes import drawn
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.cluster import Cluster
from tests.cluster.peers import speeds
from tests.cluster.views import random_view, view_of
from tests.shared_data import shared

PACKED = ("max_min_fairness_packed", "min_total_duration_packed", "finish_time_fairness_packed")


@pytest.fixture(scope="module")
def table() -> ThroughputTable:
    return ThroughputTable.from_gavel_json(shared("gavel/simulation_throughputs.json"))


def test_what_the_longest_job_leaves_goes_to_the_shortest() -> None:
    """Two devices at 1 step/s; 1000 steps set the makespan, 100 and 400 need 0.1 and 0.4 of the other device.

    The half that is left is worth 1/100 of a job per second to the first, 1/400 to the second.
    """
    view = view_of(Cluster.of({"a": 2}), [[1.0]] * 3, steps_left=[1000.0, 100.0, 400.0])
    for name in ("min_total_duration_perf", "min_total_duration"):
        found = allocator(name).allocate(view)
        assert found.objective == pytest.approx(1000.0)
        assert found.shares[:, 0] == pytest.approx([1.0, 0.6, 0.4], abs=1e-5)


@pytest.mark.parametrize(
    "name", ["max_min_fairness_packed", "min_total_duration_packed", "finish_time_fairness_packed"]
)
@pytest.mark.parametrize("seed", range(3))
def test_no_optimum_finishes_more_jobs_per_second(table: ThroughputTable, name: str, seed: int) -> None:
    view = random_view(table, Cluster.of({"k80": 4, "p100": 3, "v100": 2}), 8, seed, pairs=True)
    ours, vertex = (allocator(name, solver=solver).allocate(view) for solver in ("embedding", "simplex"))
    assert ours.objective == pytest.approx(vertex.objective, rel=1e-6)
    rate = [float((speeds(view, one) / view.steps_left).sum()) for one in (ours, vertex)]
    assert rate[0] >= rate[1] * (1.0 - 1e-6)


@pytest.mark.parametrize("name", ["max_min_fairness_packed", "min_total_duration_perf"])
@pytest.mark.parametrize("seed", range(2))
def test_on_new_traces_the_default_is_at_most_a_percent_behind_gavels_point(name: str, seed: int) -> None:
    shared("gavel/simulation_throughputs.json")
    problem = drawn(14, 1200.0, (3, 3, 3), 900 + seed, "hours", multi_gpu=False)
    means = []
    for given in ({}, {"solver": "as_gavel"}):
        options = SimulationOptions.gavel(record="jobs")
        run = simulate_cluster(problem, allocator(name, **given), options, name)
        means.append(float((run.ledger.finish_s - problem.arrival_s).mean()))
    assert means[0] <= 1.01 * means[1]
    assert not np.isnan(means).any()

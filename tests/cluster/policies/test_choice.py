"""Which of many optima: the default takes the one that finishes jobs sooner, and gives up nothing of the level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.cluster.scenes import drawn
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.water_filling import spread
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
    for chosen in ({}, {"solver": "as_gavel"}):
        options = SimulationOptions.gavel(record="jobs")
        run = simulate_cluster(problem, allocator(name, **chosen), options, name)
        means.append(float((run.ledger.finish_s - problem.arrival_s).mean()))
    assert means[0] <= 1.01 * means[1]
    assert not np.isnan(means).any()


def test_an_agnostic_level_is_spread_over_the_types_by_their_devices() -> None:
    """Two jobs have all of their time on one device and three: a quarter of it on the one, the rest on the three.

    By hand where there is no room: of one device each, a job that fits on the first alone takes all of that, so that
    the other one stays where it is.
    """
    cluster = Cluster.of({"a": 1, "b": 3})
    free = view_of(cluster, [[1.0, 1.0]] * 2)
    found = allocator("max_min_fairness_water_filling").allocate(free)
    assert found.shares == pytest.approx(np.full((2, 2), 1.0) * [0.25, 0.75], abs=1e-6)
    tight = view_of(Cluster.of({"a": 1, "b": 1}), [[1.0, 0.0], [1.0, 1.0]])
    assert spread(tight, np.eye(2)) == pytest.approx(np.eye(2))
    half = spread(
        tight, np.diag([0.5, 1.0])
    )  # half of the first device is free: it is what the other job takes
    assert half == pytest.approx(np.array([[0.5, 0.0], [0.5, 0.5]]))


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_spreading_keeps_every_jobs_time_and_the_devices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = Cluster.of({"a": int(rng.integers(1, 9)), "b": int(rng.integers(1, 9)), "c": 4})
    speed = rng.random((6, 3)) * (rng.random((6, 3)) < 0.7)
    speed[:, 2] += 0.1  # everybody runs somewhere
    view = view_of(cluster, speed, scale=rng.integers(1, 4, 6))
    shares = np.where(view.usable, rng.random((6, 3)), 0.0)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
    shares /= max(1.0, float((view.scale @ shares / view.capacity).max()))
    found = spread(view, shares)
    assert found.sum(axis=1) == pytest.approx(shares.sum(axis=1))
    assert (found >= -1e-12).all() and not found[~view.usable].any()
    assert (view.scale @ found <= view.capacity * (1.0 + 1e-9)).all()


def test_jobs_without_a_share_take_devices_that_would_idle(table: ThroughputTable) -> None:
    """They have next to nothing of every type on which they run, as have some pairs; the sum stays what it was."""
    cluster = Cluster.of(
        {"k80": 1, "p100": 1, "v100": 1}, cost_per_hour={"k80": 0.5, "p100": 1.5, "v100": 3.0}
    )
    view = random_view(table, cluster, 9, 4, pairs=True)
    name = "max_sum_throughput_normalized_by_cost_packed_SLOs"
    ours, vertex = (allocator(name, solver=solver).allocate(view) for solver in ("embedding", "simplex"))
    assert (ours.shares > 0.0).tolist() == view.usable.tolist()
    assert not (vertex.shares > 0.0).all()
    assert np.sort(ours.shares.ravel())[:9] == pytest.approx(0.0, abs=2e-9)
    assert ours.pairs is not None and 0.0 < ours.pairs.shares[ours.pairs.shares > 0.0].min() < 2e-9
    assert ours.objective == pytest.approx(vertex.objective, rel=1e-6)

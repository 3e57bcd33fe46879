"""The elastic policy with a genetic search: by hand, against every choice, and what it must keep."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.genetic_search import evolve, fitness
from eunomia.cluster.policies.goodput import Restarts
from eunomia.cluster.policies.pollux import Pollux
from eunomia.contract.allocation import ClusterView, Elastic
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError
from tests.cluster.policies.peer_views import check_legal, view_of

FOUR = Cluster.of({"gpu": 4}, 2)
SCALES = np.array([1, 2, 4])


def _offered(rows: list[list[float]]) -> Elastic:
    return Elastic(SCALES, np.array(rows, float)[:, :, None])


def _scale(policy: Pollux, view: ClusterView) -> list[int]:
    policy.reset(0)
    answer = policy.allocate(view)
    check_legal(view, answer)
    assert answer.devices is not None
    return answer.devices.sum(axis=1).tolist()


def test_devices_go_to_who_can_use_them() -> None:
    """4 devices, 3 jobs: an equal part is 1. Only job 0 scales: speedups 2, 1, 1 have the harmonic mean 3 / 2.5 = 1.2;
    the spare device with job 1 (1.1) gives 3 / (1 + 1 / 1.1 + 1) = 1.03."""
    speeds = [[1.0, 2.0, 4.0], [1.0, 1.1, 1.2], [1.0, 1.1, 1.2]]
    view = view_of(FOUR, [[1.0]] * 3, [9.0] * 3, elastic=_offered(speeds))
    assert _scale(Pollux(), view) == [2, 1, 1]


def test_a_small_batch_counts_for_more() -> None:
    """The same speeds, but job 0's batch is noise-free at once: phi = 0 makes two workers worth no more than one."""
    speeds = [[1.0, 2.0, 4.0], [1.0, 1.1, 1.2], [1.0, 1.1, 1.2]]
    noise = {"gradient_noise": [0.0, np.inf, np.inf]}
    view = view_of(FOUR, [[1.0]] * 3, [9.0] * 3, elastic=_offered(speeds), traits=noise)
    assert _scale(Pollux(), view)[0] == 1


def test_speedups_over_an_equal_part_by_hand() -> None:
    """6 devices of type a and 2 of b, 4 jobs: an equal part is 2 devices, at the average (6 a + 2 b) / 8 of the types.

    Job 0 has (6 x 2 + 2 x 3) / 8 = 2.25 at 2 devices. Job 1 can use one only, and no b: 6 x 2 / 8 = 1.5. Job 2 needs 4:
    (6 x 4 + 2 x 8) / 8 = 5. Job 3 can run nowhere.
    """
    cluster = Cluster.of({"a": 6, "b": 2}, 2)
    speed = np.zeros((4, 3, 2))  # job, scale, type
    speed[0] = [[1.0, 2.0], [2.0, 3.0], [3.0, 6.0]]
    speed[1, 0] = [2.0, 0.0]
    speed[2, 2] = [4.0, 8.0]
    view = view_of(cluster, [[1.0, 1.0]] * 4, [9.0] * 4, elastic=Elastic(SCALES, speed))
    found = Pollux().speedups(view, np.tile(SCALES, (4, 1)), speed)
    np.testing.assert_allclose(found, speed / np.array([2.25, 1.5, 5.0, 1.0])[:, None, None])


def test_the_mean_is_fair_and_the_sum_is_not() -> None:
    """4 devices, 2 jobs; only job 0 scales, and job 1 must have 2: (2, 2) gives 1 and 1, (4, 0) gives 2 and idle."""
    view = view_of(FOUR, [[1.0]] * 2, [9.0] * 2, elastic=_offered([[1.0, 2.0, 6.0], [0.0, 1.0, 1.0]]))
    assert _scale(Pollux(power=-1.0), view) == [2, 2]
    assert _scale(Pollux(power=1.0), view) == [4, 0]


def test_a_young_job_is_not_restarted_for_little() -> None:
    """Age 30 s, restart 30 s: r = 1/2, so 4 workers at 3.6 / 2 are worth less than 2 at 2."""
    view = view_of(
        FOUR, [[1.0]], [9.0], now_s=30.0, scale=[2], holdings=[(0, 0, 2)], elastic=_offered([[1.0, 2.0, 3.6]])
    )
    assert _scale(Pollux(restart_s=30.0), view) == [2]
    assert _scale(Pollux(restart_s=0.01), view) == [4]
    restarts = Restarts()
    restarts.remember(view, np.array([[4]]))
    assert restarts.factor(view, 10.0)[0] == pytest.approx((30.0 - 10.0) / 40.0)


def test_against_every_choice() -> None:
    """5 jobs, two types, 4 configurations: the search finds at least 98 % of the best mean, most often all of it."""
    rng = np.random.default_rng(3)
    size, kind, room = np.tile([1, 2, 1, 2], (5, 1)), np.array([0, 0, 1, 1]), np.array([3, 3])
    exact = 0
    for case in range(12):
        worth = rng.uniform(0.5, 3.0, (5, 4)) * (rng.random((5, 4)) < 0.9)
        best = 0.0
        for choice in itertools.product(range(-1, 4), repeat=5):
            genome = np.array(choice)
            used = [sum(size[m, c] for m, c in enumerate(choice) if c >= 0 and kind[c] == j) for j in (0, 1)]
            if all(c < 0 or worth[m, c] > 0.0 for m, c in enumerate(choice)) and (used <= room).all():
                best = max(best, fitness(genome, worth, 0.1, -1.0))
        found = evolve(np.full((40, 5), -1, np.int64), worth, size, kind, room, 0.1, -1.0, 40, case)
        value = fitness(found, worth, 0.1, -1.0)
        assert value >= 0.98 * best
        exact += value > best * (1.0 - 1e-9)
    assert exact >= 9


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_answers_are_legal_repeatable_and_nobody_waits_who_would_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(1, 9))
    cluster = Cluster.of({"a": 6, "b": 3}, 2)
    speed = rng.uniform(0.5, 4.0, (jobs, 3, 2)) * (rng.random((jobs, 3, 2)) < 0.7)
    view = view_of(
        cluster, speed[:, 0].tolist(), rng.uniform(1.0, 99.0, jobs).tolist(), elastic=Elastic(SCALES, speed)
    )
    policy = Pollux(population=12, generations=6)
    assert _scale(policy, view) == _scale(policy, view)
    answer = policy.allocate(view)
    check_legal(view, answer)
    assert answer.devices is not None
    free = cluster.counts - answer.devices.sum(axis=0)
    fits = (speed > 0.0) & (SCALES[None, :, None] <= free)
    assert not fits[~answer.devices.any(axis=1)].any()


def test_rigid_jobs_and_an_empty_view() -> None:
    view = view_of(FOUR, [[1.0]] * 3, [9.0] * 3, scale=[2, 2, 1])
    assert sum(_scale(Pollux(), view)) <= 4
    assert allocator("pollux").allocate(view_of(FOUR, [], [])).devices.shape == (0, 1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"power": 0.0}, "power is 0"),
        ({"idle": 0.0}, "idle is 0"),
        ({"population": 3}, "at least 4"),
        ({"generations": 0}, "and 1"),
    ],
)
def test_bad_settings(given: dict[str, float], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        allocator("pollux", **given)
    allocator("pollux", population=4, generations=1)

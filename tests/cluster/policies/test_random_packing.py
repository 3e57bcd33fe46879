"""Gavel's Gandiva baseline: when it pairs, whom it keeps, and equal time."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.random_packing import normalised_sum
from eunomia.contract.allocation import ClusterView
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError
from tests.cluster.peers import violation
from tests.cluster.plain import small_view
from tests.cluster.policies import peer_views
from tests.cluster.views import view_of


def crowd(parts: float, jobs: int = 4, types: int = 1, **facts: object) -> ClusterView:
    """Equal jobs of 1 step/s on types of one device each; together each keeps ``parts`` of its speed."""
    cluster = Cluster.of({f"t{j}": 1 for j in range(types)})
    return view_of(
        cluster,
        np.ones((jobs, types)),
        beside=np.full((jobs, jobs, types), parts),
        row=np.arange(jobs),
        **facts,
    )


def pairs_of(policy: object, view: ClusterView) -> set[tuple[int, int]]:
    found = policy.allocate(view).pairs  # type: ignore[attr-defined]
    return set() if found is None else set(zip(found.first.tolist(), found.second.tolist(), strict=True))


def test_equal_time_by_hand() -> None:
    """4 jobs, 1 device: two pairs, half of the time each. 4 jobs, 4 devices: nobody shares."""
    found = allocator("gandiva_packed").allocate(crowd(0.8))
    assert found.pairs.shares.tolist() == [[0.5], [0.5]]
    assert not found.shares.any()
    fits = allocator("gandiva_packed").allocate(crowd(0.8, types=4))
    assert fits.pairs is None
    assert fits.shares.tolist() == [[0.25] * 4] * 4


def test_as_gavel_makes_the_pairs_that_its_generator_draws() -> None:
    """6 jobs, 1 device, nobody can share: Gavel's code draws its pairs all the same, by Python's generator."""
    rng, left, expected = random.Random(3), list(range(6)), set()
    while left:
        pair = sorted(rng.sample(left, 2))
        expected.add(tuple(pair))
        left = [m for m in left if m not in pair]
    for as_gavel, pairs in ((True, expected), (False, set())):
        policy = allocator("gandiva_packed", as_gavel=as_gavel)
        policy.reset(3)
        assert pairs_of(policy, crowd(0.0, jobs=6)) == pairs


def test_good_pairs_stay_and_bad_ones_are_drawn_anew() -> None:
    """0.8 + 0.8 stays through 30 questions; 0.4 + 0.4 is given up each time, so other pairs are seen."""
    seen = {}
    for parts in (0.8, 0.4):
        policy = allocator("gandiva_packed")
        policy.reset(1)
        seen[parts] = {frozenset(pairs_of(policy, crowd(parts))) for _ in range(30)}
    assert len(seen[0.8]) == 1
    assert len(seen[0.4]) == 3  # all ways to pair four


def test_the_test_of_pairs_is_weak() -> None:
    """0.2 + 0.2 on each of three types sums to 1.2: the pair stays, though it loses everywhere."""
    view = crowd(0.2, types=3)
    assert normalised_sum(view, 0, 1) == pytest.approx(1.2)
    policy = allocator("gandiva_packed")
    policy.reset(0)
    assert len({frozenset(pairs_of(policy, view)) for _ in range(20)}) == 1


def test_a_partner_whose_job_ended_is_drawn_anew_and_a_pair_that_cannot_share_is_never_made() -> None:
    policy = allocator("gandiva_packed")
    policy.reset(0)
    before = pairs_of(policy, crowd(0.8))
    gone = view_of(
        Cluster.of({"t0": 1}), np.ones((3, 1)), key=[1, 2, 3], row=[1, 2, 3], beside=np.full((4, 4, 1), 0.8)
    )
    after = {(a + 1, b + 1) for a, b in pairs_of(policy, gone)}
    assert {pair for pair in before if 0 not in pair} <= after
    assert pairs_of(allocator("gandiva_packed"), crowd(0.0)) == set()
    assert allocator("gandiva_packed").allocate(crowd(0.0)).shares.tolist() == [[0.25]] * 4


@given(seed=st.integers(0, 10**6), jobs=st.integers(1, 9), kinds=st.integers(1, 3), up=st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_answers_are_feasible_and_time_is_equal(seed: int, jobs: int, kinds: int, up: int) -> None:
    """Whatever works of the cluster: pairs of one scale, nobody twice, each unit the same part of each type."""
    view = small_view(seed, jobs, kinds)
    view = replace(view, up=np.minimum(view.up, up))
    policy = allocator("gandiva_packed")
    policy.reset(seed)
    for _ in range(3):
        found = policy.allocate(view)
        assert violation(view, found.shares, found.pairs) <= 1e-12
        assert not found.shares[~view.usable].any()
        paired: list[int] = []
        if found.pairs is not None:
            assert view.scale.sum() > view.capacity.sum()
            paired = [*found.pairs.first.tolist(), *found.pairs.second.tolist()]
            assert (view.scale[found.pairs.first] == view.scale[found.pairs.second]).all()
            assert found.pairs.shares.any(axis=1).all()
        assert len(set(paired)) == len(paired)
        assert not found.shares[paired].any()
        units = len(view) - len(paired) // 2
        even = view.capacity / (units * view.scale[:, None])
        even = even / np.maximum(even.sum(axis=1, keepdims=True), 1.0)
        assert found.shares == pytest.approx(np.where(found.shares > 0.0, even, 0.0))
        if found.pairs is not None:
            ours = even[found.pairs.first]
            assert found.pairs.shares == pytest.approx(np.where(found.pairs.shares > 0.0, ours, 0.0))


def test_a_table_without_pairs_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs throughputs of pairs"):
        allocator("gandiva_packed").allocate(view_of(Cluster.of({"a": 1}), [[1.0]]))


def test_the_sum_of_slow_jobs_by_hand() -> None:
    """0.5 and 0.25 steps/s alone; together 0.3 and 0.2: 0.6 + 0.8. A job that cannot run alone there counts 0."""
    beside = np.zeros((2, 2, 1))
    beside[0, 1, 0], beside[1, 0, 0] = 0.3, 0.2
    gpu = Cluster.of({"gpu": 1}, 1)
    for alone, expected in (([[0.5], [0.25]], 1.4), ([[0.5], [0.0]], 0.0)):
        view = peer_views.view_of(gpu, alone, [9.0] * 2, row=[0, 1], beside=beside)
        assert normalised_sum(view, 0, 1) == pytest.approx(expected)
    view = peer_views.view_of(gpu, [[0.5], [0.25]], [9.0] * 2, row=[0, 1], beside=0.0 * beside)
    assert normalised_sum(view, 0, 1) == 0.0

"""Themis' auction: closed forms, the exhaustive twin, whole GPUs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.policies.themis.auction import auction, kept_fractions, rounded
from eunomia.cluster.policies.themis.division import LEVELS, level_of, reach, take
from eunomia.cluster.policies.themis.proportional import Bids, Offer, exhaustive, log_values, proportional
from eunomia.core.errors import ConfigError, PolicyError


def _linear(bidders: int, gpus: int, machines: int = 1, factor: float = 1.0) -> Bids:
    value = np.maximum(np.arange(gpus + 1), 1e-3) * factor
    return Bids(np.tile(value[None, :, None], (bidders, 1, LEVELS)), np.zeros((bidders, machines), np.int64))


def _offer(free: list[int], rack: list[int] | None = None) -> Offer:
    return Offer(np.array(free, np.int64), np.array(rack or [0] * len(free), np.int64))


def _random(rng: np.random.Generator) -> tuple[Bids, Offer]:
    """Up to 3 bidders (gangs, limits, slowdown by spread) and 3 machines of up to 3 GPUs in up to 2 racks."""
    bidders, machines = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    rack = np.unique(rng.integers(0, 2, machines), return_inverse=True)[1].astype(np.int64)
    offer = Offer(rng.integers(1, 4, machines), rack)
    number = np.arange(offer.free.sum() + 1)
    gang, gangs = rng.integers(1, 3, bidders), rng.integers(1, 4, bidders)
    slow = np.cumsum(np.concatenate([np.ones((bidders, 1)), rng.random((bidders, 2))], axis=1), axis=1)
    used = np.minimum(number // gang[:, None], gangs[:, None]) * gang[:, None]
    with np.errstate(divide="ignore"):
        left = rng.uniform(0.1, 10.0, (bidders, 1, 1)) * slow[:, None, :] / used[:, :, None]
    value = 1.0 / (rng.uniform(0.0, 3.0, (bidders, 1, 1)) + left)
    best = np.maximum(value.max(axis=(1, 2), keepdims=True), 1e-6)
    return Bids(np.maximum(value, best * 1e-3), np.zeros((bidders, machines), np.int64)), offer


class Lot:
    """A generator whose next number is known."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self) -> float:
        return self.number


@pytest.mark.parametrize("amount, unit, most, number, expected", [
    (5.5, 2, 16, 0.74, 6), (5.5, 2, 16, 0.75, 4), (5.5, 2, 16, 0.76, 4),  # 2.75 units
    (4.0, 2, 16, 0.0, 4), (5.5, 2, 5, 0.1, 5), (0.5, 1, 9, 0.4, 1), (0.5, 1, 9, 0.6, 0), (5.5, 2, 16, None, 4),
])  # fmt: skip
def test_whole_gpus_by_lot(amount: float, unit: int, most: int, number: float | None, expected: int) -> None:
    """The part of a unit that is left over is the chance of one more."""
    lot = None if number is None else Lot(number)
    assert rounded(amount, unit, most, lot) == expected  # type: ignore[arg-type]


def test_one_bidder_keeps_all() -> None:
    outcome = auction(_linear(1, 16), _offer([16]))
    assert outcome.kept.tolist() == [1.0]
    assert outcome.grant.sum() == 16


@pytest.mark.parametrize(("bidders", "gpus", "granted"), [(2, 16, 4), (3, 18, 2), (4, 12, 1), (5, 60, 4)])
def test_identical_linear_bidders(bidders: int, gpus: int, granted: int) -> None:
    """C/k each, c = ((k-1)/k)^(k-1); granted = floor(c C/k)."""
    outcome = auction(_linear(bidders, gpus), _offer([gpus]), payment="devices")
    assert (outcome.fair.sum(axis=1) == gpus // bidders).all()
    expected = ((bidders - 1) / bidders) ** (bidders - 1)
    np.testing.assert_allclose(outcome.kept, expected, rtol=1e-12)
    assert (
        outcome.grant.sum(axis=1).tolist()
        == [granted] * bidders
        == [int(expected * gpus // bidders)] * bidders
    )
    assert outcome.left.sum() == gpus - granted * bidders


def test_kept_fraction_tends_to_one_over_e() -> None:
    bidders = 12
    kept = auction(_linear(bidders, 132), _offer([132])).kept
    assert math.exp(-1) < kept.min() < 1.05 * math.exp(-1)


def test_disjoint_interests_cost_nothing() -> None:
    """Each wants one machine's worth of GPUs and there are enough machines."""
    value = np.minimum(np.maximum(np.arange(9), 1e-3), 4.0)
    spread = np.stack([value, value / 2, value / 4], axis=1)
    bids = Bids(np.stack([spread, spread]), np.zeros((2, 2), np.int64))
    outcome = auction(bids, _offer([4, 4], [0, 1]))
    assert outcome.kept.tolist() == [1.0, 1.0]
    assert sorted(outcome.grant.tolist()) == [[0, 4], [4, 0]]


def test_disjoint_held_machines_are_completed() -> None:
    """Who holds half a machine is offered its other half: joint use beats spread."""
    value = np.minimum(np.maximum(np.arange(5), 1e-3), 4.0)
    table = np.stack([value, value / 3, value / 9], axis=1)
    bids = Bids(np.stack([table, table]), np.array([[2, 0], [0, 2]]))
    assert auction(bids, _offer([2, 2], [0, 1])).grant.tolist() == [[2, 0], [0, 2]]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), factor=st.floats(1e-6, 1e6), which=st.integers(0, 2))
def test_scaling_a_bid_changes_nothing(seed: int, factor: float, which: int) -> None:
    bids, offer = _random(np.random.default_rng(seed))
    value = bids.value.copy()
    value[which % len(bids)] *= factor
    ours, theirs = auction(bids, offer), auction(Bids(value, bids.held), offer)
    np.testing.assert_allclose(ours.kept, theirs.kept, rtol=1e-6)
    np.testing.assert_array_equal(ours.fair, theirs.fair)
    np.testing.assert_array_equal(ours.grant, theirs.grant)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_an_auction_keeps_within_the_offer(seed: int) -> None:
    bids, offer = _random(np.random.default_rng(seed))
    outcome = auction(bids, offer, payment="devices")
    assert (outcome.kept <= 1.0).all() and (outcome.kept > 0.0).all()
    assert (outcome.grant >= 0).all() and (outcome.grant <= outcome.fair).all()
    np.testing.assert_array_equal(outcome.grant.sum(axis=0) + outcome.left, offer.free)
    assert (outcome.grant.sum(axis=1) <= outcome.kept * outcome.fair.sum(axis=1) + 1e-6).all()


def test_fast_division_against_exhaustive_search() -> None:
    """300 random cases: at least 98 % optimal, 0.5 % of the product lost on average, never half of it."""
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(300):
        bids, offer = _random(rng)
        grant = proportional(bids, offer)
        values = [
            lambda counts, table=table, rack=offer.rack: table[sum(counts), level_of(np.array(counts), rack)]
            for table in bids.value
        ]
        best, _ = exhaustive(values, offer.free.tolist())
        gaps.append(math.log(best) - log_values(bids, offer, grant).sum())
    gaps = np.array(gaps)
    assert (gaps > -1e-9).all()
    assert (gaps < 1e-9).mean() >= 0.98
    assert gaps.mean() < 0.005 and gaps.max() < math.log(2.0)


def test_exhaustive_by_hand() -> None:
    """Two linear bidders, one machine of 4: 2 x 2 = 4 beats 1 x 3."""
    best, grants = exhaustive([lambda c: c[0], lambda c: c[0]], [4])
    assert (best, grants) == (4, [(2,), (2,)])


def test_kept_fraction_by_hand() -> None:
    """A wants 3 of 3 GPUs at any price, B's value is linear: c_A = V_B(with A) / V_B(alone) = 1e-3 / 3."""
    a = np.array([1e-3, 1e-3, 1e-3, 1e6])
    b = np.array([1e-3, 1.0, 2.0, 3.0])
    bids = Bids(np.repeat(np.stack([a, b])[:, :, None], LEVELS, axis=2), np.zeros((2, 1), np.int64))
    offer = _offer([3])
    fair = proportional(bids, offer)
    assert fair.tolist() == [[3], [0]]
    np.testing.assert_allclose(kept_fractions(bids, offer, fair), [1e-3 / 3.0, 1.0])


def test_rounding_of_payments() -> None:
    assert rounded(3.9, 1, 8, None) == 3
    assert rounded(4.0 - 1e-12, 1, 8, None) == 4  # a whole number up to rounding error
    assert rounded(3.9, 4, 4, None) == 0  # floor leaves a rigid gang nothing
    rng = np.random.default_rng(0)
    draws = [rounded(3.0, 4, 4, rng) for _ in range(2000)]
    assert set(draws) == {0, 4}
    assert abs(np.mean(draws) - 3.0) < 0.15  # the lottery meets c * n in expectation


def test_without_payment_everybody_keeps_a_fair_grant() -> None:
    """Two equal linear bidders on 4 GPUs: 2 each, where the floor of c = 1/2 leaves them 1."""
    free = auction(_linear(2, 4), _offer([4]), payment="none")
    assert free.grant.sum(axis=1).tolist() == [2, 2] and not free.left.any()
    paid = auction(_linear(2, 4), _offer([4]), payment="devices")
    assert paid.grant.sum(axis=1).tolist() == [1, 1] and paid.kept.tolist() == [0.5, 0.5]


def test_lottery_needs_a_generator() -> None:
    with pytest.raises(ConfigError, match="rng"):
        auction(_linear(2, 4), _offer([4]), payment="devices", rounding="lottery")
    with pytest.raises(ConfigError, match="choose one of: floor, lottery$"):
        auction(_linear(2, 4), _offer([4]), rounding="ceiling")  # type: ignore[arg-type]


def test_bids_must_be_positive() -> None:
    with pytest.raises(PolicyError, match="floor"):
        Bids(np.zeros((1, 3, LEVELS)), np.zeros((1, 1), np.int64))
    with pytest.raises(PolicyError, match="shape"):
        Bids(np.ones((1, 3)), np.zeros((1, 1), np.int64))


def test_levels_of_spread() -> None:
    rack = np.array([0, 0, 1])
    assert [level_of(np.array(use), rack) for use in ([0, 0, 0], [2, 0, 0], [1, 1, 0], [1, 0, 1])] == [
        0,
        0,
        1,
        2,
    ]
    reachable = np.zeros(LEVELS, np.int64)
    reach(np.array([1, 0, 0]), np.array([1, 4, 4]), rack, 2, reachable)
    assert reachable.tolist() == [1, 5, 9]


def test_take_is_best_fit() -> None:
    use, free = np.zeros(3, np.int64), np.array([4, 2, 3])
    take(use, free, np.array([0, 0, 1]), 2, 2, 0)
    assert (use.tolist(), free.tolist()) == ([0, 2, 0], [4, 0, 3])

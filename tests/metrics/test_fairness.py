from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.metrics import fairness
from eunomia.metrics.columns import UNFINISHED, Requests
from tests.metrics.toy import four, many, request, requests

shares = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12).map(np.array)


def test_jain_by_hand() -> None:
    assert fairness.jain(np.array([1.0, 1.0, 1.0])) == 1.0
    assert fairness.jain(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25
    assert fairness.jain(np.array([1.0, 2.0, 3.0])) == pytest.approx(36 / (3 * 14))
    assert fairness.jain(np.array([0.0, 0.0])) == 1.0  # equally bad
    assert fairness.jain(np.array([0.5, math.nan])) == 1.0 and math.isnan(fairness.jain(np.empty(0)))
    assert fairness.jain(np.array([1e-200, 1e-200])) == 1.0  # squares would vanish


@given(shares)
def test_jain_lies_between_one_nth_and_one(x: np.ndarray) -> None:
    assert 1 / len(x) - 1e-12 <= fairness.jain(x) <= 1.0


@given(shares, st.floats(1e-3, 1e3))
def test_jain_ignores_scale_and_order(x: np.ndarray, factor: float) -> None:
    assert fairness.jain(x * factor) == pytest.approx(fairness.jain(x), rel=1e-9)
    assert fairness.jain(x[::-1]) == pytest.approx(fairness.jain(x), rel=1e-9)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8))
def test_jain_is_one_only_for_equals(counts: list[int]) -> None:
    x = np.array(counts, np.float64)
    assert (fairness.jain(x) > 1.0 - 1e-9) == (x.min() == x.max())


def test_tenants_by_hand() -> None:
    r = requests(*four())  # hit rates: a 1, b 0; mean progress: a 1/2, b (1/6 + 0) / 2
    assert fairness.worst_tenant(r) == 0.0 and fairness.tenant_spread(r) == 0.5
    assert fairness.jain_hit_rate(r) == 0.5
    assert fairness.jain_progress(r) == pytest.approx((1 / 2 + 1 / 12) ** 2 / (2 * (1 / 4 + 1 / 144)))


@given(st.integers(0, 500))
def test_names_and_order_of_tenants_do_not_matter(seed: int) -> None:
    columns = many(seed, 60)
    other = {"t0": "zeta", "t1": "Alpha", "t2": "t0"}
    rows = np.random.default_rng(seed).permutation(60)
    shuffled = {name: np.array(value, object)[rows].tolist() for name, value in columns.items()}
    shuffled["tenant"] = [other[name] for name in shuffled["tenant"]]
    mine, theirs = Requests.read(columns), Requests.read(shuffled)
    for measure in (fairness.worst_tenant, fairness.tenant_spread, fairness.jain_hit_rate, fairness.jain_progress,
                    fairness.prema_fairness):  # fmt: skip
        assert measure(mine) == pytest.approx(measure(theirs), rel=1e-12)


def test_a_tenant_without_measured_requests_is_no_tenant() -> None:
    r = requests(*four()).where(np.array([True, True, False, False]))
    assert fairness.worst_tenant(r) == 1.0 and fairness.jain_hit_rate(r) == 1.0


def test_price_of_fairness_by_hand() -> None:
    agnostic, aware = requests(*four()), requests(*four()[:3])
    assert fairness.price_of_fairness(agnostic, aware) == pytest.approx(2 / 4 - 2 / 3)


def test_prema_by_hand() -> None:
    rows = [
        request("a", "m", 0.0, 9.0, 2.0, "hit", priority=3.0),  # progress 1/2
        request("b", "m", 0.0, 9.0, 4.0, "hit", priority=1.0),  # progress 1/4
    ]
    r = requests(*rows)  # entitled to 3/4 and 1/4: PP = 2/3 and 1
    np.testing.assert_allclose(fairness.proportional_progress(r), [2 / 3, 1.0])
    assert fairness.prema_fairness(r) == pytest.approx(2 / 3)


def test_prema_leaves_out_who_is_entitled_to_nothing() -> None:
    rows = [request("a", "m", 0.0, 9.0, 2.0, "hit"), request("b", "m", 0.0, 9.0, 4.0, "hit", priority=0.0)]
    assert fairness.prema_fairness(requests(*rows)) == 1.0
    assert math.isnan(fairness.prema_fairness(requests(rows[1])))
    dropped = request("b", "m", 0.0, 9.0, 4.0, "dropped")
    assert fairness.prema_fairness(requests(rows[0], dropped)) == 0.0
    assert fairness.prema_fairness(requests(dropped)) == 1.0  # alike, alas


def test_alone_by_hand() -> None:
    # two tenants, one accelerator: each has half of one, so iso 1 s takes 2 s
    rows = [
        request("a", "m", 0.0, None, 9.0, "hit"),  # alone: 0..2
        request("a", "m", 1.0, None, 9.0, "hit"),  # alone: 2..4, response 3
        request("a", "m", 10.0, None, 11.0, "hit"),  # alone: 10..12
        request("b", "m", 0.0, None, 1.0, "hit"),
    ]
    r = requests(*rows)
    assert fairness.alone_response_s(r, 1).tolist() == [2.0, 3.0, 2.0, 2.0]
    # four accelerators: two each, a fluid server of speed 2, but never less than iso
    assert fairness.alone_response_s(r, 4).tolist() == [1.0, 1.0, 1.0, 1.0]
    # a has three quarters of one accelerator
    weighted = fairness.alone_response_s(r, 1, {"a": 3.0, "b": 1.0})
    np.testing.assert_allclose(weighted, [4 / 3, 5 / 3, 4 / 3, 4.0])
    rho = fairness.finish_time_rho(r, fairness.alone_response_s(r, 1))
    assert rho == {"a": pytest.approx((9 + 8 + 1) / (2 + 3 + 2)), "b": 0.5}


@given(st.integers(0, 500), st.integers(1, 6))
def test_alone_agrees_with_a_queue_served_one_by_one(seed: int, accelerators: int) -> None:
    r = Requests.read(many(seed, 50))
    free = dict.fromkeys(range(3), 0.0)
    speed = accelerators / 3
    expected = []
    for tenant, arrival, iso in zip(r.tenant.codes.tolist(), r.arrival_s, r.isolated_s, strict=True):
        free[tenant] = max(free[tenant], arrival) + iso / speed
        expected.append(max(free[tenant] - arrival, iso))
    np.testing.assert_allclose(fairness.alone_response_s(r, accelerators), expected, rtol=1e-9)


def test_windows_by_hand() -> None:
    rows = [
        request("a", "m", 0.0, 9.0, 1.0, "hit"), request("a", "m", 0.0, 1.0, 2.0, "late"),
        request("b", "m", 0.0, 9.0, 3.0, "hit"), request("b", "m", 0.0, 4.0, None, "unfinished"),
    ]  # fmt: skip
    found = fairness.fairness_over_time(requests(*rows), np.array([0.5, 2.0, 3.0, 4.0]), window_s=2.0)
    np.testing.assert_array_equal(
        found.rates, [[math.nan, math.nan], [0.5, math.nan], [0.0, 1.0], [math.nan, 0.5]]
    )
    np.testing.assert_array_equal(found.worst, [math.nan, 0.5, 0.0, 0.5])
    np.testing.assert_array_equal(found.mean, [math.nan, 0.5, 0.5, 0.5])
    np.testing.assert_array_equal(found.jain, [math.nan, 1.0, 0.5, 1.0])
    assert found.tenants == ("a", "b")


@given(st.integers(0, 500), st.floats(0.5, 30.0))
def test_windows_agree_with_counting(seed: int, window_s: float) -> None:
    r = Requests.read(many(seed, 80))
    ends = np.linspace(0.0, 70.0, 23)
    found = fairness.fairness_over_time(r, ends, window_s)
    when = [d if o == UNFINISHED else f for d, f, o in zip(r.deadline_s, r.finish_s, r.outcome, strict=True)]
    for i, end in enumerate(ends.tolist()):
        rates = []
        for tenant in range(3):
            hits = [
                hit for hit, t, u in zip(r.hit.tolist(), when, r.tenant.codes.tolist(), strict=True)
                if u == tenant and end - window_s < t <= end
            ]  # fmt: skip
            assert len(hits) == 0 or found.rates[i, tenant] == pytest.approx(sum(hits) / len(hits))
            assert (len(hits) == 0) == bool(np.isnan(found.rates[i, tenant]))
            rates += [sum(hits) / len(hits)] if hits else []
        if rates:
            assert found.worst[i] == pytest.approx(min(rates)) and found.mean[i] == pytest.approx(
                np.mean(rates)
            )
            assert found.jain[i] == pytest.approx(fairness.jain(np.array(rates)))

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from eunomia.core.schemas import PAIRS
from eunomia.metrics.indicators import pair_table, sli, slo_attainment, slo_shortfall
from eunomia.workload.tenant import Agreement, Slo
from tests.metrics.toy import four, request, requests_table


def row(slo: Slo | None, *rows: dict, tenant: str = "a", model: str = "m", **window: float) -> dict:
    table = pair_table(
        {"requests": requests_table(*(rows or four()))}, [Agreement(tenant, model, slo)], **window
    )
    return table.to_pylist()[0]


TEN = [
    request("a", "m", float(i), 99.0, float(i) + (i + 1) / 10, "hit") for i in range(10)
]  # responses 0.1 .. 1.0


def test_counts_and_promises_by_hand() -> None:
    agreements = [Agreement("b", "m", Slo(0.25), priority=9.0, weight=2.0), Agreement("a", "n")]
    table = pair_table({"requests": requests_table(*four())}, agreements)
    assert table.schema == PAIRS
    assert table.to_pylist() == [
        {
            "tenant": "b", "model": "m", "slo_kind": "hit_rate", "slo_target": 0.25, "sli": 0.0, "met": False,
            "shortfall": 0.25, "arrived": 2, "hits": 0, "late": 1, "dropped": 1, "unfinished": 0, "weight": 2.0,
            "priority": 9.0,
        },
        {
            "tenant": "a", "model": "n", "slo_kind": None, "slo_target": None, "sli": None, "met": None,
            "shortfall": None, "arrived": 1, "hits": 1, "late": 0, "dropped": 0, "unfinished": 0, "weight": 1.0,
            "priority": 1.0,
        },
        {  # nobody agreed on it, but it was asked for
            "tenant": "a", "model": "m", "slo_kind": None, "slo_target": None, "sli": None, "met": None,
            "shortfall": None, "arrived": 1, "hits": 1, "late": 0, "dropped": 0, "unfinished": 0, "weight": 1.0,
            "priority": 1.0,
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("slo", "sli", "shortfall"),
    [
        (Slo(0.9), 1.0, 0.0),
        (Slo(0.5, "latency_mean"), 0.55, 0.1),
        (Slo(0.55, "latency_mean"), 0.55, 0.0),
        (Slo(0.5, "latency_percentile", percentile=50.0), 0.5, 0.0),
        (Slo(0.5, "latency_percentile", percentile=95.0), 1.0, 1.0),
        (Slo(0.1, "drop_rate"), 0.0, 0.0),
        (Slo(0.8, "throughput"), 1.0, 0.0),  # 10 completions in 10 s
    ],
)
def test_each_kind_by_hand(slo: Slo, sli: float, shortfall: float) -> None:
    found = row(slo, *TEN)
    assert found["sli"] == pytest.approx(sli) and found["met"] == (shortfall == 0.0)
    assert found["shortfall"] == pytest.approx(shortfall)


def test_late_requests_count_in_latencies_and_dropped_ones_do_not() -> None:
    rows = [
        request("a", "m", 0.0, 2.0, 1.0, "hit"), request("a", "m", 0.0, 2.0, 3.0, "late"),
        request("a", "m", 0.0, 2.0, 9.0, "dropped"),
    ]  # fmt: skip
    assert row(Slo(5.0, "latency_mean"), *rows)["sli"] == 2.0
    assert row(Slo(5.0, "latency_percentile", percentile=95.0), *rows)["sli"] == 3.0


def test_throughput_in_less_than_a_second_and_in_no_time() -> None:
    slo, nothing = Slo(4.0, "throughput"), np.empty(0)
    assert sli(slo, nothing, nothing, departed=3, length_s=0.5) == 6.0
    assert math.isnan(sli(slo, nothing, nothing, departed=3, length_s=0.0))


def test_a_pair_of_a_known_tenant_and_an_unknown_network_has_no_requests() -> None:
    rows = [request("a", "m", 0.0, 9.0, 1.0, "hit"), request("a", "n", 0.0, 9.0, 1.0, "hit"),
            request("b", "m", 0.0, 9.0, 1.0, "hit")]  # fmt: skip
    for tenant, model in (("b", "other"), ("other", "m"), ("other", "other")):
        assert row(Slo(0.5), *rows, tenant=tenant, model=model)["arrived"] == 0
    assert row(Slo(0.5), *rows, tenant="b")["arrived"] == 1


def test_three_of_ten_meet_three_tenths() -> None:
    rows = [request("a", "m", 0.0, 9.0, 1.0, "hit" if i < 3 else "dropped") for i in range(10)]
    assert row(Slo(0.3), *rows)["met"] and row(Slo(0.7, "drop_rate"), *rows)["met"]
    assert row(Slo(0.4), *rows)["shortfall"] == pytest.approx(0.1)
    assert row(Slo(0.5, "drop_rate"), *rows)["shortfall"] == pytest.approx(0.2)


def test_an_overdue_request_is_a_miss_and_a_censored_one_is_nothing() -> None:
    rows = [
        request("a", "m", 0.0, 9.0, 4.0, "hit"), request("a", "m", 0.0, 2.0, None, "unfinished"),
        request("a", "m", 0.0, 99.0, None, "unfinished"),
    ]  # fmt: skip
    found = row(Slo(0.5), *rows)
    assert (found["sli"], found["arrived"], found["unfinished"], found["met"]) == (0.5, 2, 1, True)


def test_a_pair_that_asked_for_nothing_is_met() -> None:
    found = row(Slo(0.9), tenant="nobody")
    assert found["sli"] is None and found["met"] and found["shortfall"] == 0.0 and found["arrived"] == 0


def test_a_latency_promise_is_not_kept_by_dropping_everything() -> None:
    found = row(Slo(5.0, "latency_mean"), request("a", "m", 0.0, 9.0, 9.0, "dropped"))
    assert found["sli"] is None and not found["met"] and found["shortfall"] == 1.0


def test_throughput_is_judged_only_when_enough_was_offered() -> None:
    lazy = [request("a", "m", float(i), 99.0, 9.9, "hit") for i in range(10)]
    found = row(Slo(2.0, "throughput"), *lazy)  # 1.01 offered per second
    assert found["met"] and found["shortfall"] == 0.0
    starved = [request("a", "m", float(i), None, None, "unfinished") for i in range(9)]
    found = row(Slo(0.5, "throughput"), *starved, request("a", "m", 9.0, None, 10.0, "hit"))
    assert not found["met"] and found["shortfall"] == pytest.approx(0.8)  # the censored count as offered


def test_the_window_applies_to_the_pairs() -> None:
    found = row(Slo(0.5, "latency_mean"), *TEN, warmup_s=5.0, end_s=8.0)
    assert found["arrived"] == 3 and found["sli"] == pytest.approx((0.6 + 0.7 + 0.8) / 3)


def test_a_departure_in_the_last_or_first_moment_of_the_window_counts() -> None:
    # Finished at 2, 4 and 6 s; the window from 2 to 6 s holds three departures in 4 s.
    rows = [request("a", "m", float(n), 99.0, 2.0 + 2.0 * n, "hit") for n in range(3)]
    assert row(Slo(0.1, "throughput"), *rows, warmup_s=2.0, end_s=6.0)["sli"] == 3 / 4


def test_attainment_and_shortfall_are_over_pairs_with_an_slo() -> None:
    agreements = [Agreement("a", "m", Slo(0.9)), Agreement("b", "m", Slo(0.5)), Agreement("a", "n")]
    table = pair_table({"requests": requests_table(*four())}, agreements)
    assert slo_attainment(table) == 0.5 and slo_shortfall(table) == 0.25
    none: pa.Table = pair_table({"requests": requests_table(*four())}, [])
    assert math.isnan(slo_attainment(none)) and math.isnan(slo_shortfall(none))

from __future__ import annotations

import math

import numpy as np
import pytest

from eunomia.core.errors import ConfigError, RecordError
from eunomia.metrics import service
from eunomia.metrics.columns import Requests, Subjobs
from eunomia.metrics.window import measured
from tests.metrics.toy import (
    costs_table,
    four,
    many,
    platform,
    request,
    requests,
    requests_table,
    subjobs_table,
)


def test_rates_by_hand() -> None:
    r = requests(*four())
    assert service.hit_rate(r) == 0.5
    assert service.late_rate(r) == 0.25 and service.drop_rate(r) == 0.25 and service.overdue_rate(r) == 0.0
    assert service.tenant_rates(r) == {"a": 1.0, "b": 0.0}
    assert service.model_rates(r) == {"m": pytest.approx(1 / 3), "n": 1.0}
    assert service.pair_rates(r) == {("a", "m"): 1.0, ("a", "n"): 1.0, ("b", "m"): 0.0}


def test_rates_over_half_a_second_and_over_no_time() -> None:
    r = requests(*four())
    done = r.where(r.finished)
    assert (service.throughput_per_s(done, 0.5), service.goodput_per_s(done, 0.5)) == (6.0, 4.0)
    assert math.isnan(service.throughput_per_s(done, 0.0)) and math.isnan(service.goodput_per_s(done, 0.0))


def test_latency_slowdown_and_progress_by_hand() -> None:
    r = requests(*four())
    assert service.response_s(r).tolist() == [2.0, 4.0, 6.0]  # the dropped one has no response
    assert service.slowdown(r).tolist() == [2.0, 2.0, 6.0]
    assert service.progress(r).tolist() == [0.5, 0.5, pytest.approx(1 / 6), 0.0]


def test_tardiness_by_hand() -> None:
    r = requests(*four(), request("a", "m", 0.0, None, 100.0, "hit"))
    assert service.lateness_s(r).tolist() == [-1.0, -1.0, 1.0]  # no deadline, no lateness
    assert service.tardiness_s(r).tolist() == [0.0, 0.0, 1.0]


def test_goodput_counts_departures_within_the_measured_time() -> None:
    run = measured({"requests": requests_table(*four())}, warmup_s=1.0, end_s=6.0)
    assert service.throughput_per_s(run.departed, run.length_s) == 2 / 5  # at 2 and 5, not at 8
    assert service.goodput_per_s(run.departed, run.length_s) == 2 / 5
    whole = measured({"requests": requests_table(*four())})
    assert service.throughput_per_s(whole.departed, whole.length_s) == pytest.approx(3 / 9)
    assert service.goodput_per_s(whole.departed, whole.length_s) == pytest.approx(2 / 9)


def test_a_run_without_requests_has_no_rates() -> None:
    r = requests(*four()).where(np.zeros(4, np.bool_))
    assert math.isnan(service.hit_rate(r)) and service.tenant_rates(r) == {} and service.pair_rates(r) == {}
    assert len(service.slowdown(r)) == 0


# --- which requests count --------------------------------------------------------------------------


def window_rows() -> list[dict[str, object]]:
    return [
        request("a", "m", 0.5, 9.0, 2.0, "hit"),  # 0: arrives in the warm-up
        request("a", "m", 1.0, 9.0, 2.0, "hit"),  # 1: on its edge, counts
        request("a", "m", 2.0, 4.0, None, "unfinished"),  # 2: overdue, a miss
        request("a", "m", 3.0, 99.0, None, "unfinished"),  # 3: nobody knows
        request("a", "m", 3.0, None, None, "unfinished"),  # 4: nobody knows
        request("a", "m", 4.0, 20.0, 12.0, "hit"),  # 5: leaves after the end, keeps its outcome
        request("a", "m", 10.0, 20.0, 11.0, "hit"),  # 6: arrives at the end, out
    ]


def test_the_window_chooses_by_arrival_and_leaves_out_what_nobody_knows() -> None:
    run = measured({"requests": requests_table(*window_rows())}, warmup_s=1.0, end_s=10.0)
    assert run.requests.request.tolist() == [1, 2, 5]
    assert run.censored.request.tolist() == [3, 4]
    assert service.hit_rate(run.requests) == pytest.approx(2 / 3)
    assert service.overdue_rate(run.requests) == pytest.approx(1 / 3)
    assert run.departed.request.tolist() == [0, 1] and run.length_s == 9.0 and run.horizon_s == 12.0


def test_a_deadline_that_the_records_have_seen_pass_is_a_miss_even_after_the_end() -> None:
    rows = [request("a", "m", 0.0, 8.0, None, "unfinished"), request("a", "m", 0.0, 99.0, 9.0, "hit")]
    run = measured({"requests": requests_table(*rows)}, end_s=5.0)
    assert run.requests.request.tolist() == [0, 1] and len(run.censored) == 0


def test_by_default_everything_is_measured() -> None:
    run = measured({"requests": requests_table(*window_rows())})
    assert run.requests.request.tolist() == [0, 1, 2, 5, 6] and run.end_s == 12.0


def test_a_request_never_sent_does_not_count() -> None:
    rows = [request("a", "m", 0.0, 9.0, 2.0, "hit"), request("a", "m", 0.0, None, None, "unfinished")]
    table = requests_table(*rows).to_pydict() | {"arrival_s": np.array([0.0, np.nan])}
    run = measured({"requests": table | {"deadline_s": [9.0, np.nan], "finish_s": [2.0, np.nan]}})
    assert run.requests.request.tolist() == [0] and len(run.censored) == 0


def test_a_warm_up_beyond_the_run_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"warm-up is 20.0 s and measuring ends at 9.0 s"):
        measured({"requests": requests_table(*four())}, warmup_s=20.0)


# --- reading tables --------------------------------------------------------------------------------


def test_arrow_tables_and_arrays_read_alike() -> None:
    columns = many(3, 200)
    arrays, arrow = (
        Requests.read(columns),
        Requests.read(requests_table(*({k: v[i] for k, v in columns.items()} for i in range(200)))),
    )
    assert arrays.tenant.names == arrow.tenant.names == ("t0", "t1", "t2")
    for name in ("outcome", "finish_s", "deadline_s", "energy_j"):
        np.testing.assert_array_equal(getattr(arrays, name), getattr(arrow, name))
    np.testing.assert_array_equal(arrays.tenant.codes, arrow.tenant.codes)


def test_missing_columns_and_unknown_outcomes_are_named() -> None:
    table = requests_table(*four())
    with pytest.raises(RecordError, match="no column 'energy_j'"):
        Requests.read(table.drop_columns(["energy_j"]))
    with pytest.raises(RecordError, match="unknown outcome 'lost'"):
        requests(request("a", "m", 0.0, 1.0, 1.0, "lost"))
    with pytest.raises(RecordError, match="column 'tenant' has 1 empty"):
        requests(request(None, "m", 0.0, 1.0, 1.0, "hit"))  # type: ignore[arg-type]


def test_demand_is_looked_up_by_model_layer_and_type() -> None:
    tables = {
        "requests": requests_table(*four()),
        "accelerators": platform("slow", "fast"),
        "costs": costs_table(
            ("n", 0, "fast", 1.0, 10.0, 1.0), ("n", 0, "slow", 2.0, 5.0, 1.0),
            ("m", 0, "fast", 1.0, 30.0, 1.0), ("m", 1, "fast", 1.0, 40.0, 1.0), ("m", 0, "slow", 2.0, 15.0, 1.0),
        ),
        "subjobs": subjobs_table(
            (1, 0, 1, 1.0, 2.0, 1.0), (1, 0, 0, 1.0, 2.0, 1.0), (0, 1, 1, 1.0, None, 1.0),
            (3, 0, None, None, None, 0.0), (2, 0, 0, 1.0, 2.0, 1.0), (2, 1, 0, 1.0, 2.0, 1.0),
        ),
    }  # fmt: skip
    layers = Subjobs.read(tables)
    np.testing.assert_array_equal(
        layers.demand_bytes_s, [10.0, 5.0, 40.0, 15.0, np.nan]
    )  # none for m, 1, slow
    assert layers.end_s[2] == np.inf and len(layers.start_s) == 5  # the layer that never started is left out


def test_a_layer_of_an_unknown_request_is_refused() -> None:
    tables = {
        "requests": requests_table(*four()), "accelerators": platform("t"),
        "costs": costs_table(("m", 0, "t", 1.0, 1.0, 1.0)), "subjobs": subjobs_table((9, 0, 0, 0.0, 1.0, 1.0)),
    }  # fmt: skip
    with pytest.raises(RecordError, match="not in table 'requests'"):
        Subjobs.read(tables)

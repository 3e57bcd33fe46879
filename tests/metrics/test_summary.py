from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import UnknownNameError
from eunomia.core.records import RunRecords
from eunomia.metrics.run import Facts
from eunomia.metrics.statistics import interval, paired_difference
from eunomia.metrics.summary import compare, summarise
from eunomia.metrics.table import METRICS
from eunomia.workload.tenant import Agreement, Slo
from tests.effort import lines_of
from tests.metrics.toy import costs_table, four, many, platform, requests_table, subjobs_table

TABLES = {
    "requests": requests_table(*four()),
    "accelerators": platform("x", "x"),
    "costs": costs_table(("m", 0, "x", 1.0, 6.0, 4.0), ("n", 0, "x", 1.0, 4.0, 4.0)),
    "subjobs": subjobs_table((0, 0, 0, 0.0, 2.0, 1.0), (1, 0, 1, 1.0, 5.0, 2.0), (2, 0, 0, 2.0, 8.0, 1.0)),
    "decisions": {"time_s": np.array([0.0, 1.0, 2.0])},
}
FACTS = Facts(
    bandwidth_bytes_s=8.0, period_s=2.0, decision_times_s=np.array([1e-6, 3e-6, 2e-6]), scheduler_energy_j=0.1,
    guards={"decisions": 8, "strange": 2, "alarms": 1, "fallback": 4},
)  # fmt: skip
BY_HAND = {
    "requests": 4, "censored": 0, "hit_rate": 0.5, "late_rate": 0.25, "drop_rate": 0.25, "overdue_rate": 0.0,
    "response_mean_s": 4.0, "response_p50_s": 4.0, "response_p95_s": 6.0, "response_p99_s": 6.0,
    "antt": 10 / 3, "slowdown_p50": 2.0, "slowdown_p95": 6.0, "slowdown_p99": 6.0,
    "lateness_mean_s": -1 / 3, "tardiness_mean_s": 1 / 3, "tardiness_p99_s": 1.0,
    "throughput_per_s": 3 / 9, "goodput_per_s": 2 / 9,
    "queueing_share": 1.0, "service_share": 0.0, "contention_share": 0.0, "switch_share": 0.0,
    "worst_tenant": 0.0, "worst_model": 1 / 3, "worst_pair": 0.0, "tenant_spread": 0.5, "jain_hit_rate": 0.5,
    "jain_progress": (7 / 12) ** 2 / (2 * (1 / 4 + 1 / 144)), "slo_attainment": 0.5, "slo_shortfall": 0.1,
    "prema_fairness": (1 / 12) / (1 / 2),
    # each tenant has one accelerator; a alone: 1, 2; b: 1
    "worst_rho": 6.0, "stp": 4 / 9, "stp_sum": 7 / 6, "ux_cost": (2 / 3) * (0.5 + 0.5),
    "utilisation": 12 / 18, "utilisation_effective": 4 / 18,
    # demand 6 in 0..1, 10 in 1..5 (m or m after it, and n), 6 in 5..8, 0 in 8..9
    "bandwidth_saturation": 4 / 9, "bandwidth_use": (6 + 8 * 4 + 6 * 3) / 8 / 9,
    "energy_per_request_j": 2.5, "energy_per_hit_j": 5.0, "scheduler_energy_overhead": 0.01,
    "decision_p50_s": 2e-6, "decision_p99_s": 3e-6, "decisions_per_request": 0.75, "period_in_layers": 1.5,
    "strange_share": 0.25, "alarms": 1.0, "fallback_share": 0.5,
}  # fmt: skip
AGREED = [Agreement("a", "m", Slo(0.9)), Agreement("b", "m", Slo(0.2))]


def test_a_whole_run_by_hand() -> None:
    assert summarise(TABLES, AGREED, facts=FACTS) == pytest.approx(BY_HAND)


def test_what_is_not_known_is_nan_and_the_rest_stays() -> None:
    found = summarise({"requests": TABLES["requests"]})
    absent = {name for name, value in found.items() if math.isnan(value)}
    assert absent == {name for name, metric in METRICS.items() if metric.needs}
    assert all(found[name] == pytest.approx(BY_HAND[name]) for name in METRICS if name not in absent)


def test_without_sub_jobs_utilisation_is_that_of_the_whole_run() -> None:
    found = summarise({name: TABLES[name] for name in ("requests", "accelerators")})
    assert found["utilisation"] == pytest.approx(8 / 18) and found["utilisation_effective"] == pytest.approx(
        6 / 18
    )


def test_a_recorded_run_brings_its_window_and_its_facts() -> None:
    manifest = {
        "warmup_s": 1.0, "duration_s": 3.0, "engine": {"bandwidth_bytes_s": 8.0, "period_s": 2.0}
    }  # fmt: skip
    run = RunRecords({k: v for k, v in TABLES.items() if k != "decisions"}, manifest)
    expected = summarise(run.tables, AGREED, 1.0, 3.0, Facts(bandwidth_bytes_s=8.0, period_s=2.0))
    assert summarise(run, AGREED) == pytest.approx(expected, nan_ok=True)
    assert expected["requests"] == 2 and expected["bandwidth_saturation"] == 1.0
    assert summarise(run, AGREED, warmup_s=0.0, end_s=9.5)["requests"] == 4
    assert summarise(run, facts=Facts(bandwidth_bytes_s=100.0))["bandwidth_saturation"] == 0.0
    unlimited = RunRecords(run.tables, {"engine": {"bandwidth_bytes_s": None}})
    assert summarise(unlimited)["bandwidth_use"] == 0.0


def test_recorded_pairs_serve_when_no_agreements_are_given() -> None:
    from eunomia.metrics.indicators import pair_table

    tables = TABLES | {"pairs": pair_table(TABLES, AGREED)}
    assert summarise(tables)["slo_attainment"] == 0.5 and summarise(tables)["slo_shortfall"] == pytest.approx(
        0.1
    )


@given(st.integers(0, 300), st.floats(0.01, 100.0))
def test_scaling_all_times_scales_seconds_and_leaves_shares(seed: int, factor: float) -> None:
    columns = many(seed, 50)
    scaled = {name: value * factor if name.endswith("_s") else value for name, value in columns.items()}
    plain, other = summarise({"requests": columns}), summarise({"requests": scaled})
    scale = {"s": factor, "1/s": 1.0 / factor}
    for name, metric in METRICS.items():
        expected = plain[name] * scale.get(metric.unit, 1.0)
        assert other[name] == pytest.approx(expected, rel=1e-6, nan_ok=True), name


def test_no_loop_of_python_goes_over_requests() -> None:
    columns = many(0, 1000)

    def effort(times: int) -> int:
        text = ("tenant", "model", "outcome")
        tiled = {n: np.tile(np.asarray(v, object if n in text else None), times) for n, v in columns.items()}
        tiled["request"] = np.arange(1000 * times)
        requests = {name: requests_column(value) for name, value in tiled.items()}
        count, found = lines_of(lambda: summarise({"requests": requests}, AGREED))
        assert found["requests"] > 900 * times
        return count

    effort(1)  # what is imported and compiled at the first call
    assert effort(50) < 1.5 * effort(1)


def requests_column(values: np.ndarray) -> object:
    import pyarrow as pa

    if values.dtype == object:
        return pa.chunked_array([pa.array(values, pa.string()).dictionary_encode()])
    return values


# --- between policies ------------------------------------------------------------------------------

SEEDS = {
    "edf": [{"hit_rate": 0.7, "antt": 3.0}, {"hit_rate": 0.8, "antt": 2.0}, {"hit_rate": 0.9, "antt": 1.0}],
    "fair": [
        {"hit_rate": 0.68, "antt": 4.0},
        {"hit_rate": 0.77, "antt": 3.0},
        {"hit_rate": 0.88, "antt": math.nan},
    ],
}


def test_policies_are_compared_seed_by_seed() -> None:
    found = compare(SEEDS)
    assert found.baseline == "edf" and found.policies == ["edf", "fair"]
    assert found.estimates["edf"]["hit_rate"] == interval([0.7, 0.8, 0.9])
    loss = found.differences["fair"]["hit_rate"]
    assert loss == paired_difference([0.68, 0.77, 0.88], [0.7, 0.8, 0.9])
    assert loss.mean == pytest.approx(-0.07 / 3) and loss.excludes_zero
    assert found.differences["fair"]["antt"].n == 2  # one seed without data
    assert found.differences["edf"]["hit_rate"].mean == 0.0


def test_seeds_pair_by_number_when_they_have_one() -> None:
    by_number = {"edf": {7: {"hit_rate": 0.5}, 8: {"hit_rate": 0.9}}, "fair": {8: {"hit_rate": 0.8}}}
    found = compare(by_number, baseline="edf")
    assert found.differences["fair"]["hit_rate"].n == 1
    assert found.differences["fair"]["hit_rate"].mean == pytest.approx(-0.1)
    assert found.estimates["edf"]["hit_rate"].n == 2


def test_ranking_knows_which_way_is_better() -> None:
    found = compare(SEEDS | {"failed": []})
    assert found.ranked("hit_rate") == ["edf", "fair", "failed"]
    assert found.ranked("antt") == ["edf", "fair", "failed"]


def test_an_unknown_baseline_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'edf'"):
        compare(SEEDS, baseline="edff")
    assert compare({}).policies == []

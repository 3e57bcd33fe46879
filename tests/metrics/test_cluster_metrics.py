"""Figures of cluster runs, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from eunomia.cluster.tabulate import contention
from eunomia.core.records import conform
from eunomia.metrics.cluster import CLUSTER_METRICS, job_columns, summarise_cluster, tenant_shares
from eunomia.metrics.statistics import interval
from eunomia.report.units import duration, estimate_text, value_text

JOBS = conform(
    "jobs",
    pa.table(
        {
            "job": ["a", "b", "c"],
            "tenant": ["x", "x", "y"],
            "job_type": ["m", "m", "m"],
            "scale_factor": [1, 2, 1],
            "weight": [1.0, 1.0, 1.0],
            "arrival_s": [0.0, 10.0, 20.0],
            "start_s": [0.0, 30.0, None],
            "finish_s": [100.0, 210.0, None],
            "outcome": ["finished", "finished", "unfinished"],
            "deadline_s": [90.0, 500.0, 150.0],
            "total_steps": [1.0, 1.0, 1.0],
            "steps_done": [1.0, 1.0, 0.0],
            "alone_s": [50.0, 100.0, 10.0],
            "isolated_s": [80.0, 250.0, 0.0],
            "contention": [2.0, 1.0, 1.0],
            "held_s": [100.0, 360.0, 0.0],
            "useful_s": [90.0, 300.0, 0.0],
            "overhead_s": [10.0, 20.0, 0.0],
            "lost_s": [0.0, 40.0, 0.0],
            "starts": [1, 3, 0],
            "preemptions": [0, 2, 0],
            "moves": [0, 0, 0],
            "resizes": [0, 0, 0],
            "failures": [0, 1, 0],
            "cost": [1.0, 3.0, 0.0],
        }
    ),
)
TABLES = {
    "jobs": JOBS,
    "devices": pa.table({"available_s": [920.0], "busy_s": [460.0], "count": [4]}),
}
FACTS = {"end_s": 230.0, "first_arrival_s": 0.0, "solve_median_s": 0.2, "solve_p95_s": 0.3}


def test_hours_lost_by_hand() -> None:
    m = summarise_cluster(TABLES, FACTS)
    assert m["overhead_h"] == pytest.approx(30.0 / 3600.0) and m["lost_h"] == pytest.approx(40.0 / 3600.0)


@pytest.mark.parametrize("end_s, late", [(149.0, math.nan), (150.0, 1.0), (151.0, 1.0)])
def test_an_unfinished_job_is_late_from_its_deadline_on(end_s: float, late: float) -> None:
    """Job c has not finished and is due at 150 s."""
    np.testing.assert_equal(job_columns(JOBS, end_s).late[2], late)


def test_a_job_as_quick_as_alone_is_not_above_one() -> None:
    same = JOBS.set_column(JOBS.column_names.index("isolated_s"), "isolated_s", pa.array([100.0, 200.0, 0.0]))
    m = summarise_cluster({**TABLES, "jobs": same}, FACTS)
    assert (m["rho_mean"], m["above_one"]) == (1.0, 0.0)


def test_no_device_at_any_time_is_used_by_no_share() -> None:
    never = pa.table({"available_s": [0.0], "busy_s": [0.0], "count": [0]})
    m = summarise_cluster({**TABLES, "devices": never}, FACTS)
    assert math.isnan(m["busy"]) and math.isnan(m["useful"])


def test_figures_by_hand() -> None:
    m = summarise_cluster(TABLES, FACTS)
    assert list(m) == list(CLUSTER_METRICS)
    assert (m["jobs"], m["finished"], m["unfinished"], m["dropped"]) == (3, 2, 1, 0)
    assert m["jct_mean_s"] == 150.0 and m["jct_max_s"] == 200.0
    assert m["wait_mean_s"] == 10.0
    assert m["makespan_s"] == 210.0
    assert m["rho_mean"] == pytest.approx((100 / 80 + 200 / 250) / 2)
    assert (m["rho_max"], m["unfair"], m["above_one"]) == (1.25, 0.5, 0.5)
    assert m["rho_themis_max"] == pytest.approx(200 / 100)
    assert m["jain"] == pytest.approx((0.8 + 1.25) ** 2 / (2 * (0.8**2 + 1.25**2)))
    assert (m["busy"], m["useful"]) == (pytest.approx(0.5), pytest.approx(390 / 920))
    assert m["slo_attainment"] == pytest.approx(
        1 / 3
    )  # a late, b in time, c past its deadline and not finished
    assert (m["restarts"], m["cost"], m["lost_h"]) == (2, 4.0, 40 / 3600)
    assert (m["solve_median_s"], m["solve_p95_s"]) == (0.2, 0.3)


def test_percentiles_are_nearest_ranks_of_two_hundred_jobs() -> None:
    """Completion times 1 .. 200 s, each alone in 1 s: ranks 100, 190, 198 and 200."""
    columns = pa.concat_tables([JOBS.slice(0, 1)] * 200).to_pydict()
    columns |= {"job": [str(n) for n in range(200)], "isolated_s": [1.0] * 200}
    columns |= {"arrival_s": [7.0] * 200, "finish_s": [207.0 - n for n in range(200)]}
    table = conform("jobs", pa.table(columns))
    m = summarise_cluster({**TABLES, "jobs": table}, FACTS)
    times = [m[f"jct_{name}_s"] for name in ("median", "p95", "p99", "max")]
    assert times == [100.0, 190.0, 198.0, 200.0]
    assert (m["rho_p99"], m["rho_max"]) == (198.0, 200.0)


def test_a_job_five_per_cent_over_its_share_is_not_unfair_yet() -> None:
    alone = JOBS.set_column(
        JOBS.column_names.index("isolated_s"), "isolated_s", pa.array([100 / 1.05, 150.0, 0.0])
    )
    rho = job_columns(alone, 230.0).rho[:2].tolist()
    assert rho == [1.05, 200 / 150], "the border itself is met exactly"
    assert summarise_cluster({**TABLES, "jobs": alone}, FACTS)["unfair"] == 0.5


def test_only_the_measured_jobs_count_but_the_whole_run_is_timed() -> None:
    m = summarise_cluster(TABLES, FACTS, 0, 1)
    assert (m["jobs"], m["jct_mean_s"], m["makespan_s"]) == (1, 100.0, 210.0)


def test_a_deadline_that_is_still_ahead_counts_for_nothing() -> None:
    late = job_columns(JOBS, 100.0).late
    assert late[0] == 1.0 and late[1] == 0.0 and math.isnan(late[2])


def test_contention_is_the_mean_number_present_over_a_life() -> None:
    arrival, leave = np.array([0.0, 10.0, 10.0]), np.array([20.0, 30.0, 10.0])
    assert contention(arrival, leave).tolist() == [1.5, 1.5, 1.0]


def test_shares_of_tenants_over_time() -> None:
    leases = pa.table({"job": ["a", "c"], "start_s": [0.0, 5.0], "end_s": [10.0, 20.0], "devices": [2, 1]})
    names, shares = tenant_shares(leases, JOBS, np.array([0.0, 10.0, 20.0]), 4)
    assert names == ("x", "y")
    assert shares.tolist() == [[0.5, 0.0], [0.125, 0.25]]


def test_words() -> None:
    assert [duration(s) for s in (0.0, 59.0, 600.0, 7200.0, 864000.0)] == [
        "0 s",
        "59 s",
        "10.0 min",
        "2.00 h",
        "10.00 d",
    ]
    metrics = CLUSTER_METRICS
    assert value_text(metrics["unfair"], 0.123) == "12.3 %"
    assert value_text(metrics["jct_mean_s"], math.nan) == "-"
    assert value_text(metrics["jct_mean_s"], 9000.0) == "2.50 h"
    assert estimate_text(metrics["unfair"], interval([0.1, 0.3, 0.2])) == "20.0 ±24.8 %"
    assert estimate_text(metrics["jct_mean_s"], interval([9000.0, 9180.0, 9360.0])) == "2.55 ±0.12 h"
    assert estimate_text(metrics["unfair"], interval([0.1, 0.3])) == "20.0 %"  # not ±127 %: two are too few
    assert estimate_text(metrics["finished"], interval([5.0])) == "5"

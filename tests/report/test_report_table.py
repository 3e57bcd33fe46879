"""Tables print the same numbers as text and as Markdown."""

from __future__ import annotations

import math

import pytest

from eunomia.metrics.statistics import Estimate
from eunomia.metrics.table import METRICS
from eunomia.report.table import Table, estimates_table
from eunomia.report.units import half_width_text, span, three_digits, value_text

NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


class Two:
    """Two policies, hit rates 0.5 and 0.75, no other metric."""

    policies = ("a|b", "edf")

    def estimate(self, policy: str, metric: str) -> Estimate:
        if metric != "hit_rate":
            return NOTHING
        return Estimate(0.5, 0.4, 0.6, 5) if policy == "a|b" else Estimate(0.75, math.nan, math.nan, 1)


def test_columns_without_data_are_left_out() -> None:
    table = estimates_table(Two(), METRICS)
    assert table == Table(("policy", "hit rate"), (("a|b", "50.0 ±10.0 %"), ("edf", "75.0 %")))
    assert table.text() == "policy      hit rate\na|b     50.0 ±10.0 %\nedf           75.0 %\n"
    assert table.markdown().splitlines()[2] == "| a\\|b | 50.0 ±10.0 % |"
    assert estimates_table(Two(), METRICS, short=True).rows[0] == ("a|b", "50.0 %")


def test_columns_of_names_are_flushed_left() -> None:
    table = Table(("load", "policy", "hit rate"), (("0.5", "edf", "9 %"), ("1.25", "fcfs", "10 %")), left=2)
    assert table.text() == "load  policy  hit rate\n0.5   edf          9 %\n1.25  fcfs        10 %\n"
    assert table.markdown().splitlines()[1] == "| --- | --- | ---: |"
    assert list(table.right) == [2]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 ms"), (2.5, "2.50 s"), (0.0123, "12.3 ms"), (0.00045, "450 us"), (123.4, "123 s"), (-0.002, "-2.00 ms"),
     (0.9999, "1.00 s"), (3e-9, "3 ns"), (math.inf, "no limit")],
)  # fmt: skip
def test_spans_of_time_read_well(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("hit_rate", 0.714, "71.4 %"), ("response_p99_s", 0.041, "41.0 ms"), ("energy_per_request_j", 0.0031, "3.1 mJ"),
     ("requests", 12345.0, "12,345"), ("jain_hit_rate", 0.8125, "0.812"), ("antt", math.nan, "-")],
)  # fmt: skip
def test_metrics_read_in_their_unit(name: str, value: float, text: str) -> None:
    assert value_text(METRICS[name], value) == text


def test_half_the_interval_stands_in_the_unit_of_the_mean() -> None:
    estimate = Estimate(0.0107, 0.0087, 0.0127, 5)
    assert value_text(METRICS["response_p99_s"], estimate.mean) == "10.7 ms"
    assert half_width_text(METRICS["response_p99_s"], estimate) == "±2"
    assert half_width_text(METRICS["response_p99_s"], Estimate(0.0107, math.nan, math.nan, 1)) == ""


def test_a_table_in_parts_has_every_column_once_beside_the_names() -> None:
    table = Table(("policy", "a", "bb", "ccc"), (("edf", "1", "22", "333"), ("fcfs", "4", "55", "666")))
    assert table.parts(table.width) == [table]
    parts = table.parts(14)
    assert [part.header for part in parts] == [("policy", "a", "bb"), ("policy", "ccc")]
    assert all(part.width <= 14 for part in parts) and parts[1].rows == (("edf", "333"), ("fcfs", "666"))
    assert [len(part.header) for part in table.parts(1)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("value", "text"), [(13.34, "13.3"), (0.5, "0.5"), (999.4, "999"), (999.6, "1,000"), (2353.2, "2,353")]
)
def test_large_figures_have_no_exponent(value: float, text: str) -> None:
    assert three_digits(value) == text

"""Tables print the same numbers as text, Markdown and JSON."""

from __future__ import annotations

import json
import math

import pytest

from eunomia.metrics.statistics import Estimate
from eunomia.report.assessment import metric_text
from eunomia.report.table import Table, ranked, summary_json, summary_table
from eunomia.report.units import span

NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


class Two:
    """Two policies, hit rates 0.5 and 0.75, no other metric."""

    policies = ("a|b", "edf")

    def estimate(self, policy: str, metric: str) -> Estimate:
        if metric != "hit_rate":
            return NOTHING
        return Estimate(0.5, 0.4, 0.6, 5) if policy == "a|b" else Estimate(0.75, math.nan, math.nan, 1)


def test_the_best_policy_stands_first_and_empty_columns_are_left_out() -> None:
    table = summary_table(Two())
    assert table == Table(("policy", "in time"), (("edf", "75.0 %"), ("a|b", "50.0 % ± 10.0")))
    assert table.text() == "policy        in time\nedf            75.0 %\na|b     50.0 % ± 10.0\n"
    assert table.markdown().splitlines()[3] == "| a\\|b | 50.0 % ± 10.0 |"


def test_json_has_null_for_what_is_unknown() -> None:
    numbers = json.loads(summary_json(Two()))
    assert list(numbers) == ["edf", "a|b"]
    assert numbers["edf"]["hit_rate"] == {"mean": 0.75, "low": None, "high": None, "n": 1, "unit": "share"}
    assert numbers["edf"]["antt"]["mean"] is None


def test_less_is_better_for_some() -> None:
    class Slow(Two):
        def estimate(self, policy: str, metric: str) -> Estimate:
            return Estimate(2.0 if policy == "edf" else 1.0, math.nan, math.nan, 1)

    assert ranked(Slow(), "response_p99_s") == ["a|b", "edf"]


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
     ("requests", 12345.0, "12,345"), ("jain_hit_rate", 0.8125, "0.812"), ("antt", math.nan, "n/a")],
)  # fmt: skip
def test_metrics_read_in_their_unit(name: str, value: float, text: str) -> None:
    assert metric_text(name, value) == text

"""Rates of guards: of all decisions; without a policy that counts, no number rather than 0."""

import math

import pytest

from eunomia.metrics import guards
from eunomia.metrics.run import Facts

COUNTS = {"decisions": 40, "strange": 10, "alarms": 2, "fallback": 8}


def test_rates_are_shares_of_all_decisions() -> None:
    assert guards.rate(COUNTS, "strange") == 0.25 and guards.rate(COUNTS, "fallback") == 0.2
    assert guards.count(COUNTS, "alarms") == 2.0


@pytest.mark.parametrize(
    "counts", [{}, {"decisions": 0, "strange": 0, "alarms": 0}, {"decisions": 5, "ticks": 5}]
)
def test_without_data_there_is_no_number(counts: dict[str, int]) -> None:
    assert math.isnan(guards.rate(counts, "strange")) and math.isnan(guards.count(counts, "alarms"))


def test_counts_come_from_the_manifest_of_a_run() -> None:
    assert Facts.of({"guards": COUNTS}).guards == COUNTS
    assert Facts.of({"guards": None, "engine": {"bandwidth_bytes_s": None}}).guards is None

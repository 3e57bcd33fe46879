"""The sentences of results/learned.md, on rows whose figures are known."""

import numpy as np
import pytest

from benchmarks.learned import SEEDS, TESTS, Place, Rivals, Row
from benchmarks.learned_page import average, below, closed, gains, over_seeds_and_traces, shipped_of, text_of


def row(load: float, gain: float, contention: str = "max_min") -> Row:
    """A rule at 80 %, a search at 90 %, every replication ``gain`` above the rule on every trace."""
    rule = np.full(TESTS, 0.8)
    rule[0] += 1e-6  # traces are not all alike, or no interval could leave zero out
    return Row(Place("light", 24.0, load, contention), Rivals("edf+g0.9", "edf"), rule, rule - 0.1,
               np.tile(rule + gain + 1e-3 * np.arange(TESTS), (len(SEEDS), 1)), rule + 0.1, rule + 0.2)  # fmt: skip


def test_share_of_the_gap_and_gain() -> None:
    rows = [row(0.85, 0.04), row(1.3, 0.06)]
    assert gains(rows).shape == (len(SEEDS), 2, TESTS)
    assert closed(rows, shipped_of) == pytest.approx(0.515) and closed(rows, average) == pytest.approx(0.515)
    low, high = over_seeds_and_traces(rows)
    assert low <= gains(rows).mean() <= high and high - low < 0.01


def test_rows_below_the_rule_are_named() -> None:
    rows = [row(0.85, 0.04), row(1.3, -0.02, "weighted")]
    assert below(rows, average) == "weighted light load 1.3" and below(rows[:1], average) == "nowhere"
    text = text_of(rows, {"decisions": 7})
    assert "weighted light load 1.3" in text and "decisions 7" in text and "seeds 0, 1, 2, 3, 4" in text
    assert "best rule without gate): +10.00 +-0.00 points" in text

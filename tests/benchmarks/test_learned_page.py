"""The sentences of results/learned.md, on rows whose figures are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.inference.learned import Place, Row, below, cells, closed, drawn_again, sentences

SEEDS, TESTS = 5, 4


def row(load: float, gain: float, contention: str = "max_min") -> Row:
    """A rule at 80 %, a search at 90 %, every replication ``gain`` above the rule on every trace."""
    rule = np.full(TESTS, 0.8)
    rule[0] += 1e-6  # traces are not all alike, or no interval could leave zero out
    ours = np.tile(rule + gain + 1e-3 * np.arange(TESTS), (SEEDS, 1))
    return Row(Place("light", load, contention), "edf+g0.9", rule, rule - 0.1, ours, rule + 0.1, rule + 0.2)


def test_share_of_the_gap_and_gain() -> None:
    rows = [row(0.85, 0.04), row(1.3, 0.06)]
    assert closed(rows, 0) == pytest.approx(0.515) and closed(rows) == pytest.approx(0.515)
    (low, high), _ = drawn_again(rows)
    mean = np.mean([one.gain for one in rows])
    assert low <= mean <= high and high - low < 0.01
    assert cells(rows[0])[-1] == pytest.approx(0.415) and cells(rows[0])[:4] == [
        "max_min",
        "light",
        0.85,
        "edf+g0.9",
    ]


def test_rows_below_the_rule_are_named() -> None:
    rows = [row(0.85, 0.04), row(1.3, -0.02, "weighted")]
    assert below(rows, False) == "weighted light load 1.3" and below(rows[:1], True) == "nowhere"
    text = "\n".join(sentences(rows, {"decisions": 7}))
    assert (
        "weighted light load 1.3" in text and "decisions 7" in text and "5 replications of training" in text
    )
    assert "best rule without gate): +10.00 ±0.00 points" in text

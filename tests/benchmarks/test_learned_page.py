"""The figures of results/learned.md, on rows that are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.inference.learned import Place, Row, cells, closed, drawn_again, together
from eunomia.metrics.statistics import Estimate

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
    gains = np.stack([one.gain for one in rows], axis=1)
    drawn = drawn_again(gains)
    assert drawn.low <= drawn.mean <= drawn.high and drawn.high - drawn.low < 0.01
    assert drawn.mean == pytest.approx(np.mean([one.gain for one in rows]))
    assert cells(rows[0])[-1] == pytest.approx(0.415)
    assert cells(rows[0])[:4] == ["max_min", "light", 0.85, "edf+g0.9"]


def test_figures_over_all_rows() -> None:
    made = together([row(0.85, 0.04), row(1.3, -0.02, "weighted")], {"decisions": 7})
    of = {str(line[0]): line for line in made.rows}
    assert of["shipped policy, over rows"][2] == pytest.approx(0.115)
    gate = of["the gate alone (best rule less best rule without gate), over rows"][1]
    assert isinstance(gate, Estimate) and gate.mean == pytest.approx(0.1) and gate.half_width < 1e-9
    weighted = of["replications, weighted"][1]
    assert isinstance(weighted, Estimate) and weighted.mean == pytest.approx(-0.0185)
    assert "shipped policy is significantly below the rule in 1, the mean replication in 1" in made.notes[0]
    assert "decisions 7" in made.notes[0]

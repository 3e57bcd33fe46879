"""The table of trainings that differ in their seed, on figures that are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.inference.trainings import SHIPPED, summary
from eunomia.learning.card import Card
from eunomia.metrics.statistics import Estimate

RULE = np.array([[0.5, 0.7], [0.8, 0.8]])  # two places, two traces
NUMBERS = [40, 41]


def card(seed: int, kept: bool = False) -> Card:
    validation = {"gain": 0.01 * seed, "kept_heuristic": kept}
    return {
        "training": {"seed": seed, "stage": [{"generations": 10}, {"generations": 5}]},
        "validation": validation,
    }


def test_means_intervals_and_worst_places() -> None:
    # at the first place +2 and +4 points in the mean, at the second 0 and -2: in all +1 and +1
    hits = {
        "one.json": RULE + [[0.01, 0.03], [0.0, 0.0]],
        "two.json": RULE + [[0.04, 0.04], [-0.03, -0.01]],
        SHIPPED[0]: RULE + 0.01,
        SHIPPED[1]: RULE - [[0.1, 0.1], [0.0, 0.0]],
    }
    facts = {"one.json": card(1), "two.json": card(3, kept=True), **dict.fromkeys(SHIPPED, card(0))}
    made = summary(hits, RULE, facts, NUMBERS)
    together, one, two, wide, narrow = made.rows
    first = "mean of 2 trainings, over trainings"
    assert [row[0] for row in made.rows] == [first, "seed 1", "seed 3, kept the rule", *SHIPPED]
    assert all(isinstance(cell, Estimate) for cell in together[2:6])
    assert [cell.mean for cell in together[2:6] if isinstance(cell, Estimate)] == pytest.approx(
        [0.02, 0.71, 0.01, 0.0]
    )
    assert together[4].n == 2  # type: ignore[union-attr]  # trainings, not places
    assert (
        together[6] == pytest.approx(-0.01) and together[7] == 41
    )  # mean of 0 and -2 points at the second place
    assert one[1] == 15 and one[2] == 0.01 and one[3] == pytest.approx(0.71)
    assert [row[7] for row in made.rows] == [41, 41, 41, 40, 40]
    assert [one[6], two[6], narrow[6]] == pytest.approx([0.0, -0.02, -0.1])
    assert two[5].mean == pytest.approx(0.0)  # type: ignore[union-attr]
    assert wide[5] is None
    assert "2 traces at each of 2 places" in made.notes[0] and "0.00 points" in made.notes[0]

"""The verdict on the gate counts what the lines say."""

from __future__ import annotations

import numpy as np

from benchmarks.inference.gate import MODES, POINTS, RULES, Line, by_point, fixed, split, verdict

PLAIN = np.array([0.5, 0.5, 0.51])


def lines() -> list[Line]:
    """The gate gains ten points everywhere, but for one rule at one point under one way of sharing, where it loses."""
    made = []
    for mode in MODES:
        for point in POINTS:
            for rule in RULES:
                hurt = (mode, point, rule) == ("weighted", POINTS[0], "moca")
                gated = PLAIN + (np.array([-0.1, -0.11, -0.1]) if hurt else np.array([0.1, 0.11, 0.1]))
                made.append(Line(point, mode, rule, "0.9", PLAIN, gated, PLAIN - 0.01 * np.arange(3)))
    return made


def test_gains_and_losses_are_counted_by_way_of_sharing() -> None:
    said = verdict(lines()).splitlines()
    assert (
        "**proportional**: of 40 pairs of rule and point the gate helps 40 significantly and hurts 0"
        in said[0]
    )
    assert "the gate helps 39 significantly and hurts 1" in said[2]
    assert (
        said[3]
        == "  It hurts `moca` at 16 GB/s, load 0.7 (-10.3 ± 1.4): chosen on validation, and wrong on the test."
    )


def test_the_tables_have_every_rule_and_point() -> None:
    made = lines()
    assert (
        len(split(made, POINTS).rows) == len(POINTS) and split(made, POINTS).rows[0][0] == "16 GB/s, load 0.7"
    )
    assert [row[0] for row in fixed(made, RULES).rows] == [f"`{rule}`" for rule in RULES]
    shown = by_point(made, "weighted", RULES, POINTS)
    assert shown.rows[-1][1] == "50.3, -10.3 ± 1.4 (g 0.9)" and len(shown.columns) == 1 + len(POINTS)

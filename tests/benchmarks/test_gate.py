"""The tables of the gate hold what the lines say."""

from __future__ import annotations

import numpy as np

from benchmarks.inference.gate import MODES, POINTS, RULES, Line, by_point, fixed, split

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


def test_the_tables_have_every_rule_and_point() -> None:
    made = lines()
    assert (
        len(split(made, POINTS).rows) == len(POINTS) and split(made, POINTS).rows[0][0] == "16 GB/s, load 0.7"
    )
    assert [row[0] for row in fixed(made, RULES).rows] == [f"`{rule}`" for rule in RULES]
    assert fixed(made, RULES).rows[0][1] == "-1.0; least -1.0 ± 2.5 at 16 GB/s, load 0.7"
    shown = by_point(made, "weighted", RULES, POINTS)
    assert shown.rows[-1][1] == "50.3, -10.3 ± 1.4 (g 0.9)" and len(shown.columns) == 1 + len(POINTS)

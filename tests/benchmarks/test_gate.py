"""The page of the gate says what its command would write."""

from __future__ import annotations

from benchmarks.gate import MODES, RESULTS, RULES, Line, Scale, report


def test_the_words_of_the_page_are_those_of_its_command() -> None:
    scale, same = Scale(), (0.5, 0.5)
    lines = [
        Line(p, mode, rule, "none", same, same, same)
        for p in scale.points
        for mode in MODES
        for rule in RULES
    ]
    head = report(lines, scale).partition("\n* **")[0]
    assert RESULTS.read_text(encoding="utf-8").startswith(head)

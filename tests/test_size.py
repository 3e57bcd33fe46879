"""The product does not grow back: figures of :mod:`tests.size` stay below these ceilings, which are only lowered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.size import (
    COUNTS,
    any_uses,
    format_skips,
    guide_words,
    learning_lines,
    tutorial_words,
    wide_functions,
)

ROOT = Path(__file__).resolve().parent.parent

CEILINGS = {
    "lines of learning": 9_232,  # 205 of them: one short rule in place of trees
    # 170: devices on Ray; 210: short rules; 160: a live HAProxy; 120: five trainings; 90: a rival of Irina; 100: the
    # deep policy's exam; 103: fidelity with mixed shapes, on two devices; 31: leases of Themis;
    # 37: 200 Slurm jobs, a scheduler at a time; 109: what cheats gain; 61: the twin tells other policies, and clients
    # that wait; 11: what a pause costs a network, and a part that no benchmark has;
    # 146: sizes that nobody gave; 258: networks that none of us made, and inputs made up for them;
    # 131: requests a second of a network that takes no time; 8: attacks over TLS, looks
    "lines of benchmarks and studies": 14_060,
    "functions with more than 8 parameters, not compiled": 0,
    "functions with 8 or more parameters, compiled ones too": 54,
    "uses of Any": 262,
    "fmt: skip": 163,
    "import circles": 0,
    # 120: devices on Ray; 90: groups of replicas, short rules; 150: a formula for each column of cluster reports;
    # 67: what each latency measures; 54: an example of shapes; 60: floods of frames, who is barred, sizes tried
    # 71: folders made for Triton, which of their versions and files, a server without a file, whole audit logs
    "guide words": 41_927,
    "tutorial words": 7_000,
    "lines of the longest file": 369,
}


@pytest.mark.parametrize("what", list(CEILINGS))
def test_it_does_not_grow(what: str) -> None:
    assert COUNTS[what](ROOT) <= CEILINGS[what]


def test_every_figure_has_a_ceiling() -> None:
    assert set(COUNTS) == set(CEILINGS)


def test_the_counts_are_what_they_say(tmp_path: Path) -> None:
    package, docs = tmp_path / "eunomia", tmp_path / "docs"
    (package / "learning").mkdir(parents=True)
    (docs / "results").mkdir(parents=True)
    nine = "a, b, c, d, e, f, g, *, h, i"
    (package / "learning" / "one.py").write_text(
        "from typing import Any\n\n\n"
        f"def wide({nine}, **rest: Any) -> Any:\n    return a  # fmt: skip\n\n\n"
        f"@jitted(inline=True)\ndef machine({nine}):\n    return a\n\n\n"
        "def eight(a, b, c, d, e, f, g, h, *others):\n    return a\n"
    )
    (docs / "guide.md").write_text("# Four words in all\n")
    (docs / "results" / "made.md").write_text("any number of words\n")
    (docs / "tutorials").mkdir()
    (docs / "tutorials" / "one.md").write_text("three more words\n")
    assert learning_lines(tmp_path) == 14
    assert wide_functions(tmp_path) == 1
    assert any_uses(tmp_path) == 2
    assert format_skips(tmp_path) == 1
    assert tutorial_words(tmp_path) == 3
    assert guide_words(tmp_path) == 5  # the mark of the heading stands between blanks, too

"""The check of words finds what it is meant to find, and nothing in good prose."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The policy is told the bandwidth.\n", "is told"),
        ("Promises kept: 93 %.\n", "Promises kept"),
        ("It equals its plain twin.\n", "plain twin"),
        ("x" * 121 + "\n", "121 characters"),
    ],
)
def test_a_planted_fault_in_a_document_is_found(tmp_path: Path, text: str, found: str) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n" + text)
    (fault,) = words.in_files([page])
    assert found in fault and ":3:" in fault


def test_code_tables_and_links_may_be_long_and_name_anything(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        f"```\nis told {'x' * 130}\n```\n\n| {'x' * 130} |\n\n`plain twin` and [a link](https://{'x' * 130})\n"
    )
    assert list(words.in_files([page])) == []


@pytest.mark.parametrize("start", ["", "* ", "12. ", "+ "])
def test_long_sentences_of_paragraphs_and_lists_are_named(tmp_path: Path, start: str) -> None:
    page = tmp_path / "page.md"
    page.write_text("One two three.\n\n" + start + "word " * 13 + "\n  " + "word " * 13 + "end.\n")
    (fault,) = words.in_files([page])
    assert ":3: a sentence of 27 words" in fault


def test_a_sentence_of_25_words_passes_and_operators_are_no_words(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("of " * 24 + "it.\n\n* " + "a + " * 24 + "b.\n* " + "of " * 13 + "it\n\n" + "of " * 13)
    assert list(words.in_files([page])) == []


def test_docstrings_have_short_sentences_beside_formulas_and_code(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    long, code = "word " * 26 + "end.", f"``{'word ' * 30}``"
    module.write_text(f'''"""First {code}.\n\n    x = {long}\n\n* {long}\n"""\n\ntext = "{long}"\n''')
    (fault,) = words.in_files([module])
    assert ":5: a sentence of 27 words" in fault


def test_sources_are_checked_in_comments_and_strings_only(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""First.\n\nThe engine gives way."""\n\nthat_which = 1  # the device was told\n')
    faults = list(words.in_files([module]))
    assert [fault.split(":")[-3] for fault in faults] == ["3", "5"]


def test_subjects_of_commits() -> None:
    lines = ["abc1234 Add a check", f"abc1235 {'x' * 73}", "abc1236 Add another one."]
    faults = list(words.subjects(lines))
    assert [fault.split(":")[0] for fault in faults] == ["commit abc1235", "commit abc1236"]

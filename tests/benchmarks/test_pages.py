"""Every page of results is made from its text and its stored tables, and names where its figures come from."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchmarks import page
from benchmarks.catalogue import BENCHMARKS, find
from benchmarks.table import Measured, Table, load, table, text
from eunomia.metrics.statistics import interval

PAGES = sorted(path.stem for path in page.TEXTS.glob("*.md"))
PUBLISHED = sorted(
    path.stem for path in page.RESULTS.glob("*.md") if path.stem != "README"
)  # a reading of them all


def sources(content: str) -> list[list[str]]:
    """Cells of the lines under ``command | commit | date | machine``."""
    lines = content.splitlines()
    start = lines.index("| " + " | ".join(page.HEAD) + " |") + 2
    end = next(n for n in range(start, len(lines)) if not lines[n].startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[start:end]]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_text_and_its_data_make(name: str) -> None:
    assert (page.RESULTS / f"{name}.md").read_text(encoding="utf-8") == page.render(name)


def test_every_page_is_made_by_a_benchmark_or_by_a_study() -> None:
    assert set(PUBLISHED) == {*PAGES, "baselines"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_page_names_command_commit_date_and_machine(name: str) -> None:
    found = sources((page.RESULTS / f"{name}.md").read_text(encoding="utf-8"))
    assert found
    for command, commit, date, machine in found:
        words = shlex.split(command.split("`")[1])
        if words[:3] == ["python", "-m", "benchmarks"]:
            assert words[3] in BENCHMARKS, command
        else:
            assert words[:2] == ["eunomia", "study"] and (page.ROOT / words[2]).is_file(), command
        assert re.fullmatch(r"[0-9a-f]{7}\+?", commit) and re.fullmatch(r"\d{4}-\d\d-\d\d", date) and machine


def test_every_stored_table_is_shown_and_every_benchmark_can_be_loaded() -> None:
    texts = "".join((page.TEXTS / f"{name}.md").read_text(encoding="utf-8") for name in PAGES)
    for path in (page.RESULTS / "data").glob("*.json"):
        assert path.stem in BENCHMARKS
        for key in page.stored(path.stem):
            assert f"{{{{{path.stem}.{key}}}}}" in texts, f"{path.name}: {key} is on no page"
    for name in BENCHMARKS:
        assert name in texts or not page.pages_of(name)


def test_a_bar_in_a_command_does_not_end_its_cell() -> None:
    made = page.header([Measured("python -m benchmarks deep --set 'learners=PPO|SAC'", "a", "b", "c")])
    assert "learners=PPO\\|SAC" in made


def test_a_table_is_stored_and_read_back_and_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    source = Measured("python -m benchmarks engine", "abcdef1", "2026-01-01", "a machine")
    rows = [("one", 1.5, interval([0.70, 0.72, 0.74]), None), ("two", float("nan"), interval([0.5]), True)]
    made = table("t", "what; s|.1f; hits|.1%; fine", rows, ["A note."])
    page.store("some", [Table("t", made.columns, made.rows, made.notes, {}, source)])
    page.store("some", [table("other", "a; b|+.1p", [("x", 0.0123)])])
    again = page.stored("some")
    assert list(again) == ["t", "other"] and again["t"].measured == source
    assert str(again["t"]).splitlines() == [
        "| what | s | hits | fine |",
        "| --- | ---: | ---: | --- |",
        "| one | 1.5 | 72.0 % ± 5.0 |  |",
        "| two | - | 50.0 % | yes |",
        "",
        "± or [ ]: 95 % interval, n = 3.",
        "",
        "A note.",
    ]
    assert str(again["other"]).splitlines()[-1] == "| x | +1.2 |"
    assert load("t", made.dump()).rows[0] == made.rows[0] and text(interval([1.0, 3.0]), "+.0p").startswith(
        "+200 ± "
    )


def test_the_quick_run_of_a_benchmark_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.__main__ import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    main(["pool", "--quick"])
    printed = capsys.readouterr().out
    assert "| stable: HTAS |" in printed and list(tmp_path.iterdir()) == []
    main(["--list"])
    assert set(BENCHMARKS) <= {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert find("pool").__module__ == "benchmarks.cluster.pool"


@pytest.mark.parametrize("name, row", [("gate", "| `edf+eft` |"), ("deferrable-jobs", "| rolling plan |")])
def test_a_quick_run_prints_its_tables(
    name: str, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.__main__ import main

    monkeypatch.chdir(tmp_path)
    main([name, "--quick"])
    assert row in capsys.readouterr().out

"""A ledger that something else has damaged: what can be read counts, what cannot is pointed out or refused."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from eunomia.core.errors import EunomiaError, OutputError, RecordError
from eunomia.serving.observe import ledger as module
from eunomia.serving.observe.ledger import Ledger
from tests.serving.test_ledger import counts, request

FIRST = "journal-00000000.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of six requests."""
    ledger = Ledger(tmp_path)
    for n in range(6):
        ledger.record(request(), float(n))
    ledger.close()
    return tmp_path


def opened(folder: Path, caplog: pytest.LogCaptureFixture) -> tuple[int, str]:
    """Requests that count, and what the log says."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="eunomia.serving"):
        found = counts(folder)
    return found.get(("gold", "m"), {}).get("hit", 0), "\n".join(r.getMessage() for r in caplog.records)


def compact(folder: Path) -> None:
    ledger = Ledger(folder)
    ledger.compact()
    ledger.close()


def test_a_whole_ledger_is_taken_up_without_a_word(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert opened(folder, caplog) == (6, "")
    compact(folder)
    (folder / "notes.txt").write_text("of somebody")
    (folder / "journal-2026-01-01.log").write_text("of another program")
    assert opened(folder, caplog) == (6, "")


@pytest.mark.parametrize("cut", [1, 3, 40])
def test_a_torn_last_line_is_said(cut: int, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = (folder / FIRST).read_bytes()
    (folder / FIRST).write_bytes(content[:-cut])
    kept, said = opened(folder, caplog)
    if cut == 1:  # its end of line alone
        assert (kept, said) == (6, "")
        return
    left = len(content.split(b"\n")[5]) - cut + 1
    assert kept == 5 and f"{FIRST}, line 6, has no end: {left} bytes of one request are left out" in said
    assert (folder / FIRST).read_bytes() == content[:-cut]  # new lines stand in a journal of their own


def test_garbage_in_the_middle_is_said_with_file_and_line(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = (folder / FIRST).read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"hit", b"bit")
    lines[4] = b"\x00" * 50
    (folder / FIRST).write_bytes(b"\n".join(lines))
    kept, said = opened(folder, caplog)
    size = len(lines[2]) + 50
    assert kept == 4 and f"{FIRST} is damaged from line 3 on: {size} bytes in 2 places cannot be read" in said
    assert "all other requests count (4)" in said and "from a backup" in said


def test_a_damaged_journal_is_kept_when_its_sums_are_written(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"garbage\n" + (folder / FIRST).read_bytes()
    (folder / FIRST).write_bytes(content)
    monkeypatch.setattr(module, "SEGMENT_BYTES", 100)
    ledger = Ledger(folder)
    for n in range(6):
        ledger.record(request(), float(n))
    ledger.close()
    assert (folder / f"{FIRST}.damaged").read_bytes() == content and not (folder / FIRST).exists()
    assert opened(folder, caplog) == (12, "")


def test_a_file_of_another_program_is_left_as_it_is(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = b"2026-01-01 12:00:00 INFO started\n" * 40
    (folder / FIRST).write_bytes(other)
    kept, said = opened(folder, caplog)
    assert kept == 0 and "is damaged from line 1 on: 1280 bytes in 40 places" in said
    assert (folder / FIRST).read_bytes() == other


def test_missing_journals_are_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger(folder)
    ledger.compact()
    ledger.record(request(), 7.0)
    ledger.close()
    (folder / "journal-00000004.log").write_bytes((folder / "journal-00000001.log").read_bytes())
    kept, said = opened(folder, caplog)
    assert kept == 8 and "2 journals, journal-00000002.log the first, are missing. What stood there" in said
    (folder / "journal-00000004.log").unlink()
    (folder / "snapshot.json").unlink()
    kept, said = opened(folder, caplog)
    assert kept == 1 and f"{FIRST} is missing, or snapshot.json, which holds the sums" in said


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "\xff", '{"segment": 1, "usage": 3}', '{"segment": 1, "usage": [["a", "b"]]}'],
)
def test_a_damaged_snapshot_is_refused(text: str, folder: Path) -> None:
    snapshot = folder / "snapshot.json"
    snapshot.write_text(text, encoding="latin-1")
    with pytest.raises(
        RecordError, match=r"snapshot.json is damaged \(.*Put it back from a backup; or move it away"
    ):
        Ledger(folder)
    snapshot.unlink()
    assert counts(folder) == {("gold", "m"): {"hit": 6}}  # nothing is held open or changed


def test_a_snapshot_cut_short_is_refused(folder: Path) -> None:
    compact(folder)
    snapshot = folder / "snapshot.json"
    content = snapshot.read_text()
    assert json.loads(content)["segment"] == 1
    snapshot.write_text(content[: len(content) // 2])
    with pytest.raises(RecordError, match="is damaged"):
        Ledger(folder)


@pytest.mark.parametrize("name", [FIRST, "snapshot.json", "lock"])
def test_a_directory_in_place_of_a_file_is_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(
        OutputError, match=rf"{name} cannot be used: Is a directory; .* move the directory away"
    ):
        Ledger(tmp_path)


def test_a_file_that_may_not_be_read_is_refused_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, os.strerror(13), str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)  # the tests may run as root
    with pytest.raises(
        OutputError, match=rf"{FIRST} cannot be used: Permission denied; give the user"
    ) as told:
        Ledger(folder)
    assert isinstance(told.value, EunomiaError)

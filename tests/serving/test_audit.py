"""The audit log: a line for every request, in files that rotate; and who may read what the server keeps."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from eunomia.serving.observe import audit as audits
from eunomia.serving.observe.audit import NOW, Audit
from eunomia.serving.observe.ledger import Ledger
from eunomia.serving.observe.refusals import BURST, PER_S, Refusals
from eunomia.serving.observe.retired import Retired
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant
from tests.patience import until_async
from tests.serving.live import GOLD, SIDE, SILVER, ask, running

TENSOR = {"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], "data": [0.0] * (3 * SIDE * SIDE)}


def lines(folder: Path) -> list[dict[str, Any]]:
    """All lines of all files, oldest first."""
    files = sorted(folder.glob("audit-*.jsonl"), key=lambda p: (len(p.name), p.name))
    return [
        json.loads(line) for path in [*files, folder / NOW] for line in path.read_text().splitlines() if line
    ]


def test_every_request_has_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    with running(tmp_path, audit_dir=folder) as server:
        path = "/v2/models/small/infer"
        assert ask(server, "POST", path, GOLD, {"id": "a\nb", "inputs": [TENSOR]})[0] == 200
        small = {**TENSOR, "shape": [1, 3, 8, 8], "data": [0.0] * 192}
        assert ask(server, "POST", path, SILVER, {"id": "7", "inputs": [small]})[0] == 400
        assert ask(server, "POST", "/v2/models/nobody/infer", SILVER, {"inputs": [TENSOR]})[0] == 404
    keys = ("tenant", "model", "request", "outcome")
    found = [tuple(line[key] for key in keys) for line in lines(folder)]
    assert found == [
        ("gold", "small", "a\nb", "hit"),
        ("silver", "small", "7", "bad_request"),
        ("silver", "nobody", "", "not_found"),
    ]
    assert lines(folder)[0]["response_ms"] > 0 and "response_ms" not in lines(folder)[1]
    assert stat.S_IMODE((folder / NOW).stat().st_mode) == 0o600


def test_it_rotates_and_sums_nothing_away(tmp_path: Path) -> None:
    audit = Audit(tmp_path, segment_bytes=500)
    for n in range(40):
        audit.record("gold", "small", str(n), "hit", 0.001)
    audit.close()
    assert len(list(tmp_path.iterdir())) > 5
    assert sorted(int(line["request"]) for line in lines(tmp_path)) == list(range(40))


def test_it_begins_a_file_where_somebody_has_moved_the_last(tmp_path: Path) -> None:
    """As it was, all that followed went into the one that was moved, for ever."""
    audit = Audit(tmp_path, segment_bytes=500)
    (tmp_path / NOW).rename(tmp_path / "audit-moved.jsonl")
    for n in range(10):
        audit.record("gold", "small", str(n), "hit", 0.001)
    audit.close()
    assert (tmp_path / NOW).exists() and len(list(tmp_path.iterdir())) > 2
    assert sorted(int(line["request"]) for line in lines(tmp_path)) == list(range(10))


def full(file: int, content: bytes) -> int:
    """``os.write`` of a full disk."""
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_loses_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    audit = Audit(tmp_path)
    monkeypatch.setattr(os, "write", full)
    for n in range(3):
        audit.record("gold", "small", str(n), "hit")
    monkeypatch.setattr(os, "write", write)
    audit.close()
    assert [line["request"] for line in lines(tmp_path)] == ["0", "1", "2"]


def test_a_disk_that_takes_a_part_of_a_line_tears_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As it was, the line ended what there was of it before: a full disk has no room for an end of line either."""
    write, room = os.write, 350

    def little(file: int, content: bytes) -> int:
        left = room - os.fstat(file).st_size
        return write(file, content[:left]) if left else full(file, content)

    audit = Audit(tmp_path)
    monkeypatch.setattr(os, "write", little)
    for n in range(6):
        audit.record("gold", "small", str(n), "hit")
    assert 0 < len(audit.held) < 5 and caplog.text.count("cannot be written") == 1
    monkeypatch.setattr(os, "write", write)
    audit.close()
    assert [line["request"] for line in lines(tmp_path)] == [*"012345"]


def test_a_disk_that_fails_at_the_end_keeps_no_server_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    audit = Audit(tmp_path)
    monkeypatch.setattr(os, "write", full)
    audit.record("gold", "small", "1", "hit")
    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", lambda file: full(file, b""))
        audit.close()
    assert (
        "ends without lines that the disk refuses: 1" in caplog.text and "may not be on disk" in caplog.text
    )


def test_a_request_that_ends_after_the_server_writes_into_no_file_of_others(tmp_path: Path) -> None:
    audit, ledger = Audit(tmp_path / "audit"), Ledger(tmp_path / "ledger")
    audit.close()
    ledger.close()
    with ExitStack() as stack:
        others = [
            stack.enter_context((tmp_path / f"{n}").open("w+")) for n in range(9)
        ]  # numbers are used again
        audit.record("gold", "small", "1", "hit", 0.001)
        ledger.record(Retired("gold", "small", "hit", 0.1, 0.0, 0.1, 1, 0, 1.0), 0.0)
        assert not any(os.fstat(file.fileno()).st_size for file in others)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that budgets of refusals go by."""
    now = [0.0]
    monkeypatch.setattr(audits, "Refusals", lambda: Refusals(lambda: now[0]))
    return now


def test_a_flood_of_refusals_is_counted_and_takes_no_line_of_others(
    tmp_path: Path, clock: list[float]
) -> None:
    """As it was, a tenant wrote a line for each: 0.7 MB a second on a small machine."""
    audit = Audit(tmp_path)
    for n in range(20_000):
        clock[0] = n / 4000
        audit.record("silver", "small", str(n), "limit" if n % 5 else "not_found")
        if n % 200 == 0:
            audit.record("gold", "small", str(n), "not_found")  # a few
            audit.record("silver", "small", "own", "hit", 0.001)  # accepted: all of them
    clock[0] = 16.0
    audit.record("gold", "small", "last", "hit", 0.001)
    found = lines(tmp_path)
    assert sum(line["tenant"] == "gold" for line in found) == 101
    assert sum(line["request"] == "own" for line in found) == 100
    refused = [
        line for line in found if line["tenant"] == "silver" and line["outcome"] in ("limit", "not_found")
    ]
    assert len(refused) == pytest.approx(BURST + 5 * PER_S, abs=2)
    (counted,) = [line for line in found if line["outcome"] == "left_out"]
    assert counted["tenant"] == "silver" and set(counted["left_out"]) == {"limit", "not_found"}
    assert sum(counted["left_out"].values()) + len(refused) == 20_000
    audit.record("silver", "small", "again", "limit")  # it has a budget again
    audit.close()
    assert lines(tmp_path)[-1]["request"] == "again"


def test_an_operator_may_want_a_line_for_each(tmp_path: Path, clock: list[float]) -> None:
    audit = Audit(tmp_path, whole=True)
    for n in range(int(BURST) + 7):
        audit.record("silver", "small", str(n), "limit")
    audit.close()
    assert [line["request"] for line in lines(tmp_path)] == [str(n) for n in range(int(BURST) + 7)]


def test_what_was_left_out_is_written_at_the_end(tmp_path: Path, clock: list[float]) -> None:
    audit = Audit(tmp_path)
    for _ in range(int(BURST) + 7):
        audit.record("silver", "small", "", "limit")
    audit.close()
    assert lines(tmp_path)[-1]["left_out"] == {"limit": 7}


def test_what_waits_is_written_though_nobody_asks_again(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, the numbers of a flood waited for the next request, and so did lines that the disk had refused."""
    monkeypatch.setattr(audits, "EVERY_S", 0.01)

    async def main() -> None:
        audit = Audit(tmp_path)
        for _ in range(int(BURST) + 7):
            audit.record("silver", "small", "", "limit")
        clock[0] = 60.0
        await until_async(lambda: lines(tmp_path)[-1].get("left_out") == {"limit": 7})
        with monkeypatch.context() as full:
            full.setattr(os, "write", lambda file, content: 0)
            audit.record("gold", "small", "held", "hit", 0.001)
        await until_async(lambda: lines(tmp_path)[-1]["request"] == "held")
        audit.close()

    asyncio.run(main())


def test_while_the_disk_is_full_a_flood_costs_its_own_lines_and_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, a flood pushed out what was held for others, without a word."""
    monkeypatch.setattr(audits, "MAX_HELD", 20)
    write = os.write

    audit = Audit(tmp_path)
    monkeypatch.setattr(os, "write", full)
    for n in range(5):
        audit.record("gold", "small", str(n), "hit", 0.001)
    for n in range(100):
        audit.record("silver", "small", str(n), "hit", 0.001)
    monkeypatch.setattr(os, "write", write)
    audit.close()
    found = lines(tmp_path)
    assert [line["request"] for line in found if line["tenant"] == "gold"] == ["0", "1", "2", "3", "4"]
    silver = [line for line in found if line["tenant"] == "silver"]
    assert [line["request"] for line in silver[:-1]] == [str(n) for n in range(85, 100)]
    assert silver[-1]["outcome"] == "left_out" and silver[-1]["left_out"] == {"disk": 85}


def test_nobody_else_reads_the_tenants(tmp_path: Path) -> None:
    """SQLite's file and its ``-wal``, new or left world-readable by an earlier version."""
    place = tmp_path / "tenants.db"
    for _ in range(2):
        directory = DatabaseDirectory(f"sqlite:///{place}")
        directory.put(Grant("gold"))
        for path in tmp_path.glob("tenants.db*"):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        directory.close()
        place.chmod(0o644)

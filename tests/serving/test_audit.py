"""The audit log: a line for every request, in files that rotate; and who may read what the server keeps."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from eunomia.serving.observe.audit import NOW, Audit
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant
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


def test_a_full_disk_loses_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def full(file: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    audit = Audit(tmp_path)
    monkeypatch.setattr(os, "write", full)
    for n in range(3):
        audit.record("gold", "small", str(n), "hit")
    monkeypatch.setattr(os, "write", write)
    audit.close()
    assert [line["request"] for line in lines(tmp_path)] == ["0", "1", "2"]


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

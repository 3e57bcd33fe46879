"""A server tells the makers of its parts nothing of what it serves."""

from __future__ import annotations

import os
from pathlib import Path

from tests import children
from tests.serving.process import process, write_server

TELLS = "ORT_DISABLE_TELEMETRY"


def started(home: Path) -> dict[str, str]:
    """Where a user of this home starts programs, who has set nothing of the kind."""
    kept = {key: value for key, value in os.environ.items() if key not in (TELLS, "XDG_CACHE_HOME", "CI")}
    return {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / "caches")}


def test_no_process_of_a_server_queues_anything(tmp_path: Path) -> None:
    """ONNX Runtime keeps in the user's caches what it is about to send: names, times, texts of errors."""
    home = tmp_path / "home"
    home.mkdir()
    with process(write_server(tmp_path), environment=started(home)) as server:
        assert server.infer() == 200
    assert [each for each in home.rglob("*") if "onnxruntime" in each.name] == []


def test_an_operator_may_leave_it_on() -> None:
    asks = f"import os, eunomia.serving; print(os.environ['{TELLS}'])"
    assert children.run(children.python("-c", asks), env={**os.environ, TELLS: "0"}).stdout == "0\n"

"""What was loaded from ``models_dir`` serves again after a restart, and what was unloaded does not."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from eunomia.core.errors import OutputError
from eunomia.serving.models import again
from eunomia.serving.models.again import load_again
from eunomia.serving.models.remembered import Remembered
from eunomia.serving.protocol.errors import Unavailable
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S
from tests.serving.live import ADMIN, GOLD, ask, running
from tests.serving.process import ports, process, write_server
from tests.serving.test_versions import index, infer, load, put, times


def told(server: Server) -> str:
    """What a request hears that cannot be served."""
    tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}
    return str(ask(server, "POST", "/v2/models/times/infer", GOLD, {"inputs": [tensor]})[1]["error"])


def unload(server: Server) -> int:
    return ask(server, "POST", "/v2/repository/models/times/unload", ADMIN)[0]


def kept(folder: Path) -> Any:
    """What stands on disk."""
    (path,) = (folder / "cache").glob("loaded-*.json")
    return json.loads(path.read_text())["loaded"]


def test_what_was_loaded_serves_after_a_restart_and_what_was_unloaded_does_not(tmp_path: Path) -> None:
    put(tmp_path, 1)
    models = tmp_path / "models"
    with running(tmp_path, models_dir=models) as server:
        assert told(server) == (
            "model 'times' is not ready: not loaded; an administrator loads it by POST "
            "/v2/repository/models/times/load, or a start with load_all = true"
        )
        load(server)
        assert kept(tmp_path) == {"times": ["1"]}
    with running(tmp_path, models_dir=models) as server:
        assert infer(server) == ("1", 1.0)
        assert unload(server) == 200 and kept(tmp_path) == {}
    with running(tmp_path, models_dir=models) as server:
        assert infer(server)[0] == "503" and "administrator loads it" in told(server)
        load(server)
    with running(tmp_path, models_dir=models, host="127.0.0.2") as server:
        assert not server.service.repository.ready_versions("times")  # another server's is its own


def test_the_versions_that_served_do_even_if_a_newer_one_has_come(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        put(tmp_path, version)
    models = tmp_path / "models"
    with running(tmp_path, models_dir=models, versions=2) as server:
        load(server)
        assert kept(tmp_path) == {"times": ["3", "2"]}
        put(tmp_path, 4, b"half of a file")
    with running(tmp_path, models_dir=models, versions=2) as server:
        assert [infer(server, version)[0] for version in ("", "3", "2", "4")] == ["3", "3", "2", "503"]
    put(tmp_path, 3, b"broken")
    with running(tmp_path, models_dir=models, versions=2) as server:
        assert infer(server) == ("2", 2.0)
        assert index(server) == {"1": "UNAVAILABLE", "2": "READY", "3": "UNAVAILABLE", "4": "UNAVAILABLE"}


def test_one_that_does_not_load_holds_nobody_up_and_one_without_a_file_waits_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, 1)
    models = tmp_path / "models"
    with running(tmp_path, models_dir=models) as server:
        load(server)
    put(tmp_path, 1, b"broken")
    with running(tmp_path, models_dir=models) as server:
        assert ask(server, "GET", "/v2/health/ready", "")[0] == 200
        assert "it is no ONNX file" in told(server) and index(server) == {"1": "UNAVAILABLE"}
        assert "network 'times' was loaded before, and does not load now" in caplog.text
    put(tmp_path, 1)  # mended: it is remembered still
    with running(tmp_path, models_dir=models) as server:
        assert infer(server) == ("1", 1.0)
    shutil.move(models / "times", tmp_path / "elsewhere")  # as a folder that is not mounted yet
    with running(tmp_path, models_dir=models):
        assert "network 'times' was loaded before, and has no file now" in caplog.text
    shutil.move(tmp_path / "elsewhere", models / "times")
    with running(tmp_path, models_dir=models) as server:
        assert infer(server) == ("1", 1.0)


def test_kill_9_loses_nothing(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "times.onnx").write_bytes(times(3.0))
    file = write_server(tmp_path, models_dir=str(models), **ports())
    asked = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
    with process(file) as server:
        assert server.ask("/v2/repository/models/times/load", {})[0] == 200
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(PATIENCE_S)
    with process(file) as server:
        status, answer = server.ask("/v2/models/times/infer", asked, GOLD)
        assert status == 200 and answer["outputs"][0]["data"] == [3.0]


def test_what_cannot_be_written_down_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 1)
    with running(tmp_path, models_dir=tmp_path / "models") as server:

        def full(*_: object) -> None:
            raise OutputError("cannot write: the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(Remembered, "write", full)
            load(server, "it is done, but a restart will not know of it: cannot write: the disk is full")
            assert infer(server) == ("1", 1.0)
        load(server)  # again, with room
        assert kept(tmp_path) == {"times": ["1"]}
        monkeypatch.setattr(Remembered, "write", full)
        assert unload(server) == 503 and infer(server)[0] == "503"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"loaded": 3}', '{"loaded": {"a": ["x"]}}', '{"loaded": {"a": 1}}']
)
def test_a_file_that_nobody_wrote_counts_as_none(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    there = Remembered(tmp_path, "host:1", tmp_path)
    there.path.write_text(text)
    assert there.read() == {} and "must be loaded again" in caplog.text


def test_names_that_are_paths_are_passed_over_and_a_device_that_died_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    there = Remembered(tmp_path, "host:1", tmp_path)
    there.write({"a": ["2", "1"], "../b": ["1"]})
    assert there.read() == {"a": ["2", "1"]}
    assert Remembered(tmp_path, "host:1", None).read() == {}
    monkeypatch.setattr(again, "AWAY_S", 0.0)
    asked: list[list[str]] = []
    failures: list[Exception] = [Unavailable("no room for the list"), RuntimeError("a fault of ours")]

    class Networks:
        remembered = there.read()

        def ready_versions(self, name: str) -> list[str]:
            return []

        def has(self, name: str) -> bool:
            return True

        async def load(self, name: str, only: list[str], *, tell: bool) -> None:
            asked.append([*only])
            if len(asked) < 3:
                raise Unavailable("its device is away", retry_after_s=1.0)
            raise failures.pop()

    networks: Any = Networks()
    asyncio.run(load_again(networks))
    assert asked == [["1", "2"]] * 3 + [["1"]]  # what no one foresaw ends no start
    assert "a fault of ours" in caplog.text


def test_a_network_that_the_new_file_left_out_is_told_from_one_whose_folder_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After a takeover with another file the log promised that the network would come back."""
    networks = Mock(
        remembered={"away": ["1"]}, ready_versions=Mock(return_value=[]), has=Mock(return_value=False)
    )
    asyncio.run(load_again(networks, ["away", "dropped"]))
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "network 'away' was loaded before",
        "network 'dropped' served until now",
    ]

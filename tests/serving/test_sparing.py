"""A process stands by for its device, with the same networks, and takes its place at once."""

from __future__ import annotations

import asyncio
import os
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.devices import memory, sparing
from eunomia.serving.devices.device import Device, DeviceSpec
from eunomia.serving.devices.messages import Message
from eunomia.serving.devices.process import DeviceProcess
from eunomia.serving.devices.spare import Spare
from eunomia.serving.devices.sparing import Sparing
from eunomia.serving.models.convolutional import mobilenet_v2
from eunomia.serving.server import Server
from tests.patience import pauses, until
from tests.serving.live import ADMIN, GOLD, SIDE, ask, running

PICTURE = np.random.default_rng(0).random((1, 3, SIDE, SIDE), np.float32)


@contextmanager
def sparing_server(folder: Path, patch: pytest.MonkeyPatch, **changes: object) -> Iterator[Server]:
    """One device for which another process stands by."""
    patch.setattr(sparing, "LOOK_S", 0.01)
    patch.setattr(sparing, "AFTER_S", 0.01)
    with running(folder, devices=[DeviceSpec("cpu", spare=True)], **changes) as server:
        until(lambda: stands_by(server, "small"))
        yield server


def stands_by(server: Server, *names: str) -> bool:
    """Whether just these networks are kept there."""
    device = server.pool.devices[0]
    kept = {label.split("#")[0] for label in device.spare.kept} if device.spare else set()
    return device.stands_by and kept == set(names)


def scores(server: Server) -> list[float]:
    """What gold is answered."""
    tensor = {
        "name": "image",
        "datatype": "FP32",
        "shape": list(PICTURE.shape),
        "data": PICTURE.ravel().tolist(),
    }
    status, answer = ask(server, "POST", "/v2/models/small/infer", GOLD, {"inputs": [tensor]})
    assert status == 200, answer
    found: list[float] = answer["outputs"][0]["data"]
    return found


def test_it_takes_the_place_of_a_device_that_dies_and_another_stands_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sparing_server(tmp_path, monkeypatch) as server:
        device = server.pool.devices[0]
        for deaths in (1, 2):
            wanted, pid, next_pid = scores(server), device.pid, device.spare.process.pid
            loads = Mock(wraps=device.tell)
            monkeypatch.setattr(device, "tell", loads)
            os.kill(pid, signal.SIGKILL)
            until(lambda deaths=deaths: server.pool.deaths == deaths and server.pool.recovery.whole(0))
            assert device.pid == next_pid and device.restarts == deaths
            assert scores(server) == wanted
            assert not [c for c in loads.call_args_list if c.args[0]["kind"] == "load"], (
                "nothing is loaded again"
            )
            until(lambda: stands_by(server, "small"))


def test_it_follows_what_is_in_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sparing_server(tmp_path, monkeypatch) as server:
        (tmp_path / "other.onnx").write_bytes(mobilenet_v2(side=SIDE))
        assert ask(server, "POST", "/v2/repository/models/other/load", ADMIN, {})[0] == 200
        until(lambda: stands_by(server, "small", "other"))
        assert ask(server, "POST", "/v2/repository/models/other/unload", ADMIN, {})[0] == 200
        until(lambda: stands_by(server, "small"))


def test_the_metrics_tell_of_it_and_what_runs_networks_there_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sparing_server(tmp_path, monkeypatch) as server:
        page = urllib.request.Request(
            f"http://127.0.0.1:{server.http_port}/metrics", headers={"Authorization": f"Bearer {ADMIN}"}
        )
        with urllib.request.urlopen(page) as answer:
            assert 'eunomia_device_stands_by{device="cpu"} 1.0' in answer.read().decode()
        spare = server.pool.devices[0].spare
        assert spare is not None
        assert os.sched_getscheduler(spare.process.pid) == os.SCHED_OTHER, "of the thread that runs networks"


def test_without_memory_for_it_nothing_stands_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparing, "LOOK_S", 0.01)
    looked = Mock(return_value=0.0)
    monkeypatch.setattr(sparing, "free_bytes", looked)
    with running(tmp_path, devices=[DeviceSpec("cpu", spare=True)]) as server:
        until(lambda: looked.call_count > 3)
        assert server.pool.devices[0].spare is None
        assert len(scores(server)) == 10


def test_one_that_loads_is_not_taken_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sparing_server(tmp_path, monkeypatch) as server:
        device = server.pool.devices[0]
        spare = device.spare
        assert spare is not None
        spare._loading = Mock(done=lambda: True)  # for as long as it takes
        os.kill(device.pid, signal.SIGKILL)
        until(lambda: server.pool.deaths == 1 and server.pool.recovery.whole(0))
        assert device.pid != spare.process.pid
        until(lambda: not alive(spare.process.pid))
        assert len(scores(server)) == 10


def test_the_end_of_a_server_ends_what_stands_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sparing_server(tmp_path, monkeypatch) as server:
        spare = server.pool.devices[0].spare
        assert spare is not None
        pid = spare.process.pid
    assert not alive(pid)


def alive(pid: int) -> bool:
    """Whether a process is there, and no corpse."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Beside:
    """A device whose spare answers loads as ``becomes`` says: ``loads``, ``refuses`` or ``dies``."""

    def __init__(self, **becomes: str) -> None:
        self.becomes, self.told, self.starts = becomes, list[Message](), 0
        models = {name: SimpleNamespace(label=f"{name}#1", path="", shapes={}) for name in becomes}
        loading: Any = SimpleNamespace(
            models=models, again=lambda device, model: {"kind": "load", "model": model.label}
        )
        self.device: Any = Device(0, DeviceSpec("d", spare=True), Mock(), "", Mock(), Mock())
        self.device.stand_by = self.stand_by
        self.sparing = Sparing([self.device], loading)

    async def stand_by(self) -> None:
        self.starts += 1
        process: Any = DeviceProcess("d", Mock(), Mock())
        process.ready = True
        self.device.spare = spare = Spare(process)

        def tell(message: Message) -> bool:
            name = message["model"].split("#")[0]
            self.told.append(message)
            becomes = self.becomes.get(name, "loads")
            if becomes == "dies":
                process.ready = False
                asyncio.get_running_loop().call_soon(self.device._ended, process, False)
                return True
            kind = {"loads": "loaded", "refuses": "refused"}[becomes]
            asyncio.get_running_loop().call_soon(
                spare.heard, {"kind": kind, "model": message["model"], "why": "no"}
            )
            return True

        process.tell = tell


def kept(patch: pytest.MonkeyPatch, beside: Beside, rounds: int = 60) -> list[float]:
    """After so many rounds of the loop; the pauses that were made."""
    paused: list[float] = []
    sleep = asyncio.sleep

    async def at_once(seconds: float) -> None:
        paused.append(seconds)
        await sleep(0)

    async def main() -> None:
        patch.setattr(sparing, "_roomy", lambda *_: True)
        patch.setattr(sparing.asyncio, "sleep", at_once)
        task = asyncio.ensure_future(beside.sparing.keep(beside.device, lambda device: True))
        for _ in range(rounds):
            await sleep(0)
        task.cancel()
        patch.undo()
        await pauses(1)

    asyncio.run(main())
    return paused


def test_a_network_that_it_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(good="loads", bad="refuses", better="loads")
    kept(monkeypatch, beside)
    assert beside.starts == 1 and [m["model"] for m in beside.told] == ["good#1", "bad#1", "better#1"]
    assert all(m["polite"] for m in beside.told)
    assert set(beside.device.spare.kept) == {"good#1", "better#1"} and beside.device.stands_by


def test_a_network_that_ends_it_is_left_out_of_the_next_which_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beside = Beside(good="loads", bad="dies")
    paused = kept(monkeypatch, beside)
    assert beside.starts == 2 and sparing.FIRST_PAUSE_S in paused
    assert set(beside.device.spare.kept) == {"good#1"} and beside.device.stands_by


def test_a_load_says_that_it_has_ended() -> None:
    async def main() -> None:
        spare = Spare(Mock(ready=True))
        load = asyncio.ensure_future(spare.load({"kind": "load", "model": "a#1"}, 60.0))
        await pauses(1)
        assert not spare.settled
        spare.end()
        with pytest.raises(ModelError, match="has ended"):
            await load

    asyncio.run(main())


def test_what_is_free_counts_no_files_that_the_kernel_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    for name, text in (
        ("max", "1000"),
        ("current", "900"),
        ("stat", "anon 300\ninactive_file 600\nslab 1\n"),
    ):
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory.free_bytes() == 700
    (tmp_path / "memory.max").write_text("max")
    assert memory.free_bytes() > 700, "the machine's"
    assert memory.resident_bytes(os.getpid()) > 2**20 and memory.resident_bytes(2**30) == 0

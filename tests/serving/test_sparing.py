"""A process stands by for its device, with the same networks, and takes its place at once."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.devices import memory, sparing, stand_by
from eunomia.serving.devices import worker as worker_module
from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.device import Device, DeviceSpec
from eunomia.serving.devices.messages import Message
from eunomia.serving.devices.network import load_network
from eunomia.serving.devices.spare import Ended, Spare
from eunomia.serving.devices.sparing import Sparing
from eunomia.serving.models.convolutional import mobilenet_v2
from eunomia.serving.protocol.errors import Unavailable
from eunomia.serving.server import Server
from tests import children
from tests.patience import PATIENCE_S, pauses, until, until_async
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
    """Devices whose spares answer loads as ``becomes`` says: ``loads``, ``refuses``, ``dies`` or ``is killed``."""

    def __init__(self, devices: int = 1, **becomes: str) -> None:
        self.becomes, self.told, self.starts = becomes, list[Message](), 0
        models = {
            name: SimpleNamespace(label=f"{name}#1", network=SimpleNamespace(name=name)) for name in becomes
        }
        loading: Any = SimpleNamespace(
            models=models, again=lambda device, model: {"kind": "load", "model": model.label}
        )
        self.devices: list[Any] = [
            Device(n, DeviceSpec("d", spare=True), Mock(), "", Mock(), Mock()) for n in range(devices)
        ]
        for device in self.devices:
            device.stand_by = partial(self.stand_by, device)
        self.device = self.devices[0]
        self.sparing = Sparing(self.devices, loading)

    async def stand_by(self, device: Any, spare: Spare) -> None:
        self.starts += 1
        process: Any = spare.process
        process.ready, process._process = True, Mock(poll=lambda: None, pid=7)

        def tell(message: Message) -> bool:
            loop = asyncio.get_running_loop()
            name = message["model"].split("#")[0]
            becomes = self.becomes.get(name, "loads")
            self.told.append(message)
            if becomes in ("dies", "is killed"):
                self.becomes[name] = "loads" if becomes == "is killed" else becomes
                loop.call_soon(device._ended, process, becomes == "is killed")
            elif message["kind"] == "load":
                kind = {"loads": "loaded", "refuses": "refused"}[becomes]
                loop.call_soon(spare.heard, {"kind": kind, "model": message["model"], "why": "no"})
            return True

        process.tell = tell


def kept(
    patch: pytest.MonkeyPatch,
    beside: Beside,
    rounds: int = 60,
    meanwhile: Callable[[], None] = lambda: None,
    roomy: bool = True,
) -> list[float]:
    """After so many rounds of the loop, ``meanwhile``, and as many again; the pauses that were made."""
    paused: list[float] = []
    sleep = asyncio.sleep

    async def at_once(seconds: float) -> None:
        paused.append(seconds)
        await sleep(0)

    async def main() -> None:
        with patch.context() as here:
            if roomy:
                here.setattr(Sparing, "_roomy", lambda *_: True)
            here.setattr(sparing.asyncio, "sleep", at_once)
            tasks = [
                asyncio.ensure_future(beside.sparing.keep(device, lambda device: True))
                for device in beside.devices
            ]
            for act in (lambda: None, meanwhile):
                act()
                for _ in range(rounds):
                    await sleep(0)
            for task in tasks:
                task.cancel()
        await pauses(1)
        assert all(task.done() for task in tasks)

    asyncio.run(main())
    return paused


def test_a_network_that_it_refuses_is_tried_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    beside = Beside(good="loads", bad="refuses", better="loads")
    kept(monkeypatch, beside)
    assert beside.starts == 1 and [m["model"] for m in beside.told] == ["good#1", "bad#1", "better#1"]
    assert all(m["polite"] for m in beside.told)
    assert set(beside.device.spare.kept) == {"good#1", "better#1"}
    assert not beside.device.stands_by, "without all networks it is no full reserve"
    assert [r.message for r in caplog.records] == ["network 'bad' is not kept ready for device 'd': no"]
    monkeypatch.setattr(sparing, "monotonic", lambda: 1e12)
    beside.becomes["bad"] = "loads"
    kept(monkeypatch, beside)
    assert beside.told[-1]["model"] == "bad#1" and beside.device.stands_by


def test_a_network_that_ends_it_is_left_out_of_the_next_which_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beside = Beside(good="loads", bad="dies")
    paused = kept(monkeypatch, beside)
    assert beside.starts == 2 and sparing.FIRST_PAUSE_S in paused
    assert set(beside.device.spare.kept) == {"good#1"}


@pytest.mark.parametrize("why", ["an operator ended it", "the device died"])
def test_no_network_is_to_blame_for_an_end_from_outside(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, that network was never kept ready again."""
    beside = Beside(good="is killed" if why == "an operator ended it" else "loads", other="loads")
    if why == "the device died":
        load = Spare.load

        async def dismissed_first(spare: Spare, message: Message, most_s: float) -> None:
            monkeypatch.setattr(Spare, "load", load)
            asyncio.get_running_loop().call_soon(beside.device.dismiss)
            spare.process.tell = lambda message: True  # type: ignore[method-assign]
            await load(spare, message, most_s)

        monkeypatch.setattr(Spare, "load", dismissed_first)
    paused = kept(monkeypatch, beside)
    assert beside.starts == 2 and beside.device.stands_by and sparing.FIRST_PAUSE_S not in paused


def test_one_that_ends_by_itself_while_idle_is_replaced_later_and_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    beside = Beside(good="loads")

    def end() -> None:
        beside.device._ended(beside.device.spare.process, False)

    paused = kept(monkeypatch, beside, meanwhile=end)
    assert beside.starts == 2 and paused.count(sparing.FIRST_PAUSE_S) == 1
    assert "nothing stands by for device 'd': it ended by itself" in caplog.messages


def test_one_that_ends_at_its_start_is_not_waited_for(tmp_path: Path) -> None:
    """As it was, its start was waited for during five minutes."""

    async def main() -> None:
        device = Device(0, DeviceSpec("d", spare=True), Arena.create(2**20), "", Mock(), Mock())
        for ends in ("by itself", "dismissed"):
            spare = device.another()
            start = asyncio.ensure_future(device.stand_by(spare))
            await until_async(lambda spare=spare: spare.process.pid > 0)
            if ends == "by itself":
                os.kill(spare.process.pid, signal.SIGSEGV)
            else:
                device.dismiss()
            with pytest.raises(Unavailable, match="ended at its start|not needed"):
                await asyncio.wait_for(start, PATIENCE_S)
            assert spare.outside is (False if ends == "by itself" else None) and device.spare is None
            await until_async(lambda spare=spare: spare.process.gone)

    asyncio.run(main())


def test_devices_do_not_count_the_same_free_memory_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(devices=4)
    own = {7: 0, 0: 0}
    for device in beside.devices:
        device._process = Mock(pid=100)
    monkeypatch.setattr(sparing, "free_bytes", lambda: 8)
    monkeypatch.setattr(sparing, "machine_bytes", lambda: 16)
    monkeypatch.setattr(sparing, "own_bytes", lambda pid: own.get(pid, 4))
    kept(monkeypatch, beside, roomy=False)
    assert beside.starts == 1
    own[7] = 4
    assert [beside.sparing._roomy(device) for device in beside.devices[1:]] == [True] * 3, "it has loaded"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_where_no_descriptor_is_left_the_log_says_so_and_what_stands_by_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """No free memory was seen: what stood by was ended, and the log said that memory was short."""

    def refused(path: Path) -> str:
        raise OSError(number, "Too many open files")

    def nothing_more() -> None:
        assert beside.device.spare is not None
        monkeypatch.setattr(Path, "read_text", refused)

    beside = Beside(good="loads")
    kept(monkeypatch, beside, meanwhile=nothing_more)
    assert beside.starts == 1 and beside.device.spare is not None
    said = "no more stands by for device 'd': no file descriptor is left to look at memory: raise ulimit -n"
    assert [record.getMessage() for record in caplog.records] == [said]
    for look in (memory.free_bytes, lambda: memory.own_bytes(1)):
        with pytest.raises(memory.NoDescriptor):
            look()


def test_where_memory_is_short_what_stands_by_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    beside, free = Beside(good="loads"), [1000]
    monkeypatch.setattr(sparing, "free_bytes", lambda: free[0])
    monkeypatch.setattr(sparing, "machine_bytes", lambda: 1000)
    monkeypatch.setattr(sparing, "own_bytes", lambda pid: 100)
    kept(monkeypatch, beside, meanwhile=lambda: free.__setitem__(0, 49), roomy=False)
    assert beside.starts == 1 and beside.device.spare is None


def test_a_server_that_ends_or_hands_over_keeps_nothing_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(good="loads")
    kept(monkeypatch, beside, meanwhile=beside.sparing.stop)
    assert beside.starts == 1 and beside.device.spare is None


def test_what_is_unloaded_or_loads_while_it_ends_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sparing_server(tmp_path, monkeypatch) as server:
        (tmp_path / "other.onnx").write_bytes(mobilenet_v2(side=SIDE))
        assert ask(server, "POST", "/v2/repository/models/other/load", ADMIN, {})[0] == 200
        until(lambda: stands_by(server, "small", "other"))
        device = server.pool.devices[0]
        monkeypatch.setattr(sparing, "LOOK_S", 1e9)  # it does not follow any more
        monkeypatch.setattr(device.spare, "forget", Mock())
        told = Mock(wraps=device.tell)
        monkeypatch.setattr(device, "tell", told)
        assert ask(server, "POST", "/v2/repository/models/other/unload", ADMIN, {})[0] == 200
        os.kill(device.pid, signal.SIGKILL)
        until(lambda: server.pool.deaths == 1 and server.pool.recovery.whole(0))
        assert not device.kept
        assert [
            c.args[0]["model"].split("#")[0] for c in told.call_args_list if c.args[0]["kind"] == "unload"
        ][-1] == "other"


def test_a_file_that_was_replaced_is_not_what_a_device_comes_back_with(tmp_path: Path) -> None:
    """The content that was loaded is in the cache; another under the same name waits for a load."""
    path = tmp_path / "net.onnx"
    path.write_bytes(mobilenet_v2(side=SIDE, classes=10))
    first = load_network(str(path), str(tmp_path / "cache"), {}, 1.0)
    path.write_bytes(mobilenet_v2(side=SIDE, classes=20))
    key = str(first.ports["key"])
    again = load_network(str(path), str(tmp_path / "cache"), {}, 1.0, key=key)
    assert again.ports == first.ports
    with pytest.raises(ModelError, match=r"^net.onnx has been replaced since it was loaded; load it again"):
        load_network(str(path), str(tmp_path / "other"), {}, 1.0, key=key)


def test_start_and_loads_come_last_and_are_ended_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = Mock()
    monkeypatch.setattr(stand_by, "come_last", last)
    monkeypatch.setattr(stand_by, "end_first", last)
    monkeypatch.setattr("eunomia.serving.devices.worker.main", lambda arguments: last(arguments))
    monkeypatch.setattr(signal, "signal", Mock())
    stand_by.main(["1", "2", "0", "", "0"])
    assert last.call_count == 3 and last.call_args.args == (["1", "2", "0", "", "0"],)
    for polite in (True, False):
        here = Mock()
        monkeypatch.setattr(worker_module, "come_last", here)
        worker = worker_module.Worker(Mock(), Mock(memory=b""), 0, "")
        monkeypatch.setattr(worker, "_say", Mock())
        worker._load_aside({"model": "a", "path": "", "shapes": {}, "target_s": 1.0, "polite": polite})
        assert here.called is polite


def test_a_thread_comes_last_and_a_process_is_ended_first() -> None:
    program = (
        "import os, threading; from eunomia.serving.devices.priority import come_last, end_first\n"
        "thread = threading.Thread(target=lambda: (come_last(), print(os.sched_getscheduler(0))))\n"
        "thread.start(); thread.join(); end_first()\n"
        "print(os.sched_getscheduler(0), open('/proc/self/oom_score_adj').read())"
    )
    said = children.run(children.python("-c", program), check=True).stdout
    assert said.split() == [str(os.SCHED_IDLE), str(os.SCHED_OTHER), "1000"]


def test_a_load_says_that_it_has_ended() -> None:
    async def main() -> None:
        spare = Spare(Mock(ready=True))
        load = asyncio.ensure_future(spare.load({"kind": "load", "model": "a#1"}, 60.0))
        await pauses(1)
        assert not spare.settled
        spare.end()
        with pytest.raises(Ended):
            await load

    asyncio.run(main())


def test_one_that_somebody_has_stopped_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sparing_server(tmp_path, monkeypatch) as server:
        device = server.pool.devices[0]
        spare = device.spare
        assert spare is not None and not spare.process.stopped
        os.kill(spare.process.pid, signal.SIGSTOP)
        until(lambda: spare.process.stopped)
        os.kill(device.pid, signal.SIGKILL)
        until(lambda: server.pool.deaths == 1 and server.pool.recovery.whole(0))
        assert device.pid != spare.process.pid and len(scores(server)) == 10


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_free_counts_no_files_that_the_kernel_holds(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And looks at the group of this process, and at all above it."""
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text(
        "0::/all/mine\n" if version == 2 else "4:cpu:/x\n3:memory,hugetlb:/all/mine\n"
    )
    most, used = (
        ("memory.max", "memory.current")
        if version == 2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    folder = tmp_path / ("" if version == 2 else "memory") / "all"
    (folder / "mine").mkdir(parents=True)
    (folder / most).write_text("1000")
    (folder / used).write_text("900")
    assert memory.free_bytes() == 100, "nobody says what files are in it"
    (folder / "memory.stat").write_text("inactive_file 600\nanon 300\n")
    assert memory.free_bytes() == 700 and memory.machine_bytes() == 1000
    (folder / "mine" / most).write_text("800")
    (folder / "mine" / used).write_text("600")
    assert memory.free_bytes() == 200 and memory.machine_bytes() == 800
    (folder / "mine" / used).write_text("801")
    assert memory.free_bytes() == 0, "which is not that nobody says"
    for path in (folder / most, folder / "mine" / most):
        path.write_text("max")
    assert memory.free_bytes() > 700, "the machine's"
    assert memory.own_bytes(os.getpid()) > 2**20 and memory.own_bytes(2**30) == 0


def test_where_nobody_says_what_is_free_nothing_stands_by(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Any) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    assert memory.free_bytes() is None

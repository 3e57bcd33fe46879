"""A network that takes no made-up input is cut once a request was answered, and takes its place beside traffic."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.blocks.optimise import SCRATCH
from eunomia.serving.devices import asked, by_request, prepare
from eunomia.serving.devices.answers import Payload
from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.asked import cut_anew, remember
from eunomia.serving.devices.by_request import ByRequest, Tries
from eunomia.serving.devices.cutting import Away, CutNetwork, drop_older, kept, staged
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.loading import LoadedModel
from eunomia.serving.devices.messages import Message
from eunomia.serving.devices.network import UNTRIED_S, load_network, sessions_of
from eunomia.serving.devices.piece import array_of, live_of
from eunomia.serving.devices.run import NO_ROOM
from eunomia.serving.dispatch.costs import Network
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.protocol.errors import Refused
from eunomia.serving.server import Server
from eunomia.serving.tenants.grants import Grant, Promise, StaticDirectory, hash_key
from tests.patience import until
from tests.serving.live import ADMIN, GOLD, PROMISED_S, SIDE, SILVER, ask, running

BLOCK_S = 1e-4


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that cuts waits for nobody, and no try for another."""
    monkeypatch.setattr(asked, "POLITE", 0)
    monkeypatch.setattr(by_request, "PAUSE_S", 0.0)


def chain(side: int, nodes: int) -> bytes:
    """Neither zeros nor ones are six in all; behind that, products of matrices."""
    steps = " ".join(f"p{n} = MatMul (h{n}, w) h{n + 1} = Tanh (p{n})" for n in range(nodes))
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[6] x, int64[2] sizes) => (float[m] y, float[{side}, {side}] h{nodes})
    <int64 zero = {{0}}, int64 all = {{{side**2}}}, int64 one = {{1}}, int64[2] square = {{{side}, {side}}}> {{
        y, z = Split <axis = 0> (x, sizes)
        s = ReduceMax <keepdims = 0> (z)
        r = Range (zero, all, one)
        f = Cast <to = 1> (r)
        q = Sin (f)
        w = Reshape (q, square)
        h0 = Mul (w, s)
        {steps}
    }}"""
    content: bytes = onnx.parser.parse_model(text).SerializeToString()
    return content


@contextmanager
def serving(folder: Path, **changes: Any) -> Iterator[Server]:
    """With no network that is held in one piece."""
    options = DispatchOptions(ahead_s=3e-3, calm_s=math.inf)
    with running(folder, dispatch=options, **{"block_s": BLOCK_S, **changes}) as server:
        yield server


def tenants(promised_s: float = PROMISED_S) -> StaticDirectory:
    """Gold alone is promised something."""
    grants = [
        Grant("gold", promises={"*": Promise(promised_s)}),
        Grant("silver"),
        Grant("root", role="admin"),
    ]
    return StaticDirectory(
        grants, {hash_key(GOLD): "gold", hash_key(SILVER): "silver", hash_key(ADMIN): "root"}
    )


def infer(server: Any, key: str, *sizes: int, more: Sequence[Any] = ()) -> tuple[int, Any]:
    tensors = [
        {"name": "x", "datatype": "FP32", "shape": [6], "data": [float(n) for n in range(6)]},
        {"name": "sizes", "datatype": "INT64", "shape": [2], "data": sizes},
    ]
    return ask(server, "POST", "/v2/models/chain/infer", key, {"inputs": [*tensors, *more]})


def blocks(server: Server) -> int:
    return server.pool.models["chain"].network.blocks


def cut(server: Server) -> bool:
    return blocks(server) > 1


def load(server: Server, content: bytes, folder: Path) -> None:
    (folder / "chain.onnx").write_bytes(content)
    status, said = ask(server, "POST", "/v2/repository/models/chain/load", ADMIN)
    assert status == 200, said


class Held:
    """Processes that cut, each stopped as soon as it is there."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        self.over = False
        self._begin: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen  # the server does

    def start(self, *words: Any, **more: Any) -> subprocess.Popen[bytes]:
        process = self._begin(*words, **more)
        if not self.over:
            process.send_signal(signal.SIGSTOP)
        self.started.append(process)
        return process

    def go_on(self) -> None:
        self.over = True
        for process in self.started:
            process.send_signal(signal.SIGCONT)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    found = Held()
    pipes = SimpleNamespace(Popen=found.start, PIPE=subprocess.PIPE)
    monkeypatch.setattr(asked, "subprocess", pipes)
    return found


def seen(server: Server) -> Any:
    """What clients see of the network."""
    about = [ask(server, "GET", f"/v2/models/chain{path}", GOLD) for path in ("", "/ready")]
    counts = ask(server, "GET", "/v2/models/chain/stats", SILVER)[1]["model_stats"][0]["inference_count"]
    return about, counts


def test_it_is_cut_after_its_first_answer_and_nobody_sees_it(tmp_path: Path) -> None:
    """As it was, it ran in one piece for ever. The first request fails, and is of no use."""
    wanted = ort.InferenceSession(chain(64, 100), providers=["CPUExecutionProvider"])
    feed = {"x": np.arange(6, dtype=np.float32), "sizes": np.array([2, 4])}
    bits = [np.asarray(array).tobytes() for array in wanted.run(None, feed)]
    with serving(tmp_path) as server:
        load(server, chain(64, 100), tmp_path)
        assert infer(server, GOLD, 2, 3)[0] == 400
        before, answers, looks = server.pool.models["chain"], list[Any](), [seen(server)]

        def enough() -> bool:
            status, content = infer(server, SILVER, 2, 4)
            assert status == 200, content
            answers.append([np.array(each["data"], np.float32).tobytes() for each in content["outputs"]])
            looks.append(seen(server))
            if len(answers) >= 4:
                until(lambda: server.pool.by_request.idle)
            return len(answers) >= 4 and cut(server)

        until(enough)
        until(lambda: before.network.index not in server.pool.loading._labels)
        assert all(answer == bits for answer in answers)
        assert [n for _, n in looks] == [*range(len(looks))]
        assert all(about == looks[0][0] for about, _ in looks)
        assert server.pool.models["chain"].ports == before.ports
        assert server.service.limits._states["silver"].held_bytes == 0
        known_s = server.pool.costs.known(server.pool.models["chain"].network, 0)
        assert len(known_s) == blocks(server) > 1
    with serving(tmp_path) as server:  # with the cache
        load(server, chain(64, 100), tmp_path)
        assert blocks(server) == len(known_s), "a start remembers it"
        network = server.pool.models["chain"].network
        assert network.untried and not server.pool.costs.evident(network.first_row)
        status, content = infer(server, SILVER, 2, 4)
        assert [np.array(each["data"], np.float32).tobytes() for each in content["outputs"]] == bits


def test_an_urgent_tenant_interrupts_it_from_then_on(tmp_path: Path) -> None:
    """Gold's requests have deadlines, silver's none."""
    picture = np.zeros(3 * SIDE**2).tolist()
    image = {"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], "data": picture}
    with serving(tmp_path, directory=tenants()) as server:
        load(server, chain(256, 100), tmp_path)
        assert infer(server, SILVER, 2, 4)[0] == 200
        until(lambda: cut(server))
        ran, told = list[str](), server.pool.on_run

        def hear(device: int, job: Job, span_s: tuple[float, float], stopped: bool) -> None:
            ran.append(job.network.name)
            told(device, job, span_s, stopped)

        def interrupted() -> bool:
            """Whether the urgent one ran within a run of the other; it may come too late for that."""
            ran.clear()
            ended = beside.submit(infer, server, SILVER, 2, 4)
            until(lambda: ended.done() or server.pool.execution.running())
            status, content = ask(server, "POST", "/v2/models/small/infer", GOLD, {"inputs": [image]})
            assert (status, ended.result()[0]) == (200, 200), content
            return "chain" in ran[: ran.index("small")] and "chain" in ran[ran.index("small") :]

        server.pool.on_run = hear
        with ThreadPoolExecutor(1) as beside:
            until(interrupted)


def test_one_that_is_ended_each_time_is_cut_all_the_same(tmp_path: Path) -> None:
    """Gold's deadline bounds its runs to 0.1 s of processor time: in one piece it was never answered."""
    with serving(tmp_path, directory=tenants(0.02), block_s=5e-3) as server:
        load(server, chain(512, 200), tmp_path)
        status, content = infer(server, SILVER, 2, 4)
        assert (status, content["reason"]) == (413, "too_long"), content
        until(lambda: cut(server))
        until(lambda: infer(server, SILVER, 2, 4)[0] == 200)


def test_two_devices_and_those_that_come_back(tmp_path: Path) -> None:
    devices = [DeviceSpec("a"), DeviceSpec("b")]
    with serving(tmp_path, devices=devices) as server:
        load(server, chain(64, 100), tmp_path)
        (tmp_path / "chain.onnx").write_bytes(chain(64, 99))  # nobody has loaded that
        assert infer(server, SILVER, 2, 4)[0] == 200
        until(lambda: cut(server))
        model = server.pool.models["chain"]
        for device in server.pool.devices:
            os.kill(device.pid, signal.SIGKILL)
        until(lambda: server.pool.deaths == 2 and all(map(server.pool.recovery.whole, range(2))))
        assert server.pool.models["chain"] is model
        assert all(server.pool.loading.has(model, device) for device in server.pool.devices)
        status, content = infer(server, SILVER, 2, 4)
        assert status == 200 and [each["name"] for each in content["outputs"]] == ["y", "h100"]


@pytest.mark.parametrize("names, how", [("a", "lost"), ("ab", "damaged")])
def test_a_cut_that_the_cache_lost_is_replaced(tmp_path: Path, names: str, how: str) -> None:
    """As it was, the network stayed away until an administrator loaded it; the damaged one was deleted for all."""
    with serving(tmp_path, devices=[DeviceSpec(name) for name in names]) as server:
        load(server, chain(64, 100), tmp_path)
        assert infer(server, SILVER, 2, 4)[0] == 200
        until(lambda: cut(server))
        until(lambda: server.pool.by_request.idle)
        model = server.pool.models["chain"]
        folder = Path(server.pool.by_request._cache) / f"{model.key}.blocks"
        if how == "lost":
            shutil.rmtree(folder)
        else:
            (folder / "0.onnx").write_bytes(b"no network")
        offered, server.pool.answers.on_input = server.pool.answers.on_input, lambda tenant, job: None
        os.kill(server.pool.devices[0].pid, signal.SIGKILL)
        until(lambda: server.pool.models["chain"] is not model)
        now = server.pool.models["chain"]
        assert now.network.blocks == 1 and folder.exists() == (how == "damaged")
        assert all(server.pool.loading.has(now, device) for device in server.pool.devices)
        until(lambda: infer(server, SILVER, 2, 4)[0] == 200)
        server.pool.answers.on_input = offered
        assert infer(server, SILVER, 2, 4)[0] == 200
        until(lambda: cut(server))


def begun(server: Server, held: Held, folder: Path) -> list[subprocess.Popen[bytes]]:
    """A request has come, and the process that cuts by it waits."""
    load(server, chain(64, 100), folder)
    assert infer(server, SILVER, 2, 4)[0] == 200
    return until(lambda: held.started)


def test_a_load_meanwhile_of_the_same_file(tmp_path: Path, held: Held) -> None:
    with serving(tmp_path) as server:
        begun(server, held, tmp_path)
        load(server, chain(64, 100), tmp_path)
        assert not cut(server)
        held.go_on()
        until(lambda: cut(server))
        assert infer(server, SILVER, 2, 4)[0] == 200


def test_a_load_meanwhile_of_another_file(tmp_path: Path, held: Held) -> None:
    """It is not taken for the one that was timed."""
    with serving(tmp_path) as server:
        begun(server, held, tmp_path)
        load(server, chain(64, 99), tmp_path)
        held.go_on()
        until(lambda: server.pool.by_request.idle)
        assert not cut(server) and infer(server, SILVER, 2, 4)[0] == 200
        until(lambda: cut(server))  # by its own


def test_a_process_that_is_killed_costs_a_try(tmp_path: Path, held: Held) -> None:
    with serving(tmp_path) as server:
        begun(server, held, tmp_path).pop().kill()
        until(lambda: server.pool.by_request.idle)
        free, limits = server.pool.arena.free_bytes, server.service.limits
        assert (free, limits._states["silver"].held_bytes) == (server.pool.arena.room_bytes, 0)
        assert not [*tmp_path.rglob(f"{SCRATCH}*")], "nothing is left of it"
        assert not cut(server) and infer(server, SILVER, 2, 4)[0] == 200
        until(lambda: held.started)
        held.go_on()
        until(lambda: cut(server))


def test_a_server_that_stops_meanwhile_leaves_nothing(tmp_path: Path, held: Held) -> None:
    with serving(tmp_path) as server:
        begun(server, held, tmp_path)
        assert len([*tmp_path.rglob(f"{SCRATCH}*")]) == 1
    assert held.started[0].returncode == -signal.SIGKILL and not [*tmp_path.rglob(f"{SCRATCH}*")]


def test_a_short_one_stays_whole_and_its_time_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_request, "cut_beside", None)
    for again in (False, True):
        with serving(tmp_path, block_s=60.0) as server:
            load(server, chain(8, 1), tmp_path)
            network, costs = server.pool.models["chain"].network, server.pool.costs
            assert network.untried and not costs.evident(network.first_row)
            assert (costs.known(network, 0) == [UNTRIED_S]) != again
            assert infer(server, SILVER, 2, 4)[0] == 200
            until(lambda: server.pool.by_request.idle)
            assert blocks(server) == 1


def loop() -> bytes:
    """As many steps as a client wishes."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[6] x, int64[2] sizes, int64 n) => (float[m] y, float out)
    <bool yes = {1}> {
        y, z = Split <axis = 0> (x, sizes)
        s = ReduceMax <keepdims = 0> (z)
        out = Loop <body = b (int64 i, bool c, float a) => (bool d, float e)
            { d = Identity (c) e = Neg (a) }> (n, yes, s)
    }"""
    content: bytes = onnx.parser.parse_model(text).SerializeToString()
    return content


def test_a_loop_of_many_steps_takes_neither_memory_nor_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every step has times of its own: of 200,000 they took 3 GiB, and 500 MB of /tmp for ever."""
    trips = {"name": "n", "datatype": "INT64", "shape": [], "data": [200_000]}
    with serving(tmp_path) as server:
        load(server, loop(), tmp_path)
        place = Path(server.pool.by_request._cache)
        before = sorted(place.iterdir())
        assert infer(server, SILVER, 2, 4, more=[trips])[0] == 200
        until(lambda: server.pool.by_request.idle)
        assert asked.STEPS in caplog.text
        assert sorted(place.iterdir()) == before


def test_one_tenant_has_few_tries_and_leaves_some_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, cut_beside = list[Message](), asked.cut_beside

    async def in_vain(order: Message, copied: Callable[[], None]) -> CutNetwork:
        tries.append(order)
        raise ModelError("it did not run again")

    monkeypatch.setattr(by_request, "cut_beside", in_vain)
    with serving(tmp_path) as server:
        load(server, chain(64, 100), tmp_path)
        for number in range(5):
            assert infer(server, SILVER, 2, 4)[0] == 200
            until(lambda: server.pool.by_request.idle)
            assert len(tries) == min(number + 1, by_request.IN_VAIN)
        monkeypatch.setattr(by_request, "cut_beside", cut_beside)
        assert infer(server, GOLD, 2, 4)[0] == 200
        until(lambda: cut(server))


def test_the_pause_grows_and_there_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_request, "PAUSE_S", 10.0)
    tries, due = Tries("content"), list[float]()
    for _ in range(by_request.MOST):
        now_s = max(tries.due_s, 0.0)
        assert tries.may("gold", now_s) and not (now_s and tries.may("gold", now_s - 1e-3))
        tries.begins(now_s)
        tries.used += 1
        due.append(tries.due_s - now_s)
    assert due[:3] == [10.0, 20.0, 40.0] and not tries.may("gold", math.inf)


class Beside:
    """What is there of a server to cut by a request; ``begun``: what was."""

    def __init__(self, tmp_path: Path, took_s: float) -> None:
        self.network = Network(0, "net", 0, 1, untried=True)
        self.model = LoadedModel(self.network, "net#1", "", {}, {"inputs": [], "outputs": []}, "key-1")
        self.model.took_s = took_s
        self.arena = Arena.create(1 << 20)
        loading: Any = SimpleNamespace(models={"net": self.model}, target_s=1e-3)
        device = self.device = SimpleNamespace(spec=DeviceSpec("a"), place=SimpleNamespace(far=False))
        clock: Any = SimpleNamespace(now_s=lambda: 0.0)
        self.begun = list[Any]()
        devices: Any = [device]
        self.found = ByRequest(devices, loading, self.arena, clock, str(tmp_path))
        self.found.spawn = self.spawn

    def spawn(self, work: Coroutine[object, object, None]) -> Any:
        work.close()
        self.begun.append(work)
        return SimpleNamespace(done=lambda: False)

    def offered(self, took_s: float, device: int = -1) -> Payload:
        answer: Any = None
        payload = Payload([], self.arena.allocate(100), answer, took_s=took_s)
        self.found.offered("gold", Job(0, self.network, 0.0, payload=payload, worked_on=device))
        return payload


@pytest.mark.parametrize(
    "before_s, took_s, begins", [(0.0, 2e-3, True), (1e-3, 3.9e-3, False), (1e-3, 4e-3, True)]
)
def test_a_request_unlike_the_first_has_it_cut_again(
    tmp_path: Path, before_s: float, took_s: float, begins: bool
) -> None:
    """One that took long enough, or four times as long as was foreseen."""
    beside = Beside(tmp_path, before_s)
    kept = beside.offered(took_s)
    assert len(beside.begun) == begins and (kept.slot == NO_ROOM) == begins
    assert beside.offered(1.0).slot != NO_ROOM or not begins
    assert len(beside.begun) == 1, "one at a time"


def test_a_first_run_on_a_device_is_no_reason_to_cut_it_again(tmp_path: Path) -> None:
    """It takes longer than later ones, and each that finds nothing makes the next pause twice as long."""
    beside = Beside(tmp_path, 1e-3)
    for pid, begun in ((1, 0), (2, 0), (2, 1)):
        beside.device.pid = pid
        beside.offered(4e-3, device=0)
        assert len(beside.begun) == begun


@pytest.mark.parametrize("count", [1, 2])
def test_a_try_that_finds_nothing_to_cut_costs_its_pause_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """On a busy machine a short run looks long now and then."""
    ends: list[tuple[list[str], list[str], float]] = [([], [], 1e-4)] * count
    found = CutNetwork("key", tmp_path / "key-2.blocks", tmp_path, {"inputs": [], "outputs": []}, ends, {})
    placed, work = list[str](), list[Coroutine[object, object, None]]()

    async def cut_beside(order: Message, copied: Callable[[], None]) -> CutNetwork:
        return found

    async def place(model: LoadedModel, name: str) -> None:
        placed.append(name)

    def spawn(one: Coroutine[object, object, None]) -> Any:
        work.append(one)

    monkeypatch.setattr(by_request, "cut_beside", cut_beside)
    beside = Beside(tmp_path, 0.0)
    timed = list[Any]()
    beside.found.place, beside.found.spawn = place, spawn
    beside.found.timed = lambda network, rows, sizes: timed.append((network, rows, sizes))
    beside.offered(1.0)
    asyncio.run(work[0])
    tries = beside.found._tries["net"]
    assert (tries.count, tries.used, placed) == (1, count - 1, ["key-2"] * (count - 1))
    assert beside.model.took_s == pytest.approx(1e-4 * count)
    assert timed == [(beside.network, 1, [])] * (count - 1), "and is no guess"
    assert beside.arena.free_bytes == beside.arena.room_bytes, "the input is not kept any longer"


@pytest.mark.parametrize(
    "error, used", [(Away("full"), 0), (OSError("full"), 0), (ModelError("it fails"), 1)]
)
def test_a_full_disk_is_no_try_of_its_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, used: int
) -> None:
    """After three of them no request of that tenant had its network cut."""
    work = list[Coroutine[object, object, None]]()
    monkeypatch.setattr(by_request, "cut_beside", AsyncMock(side_effect=error))
    beside: Any = Beside(tmp_path, 0.0)
    beside.found.spawn = work.append
    beside.offered(1.0)
    asyncio.run(work[0])
    tries = beside.found._tries["net"]
    assert (tries.count, tries.used, tries.in_vain["gold"]) == (1, used, used)


def test_the_process_beside_says_that_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        del more["env"]
        return popen([command[0], "-c", f"print('.no room'); raise SystemExit({prepare.FULL})"], **more)

    popen, arena = subprocess.Popen, Arena.create(1 << 20)
    monkeypatch.setattr(subprocess, "Popen", full)
    order = {"cache": str(tmp_path), "target_s": 1.0, "arena": arena.descriptor}
    with pytest.raises(Away, match="^no room$"):
        asyncio.run(asked.cut_beside(order, lambda: None))
    arena.close()


def test_an_input_that_its_tenant_has_no_room_for_is_not_kept(tmp_path: Path) -> None:
    def full(tenant: str, size: int, free_bytes: int) -> Callable[[], None]:
        raise Refused(f"{tenant}: {size} of {free_bytes}")

    beside = Beside(tmp_path, 0.0)
    beside.found.keep = full
    assert beside.offered(1.0).slot != NO_ROOM and not beside.begun
    beside.found.keep = lambda tenant, size, free_bytes: lambda: None
    assert beside.offered(1.0).slot == NO_ROOM and len(beside.begun) == 1, "no try was lost"


FEED: dict[str, Any] = {"x": np.arange(6, dtype=np.float32), "sizes": np.array([2, 4])}


def scratch(tmp_path: Path, number: int = 1) -> Path:
    folder = tmp_path / "cache" / f"{SCRATCH}{number}"
    folder.mkdir()
    return folder


def test_each_load_finds_the_cut_that_it_wants(tmp_path: Path) -> None:
    """A device that comes back has what is in service, and a start the latest; sizes that are given must run."""
    file, cache = str(tmp_path / "chain.onnx"), str(tmp_path / "cache")
    Path(file).write_bytes(chain(64, 100))
    before = load_network(file, cache, {}, BLOCK_S)
    kept_before = kept("", cache, {}, BLOCK_S, before.ports["key"])
    assert kept_before is not None and before.blocks == 1 and not before.asked
    found = cut_anew(kept_before, BLOCK_S, FEED, scratch(tmp_path))
    after = load_network(file, cache, {}, BLOCK_S, whole_s=60.0)
    assert after.blocks == len(found.blocks) > 1 and after.has_whole and after.ports["key"] == found.name
    assert after.block_s == [seconds for *_, seconds in found.blocks] and min(after.block_s) > 0.0
    live = live_of(FEED)
    for n in range(after.blocks):
        live = after.run_block(n, live)
    whole = before.run_block(0, live_of(FEED))
    assert all(array_of(live[name]).tobytes() == array_of(whole[name]).tobytes() for name in whole)
    assert load_network(file, cache, {}, BLOCK_S, key=str(before.ports["key"])).blocks == 1
    assert load_network(file, cache, {}, 2 * BLOCK_S).blocks == 1, "others' blocks are not its"
    with pytest.raises(ModelError, match="trial input"):
        load_network(file, cache, {"x": [6], "sizes": [2]}, BLOCK_S)
    short = {**FEED, "x": np.full(6, 1e-3, np.float32)}
    remember(kept_before, BLOCK_S, {name: [*array.shape] for name, array in short.items()}, 1e-6)
    last = load_network(file, cache, {}, BLOCK_S)
    assert last.block_s == [1e-6], "not the longest"
    os.utime(found.folder / "plan.json")
    assert load_network(file, cache, {}, BLOCK_S).blocks == after.blocks
    drop_older(found, BLOCK_S, [])
    there = {*(tmp_path / "cache").glob(f"{found.key}-{BLOCK_S!r}-*.blocks")}
    assert there == {kept_before.folder, found.folder}
    number = (found.folder / "0.onnx").stat().st_ino
    with staged(found, scratch(tmp_path, 2)) as stage:
        shutil.copytree(found.folder, stage, dirs_exist_ok=True)
        (stage / "plan.json").write_text("{}")
    assert (found.folder / "plan.json").read_text() == "{}"
    assert (found.folder / "0.onnx").stat().st_ino == number, "what a device may be reading stays"
    (found.folder / "plan.json").write_text(found.plan(found.asked))
    os.remove(found.folder / "0.onnx")
    assert load_network(file, cache, {}, BLOCK_S).blocks == 1, "what is damaged is made again"


def test_where_pieces_do_not_run_it_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, cache, load = str(tmp_path / "chain.onnx"), str(tmp_path / "cache"), sessions_of

    def sessions(cut: CutNetwork) -> Any:
        assert len(cut.blocks) == 1
        return load(cut)

    Path(file).write_bytes(chain(64, 100))
    whole = kept("", cache, {}, BLOCK_S, load_network(file, cache, {}, BLOCK_S).ports["key"])
    monkeypatch.setattr(asked, "sessions_of", sessions)
    assert whole is not None and len(cut_anew(whole, BLOCK_S, FEED, scratch(tmp_path)).blocks) == 1
    again = load_network(file, cache, {}, BLOCK_S)
    assert again.blocks == 1 and again.block_s != [UNTRIED_S]


def test_where_many_pieces_find_no_room_fewer_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine nodes took longer, more pieces were made than had room, and it stayed whole for good."""
    file, cache, load, most = str(tmp_path / "chain.onnx"), str(tmp_path / "cache"), sessions_of, 40

    def sessions(cut: CutNetwork) -> Any:
        if len(cut.blocks) > most:
            raise MemoryError("std::bad_alloc")
        return load(cut)

    Path(file).write_bytes(chain(64, 100))
    whole = kept("", cache, {}, BLOCK_S, load_network(file, cache, {}, BLOCK_S).ports["key"])
    monkeypatch.setattr(asked, "sessions_of", sessions)
    monkeypatch.setattr(
        asked, "node_times_s", lambda optimised, feed: [BLOCK_S] * len(optimised.model.graph.node)
    )
    assert whole is not None and 1 < len(cut_anew(whole, BLOCK_S, FEED, scratch(tmp_path)).blocks) <= most


def test_what_is_too_long_waits_while_its_network_is_cut_by_what_another_brought(tmp_path: Path) -> None:
    """It had 413, and a moment later the same input ran."""

    async def main() -> None:
        beside, job = Beside(tmp_path, 0.0), Job(0, Network(0, "net", 0, 1), 0.0)
        job.network, go_on = beside.network, asyncio.Event()

        def spawn(work: Coroutine[object, object, None]) -> Any:
            work.close()
            return asyncio.ensure_future(go_on.wait())

        beside.found.spawn = spawn
        assert beside.found.wanted(job) is None
        beside.offered(1.0)
        known = beside.found.wanted(job)
        assert known is not None and beside.found.wanted(job) is known and not known.done()
        other = Job(0, Network(1, "net", 0, 1), 0.0)
        assert beside.found.wanted(other) is None, "it has been loaded anew since"
        go_on.set()
        await known
        assert beside.found.wanted(job) is None

    asyncio.run(main())


def tiled(side: int, nodes: int) -> bytes:
    """As many rows as a value says: a trial has one of them, or none."""
    steps = " ".join(f"p{n} = MatMul (h{n}, w) h{n + 1} = Tanh (p{n})" for n in range(nodes))
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[{side}] x, int64[1] k) => (float[{side}] y)
    <int64 zero = {{0}}, int64 all = {{{side**2}}}, int64 one = {{1}}, int64[2] square = {{{side}, {side}}},
     int64[1] single = {{1}}, int64[2] row = {{1, {side}}}> {{
        r = Range (zero, all, one)
        f = Cast <to = 1> (r)
        q = Sin (f)
        w = Reshape (q, square)
        times = Concat <axis = 0> (k, single)
        there = Reshape (x, row)
        h0 = Tile (there, times)
        {steps}
        y = ReduceMean <axes = [0], keepdims = 0> (h{nodes})
    }}"""
    content: bytes = onnx.parser.parse_model(text).SerializeToString()
    return content


def rows(server: Any, count: int) -> tuple[int, Any]:
    tensors = [
        {"name": "x", "datatype": "FP32", "shape": [64], "data": [1.0] * 64},
        {"name": "k", "datatype": "INT64", "shape": [1], "data": [count]},
    ]
    return ask(server, "POST", "/v2/models/tiled/infer", SILVER, {"inputs": tensors})


def test_a_network_whose_work_depends_on_values_is_cut_by_a_request_that_was_ended(tmp_path: Path) -> None:
    """Its trial took next to nothing, so that it stayed whole, and each request was ended for ever."""
    with serving(tmp_path, directory=tenants(0.02), block_s=5e-3) as server:
        (tmp_path / "tiled.onnx").write_bytes(tiled(64, 200))
        assert ask(server, "POST", "/v2/repository/models/tiled/load", ADMIN)[0] == 200
        before = server.pool.models["tiled"]
        assert before.network.blocks == 1 and not before.network.untried
        status, content = rows(server, 20_000)
        assert (status, content["reason"]) == (413, "too_long"), content
        assert (
            "so its values make the difference" in content["error"]
            and "as others wait" not in content["error"]
        )
        until(lambda: server.pool.by_request.idle)
        now = server.pool.models["tiled"]
        assert now.network.blocks > 1 and now.chosen and not now.network.untried
        until(lambda: rows(server, 20_000)[0] == 200)
        assert rows(server, 20_000)[0] == rows(server, 1)[0] == 200
        place = Path(server.pool.by_request._cache)
        assert (place / f"{now.key}.blocks").exists()
    assert not (place / f"{now.key}.blocks").exists(), "clients chose it"


@pytest.mark.parametrize(
    "said_s, took_s, felled, gathered, begins",
    [
        (1e-3, 0.2, False, None, True),
        (1e-3, 0.02, False, None, False),  # as long as it may
        (1e-3, 0.005, True, None, True),
        (math.inf, 0.2, True, None, False),  # nobody knows that it is short: its size is at fault
        (0.03, 0.2, True, None, False),
        (1e-3, 0.2, False, "rows", False),
    ],
)
def test_a_request_of_a_tried_network_has_it_cut_where_its_values_are_at_fault(
    tmp_path: Path, said_s: float, took_s: float, felled: bool, gathered: Any, begins: bool
) -> None:
    beside: Any = Beside(tmp_path, 0.0)
    job: Any = Mock(network=Network(0, "net", 0, 1), pair=3, felled=felled, said_s=lambda costs: said_s)
    beside.model.network = job.network
    job.payload = Payload([], beside.arena.allocate(100), Mock(), took_s=took_s, gathered=gathered)
    beside.found.costs, beside.found.patience_s = None, lambda job: 0.025
    beside.found.offered("gold", job)
    assert len(beside.begun) == begins
    beside.found.patience_s = lambda job: math.inf
    beside.found.offered("gold", job)
    assert len(beside.begun) == begins, "nobody waits for it"

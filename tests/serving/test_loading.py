"""Loading beside traffic: a device goes on serving while it loads another network."""

from __future__ import annotations

import asyncio
import math
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.devices import loading, memory, prepare, worker
from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.cutting import Away
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.loading import Loading
from eunomia.serving.devices.messages import Message, pair, receive
from eunomia.serving.devices.places import PLACES
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.models.convolutional import mobilenet_v2
from eunomia.serving.protocol.errors import Unavailable
from eunomia.serving.server import Server
from eunomia.workload.tenant import Agreement
from tests import children
from tests.patience import pauses
from tests.serving.live import SIDE, options

PICTURE = {"image": np.ones((1, 3, SIDE, SIDE), np.float32)}
AGAIN = 2  # loads; at the second one the optimised form lies in the cache


def test_a_device_answers_while_it_loads_another_network(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(options(tmp_path)) as server:
            server.guard.limit_s = math.inf
            pool, clock = server.pool, server.service.clock
            pair = pool.dispatcher.add_pair(Agreement("gold", "small"))
            network = pool.models["small"].network
            (tmp_path / "other.onnx").write_bytes(mobilenet_v2(side=SIDE))
            device, during, loads = pool.devices[0], 0, 0
            told = device.tell

            def tell(message: Message) -> bool:
                nonlocal loads
                loads += message["kind"] == "load"
                return told(message)

            device.tell = tell  # type: ignore[method-assign]
            for _ in range(AGAIN):
                load = asyncio.ensure_future(server.service.repository.load("other"))
                while not load.done():
                    await pool.submit(Job(pair, network, clock.now_s()), PICTURE)
                    during += not load.done()
                await load
            assert loads == AGAIN and during > 3 * AGAIN, (
                "a device that waits for its load answers one at a time"
            )
            assert pool.deaths == 0

    asyncio.run(main())


class Loads:
    """A device that answers a load as ``becomes`` says: loads it, dies of it, says nothing, or is not there.

    ``busy``: it runs something meanwhile.
    """

    index, alive, spec, blameless, busy = 0, True, DeviceSpec("cpu"), False, False
    kept: Mapping[str, Message] = {}
    place, spare = PLACES["process"], None

    def __init__(self, becomes: dict[str, str]) -> None:
        self.becomes, self.told = becomes, list[str]()
        self.loading = Loading([self], CostBook(1), 1.0, 1.0)  # type: ignore[list-item]

    def tell(self, message: Message) -> bool:
        name = message["model"].split("#")[0]
        self.told.append(name)
        becomes, port = self.becomes.get(name, "loads"), {"name": "x", "datatype": "FP32", "shape": [-1]}
        answer: Callable[[], None] = lambda: self.loading.died(0, busy=self.busy)  # noqa: E731
        if becomes == "hangs":
            answer = lambda: None  # noqa: E731
        if becomes == "loads":
            facts = {"inputs": [port], "outputs": [port], "block_s": [1.0], "whole": False}
            loaded = {"kind": "loaded", "model": message["model"], **facts}
            answer = lambda: self.loading.answered(0, loaded)  # noqa: E731
        asyncio.get_running_loop().call_soon(answer)
        return becomes != "away"

    def kill(self) -> None:
        """It hangs."""

    async def load(self, *names: str) -> None:
        """These, as an operator does."""
        for name in names:
            await self.loading.load(name, f"{name}.onnx", {})

    async def started_anew(self, *wanted: str) -> list[str]:
        """What it has then, in order; some are waited for."""
        self.told.clear()
        numbers = {self.loading.models[name].network.index for name in wanted}
        return [name async for name in self.loading.load_again(self, numbers)]  # type: ignore[arg-type]


def test_a_trial_of_several_rows_is_no_row_s_time() -> None:
    """An operator's ``shapes = { x = [8] }`` counted as eight rows of its length, and eight rows were refused."""

    async def main() -> None:
        device = Loads({})
        await device.loading.load("net", "net.onnx", {"x": [8]})
        costs, network = device.loading._costs, device.loading.models["net"].network
        assert network.rows == 8 and costs.rest_s(network)[0][0] * 8 == 1.0
        assert costs.row_of(network, 8, [1]) == network.first_row, "such a request is the trial's"

    asyncio.run(main())


def test_a_device_that_is_away_is_not_waited_for() -> None:
    """As it was, the load waited for two minutes, and no other could begin; then it ended the device."""

    async def main() -> None:
        device = Loads({"net": "away"})
        with pytest.raises(ModelError, match="device 'cpu' is away; try again when it is back"):
            await device.loading.load("net", "net.onnx", {})

    asyncio.run(main())


def test_a_cut_for_clients_sizes_is_no_finer_than_others_need() -> None:
    """400 products in 100 blocks: one element took 13 ms in place of 3, after one request of another tenant."""

    async def targets_s() -> list[float]:
        device, found = Loads({}), list[float]()
        tell = device.tell
        device.tell = lambda message: found.append(message["target_s"]) or tell(message)  # type: ignore
        for most_s in (0.0, 0.1, 8.0):
            await device.loading.load("net", "net.onnx", {}, most_s=most_s)
        return found

    assert asyncio.run(targets_s()) == [1.0, 1.0, 8.0 * loading.COARSE]


def test_what_one_device_does_not_load_no_other_keeps() -> None:
    async def load() -> None:
        first, other = Loads({}), Loads({"net": "away"})
        other.index = 1
        first.loading = Loading([first, other], CostBook(2), 1.0, 1.0)  # type: ignore[list-item]
        with pytest.raises(Away):
            await first.load("net")
        assert first.told == ["net", "net"], "loaded, and unloaded"

    asyncio.run(load())


def test_a_network_that_ends_its_device_does_not_keep_the_others_from_being_served() -> None:
    """Its file may have changed since it was loaded. As it was, the device died of it for ever, others or not."""

    async def main() -> None:
        device = Loads({})
        await device.load("good", "bad", "better")
        device.becomes["bad"] = "dies"
        await device.started_anew("bad")
        assert device.told[0] == "bad", "somebody waits for it"
        assert await device.started_anew("bad") == ["better", "good"] and device.told[-1] == "bad"
        assert await device.started_anew("bad") == ["better", "good"] and "bad" not in device.told
        device.becomes["bad"] = "loads"
        await device.load("bad")
        assert "bad" in await device.started_anew(), "loaded anew, it counts as any other"

    asyncio.run(main())


def test_a_death_while_something_else_ran_is_charged_to_no_load(caplog: pytest.LogCaptureFixture) -> None:
    """As it was, one tenant's inputs could take another's network out of service: two deaths while that loaded."""

    async def main() -> None:
        device = Loads({})
        await device.load("good", "large", "better")
        for _ in range(4):
            device.becomes["large"], device.busy = "dies", True
            for turn in (1, -1):
                await device.started_anew()
                assert device.told[turn] == "large", "the second time last: the others serve meanwhile"
            device.becomes["large"], device.busy = "loads", False
            assert (await device.started_anew())[0] == "large" == device.told[0]
        assert await device.started_anew("good") == ["good", "better", "large"], "no suspect any more"

    asyncio.run(main())
    assert "ends device" not in caplog.text


def test_a_suspect_is_loaded_while_nothing_runs_and_its_next_death_is_its_own() -> None:
    async def main() -> None:
        device = Loads({})
        await device.load("good", "bad")
        device.becomes["bad"], device.busy = "dies", True
        for _ in range(loading.SUSPICIOUS):
            await device.started_anew()
        again = device.loading.load_again(device, set())  # type: ignore[arg-type]
        device.busy = False
        assert await anext(again) == "good" and device.told[-2:] == ["bad", "good"], (
            "no name before it is through"
        )
        assert await device.started_anew("bad") == ["good"] == device.told, "given up after three deaths"

    asyncio.run(main())


def test_a_load_that_hangs_is_charged_and_nobody_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LOAD_S", 0.01)

    async def main() -> None:
        device = Loads({})
        await device.load("good", "bad")
        device.becomes["bad"] = "hangs"
        for _ in range(2):
            await device.started_anew("bad")
            assert device.blameless, "what runs there is no suspect"
        assert await device.started_anew("bad") == ["good"] == device.told

    asyncio.run(main())


def test_a_network_that_is_unloaded_while_it_loads_again_is_forgotten() -> None:
    """As it was, the device never had all its networks: the others behind it were lost with it."""

    async def main() -> None:
        device = Loads({})
        await device.load("good", "gone")
        device.becomes["gone"] = "hangs"
        task = asyncio.ensure_future(device.started_anew("gone"))
        await pauses(2)
        assert device.told == ["gone"]
        model = device.loading.models.pop("gone")
        await device.loading.retire(model, lambda network: False)
        facts = {"inputs": [], "outputs": [], "block_s": [1.0], "whole": False}
        device.loading.answered(0, {"kind": "loaded", "model": model.label, **facts})
        assert await task == ["good"] and device.told == ["gone", "gone", "gone", "good"], (
            "it is told to forget it"
        )
        assert not device.loading._old

    asyncio.run(main())


def test_what_did_not_load_again_is_tried_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, nobody tried it, and its requests were taken in and waited for ever."""
    waits_s = [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0, 2560.0, 3600.0, 3600.0]
    assert [loading.again_s(tries) for tries in range(11)] == waits_s and loading.again_s(10**6) == 3600.0

    async def main() -> None:
        device, seen, tried = Loads({}), list[tuple[str, bool]](), list[int]()

        def again_s(tries: int) -> float:
            tried.append(tries)
            device.becomes["bad"] = "loads" if len(tried) == 4 else "dies"
            return 0.0

        device.loading.on_away = lambda name, why: seen.append((name, bool(why)))
        await device.load("good", "bad")
        network = device.loading.models["bad"].network
        device.loading._costs.lost(0)
        device.becomes["bad"] = "dies"
        for _ in range(3):
            await device.started_anew("bad")
        device.loading.give_up()
        with pytest.raises(
            Unavailable, match="'bad' is not ready: no device has it: .* took its device down"
        ):
            device.loading.check(network)
        monkeypatch.setattr(loading, "again_s", again_s)
        await device.loading.complete(device)  # type: ignore[arg-type]
        device.loading.check(network)
        assert seen == [("bad", True), ("bad", False)] and tried == [2, 3, 4, 5], "after two deaths"
        assert await device.started_anew() == ["bad", "good"]

    asyncio.run(main())


@pytest.mark.parametrize(("code", "said", "why"), [
    (-11, b"", r"ended with signal 11: ONNX Runtime dies of the file; export it anew"),
    (-9, b"", r"ended with signal 9: somebody ended it, or memory ran out"),
    (1, b"Traceback:\nOSError: [Errno 28] No space left on device\n", r"ended with status 1: OSError: \[Errno 28\]"),
    (1, b"", r"ended with status 1: it said nothing"),
    (prepare.REFUSED, b"net.onnx: ONNX Runtime refuses it\n", r"^net.onnx: ONNX Runtime refuses it$"),
    (prepare.FULL, b"cannot write 'cache': the disk is full\n", r"the disk is full$"),
    (prepare.LONG, b"0.5\na block takes 500 ms\n", r"^a block takes 500 ms$"),
    (None, b"", r"was not optimised and cut within 100 s"),
    (-24, b"", r"was not cut within 30 s of processor time"),
])  # fmt: skip
def test_a_file_that_fails_aside_is_not_tried_on_the_device(
    code: int | None, said: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, the device tried it again in its own process: it held up those that it serves, or died."""

    def run(command: list[str], **more: Any) -> subprocess.CompletedProcess[bytes]:
        if code is None:
            raise subprocess.TimeoutExpired(command, more["timeout"])
        refused = code in (prepare.REFUSED, prepare.FULL, prepare.LONG)
        return subprocess.CompletedProcess(command, code, said if refused else b"", b"" if refused else said)

    (tmp_path / "net.onnx").write_bytes(b"x")
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ModelError, match=why) as caught:
        prepare.prepare_aside(str(tmp_path / "net.onnx"), str(tmp_path), {}, 1.0)
    assert getattr(caught.value, "longest_s", 0.0) == (0.5 if code == prepare.LONG else 0.0)
    assert isinstance(caught.value, Away) == (code == prepare.FULL)


def test_the_process_aside_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.nice", lambda by: 0)
    (tmp_path / "net.onnx").write_bytes(b"no network")
    asked = [str(tmp_path / "net.onnx"), str(tmp_path), "{}", "1.0", "", "0.0"]
    assert prepare.main(asked) == prepare.REFUSED
    assert "net.onnx: ONNX Runtime refuses it" in capsys.readouterr().out


def test_a_cut_that_is_too_long_for_clients_sizes_does_not_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try left another copy of all weights in the cache, or a file of times."""
    monkeypatch.setattr("os.nice", lambda by: 0)
    monkeypatch.setattr(prepare, "bound", lambda: None)
    (tmp_path / "net.onnx").write_bytes(mobilenet_v2(side=32, classes=10))
    asked = [str(tmp_path / "net.onnx"), str(tmp_path), '{"image": [1, 3, 32, 32]}', "1.0", ""]
    assert prepare.main([*asked, "1e-9"]) == prepare.LONG
    assert "with such inputs, and may take 0" in capsys.readouterr().out
    assert not [*tmp_path.glob("*.blocks"), *tmp_path.glob("*.times.json")]
    assert prepare.main([*asked, "60.0"]) == 0 and len(list(tmp_path.glob("*.blocks"))) == 1


def test_where_only_the_whole_loads_for_clients_sizes_the_old_cut_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some pieces do not load by themselves: the network lost the cut that it had, and no such input ran."""
    monkeypatch.setattr(worker, "prepare_aside", lambda *order: None)
    monkeypatch.setattr(worker, "short_blocks", lambda *order: [0.0, 0.0])
    (tmp_path / "net.onnx").write_bytes(mobilenet_v2(side=32, classes=10))
    (near, far), order = pair(), {"model": "net#2", "path": str(tmp_path / "net.onnx"), "shapes": {}}
    order |= {"target_s": 1.0, "whole_s": 0.0, "backend": "cpu", "most_s": 1e-9}
    arena = Arena.create(2**20)
    refusing = worker.Worker(near, arena, 0, str(tmp_path))
    refusing._load_aside(order)
    said = receive(far)
    assert said is not None and "blocks do not load with such inputs" in said["why"]
    assert 1e-9 < said["longest_s"] < math.inf
    refusing._memory.release()
    for end in (near, far, arena):
        end.close()


def test_where_clients_chose_the_sizes_the_process_aside_is_bounded() -> None:
    """One request of 0.7 MB had it take 9.4 GiB, and 45 s."""
    code = "import resource; from eunomia.serving.devices.prepare import bound; from pathlib import Path\n"
    code += f"resource.setrlimit(resource.RLIMIT_DATA, ({2**30}, {2**30})); bound()\n"
    code += "print(*[resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_CPU, resource.RLIMIT_DATA)])\n"
    code += "print(Path('/proc/self/oom_score_adj').read_text())"
    seconds, left, first = children.run(children.python("-c", code), check=True).stdout.split()
    assert (int(seconds), first) == (prepare.MOST_USED_S, "1000") and 0 < int(left) < 2**30


@pytest.mark.parametrize(
    "free, why",
    [
        ("256 * 2**20", "more than 192 MiB of memory, 75% of what is free now"),
        ("0", "more than 0 MiB of memory, 75% of what is free now"),  # and was bounded by nothing
        ("None", "left of the device's 1024 MiB"),
        ("2**40", "left of the device's 1024 MiB"),
    ],
)
def test_a_load_takes_no_more_than_a_share_of_what_is_free(tmp_path: Path, free: str, why: str) -> None:
    """It took three quarters of the machine, whatever else was there."""
    model = '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float y) <int64[1] s = {1000000000}>'
    model += " { e = Expand(x, s) y = ReduceMax<keepdims = 0>(e) }"
    (tmp_path / "net.onnx").write_bytes(onnx.parser.parse_model(model).SerializeToString())
    code = "import resource, sys; from eunomia.serving.devices import memory, prepare\n"
    code += f"memory.free_bytes = lambda: {free}\n"
    code += f"resource.setrlimit(resource.RLIMIT_DATA, ({2**30}, {2**30}))\n"
    code += "sys.exit(prepare.main(sys.argv[1:]))"
    done = children.run(children.python("-c", code, tmp_path / "net.onnx", tmp_path, "{}", "1.0", "", "0.0"))
    assert (done.returncode, why in done.stdout) == (prepare.REFUSED, True), done.stdout + done.stderr


def test_a_bound_for_one_load_ends_with_it() -> None:
    code = "import resource; from eunomia.serving.devices import memory\n"
    code += f"memory.free_bytes = lambda: 2**28; memory.bound_memory({2**33})\n"
    code += "limit = lambda: print(resource.getrlimit(resource.RLIMIT_DATA)[0])\n"
    for most in ("2**33", "0"):
        code += f"with memory.within_what_is_free({most}): limit()\n"
    code += "limit()"
    inside, unbound, after = map(int, children.run(children.python("-c", code), check=True).stdout.split())
    assert inside < 2**32 and unbound == after == 2**33


def test_without_a_bound_nobody_looks_at_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for look in ("free_bytes", "own_data_bytes"):
        monkeypatch.setattr(memory, look, lambda: pytest.fail("it was looked at"))
    with memory.within_what_is_free(0):
        pass


@pytest.mark.parametrize("look", ["free_bytes", "own_data_bytes"])
def test_a_load_goes_on_where_no_descriptor_is_left_to_look(
    monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    def refused() -> int:
        raise memory.NoDescriptor

    monkeypatch.setattr(memory, "free_bytes", lambda: 0)
    monkeypatch.setattr(memory, look, refused)
    monkeypatch.setattr(memory, "bound_memory", lambda size: pytest.fail(f"bounded to {size}"))
    with memory.within_what_is_free(2**33):
        pass

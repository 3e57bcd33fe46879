"""Loading beside traffic: a device goes on serving while it loads another network."""

from __future__ import annotations

import asyncio
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.devices import prepare
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.loading import Loading
from eunomia.serving.devices.messages import Message
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.models.convolutional import mobilenet_v2
from eunomia.serving.server import Server
from eunomia.workload.tenant import Agreement
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
    """A device that answers a load as ``becomes`` says: loads it, dies of it, or is not there."""

    index, alive, spec, blameless = 0, True, DeviceSpec("cpu"), False

    def __init__(self, becomes: dict[str, str]) -> None:
        self.becomes, self.told = becomes, list[str]()
        self.loading = Loading([self], CostBook(1), 1.0, 1.0)  # type: ignore[list-item]

    def tell(self, message: Message) -> bool:
        name = message["model"].split("#")[0]
        self.told.append(name)
        becomes, port = self.becomes.get(name, "loads"), {"name": "x", "datatype": "FP32", "shape": [-1]}
        answer: Callable[[], None] = lambda: self.loading.died(0)  # noqa: E731
        if becomes == "loads":
            facts = {"inputs": [port], "outputs": [port], "block_s": [1.0], "whole": False}
            loaded = {"kind": "loaded", "model": message["model"], **facts}
            answer = lambda: self.loading.answered(0, loaded)  # noqa: E731
        asyncio.get_running_loop().call_soon(answer)
        return becomes != "away"


def test_a_device_that_is_away_is_not_waited_for() -> None:
    """As it was, the load waited for two minutes, and no other could begin; then it ended the device."""

    async def main() -> None:
        device = Loads({"net": "away"})
        with pytest.raises(ModelError, match="device 'cpu' is away; try again when it is back"):
            await device.loading.load("net", "net.onnx", {})

    asyncio.run(main())


def test_a_network_that_ends_its_device_does_not_keep_the_others_from_being_served() -> None:
    """Its file may have changed since it was loaded. As it was, the device died of it for ever, others or not."""

    async def main() -> None:
        device, wanted = Loads({}), set[int]()
        for name in ("good", "bad", "better"):
            await device.loading.load(name, f"{name}.onnx", {})
        device.becomes["bad"] = "dies"
        wanted.add(device.loading.models["bad"].network.index)

        async def started_anew() -> list[str]:
            device.told.clear()
            return [name async for name in device.loading.load_again(device, wanted)]  # type: ignore[arg-type]

        await started_anew()
        assert device.told[0] == "bad", "somebody waits for it"
        assert await started_anew() == ["better", "good"] and device.told[-1] == "bad"
        assert await started_anew() == ["better", "good"] and "bad" not in device.told
        device.becomes["bad"] = "loads"
        await device.loading.load("bad", "bad.onnx", {})
        assert "bad" in await started_anew(), "loaded anew, it counts as any other"

    asyncio.run(main())


@pytest.mark.parametrize(("code", "said", "why"), [
    (-11, b"", r"ended with signal 11: ONNX Runtime dies of the file; export it anew"),
    (-9, b"", r"ended with signal 9: somebody ended it, or memory ran out"),
    (prepare.REFUSED, b"net.onnx: ONNX Runtime refuses it\n", r"^net.onnx: ONNX Runtime refuses it$"),
    (None, b"", r"was not optimised and cut within 100 s"),
])  # fmt: skip
def test_a_file_that_fails_aside_is_not_tried_on_the_device(
    code: int | None, said: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, the device tried it again in its own process: it held up those that it serves, or died."""

    def run(command: list[str], **more: Any) -> subprocess.CompletedProcess[bytes]:
        if code is None:
            raise subprocess.TimeoutExpired(command, more["timeout"])
        return subprocess.CompletedProcess(command, code, said)

    (tmp_path / "net.onnx").write_bytes(b"x")
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ModelError, match=why):
        prepare.prepare_aside(str(tmp_path / "net.onnx"), str(tmp_path), {}, 1.0)


def test_the_process_aside_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.nice", lambda by: 0)
    (tmp_path / "net.onnx").write_bytes(b"no network")
    assert prepare.main([str(tmp_path / "net.onnx"), str(tmp_path), "{}", "1.0"]) == prepare.REFUSED
    assert "net.onnx: ONNX Runtime refuses it" in capsys.readouterr().out

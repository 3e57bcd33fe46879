"""Loads wait for each other, but not for one that goes on for long; what is no network does not wait at all."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx.parser
import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.blocks.glance import must_look_right
from eunomia.serving.models.repository import Repository
from eunomia.serving.models.turn import PATIENT_S, Turn
from eunomia.serving.protocol.errors import BadRequest, NotFound, Unavailable
from tests.patience import until_async
from tests.simulated_time import run_simulated

NETWORK = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { y = Neg(x) }'
).SerializeToString()


def test_a_queue_that_moves_is_waited_for_and_a_load_that_hangs_is_not() -> None:
    async def main(clock: Callable[[], float]) -> None:
        turn, done = Turn(), list[str]()

        async def load(name: str, seconds: float) -> None:
            async with turn.of(name):
                await asyncio.sleep(seconds)
            done.append(name)

        await asyncio.gather(*(load(f"n{n}", 0.9 * PATIENT_S) for n in range(4)))
        assert done == ["n0", "n1", "n2", "n3"]
        hangs = asyncio.create_task(load("hangs", 3 * PATIENT_S))
        await asyncio.sleep(0.5 * PATIENT_S)
        began_s = clock()
        with pytest.raises(
            Unavailable, match=r"'next' .*another network is loading \(hangs, for 30 s\)"
        ) as told:
            await load("next", 1.0)
        assert clock() - began_s == 0.5 * PATIENT_S and told.value.retry_after_s
        with pytest.raises(Unavailable, match="hangs, for 30 s"):
            await load("third", 1.0)
        assert clock() - began_s == 0.5 * PATIENT_S
        await hangs
        async with turn:  # as a device's own work takes it
            assert turn.locked()
        await load("next", 1.0)
        assert done[-1] == "next"

    run_simulated(main)


async def waiting_for(turn: Turn) -> list[asyncio.Task[None]]:
    """One that waits for it, and what it waits with."""

    async def load() -> None:
        async with turn.of("net"):
            raise AssertionError("it was not its turn")

    before = asyncio.all_tasks()
    waiting = asyncio.create_task(load())
    await until_async(lambda: len(asyncio.all_tasks() - before) == 2)
    return [waiting, *(asyncio.all_tasks() - before - {waiting})]


@pytest.mark.parametrize("order", [1, -1])
def test_where_all_tasks_are_cancelled_nobody_gives_back_what_another_has(order: int) -> None:
    """As ``asyncio.run`` does at its end, of both the one that waits and what it waits with."""

    async def main() -> None:
        turn = Turn()
        async with turn:
            both = await waiting_for(turn)
            for task in both[::order]:
                task.cancel()
            assert [type(one) for one in await asyncio.gather(*both, return_exceptions=True)] == [
                asyncio.CancelledError
            ] * 2
            assert turn.locked()
        async with turn.of("next"):
            assert turn.locked()

    asyncio.run(main())


def test_a_turn_that_never_came_is_nobody_s() -> None:
    async def main() -> None:
        turn = Turn()
        async with turn:
            waiting, entering = await waiting_for(turn)
            entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert turn.locked()

    asyncio.run(main())


class Pool:
    """One that loads for as long as it is told to, and then fails."""

    def __init__(self) -> None:
        self.go_on, self.asked = asyncio.Event(), list[str]()

    async def load(self, name: str, *_: Any, **__: Any) -> Any:
        self.asked.append(name)
        await self.go_on.wait()
        raise ModelError("it hangs")


def test_what_is_no_network_is_refused_while_another_loads(tmp_path: Path) -> None:
    (tmp_path / "hangs.onnx").write_bytes(NETWORK)
    (tmp_path / "text.onnx").write_text("no network\n" * 100)
    (tmp_path / "folder" / "model.onnx").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe.onnx")

    async def main() -> None:
        pool = Pool()
        networks = Repository(pool, tmp_path)  # type: ignore[arg-type]
        hangs = asyncio.create_task(networks.load("hangs"))
        await until_async(lambda: pool.asked)
        for name, why in (("text", "no ONNX file"), ("folder", "No such file"), ("pipe", "no regular file")):
            with pytest.raises(BadRequest, match=f"model '{name}' does not load: .*{why}"):
                await networks.load(name)
            assert why in networks.entry(name).reason
        pool.go_on.set()
        with pytest.raises(BadRequest, match="it hangs"):
            await hangs

    asyncio.run(main())


def test_names_that_nobody_knows_are_not_kept(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no network\n" * 100)

    async def main() -> None:
        networks = Repository(Pool(), tmp_path)  # type: ignore[arg-type]
        for name, error in (("text", BadRequest), ("nobody", NotFound)):
            with pytest.raises(error):
                await networks.load(name)
        assert networks.tried == {"text"}

    asyncio.run(main())


def test_why_a_load_failed_is_in_the_log_once_whoever_has_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "net.onnx").write_bytes(NETWORK)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(told))
        for stays in (True, False):
            pool = Pool()
            networks = Repository(pool, tmp_path)  # type: ignore[arg-type]
            client = asyncio.create_task(networks.load("net"))
            await until_async(lambda: pool.asked)  # noqa: B023
            if not stays:
                client.cancel()
            pool.go_on.set()
            await asyncio.gather(client, return_exceptions=True)
            await until_async(lambda: networks.entry("net").reason == "it hangs")  # noqa: B023
            await until_async(lambda: caplog.messages)
            said.append([(one.levelno, one.message, one.exc_info) for one in caplog.records])
            caplog.clear()

    unheard, said = list[Any](), list[Any]()
    asyncio.run(main())
    assert said == [[(logging.WARNING, "model 'net' does not load: it hangs", None)]] * 2 and not unheard


@pytest.mark.parametrize(
    "content, why",
    [
        (b"", "it is empty|the file is empty"),
        (bytes(4096), "it is no ONNX file, or not all of one"),
        (NETWORK[:-3], "it is no ONNX file, or not all of one"),
        (b"\x08\x08", "it is no ONNX file, or not all of one"),
        (b"\xff" * 40, "it is no ONNX file, or not all of one"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_the_first_bytes_of_a_file_tell(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(ModelError, match=why):
        must_look_right(tmp_path / "net.onnx")


def test_whatever_may_be_a_network_is_the_runtime_s_to_judge(tmp_path: Path) -> None:
    for content in (NETWORK, NETWORK + b"\xfa\x07\x02ab", NETWORK + b"\x0b", b"\x08\x01" * 1001):
        (tmp_path / "net.onnx").write_bytes(content)
        must_look_right(tmp_path / "net.onnx")

"""What one message may take of the processes that read and write JSON: memory, time, and others' patience."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable

import pytest

from eunomia.serving.fronts import json_worker
from eunomia.serving.fronts.json_process import LARGE, JsonProcess
from eunomia.serving.protocol.errors import Refused, TooLarge, TooLong
from eunomia.serving.protocol.infer import InferRequest
from tests.patience import until_async

MIB = 1024**2


def listed(values: bytes, count: int) -> memoryview:
    """A request of one list of so many of these."""
    head = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [%d], "data": [' % count
    return memoryview(head + values * (count - 1) + values.rstrip(b",") + b"]}]}")


HONEST = listed(b"0.5,", MIB)  # 4 MiB
LITTLE = listed(b"0.5,", 20_000)
COLUMNS = listed(b"[" * 400 + b"1" + b"]" * 400 + b",", 10 * 1024)  # 8 MiB, which take 50 times as much


def played(most_bytes: int, game: Callable[[JsonProcess], Awaitable[None]]) -> None:
    async def main() -> None:
        work = JsonProcess(most_bytes)
        try:
            await game(work)
        finally:
            work.close()

    asyncio.run(main())


async def read(work: JsonProcess, body: memoryview, tenant: str = "gold") -> InferRequest:
    return await work.read("m", "", body, None, tenant)


def test_a_message_that_takes_too_much_memory_is_refused_and_ends_nothing() -> None:
    """As it was, the system's memory was the only bound, and a process without any died with all that waited."""

    async def game(work: JsonProcess) -> None:
        await read(work, HONEST)
        first = work.large.process
        with pytest.raises(
            TooLarge, match=r"take more memory than JSON may, \d+ MiB by max_json_mib and the machine: send"
        ):
            await read(work, COLUMNS, "bronze")
        assert (await read(work, HONEST)).inputs[0].shape == (MIB,)
        assert work.large.process is first

    assert len(COLUMNS) > 8 * MIB - LARGE
    played(9 * MIB, game)


def test_a_message_that_takes_too_long_ends_the_process_and_its_tenant_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def game(work: JsonProcess) -> None:
        await read(work, HONEST)
        with monkeypatch.context() as patch:
            patch.setattr(json_worker, "LEAST_S", 1e-3)
            patch.setattr(json_worker, "MIB_S", 0.0)
            with pytest.raises(
                TooLong, match="more than 0.001 s of a processor, which is the most for its size"
            ):
                await read(work, HONEST, "bronze")
        with pytest.raises(Refused, match="tenant 'bronze' has taken too long to read or write") as caught:
            await read(work, HONEST, "bronze")
        assert 0 < (caught.value.retry_after_s or 0) <= json_worker.PAUSE_S
        assert (await read(work, HONEST)).inputs[0].shape == (MIB,)
        monkeypatch.setattr(json_worker, "PAUSE_S", -1.0)
        work.large._pauses["bronze"] = 0.0
        assert (await read(work, HONEST, "bronze")).inputs[0].shape == (MIB,)

    played(16 * MIB, game)


def test_small_messages_do_not_wait_for_large_ones() -> None:
    """75 KB of a picture waited for 16 MB of another tenant, and 30 s where those hung."""

    async def game(work: JsonProcess) -> None:
        await read(work, HONEST, "bronze")
        assert work.large.process is not None
        work.large.process.send_signal(signal.SIGSTOP)
        waiting = asyncio.create_task(read(work, HONEST, "bronze"))
        await until_async(lambda: work.large.turns._busy)
        assert (await read(work, LITTLE)).inputs[0].shape == (20_000,)
        work.large.process.send_signal(signal.SIGCONT)
        assert (await waiting).inputs[0].shape == (MIB,)

    played(16 * MIB, game)


def test_honest_messages_of_the_largest_size_are_read() -> None:
    """Numbers, short and long, and a column of them."""

    async def game(work: JsonProcess) -> None:
        for values in (b"0.5,", b"0.12345678901234567,", b"-9,"):
            count = 15 * MIB // len(values)
            assert (await read(work, listed(values, count))).inputs[0].shape == (count,)
        column = [[0.12345678901234567]] * (7 * MIB // 23)
        tensor = {"name": "x", "datatype": "FP32", "shape": [len(column), 1], "data": column}
        body = memoryview(json.dumps({"inputs": [tensor]}).encode())
        assert (await read(work, body)).inputs[0].shape == (len(column), 1)

    played(16 * MIB, game)

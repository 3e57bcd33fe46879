"""What nobody waits for: done in order, soon, found by whoever looks; and no answer depends on it."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eunomia.serving.dispatch import later as module
from eunomia.serving.dispatch.later import Later
from eunomia.serving.observe.journal import read_lines
from tests.patience import until_async
from tests.serving.live import GOLD, SIDE, ask, running

TENSOR = {"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], "data": [0.5] * (3 * SIDE * SIDE)}


def fail() -> None:
    raise RuntimeError("a fault of ours")


def test_pieces_are_done_in_order_and_one_that_fails_stops_none(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[int]:
        done: list[int] = []
        later = Later()
        later.add(partial(done.append, 1))
        later.add(fail)
        later.add(partial(done.append, 2))
        assert done == []
        later.soon()
        await asyncio.sleep(0)
        assert done == [1, 2]
        later.add(partial(done.append, 3))
        await until_async(lambda: len(done) == 3)  # without an order to a device, too
        return done

    assert asyncio.run(main()) == [1, 2, 3]
    assert "bookkeeping failed" in caplog.text and "a fault of ours" in caplog.text


def test_what_is_gathered_waits_for_others_for_whoever_looks_or_for_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 3)

    async def main() -> None:
        done: list[int] = []
        later = Later()
        for n in range(2):
            later.gather(done.extend, n)
        later.add(partial(done.append, 9))
        later.soon()
        await asyncio.sleep(0)
        assert done == [9]
        later.gather(done.extend, 2)
        later.soon()
        await asyncio.sleep(0)
        assert done == [9, 0, 1, 2]
        later.gather(done.extend, 3)
        later.settle()
        assert done[-1] == 3
        later.gather(done.extend, 4)
        await until_async(lambda: done[-1] == 4)

    asyncio.run(main())


def test_what_is_gathered_is_done_kind_by_kind_and_one_that_fails_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        calls: list[list[int]] = []
        later = Later()

        def first(pieces: list[int]) -> None:
            calls.append(pieces)
            later.settle()  # somebody looks in its midst
            if pieces == [0, 2]:
                later.gather(first, 9)
                raise RuntimeError("a fault of ours")

        def second(pieces: list[int]) -> None:
            calls.append(pieces)

        for n in range(4):
            later.gather(second if n % 2 else first, n)
        later.settle()
        assert calls == [[0, 2], [1, 3]]
        later.settle()
        assert calls[2:] == [[9]], "what came meanwhile"

    asyncio.run(main())
    assert caplog.text.count("bookkeeping failed") == 1


def test_no_more_than_so_many_gathered_pieces_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATEST_S", 1e6)
    monkeypatch.setattr(module, "MOST", 5)

    async def main() -> None:
        done: list[int] = []
        later = Later()
        for n in range(9):
            later.gather(done.extend, n)
            assert n - len(done) <= 5
        later.settle()
        assert done == list(range(9))

    asyncio.run(main())


def test_another_thread_that_looks_waits_for_the_loop_and_does_nothing_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LATEST_S", 1e6)
    where: list[int] = []

    async def main() -> None:
        later = Later()
        for _ in range(3):
            later.add(lambda: where.append(threading.get_ident()))
        await asyncio.to_thread(later.settle)
        assert where == [threading.get_ident()] * 3

    asyncio.run(main())


def test_a_loop_that_has_ended_holds_nothing_up() -> None:
    """As it was, its timer counted as set for good: what the next loop put off was never done."""
    done: list[int] = []
    later = Later()

    async def begin() -> None:
        later.add(partial(done.append, 1))

    async def go_on() -> None:
        later.add(partial(done.append, 2))
        await until_async(lambda: done == [1, 2])

    asyncio.run(begin())
    assert done == []
    asyncio.run(go_on())


def test_no_more_than_so_many_pieces_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATEST_S", 1e6)
    monkeypatch.setattr(module, "MOST", 5)

    async def main() -> None:
        done: list[int] = []
        later = Later()
        for n in range(9):
            later.add(partial(done.append, n))
            assert n - len(done) < 5
        later.settle()
        assert done == list(range(9))

    asyncio.run(main())


def test_one_turn_of_the_event_loop_does_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 3)
    monkeypatch.setattr(module, "LATEST_S", 0.0)

    async def main() -> None:
        done: list[int] = []
        later = Later()
        for n in range(8):
            later.add(partial(done.append, n))
        while len(done) < 8:
            before = len(done)
            await asyncio.sleep(0)
            assert len(done) <= before + 3
        assert done == list(range(8))

    asyncio.run(main())


def test_the_ledger_has_its_line_and_the_client_its_answer_before_any_bookkeeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, a counter that fails cost the client its answer, and the tenant its place, for good."""
    monkeypatch.setattr(module, "LATEST_S", 1e6)  # nothing is written up until somebody looks
    with running(tmp_path, ledger_dir=tmp_path / "ledger") as server:
        books: Any = server.service.books

        def lines() -> list[str]:
            return [line[3] for path in (tmp_path / "ledger").glob("*.log") for line in read_lines(path)]

        assert ask(server, "POST", "/v2/models/small/infer", GOLD, {"inputs": [TENSOR]})[0] == 200
        assert lines() == ["hit"] and books._recording._count == 0
        assert [row[5] for row in books.recording.requests()] == ["hit"] and len(books.history.seconds) == 1
        books._telemetry.retired = lambda *_: fail()
        for n in (2, 3):
            assert ask(server, "POST", "/v2/models/small/infer", GOLD, {"inputs": [TENSOR]})[0] == 200
            assert lines() == ["hit"] * n
        assert server.service.limits.active("gold") == 0
        told = ask(server, "GET", "/v2/models/small/stats", GOLD)[1]
        stats = told["model_stats"][0]
        assert 0.0 <= told["front_end"]["busy"] <= 1.0
        assert stats["inference_count"] == 1  # the faulty counter stands before it

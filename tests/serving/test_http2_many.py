"""Many calls of a connection that end together: a few in each turn of the event loop, in their order."""

from __future__ import annotations

import asyncio
import logging

import pytest

from eunomia.serving.fronts.rota import Rota
from tests.hostile import frames
from tests.serving.near import Near, away, head, message, resets, whole

CALLS = range(1, 21, 2)


@pytest.mark.parametrize("how", ["the client leaves", "a fault ends it", "a fault ends what still comes"])
def test_calls_that_end_together_end_in_several_turns(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, 128 that waited for a device left in one turn, which took 20 ms."""
    monkeypatch.setattr(Rota, "full", property(lambda self: True))

    async def main() -> None:
        near = Near()
        near.say(frames.greeting() + b"".join(head(n, "/silent") for n in CALLS))
        near.said()
        if how == "the client leaves":
            near.leave()
        elif how == "a fault ends it":
            near.say(head(2))
            assert away(near.said()) is not None
        else:
            near.say(frames.frame(frames.HEADERS, 4, 21, bytes(20_000)))
        seen = list[list[int]]()
        near.takers[9].call.finish()  # meanwhile this one is answered
        while not seen or len(seen[-1]) < len(CALLS) - 1:
            seen.append([n for n, taker in near.takers.items() if taker.is_gone])
            assert len(seen) < 2 * len(CALLS)
            await asyncio.sleep(0)
        left = [n for n in CALLS if n != 9]
        assert all(gone == left[: len(gone)] for gone in seen), "in their order"
        assert all(len(after) - len(before) <= 1 for before, after in zip(seen, seen[1:], strict=False))
        assert not near.line.calls and not near.takers[9].is_gone
        if how == "a fault ends what still comes":
            assert sorted(resets(near.said())) == [*CALLS, 21]

    asyncio.run(main())


def test_who_leaves_before_its_calls_have_ended_ends_them_once() -> None:
    async def main() -> None:
        near = Near()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Rota, "full", property(lambda self: True))
            near.say(frames.greeting() + b"".join(head(n, "/silent") for n in CALLS) + head(2))
            near.leave()
        for _ in range(2):
            await asyncio.sleep(0)
        assert all(taker.is_gone for taker in near.takers.values())
        assert not near.line.calls and not near.bodies.held

    asyncio.run(main())


def test_what_waited_to_leave_is_not_held_while_calls_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said to who has left, though an answer comes before its call has ended."""
    monkeypatch.setattr(Rota, "full", property(lambda self: True))

    async def main() -> None:
        near = Near()
        near.say(frames.greeting() + head(1, "/silent") + head(3, "/silent") + whole(5, b"a", "/silent"))
        near.said()
        near.leave()
        near.takers[5].call.answer([message(b"b")])
        assert near.said() == b"" and near.takers[1].is_gone and not near.takers[3].is_gone

    asyncio.run(main())


@pytest.mark.parametrize("full", [False, True])
def test_one_that_fails_while_it_ends_leaves_the_others_to_end(
    full: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As it was, the calls behind it waited on, and kept their room."""
    monkeypatch.setattr(Rota, "full", property(lambda self: full))

    def fails() -> None:
        raise RuntimeError("of one call")

    async def main() -> None:
        near, ended = Near(), list[bool]()
        near.say(frames.greeting() + b"".join(head(n, "/silent") for n in CALLS))
        monkeypatch.setattr(near.takers[5], "gone", fails)
        monkeypatch.setattr(near.line.outlet, "end", lambda: ended.append(True))
        near.leave()
        for _ in CALLS:
            await asyncio.sleep(0)
        assert [n for n, taker in near.takers.items() if not taker.is_gone] == [5] and ended
        (record,) = caplog.records
        assert record.levelno == logging.ERROR and record.exc_info is not None

    asyncio.run(main())

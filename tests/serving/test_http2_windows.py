"""Windows of HTTP/2: the server sends no more than its client takes, and waits for none for ever."""

from __future__ import annotations

import asyncio

import pytest
from h2.settings import SettingCodes
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.fronts.connections import ConnectionLimits
from eunomia.serving.http2.frames import Code
from eunomia.serving.http2.outlet import CALL_BYTES
from tests.hostile import frames
from tests.patience import until_async
from tests.serving.near import (
    MIB,
    Near,
    Talk,
    head,
    heard,
    numbered,
    resets,
    setting,
    whole,
    wider,
    within,
)
from tests.serving.speaking import message

FIRST, LARGEST = SettingCodes.INITIAL_WINDOW_SIZE, SettingCodes.MAX_FRAME_SIZE


def asked(talk: Talk, size: int, path: str = "/count") -> int:
    """A call whose answer has so many bytes."""
    number = talk.begin(path)
    talk.push(number, message(str(size).encode()))
    talk.end(number)
    return number


@pytest.mark.parametrize("window", [0, 1, 7, 65_535])
def test_an_answer_leaves_as_far_as_its_window_goes(window: int) -> None:
    """The library would object to a byte more; the server holds room for the rest."""

    def run() -> None:
        near, size = Near(), 200_000
        talk = Talk(near, settings={FIRST: window})
        talk.takes = False
        talk.h2.increment_flow_control_window(MIB)
        talk.exchange()
        number = asked(talk, size)
        talk.exchange()
        answer, expected = talk.answers[number], message(numbered(size))
        assert bytes(answer.body) == expected[:window] and not answer.over
        assert near.bodies.held == {"gold": len(expected) - window + CALL_BYTES}
        came = window
        for more in (1, 1, 2, 16_384, 3, 53_000):
            talk.take(number, more)
            talk.exchange()
            came += more
            assert bytes(answer.body) == expected[:came] and not answer.over
        talk.take(number, size)
        talk.exchange()
        assert bytes(answer.body) == expected and answer.status == 0 and answer.ended
        assert not near.bodies.held and not near.line.calls

    within(run)


@pytest.mark.parametrize("window", [10, 65_530])
def test_an_answer_leaves_as_far_as_the_window_of_all_goes(window: int) -> None:
    def run() -> None:
        near = Near()
        talk = Talk(near, settings={FIRST: MIB})
        talk.takes = False
        used = asked(talk, 65_535 - 5 - window)
        talk.exchange()
        assert talk.answers[used].ended
        number = asked(talk, 300_000)
        talk.exchange()
        came = window
        assert len(talk.answers[number].body) == came
        for more in (1, 20_000, 7):
            talk.h2.increment_flow_control_window(more)
            talk.flush()
            talk.exchange()
            came += more
            assert len(talk.answers[number].body) == came

    within(run)


STEPS = st.lists(
    st.tuples(st.just("window"), st.sampled_from([0, 1, 7, 100, 5_000, 65_535]))
    | st.tuples(st.just("frame"), st.sampled_from([16_384, 16_385, 40_000, 2**24 - 1]))
    | st.tuples(st.just("one"), st.integers(1, 30_000))
    | st.tuples(st.just("all"), st.integers(1, 30_000))
    | st.tuples(st.just("call"), st.sampled_from([0, 1, 6, 100, 5_000, 70_000, 300_000])),
    max_size=20,
)


@given(steps=STEPS, first=st.sampled_from([0, 1, 7, 65_535]))
def test_windows_that_change_in_the_middle_lose_no_byte(steps: list[tuple[str, int]], first: int) -> None:
    """Less than nothing, too: what was let out before counts against the smaller one."""

    async def main() -> None:
        near, sizes = Near(), dict[int, int]()
        talk = Talk(near, settings={FIRST: first})
        talk.takes = False
        talk.exchange()
        for what, size in [("call", 40_000), *steps]:
            if what == "call":
                sizes[asked(talk, size)] = size
            elif what == "one":
                number = [*sizes][size % len(sizes)]
                if not talk.answers[number].over:
                    talk.take(number, size)
            elif what == "all":
                talk.h2.increment_flow_control_window(size)
                talk.flush()
            else:
                talk.change({FIRST if what == "window" else LARGEST: size})
            talk.exchange()
        talk.h2.increment_flow_control_window(2**29)
        for number, size in sizes.items():
            if not talk.answers[number].over:
                talk.take(number, size + MIB)
        while near.line.calls:
            talk.exchange()
            await asyncio.sleep(0)
        talk.exchange()
        for number, size in sizes.items():
            found = talk.answers[number]
            assert found.messages == [numbered(size)] and found.status == 0 and found.ended
        assert not near.bodies.held

    asyncio.run(main())


@pytest.mark.parametrize("largest", [16_384, 16_385, 100_000, 2**24 - 1])
def test_frames_are_no_larger_than_the_client_takes(largest: int) -> None:
    async def main() -> None:
        near, size = Near(), 3 * MIB
        near.say(
            frames.greeting() + setting(5, largest) + setting(4, 2**31 - 1) + wider(0, 2**31 - 1 - 65_535)
        )
        near.say(whole(1, str(size).encode(), "/count"))
        await until_async(lambda: not near.line.calls)
        data = [
            content for kind, _, number, content in heard(near.said()) if (kind, number) == (frames.DATA, 1)
        ]
        assert b"".join(data) == message(numbered(size))
        assert max(map(len, data)) <= largest and len(data) < 2 * size / min(largest, 100_000)

    asyncio.run(main())


def test_answers_that_wait_leave_side_by_side() -> None:
    """None of them waits for the last byte of another."""

    async def main() -> None:
        near = Near()
        near.say(frames.greeting() + setting(4, 2**31 - 1))
        for number in (1, 3, 5):
            near.say(whole(number, str(2 * MIB).encode(), "/count"))
        near.said()
        near.say(wider(0, 4 * MIB))
        await until_async(lambda: near.line.outlet.window == 0)
        came = dict.fromkeys((1, 3, 5), 0)
        for kind, _, number, content in heard(near.said()):
            came[number] += len(content) if kind == frames.DATA else 0
        assert min(came.values()) > MIB
        near.say(wider(0, 4 * MIB))
        await until_async(lambda: not near.line.calls)
        assert not near.bodies.held

    asyncio.run(main())


def test_an_answer_that_is_never_taken_ends_alone_and_gives_its_room_back() -> None:
    async def main() -> None:
        near = Near(ConnectionLimits(body_s=0.05))
        near.say(frames.greeting() + setting(4, 7) + whole(1, b"5000", "/count") + head(3))
        near.said()
        assert near.bodies.held["gold"] > 5000 - 7
        await until_async(lambda: 1 not in near.line.calls)
        assert resets(near.said()) == {1: Code.CANCEL}
        near.say(frames.frame(frames.RESET, 0, 3, bytes(4)))
        assert not near.bodies.held and not near.over
        near.say(setting(4, 100) + whole(5, b"a"))
        assert message(b"=a") in near.said()

    asyncio.run(main())


def test_answers_that_are_not_taken_have_a_bound_by_tenant() -> None:
    def run() -> None:
        near = Near(room_bytes=64 * MIB)
        near.say(frames.greeting() + setting(4, 0))
        for number in range(1, 41, 2):
            near.say(whole(number, str(MIB).encode(), "/count"))
        ended = resets(near.said())
        assert set(ended.values()) == {Code.ENHANCE_YOUR_CALM}
        assert len(near.line.calls) == 20 - len(ended) == 15, (
            "twice the least budget of 8 MiB, with their heads"
        )
        for number in [*near.line.calls]:
            near.say(frames.frame(frames.RESET, 0, number, bytes(4)))
        assert not near.bodies.held and not near.bodies.untaken

    within(run)

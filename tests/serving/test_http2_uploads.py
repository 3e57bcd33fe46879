"""Windows of HTTP/2: a client may send what somebody waits for, and whatever it leaves behind is given back."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.http2.call import WINDOW
from eunomia.serving.http2.frames import Code
from eunomia.serving.http2.greeting import IN_ALL
from tests.hostile import frames
from tests.serving.near import MIB, Near, Talk, fields, head, heard, numbered, plain, setting, whole, within
from tests.serving.speaking import message

SIZES = (0.5, 1.0, 1.001, 1.2, 1.5, 1.9, 2.0, 2.1, 3.0)  # of a message, in windows


@pytest.mark.parametrize(
    ("times", "frame"), [*product(SIZES, [1000, 16_384, 262_144]), (20.0, 16_384), (20.0, 262_144)]
)
def test_a_message_gets_the_window_that_it_needs_and_no_more(times: float, frame: int) -> None:
    def run() -> None:
        near, size = Near(), int(times * WINDOW)
        talk = Talk(near)
        talk.exchange()
        number = talk.begin("/echo")
        left = message(numbered(size))
        while left:
            before = len(left)
            talk.h2.max_outbound_frame_size = frame
            left = talk.push(number, left)
            talk.exchange()
            assert len(left) < before, "it stands still"
            assert WINDOW + talk.answers[number].granted <= 5 + size + max(WINDOW, frame)
        talk.end(number)
        assert near.takers[number].messages == [numbered(size)]

    within(run)


@pytest.mark.parametrize("size", [3000, WINDOW - 5, 900_000, 3_000_000])
def test_padding_uses_no_window_for_good(size: int) -> None:
    """It counts against the windows, and is nobody's."""

    def run() -> None:
        near = Near()
        talk = Talk(near)
        talk.exchange()
        number = talk.begin("/echo")
        left = message(numbered(size))
        while left:
            assert talk.h2.local_flow_control_window(number) >= 256 + len(left[:256]), "it stands still"
            talk.h2.send_data(number, left[:256], pad_length=255)
            left = left[256:]
            talk.flush()
            talk.exchange()
        assert near.takers[number].messages == [numbered(size)] and near.takers[number].call.window

    within(run)


def test_who_is_refused_may_not_send_more() -> None:
    def run() -> None:
        near = Near()
        talk = Talk(near)
        talk.exchange()
        refused = talk.begin("/key")
        talk.exchange()
        answer = talk.answers[refused]
        assert (answer.status, answer.why) == (16, "an API key is needed")
        assert answer.ended and answer.reset == Code.NO_ERROR and answer.granted == 0
        assert near.line.calls == {}
        late = b"".join(frames.frame(frames.DATA, 0, refused, bytes(16_000)) for _ in range(60))
        near.say(late)  # that was on its way
        said = heard(near.said())
        assert [number for kind, _, number, _ in said if kind == frames.WINDOW] in ([], [0])
        assert not near.over and not near.bodies.held

    within(run)


@given(sizes=st.lists(st.sampled_from([0, 3, 100_000, 450_000, 500_000, 600_000, 900_000, 2**20, 1_500_000, 3_000_000]),
                      min_size=1, max_size=7), ahead=st.integers(0, 3))  # fmt: skip
def test_messages_of_a_stream_come_as_they_are_read(sizes: list[int], ahead: int) -> None:
    """Of any sizes, and read as late as one likes: none stands still, and few are here before they are wanted."""

    def run() -> None:
        near = Near()
        talk = Talk(near)
        talk.exchange()
        number = talk.begin("/read")
        left = b"".join(message(bytes(size)) for size in sizes)
        taker, most = near.takers.get(number), max(sizes) + WINDOW
        talk.exchange()
        taker = near.takers[number]
        while left:
            before = len(left)
            left = talk.push(number, left)
            talk.exchange()
            if taker.call.unread > (ahead if len(left) < before else 0):
                taker.read()
                talk.exchange()
            else:
                assert len(left) < before, "it stands still"
            assert sum(map(len, taker.messages[-taker.call.unread :] if taker.call.unread else [])) <= most
        assert [len(one) for one in taker.messages] == sizes
        talk.end(number)
        talk.exchange()
        assert talk.answers[number].messages == [str(len(sizes)).encode()] and not near.bodies.held

    within(run)


def test_bytes_of_all_calls_may_always_come() -> None:
    """What was given up, refused or is padding has used the window of the connection as well."""

    def run() -> None:
        near, sent = Near(), 0
        near.say(frames.greeting() + head(1, "/key") + head(3, "/silent"))
        granted = IN_ALL
        near.said()
        while sent < 3 * IN_ALL:
            assert sent < granted
            near.say(frames.frame(frames.DATA, 8, 1, b"\xff" + bytes(16_383)))
            sent += 16_384
            granted += sum(
                int.from_bytes(content, "big")
                for kind, _, number, content in heard(near.said())
                if (kind, number) == (frames.WINDOW, 0)
            )
        assert not near.over and granted - sent >= IN_ALL // 2

    within(run)


@pytest.mark.parametrize("how", ["reset", "lost", "half lost"])
def test_who_leaves_gives_everything_back(how: str) -> None:
    """In the midst of a message, before it, while it waits for its answer, and while that waits to be taken."""

    def run() -> None:
        near = Near()
        near.say(
            frames.greeting() + setting(4, 3) + head(1, "/silent") + head(3, "/silent") + head(5, "/silent")
        )
        near.say(frames.message(3, bytes(100_000), size=5 * MIB) + frames.message(5, b"a", flags=1))
        near.say(whole(7, b"5000", "/count") + head(9, "/read") + frames.message(9, bytes(100)))
        near.say(frames.frame(frames.HEADERS, 0, 11, plain(fields())[:20]) if how == "half lost" else b"")
        assert near.bodies.held["gold"] > 5000 and len(near.line.calls) == 5
        if how == "reset":
            near.say(b"".join(frames.frame(frames.RESET, 0, number, bytes(4)) for number in (1, 3, 5, 7, 9)))
        else:
            near.leave()
        assert not near.bodies.held and not near.line.calls
        assert all(taker.is_gone for number, taker in near.takers.items() if number != 7)
        if how == "reset":
            near.say(frames.frame(frames.DATA, 1, 3, b"late") + setting(4, 100) + whole(13, b"a"))
            assert message(b"=a") in near.said()
        else:
            assert len(near.connections) == 0

    within(run)

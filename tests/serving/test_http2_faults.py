"""What is against HTTP/2 (RFC 9113) ends the call or the connection that it is part of, with the right code."""

from __future__ import annotations

import asyncio

import hpack
import pytest

from eunomia.serving.http2.blocks import MOST_LIST
from eunomia.serving.http2.frames import LARGEST, Code
from eunomia.serving.http2.greeting import STREAMS
from eunomia.serving.http2.heads import MOST_BLOCK
from tests.hostile import frames
from tests.patience import until_async
from tests.serving.near import Near, away, fields, head, heard, plain, resets, setting, whole, wider, within
from tests.serving.speaking import message

PRIORITY, PADDED, PRIORITISED, PROMISE = 2, 8, 32, 5
ITSELF = (3).to_bytes(4, "big") + b"\0"  # call 3 stands behind call 3

FAULTS = {
    "data of no call": (frames.frame(frames.DATA, 0, 0, b"a"), Code.PROTOCOL_ERROR),
    "data of a call that has not begun": (frames.frame(frames.DATA, 0, 5, b"a"), Code.PROTOCOL_ERROR),
    "an even number": (head(2), Code.PROTOCOL_ERROR),
    "a head of no call": (head(0), Code.PROTOCOL_ERROR),
    "a second head that does not end": (head(1), Code.PROTOCOL_ERROR),
    "a priority of no call": (frames.frame(PRIORITY, 0, 0, bytes(5)), Code.PROTOCOL_ERROR),
    "a small priority": (frames.frame(PRIORITY, 0, 1, bytes(4)), Code.FRAME_SIZE_ERROR),
    "a call behind itself": (frames.frame(PRIORITY, 0, 3, ITSELF), Code.PROTOCOL_ERROR),
    "a head of a call behind itself": (
        frames.frame(frames.HEADERS, PRIORITISED | 4, 3, ITSELF + plain(fields())), Code.PROTOCOL_ERROR,
    ),
    "data within a head": (head(3, flags=0) + frames.frame(frames.DATA, 0, 1, b"a"), Code.PROTOCOL_ERROR),
    "a ping within a head": (head(3, flags=0) + frames.frame(frames.PING, 0, 0, bytes(8)), Code.PROTOCOL_ERROR),
    "a head within a head": (head(3, flags=0) + head(5), Code.PROTOCOL_ERROR),
    "an unknown frame within a head": (head(3, flags=0) + frames.frame(99, 0, 3), Code.PROTOCOL_ERROR),
    "another head goes on": (head(3, flags=0) + frames.frame(frames.CONTINUATION, 4, 1), Code.PROTOCOL_ERROR),
    "no head goes on": (frames.frame(frames.CONTINUATION, 4, 1, b"\x88"), Code.PROTOCOL_ERROR),
    "too much data in a frame": (frames.frame(frames.DATA, 0, 1, bytes(LARGEST + 1)), Code.FRAME_SIZE_ERROR),
    "too large a ping": (frames.frame(frames.PING, 0, 0, bytes(16_385)), Code.FRAME_SIZE_ERROR),
    "a small ping": (frames.frame(frames.PING, 0, 0, bytes(7)), Code.FRAME_SIZE_ERROR),
    "half a setting": (frames.frame(frames.SETTINGS, 0, 0, bytes(5)), Code.FRAME_SIZE_ERROR),
    "settings of a call": (frames.frame(frames.SETTINGS, 0, 1), Code.PROTOCOL_ERROR),
    "too wide a setting": (setting(4, 2**31), Code.FLOW_CONTROL_ERROR),
    "frames too small": (setting(5, 16_383), Code.PROTOCOL_ERROR),
    "frames too large": (setting(5, 2**24), Code.PROTOCOL_ERROR),
    "no more for all": (wider(0, 0), Code.PROTOCOL_ERROR),
    "no more for one": (wider(1, 0), Code.PROTOCOL_ERROR),
    "too much for all": (wider(0, 2**31 - 1), Code.FLOW_CONTROL_ERROR),
    "more for a call that has not begun": (wider(5, 1), Code.PROTOCOL_ERROR),
    "half a window": (frames.frame(frames.WINDOW, 0, 0, b"\0\0\1"), Code.FRAME_SIZE_ERROR),
    "a promise": (frames.frame(PROMISE, 4, 1, bytes(4)), Code.PROTOCOL_ERROR),
    "a reset of no call": (frames.frame(frames.RESET, 0, 0, bytes(4)), Code.PROTOCOL_ERROR),
    "half a reset": (frames.frame(frames.RESET, 0, 1, bytes(3)), Code.FRAME_SIZE_ERROR),
    "more padding than data": (frames.frame(frames.DATA, PADDED, 1, b"\5abcd"), Code.PROTOCOL_ERROR),
    "more padding than head": (frames.frame(frames.HEADERS, PADDED | 4, 3, b"\5abcd"), Code.PROTOCOL_ERROR),
    "half a priority": (frames.frame(frames.HEADERS, PRIORITISED | 4, 3, b"abcd"), Code.PROTOCOL_ERROR),
    "a padded head of nothing": (frames.frame(frames.HEADERS, PADDED | 4, 3), Code.FRAME_SIZE_ERROR),
    "a head that cannot be read": (frames.frame(frames.HEADERS, 4, 3, b"\xff\xff\xff\x7f"), Code.COMPRESSION_ERROR),
    "a field of no table": (frames.frame(frames.HEADERS, 4, 3, b"\xfe"), Code.COMPRESSION_ERROR),
}  # fmt: skip
LENIENT = {
    "a head of a call that its client has ended": (whole(3, b"") + head(3), Code.STREAM_CLOSED),
    "a head behind the end": (head(3, "/silent", flags=5) + head(3), Code.STREAM_CLOSED),
    "an earlier number": (head(9, "/silent") + head(5), Code.PROTOCOL_ERROR),
    "an answer to settings with settings": (frames.frame(frames.SETTINGS, 1, 0, bytes(6)), Code.FRAME_SIZE_ERROR),
    "a strange wish for promises": (setting(2, 2), Code.PROTOCOL_ERROR),
    "settings that make a window too wide": (
        wider(1, 2**31 - 1 - 65_535) + setting(4, 65_536),
        Code.FLOW_CONTROL_ERROR,
    ),
    "a ping of a call": (frames.frame(frames.PING, 0, 1, bytes(8)), Code.PROTOCOL_ERROR),
    "an end of a call": (frames.frame(frames.AWAY, 0, 1, bytes(8)), Code.PROTOCOL_ERROR),
}  # fmt: skip


def ends(bad: bytes, code: Code, greeting: bytes = frames.greeting()) -> None:
    """The connection, and each call on it."""
    near = Near()
    near.say(greeting + head(1, "/silent") + frames.frame(frames.DATA, 0, 1, message(b"abc")))
    assert near.takers[1].messages == [b"abc"]
    near.said()
    near.say(bad)
    assert away(near.said()) == code and near.over
    near.line.data_received(whole(7, b""))
    assert near.said() == b"" and near.takers[1].is_gone
    assert not near.bodies.held and not near.line.calls
    near.leave()
    assert len(near.connections) == 0


@pytest.mark.parametrize("what", FAULTS)
def test_what_is_against_the_standard_ends_the_connection_and_says_why(what: str) -> None:
    within(lambda: ends(*FAULTS[what]))


@pytest.mark.parametrize("what", LENIENT)
def test_what_is_against_it_and_does_no_harm_ends_the_connection_too(what: str) -> None:
    within(lambda: ends(*LENIENT[what]))


def test_settings_come_first() -> None:
    def run() -> None:
        near = Near()
        near.say(frames.PREFACE + whole(1, b"a"))
        assert away(near.said()) == Code.PROTOCOL_ERROR and near.over and not near.takers

    within(run)


@pytest.mark.parametrize("block", ["one frame", "many frames", "one large frame", "what it stands for"])
def test_too_long_a_head_ends_the_connection_and_its_call_is_told(block: str) -> None:
    """Clients of gRPC report what the call is told; the table is not known any more, so no other can follow."""
    much = plain([*fields(), ("x-much", "y" * MOST_BLOCK)])
    big = hpack.Encoder()
    sent = {
        "one frame": frames.frame(frames.HEADERS, 4, 3, much),
        "many frames": frames.frame(frames.HEADERS, 0, 3, much[:900])
        + b"".join(
            frames.frame(frames.CONTINUATION, 0, 3, much[at : at + 100]) for at in range(900, len(much), 100)
        ),
        "one large frame": frames.frame(frames.HEADERS, 4, 3, plain([*fields(), ("x-much", "y" * 20_000)])),
        "what it stands for": frames.frame(
            frames.HEADERS,
            4,
            3,
            big.encode(fields()) + b"\x40\x01a" + b"\x7f\x81\x1e" + b"b" * 3968 + b"\xbe" * 5,
        ),
    }[block]
    assert MOST_LIST < 6 * 3968

    def run() -> None:
        near = Near()
        near.say(frames.greeting() + head(1, "/silent"))
        near.said()
        near.say(sent)
        said = near.said()
        assert away(said) == Code.NO_ERROR and near.over and near.takers[1].is_gone
        (told,) = [
            content for kind, _, number, content in heard(said) if kind == frames.HEADERS and number == 3
        ]
        found = dict(hpack.Decoder().decode(told))
        assert found["grpc-status"] == "8" and "header" in found["grpc-message"]
        assert not near.bodies.held

    within(run)


def stays(bad: bytes, number: int, code: Code) -> None:
    """Only one call ends."""
    near = Near()
    near.say(
        frames.greeting()
        + head(1, "/silent")
        + frames.frame(frames.DATA, 1, 1, message(b""))
        + head(3, "/read")
    )
    near.said()
    near.say(bad)
    assert resets(near.said()) == {number: code}
    assert number not in near.line.calls and not near.over
    near.say(whole(99, b"x"))
    assert message(b"=x") in near.said()
    near.say(frames.frame(frames.RESET, 0, 1, bytes(4)) + frames.frame(frames.RESET, 0, 3, bytes(4)))
    assert not near.bodies.held and all(taker.is_gone for n, taker in near.takers.items() if n in (1, 3))


@pytest.mark.parametrize("bad, number, code", [
    (frames.frame(frames.DATA, 0, 1, b"a"), 1, Code.STREAM_CLOSED),
    (b"".join(frames.message(3, bytes(200_000)) for _ in range(6)), 3, Code.FLOW_CONTROL_ERROR),
    (wider(1, 2**31 - 1), 1, Code.FLOW_CONTROL_ERROR),
    (frames.message(3, b"abc", size=9, flags=1), 3, Code.PROTOCOL_ERROR),
    (frames.frame(frames.DATA, 1, 3, b"\0\0\0"), 3, Code.PROTOCOL_ERROR),
    (frames.frame(frames.HEADERS, 4, 5, plain(fields()[:2])), 5, Code.PROTOCOL_ERROR),
    (frames.frame(frames.HEADERS, 4, 5, plain([*fields(), ("connection", "close")])), 5, Code.PROTOCOL_ERROR),
    (frames.frame(frames.HEADERS, 4, 5, plain([*fields(), ("X-Name", "a")])), 5, Code.PROTOCOL_ERROR),
    (whole(5, b"") + frames.frame(frames.DATA, 0, 5, b"a"), 5, Code.STREAM_CLOSED),
    (head(5) + frames.frame(frames.RESET, 0, 5, bytes(4)) + frames.frame(frames.DATA, 0, 5), 5, Code.STREAM_CLOSED),
    (frames.frame(frames.HEADERS, 5, 3, plain([(":path", "/")])), 3, Code.PROTOCOL_ERROR),
    (head(5, more=[("content-length", "4")]) + frames.message(5, b"abc"), 5, Code.PROTOCOL_ERROR),
    (head(5, more=[("content-length", "9")]) + frames.message(5, b"abc", flags=1), 5, Code.PROTOCOL_ERROR),
], ids=[
    "after its end", "beyond", "too wide", "torn", "in its head", "no path", "HTTP/1", "capitals", "after all",
    "after a reset", "a path behind", "more than said", "less than said",
])  # fmt: skip
def test_what_is_wrong_with_one_call_ends_no_other(bad: bytes, number: int, code: Code) -> None:
    within(lambda: stays(bad, number, code))


@pytest.mark.parametrize("wrong", [
    [*fields(), (":status", "200")], [*fields(), (":protocol", "websocket")], [*fields(), (":path", "/echo")],
    [("te", "trailers"), *fields()], [*fields(), ("te", "gzip")], [*fields(), ("x-key", "a\r\nb")],
    [*fields(), ("x-key", "a\0b")], [*fields(), ("content-length", "\xb2")], [*fields(), ("content-length", "1" * 20)],
    [*fields(), ("content-length", "-1")], [(n, "" if n == ":path" else v) for n, v in fields()],
    [(n, "" if n == ":scheme" else v) for n, v in fields()],
])  # fmt: skip
def test_a_head_that_is_no_request_ends_its_call_alone(wrong: list[tuple[str, str]]) -> None:
    within(lambda: stays(frames.frame(frames.HEADERS, 4, 5, plain(wrong)), 5, Code.PROTOCOL_ERROR))


@pytest.mark.parametrize("size", ["8", "08"])
def test_a_call_of_the_length_that_its_head_says_is_answered(size: str) -> None:
    """As proxies send them."""

    def run() -> None:
        near = Near()
        near.say(
            frames.greeting() + head(1, more=[("content-length", size)]) + frames.message(1, b"abc", flags=1)
        )
        assert message(b"=abc") in near.said()

    within(run)


@pytest.mark.parametrize("first, hint", [
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", True), (b"POST /v2 HTTP/1.1\r\n", True),
    (b"PRI * HTTP/2.0\r\n\r\nXX", False), (b"\x16\x03\x01", False), (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r", False),
])  # fmt: skip
def test_who_speaks_http_1_is_told_where_to_go_and_who_speaks_nothing_is_not_heard(
    first: bytes, hint: bool
) -> None:
    def run() -> None:
        near = Near()
        near.said()
        near.say(first)
        assert near.over
        said = near.said()
        assert (b"this port speaks gRPC" in said, said.count(b"HTTP/1.1 400 ")) == (hint, hint)

    within(run)


def test_what_means_nothing_here_is_passed_over() -> None:
    """Answers to settings and pings, priorities, unknown frames and settings, frames of calls that are over."""

    def run() -> None:
        near = Near()
        near.say(frames.greeting() + whole(1, b"a"))
        near.said()
        near.say(
            frames.frame(frames.SETTINGS, 1, 0) + frames.frame(frames.PING, 1, 0, bytes(8)) + setting(0x99, 7)
            + frames.frame(2, 0, 1, bytes(5)) + frames.frame(99, 255, 7, b"x" * 100) + wider(1, 100)
            + frames.frame(frames.RESET, 0, 1, bytes(4)) + frames.frame(PRIORITY, 0, 101, bytes(5))
        )  # fmt: skip
        assert [kind for kind, *_ in heard(near.said())] == [frames.SETTINGS], "known now"
        near.say(head(3, "/unknown"))
        assert resets(near.said()) == {3: Code.NO_ERROR}
        near.say(
            frames.frame(frames.DATA, 0, 3, b"late")
            + frames.frame(frames.HEADERS, 5, 3, plain([("late", "1")]))
        )
        assert near.said() == b"", "sent before the answer was read"
        near.say(frames.frame(frames.PING, 0, 0, b"12345678"))
        assert heard(near.said()) == [(frames.PING, 1, 0, b"12345678")]
        near.say(whole(9, b"b"))
        assert message(b"=b") in near.said() and not near.over

    within(run)


def test_a_client_that_says_that_it_leaves_gets_what_it_has_asked_for() -> None:
    def run() -> None:
        near = Near()
        near.say(frames.greeting() + head(1) + frames.frame(frames.AWAY, 0, 0, bytes(8)))
        assert not near.over
        near.say(whole(3, b"too late"))
        assert resets(near.said()) == {3: Code.REFUSED_STREAM}
        near.say(frames.frame(frames.DATA, 1, 1, message(b"a")))
        assert message(b"=a") in near.said() and near.over

    within(run)


def test_more_calls_than_a_connection_may_have_are_refused_so_that_they_may_come_again() -> None:
    def run() -> None:
        near = Near()
        near.say(frames.greeting() + b"".join(head(2 * n + 1, "/silent") for n in range(STREAMS)))
        near.said()
        near.say(head(2 * STREAMS + 1))
        assert (
            resets(near.said()) == {2 * STREAMS + 1: Code.REFUSED_STREAM} and len(near.line.calls) == STREAMS
        )
        near.say(frames.frame(frames.RESET, 0, 1, bytes(4)) + whole(2 * STREAMS + 3, b"a"))
        assert message(b"=a") in near.said() and near.takers[1].is_gone

    within(run)


def test_what_is_no_call_and_never_ends_is_answered_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody without a key holds a place on a connection for as long as it likes."""
    monkeypatch.setattr("eunomia.serving.http2.call.AWAY_S", 0.01)

    async def main() -> None:
        near = Near()
        near.say(frames.greeting() + head(1, "/http"))
        assert resets(near.said()) == {} and near.line.calls
        await until_async(lambda: not near.line.calls)
        said = near.said()
        assert resets(said) == {1: Code.NO_ERROR} and b"no call" in said

    asyncio.run(main())

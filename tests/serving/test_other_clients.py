"""What clients in other languages send, as it came from them: gRPC in Go 1.33, Java 1.41, C++ 1.51 and Node 1.14."""

from __future__ import annotations

import hpack

from eunomia.serving.http2.blocks import MOST_LIST
from eunomia.serving.http2.frames import Code, Setting, settings_in
from eunomia.serving.http2.line import FREE
from tests.hostile import frames
from tests.serving.near import Near, away, fields, head, heard, plain, resets, whole, wider, within
from tests.serving.speaking import message

PING = frames.frame(frames.PING, 0, 0, bytes(8))


def test_each_answer_of_a_long_stream_may_be_met_with_a_ping_and_wider_windows() -> None:
    """So Go and C++ measure the line; after some 1,500 small answers the connection ended."""

    def run() -> None:
        near = Near()
        near.say(frames.greeting() + head(1, "/read"))
        for _ in range(int(FREE)):
            near.takers[1].call.send([b"x"])
            near.say(PING + wider(0, 6) + wider(1, 6))
        assert not near.over and away(near.said()) is None
        for _ in range(int(3 * FREE)):  # a flood is one still
            near.say(PING)
        assert away(near.said()) == Code.ENHANCE_YOUR_CALM and near.over

    within(run)


def test_as_much_metadata_is_taken_as_clients_are_told_and_in_frames_as_they_cut_it() -> None:
    """A key of 15 KiB: Go and Java keep to what they hear, and cut heads at 16 KiB."""

    def run() -> None:
        near = Near()
        near.say(frames.greeting())
        (told,) = (
            dict(settings_in(content)) for kind, _, _, content in heard(near.said()) if kind == 4 and content
        )
        pairs = fields("/echo", **{"x-tenant-id": "t" * 15_000})
        assert (
            told[Setting.MAX_HEADER_LIST_SIZE] == MOST_LIST
            and sum(len(name) + len(value) + 32 for name, value in pairs) <= MOST_LIST
        )
        for number, block in ((1, plain(pairs)), (3, hpack.Encoder().encode(pairs))):
            near.say(frames.frame(frames.HEADERS, 0, number, block[:10_000]))
            near.say(frames.frame(frames.CONTINUATION, 4, number, block[10_000:]))
            near.say(frames.frame(frames.DATA, 1, number, message(b"a")))
            assert b"t" * 15_000 + b"=a" in near.said() and not near.over
        near.leave()

    within(run)


def test_a_call_that_is_taken_back_before_it_has_begun_ends_no_other() -> None:
    """C++ resets a call whose head it never sent."""

    def run() -> None:
        near = Near()
        near.say(frames.greeting() + head(1, "/silent"))
        near.say(frames.frame(frames.RESET, 0, 3, (8).to_bytes(4, "big")))
        said = near.said()
        assert away(said) is None and not resets(said) and not near.takers[1].is_gone
        near.say(whole(5, b"a"))
        assert message(b"=a") in near.said()
        near.leave()

    within(run)

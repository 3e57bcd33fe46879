"""HTTP/2 (RFC 9113): calls mean the same however their bytes come, and heads whatever was said before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hpack
import pytest
from hpack.table import HeaderTable
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.serving.http2 import heads
from eunomia.serving.http2.blocks import read_block
from eunomia.serving.http2.heads import TWICE, Heads
from tests.hostile import frames
from tests.serving.near import Near, Talk, fields, plain, within
from tests.serving.speaking import Answer, message

PADDED, PRIORITISED = 8, 32  # flags


# --- the same, however it comes --------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """A call: what it says, and how it is cut into frames."""

    name: str
    messages: list[bytes]
    block_cuts: list[int]
    data_cuts: list[int]
    paddings: list[int]
    priority: bool
    ends: str  # with the last bytes, an empty frame, or a second head


def pieces(content: bytes, cuts: list[int]) -> list[bytes]:
    """Cut at these places."""
    places = sorted({cut % (len(content) + 1) for cut in cuts} | {0, len(content)})
    return [content[a:b] for a, b in zip(places, places[1:], strict=False)] or [content]


CUTS = st.lists(st.integers(0, 5000), max_size=6)
CALLS = st.builds(
    Drawn,
    name=st.sampled_from(["a", "b", "a long name with \xe4"]) | st.text("xyz-", max_size=20),
    messages=st.lists(st.binary(max_size=300) | st.sampled_from([b"", bytes(20_000)]), max_size=3),
    block_cuts=CUTS,
    data_cuts=CUTS,
    paddings=st.lists(st.sampled_from([-1, 0, 1, 255]), min_size=1, max_size=4),
    priority=st.booleans(),
    ends=st.sampled_from(["last", "empty", "head"]),
)


def head_frames(number: int, one: Drawn, encoder: hpack.Encoder) -> list[bytes]:
    """Frames that nothing may come between."""
    block = pieces(encoder.encode(fields(**{"x-tenant-id": one.name})), one.block_cuts)
    padding = one.paddings[0]
    flags = (PADDED if padding >= 0 else 0) | (PRIORITISED if one.priority else 0)
    content = (bytes([padding]) if padding >= 0 else b"") + (bytes(5) if one.priority else b"") + block[0]
    content += bytes(max(padding, 0))
    found = [(frames.HEADERS, flags, content), *((frames.CONTINUATION, 0, piece) for piece in block[1:])]
    kind, flags, content = found[-1]
    found[-1] = kind, flags | frames.END_HEADERS, content
    return [frames.frame(*one[:2], number, one[2]) for one in found]


def data_frames(number: int, one: Drawn) -> list[bytes]:
    """The messages, and that there are no more."""
    made = list[bytes]()
    cut = [b for a in pieces(b"".join(map(message, one.messages)), one.data_cuts) for b in split(a)]
    for n, piece in enumerate(cut):
        padding = one.paddings[n % len(one.paddings)]
        flags = PADDED if padding >= 0 else 0
        flags |= frames.END_STREAM if one.ends == "last" and n == len(cut) - 1 else 0
        content = bytes([padding]) + piece + bytes(padding) if padding >= 0 else piece
        made.append(frames.frame(frames.DATA, flags, number, content))
    if one.ends == "empty":
        made.append(frames.frame(frames.DATA, frames.END_STREAM, number))
    elif one.ends == "head":
        flags = frames.END_STREAM | frames.END_HEADERS
        made.append(frames.frame(frames.HEADERS, flags, number, plain([("x-end", "yes")])))
    return made


def split(content: bytes) -> list[bytes]:
    """No larger than every server takes, with padding."""
    return [content[at : at + 16_000] for at in range(0, len(content), 16_000)] or [b""]


@given(
    data=st.data(),
    calls=st.lists(CALLS, min_size=1, max_size=4),
    in_pieces=st.lists(st.integers(1, 400), max_size=9),
)
def test_calls_cut_and_mixed_anyhow_have_the_same_answers(
    data: st.DataObject, calls: list[Drawn], in_pieces: list[int]
) -> None:
    """Any cuts of heads, messages and bytes, any padding, any order among calls; the library takes the answers."""
    encoder, rows = hpack.Encoder(), []
    stream = bytearray(frames.greeting())
    for n, one in enumerate(calls):
        rows.append((2 * n + 1, one))
    waiting = [*rows]
    open_ = list[list[bytes]]()
    while waiting or open_:  # heads begin in the order of their numbers
        at = data.draw(st.integers(0, len(open_) if waiting else len(open_) - 1))
        if at == len(open_):
            number, one = waiting.pop(0)
            stream += b"".join(head_frames(number, one, encoder))
            open_.append(data_frames(number, one))
        else:
            stream += open_[at].pop(0)
            open_ = [left for left in open_ if left]

    def run() -> None:
        near = Near()
        talk = Talk(near)
        talk.exchange()
        numbers = [talk.h2.get_next_available_stream_id() + 2 * n for n in range(len(calls))]
        for number in numbers:
            talk.h2.send_headers(number, fields())
            talk.answers[number] = Answer()
        talk.h2.data_to_send()  # said below, in another way
        at, sizes = len(frames.PREFACE) + 9, [*in_pieces]
        while at < len(stream):
            size = sizes[0] if sizes else len(stream)
            sizes = [*sizes[1:], sizes[0]] if sizes else sizes
            near.say(bytes(stream[at : at + size]))
            talk.hear(near.said())
            at += size
        for number, one in rows:
            found = talk.answers[number]
            expected = f"{one.name}=".encode() + b"|".join(one.messages)
            assert found.messages == [expected] and found.status == 0 and found.ended and found.reset is None
        assert not near.line.calls and not near.bodies.held and not near.over

    within(run)


def kept(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Those that somebody reads."""
    return {name: value for name, value in pairs if name not in ("te", "x-nobody-reads")}


# --- heads -----------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["x-api-key", "x-tenant-id", "authorization", "grpc-timeout"])
VALUES = st.sampled_from(["", "1", "Bearer eun_key", "y" * 100, "z" * 3000])


@given(
    st.lists(
        st.tuples(
            st.dictionaries(NAMES, VALUES, max_size=4),
            st.sampled_from([None, 0, 64, 300, 4096]),
            st.booleans(),
        ),
        max_size=14,
    )
)
@settings(max_examples=150)
def test_heads_are_read_as_they_were_meant(steps: list[tuple[dict[str, str], int | None, bool]]) -> None:
    """Repeated, changed, with tables that shrink and grow: what is remembered of the last one never counts again."""
    found, encoder = Heads(), hpack.Encoder()
    for sent, size, huffman in steps:
        if size is not None:
            encoder.header_table_size = size
        for _ in range(3):
            block = encoder.encode(fields(**sent, **{"x-nobody-reads": "this"}), huffman=huffman)
            assert found.read(block) == kept(fields(**sent, **{"x-nobody-reads": "this"}))


def test_the_same_block_is_read_once_and_a_changed_table_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[bytes]()

    def counted(block: bytes, table: HeaderTable) -> Any:
        read.append(block)
        return read_block(block, table)

    monkeypatch.setattr(heads, "read_block", counted)
    found, encoder = Heads(), hpack.Encoder()
    blocks = [encoder.encode(fields(**{"x-tenant-id": "a"})) for _ in range(5)]
    assert [found.read(block)["x-tenant-id"] for block in blocks] == ["a"] * 5
    assert read == blocks[:2], "what was new, and what the table then said"
    found.read(encoder.encode([("x-tenant-id", "b")]))
    assert found.read(b"\xbe") == {"x-tenant-id": "b"} and found.read(b"\xbf") != {"x-tenant-id": "b"}
    assert found.read(b"\xbe") == {"x-tenant-id": "b"} == found.read(b"\xbe")
    found.read(encoder.encode([("x-tenant-id", "c")]))
    assert found.read(b"\xbe") == {"x-tenant-id": "c"}, "the same byte, and another table"


def test_of_a_field_that_is_given_twice_the_first_counts() -> None:
    assert Heads().read(plain([("x-api-key", "1"), ("x-api-key", "2")])) == {
        "x-api-key": "1",
        TWICE: " x-api-key",
    }

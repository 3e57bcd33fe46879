"""Header blocks are read as the library ``hpack`` reads them, and cost little whatever is in them."""

from __future__ import annotations

from collections.abc import Sequence

import hpack
import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.table import HeaderTable
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.http2 import blocks
from eunomia.serving.http2.blocks import MOST_FIELDS, MOST_LIST, read_block, unpack
from eunomia.serving.http2.frames import Code, Fault
from tests.hostile import frames
from tests.serving.near import Near, away, fields, plain, within

CODE = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
TEXTS = st.binary(max_size=40) | st.text(st.characters(codec="ascii"), max_size=40).map(str.encode)
NAMES = st.sampled_from([b":path", b"te", b"a", b"authorization", b"x" * 300]) | TEXTS
PIECES = st.sampled_from(
    [b"\x20", b"\x3f\xe1\x1f", b"\x3f\xe2\x1f", b"\x80", b"\xff\xff", b"\x40", b"\xbe", b"\x7f\x00"]
)


def reads(block: bytes, decoder: hpack.Decoder) -> list[tuple[bytes, bytes]] | None:
    """What the library makes of it; None = it refuses it."""
    try:
        return [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
    except Exception:
        return None


@given(
    said=st.lists(st.lists(st.tuples(NAMES, TEXTS, st.booleans()), max_size=8), max_size=5),
    huffman=st.booleans(),
    sizes=st.lists(st.integers(0, 4096), max_size=3),
)
def test_what_an_encoder_writes_is_read(
    said: Sequence[Sequence[tuple[bytes, bytes, bool]]], huffman: bool, sizes: Sequence[int]
) -> None:
    """Block after block, with a table that shrinks and grows."""
    encoder, table = hpack.Encoder(), HeaderTable()
    for n, pairs in enumerate(said):
        if n < len(sizes):
            encoder.header_table_size = sizes[n]
        assert read_block(encoder.encode(pairs, huffman=huffman), table) == [pair[:2] for pair in pairs]


@given(given_=st.lists(st.lists(st.binary(max_size=6) | PIECES, max_size=12).map(b"".join), max_size=4))
def test_what_is_broken_is_broken_to_both(given_: Sequence[bytes]) -> None:
    decoder, table = hpack.Decoder(max_header_list_size=MOST_LIST), HeaderTable()
    for block in given_:
        found = reads(block, decoder)
        if found is None:
            with pytest.raises(Fault) as caught:
                read_block(block, table)
            assert caught.value.code in (Code.COMPRESSION_ERROR, Code.NO_ERROR)
            return
        assert read_block(block, table) == found
        assert list(table.dynamic_entries) == list(decoder.header_table.dynamic_entries)


@given(text=TEXTS, broken=st.binary(max_size=20))
def test_texts_in_the_code(text: bytes, broken: bytes) -> None:
    assert unpack(CODE.encode(text)) == text
    try:
        found = hpack.huffman_table.decode_huffman(broken)
    except hpack.HPACKDecodingError:
        with pytest.raises(ValueError, match="middle of a letter"):
            unpack(broken)
    else:
        assert unpack(broken) == found


@pytest.mark.parametrize("number", [b"\xff" + b"\x80" * 9 + b"\x01", b"\x7f" + b"\xff" * 9000, b"\xff\x80"])
def test_a_number_without_end_is_given_up(number: bytes) -> None:
    with pytest.raises(Fault, match="cannot be read"):
        read_block(number, HeaderTable())


def test_a_block_of_very_many_fields_is_read_no_further() -> None:
    """400 that each drop another from the table took a turn of the event loop of 8 ms."""
    learnt = b"".join(b"\x40\x03%03d\x00" % n for n in range(400))
    table = HeaderTable()
    with pytest.raises(Fault, match=f"at most {MOST_FIELDS} fields") as caught:
        read_block(learnt, table)
    assert caught.value.code == Code.NO_ERROR and len(table.dynamic_entries) <= MOST_FIELDS + 1
    assert len(read_block(learnt[: 6 * MOST_FIELDS], HeaderTable())) == MOST_FIELDS

    def run() -> None:
        near = Near()
        near.say(frames.greeting() + frames.frame(frames.HEADERS, 4, 1, plain(fields()) + learnt))
        said = near.said()
        assert away(said) == Code.NO_ERROR and b"at most 128 fields" in said and not near.takers

    within(run)


def test_a_long_key_and_a_hundred_fields_are_taken() -> None:
    """As clients in Go and Rust send them: in Huffman's code, into the table."""
    many = [*fields(), *((f"x-{n}", "v" * 60) for n in range(100))]
    long = [*fields(), ("authorization", f"Bearer {'kEy0' * 3900}")]
    encoder, table = hpack.Encoder(), HeaderTable()
    for pairs in (many, long, many):
        found = read_block(encoder.encode(pairs), table)
        assert found == [(name.encode(), value.encode()) for name, value in pairs]


def test_the_tables_of_the_code_have_a_place_for_each_state_and_byte() -> None:
    states = len(hpack.huffman_table.HUFFMAN_TABLE) // 16
    assert len(blocks.NEXT) == len(blocks.OUT) == len(blocks.WHOLE) == (states + 1) * 256

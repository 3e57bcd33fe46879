"""Header blocks (RFC 7541) read for little: at most ``MOST_FIELDS`` of them, and texts in Huffman's code byte by byte.

The tables are the library's. Read by the library itself, a block of 400 fields or of 12 KB in that code takes 2.5 ms.
"""

from __future__ import annotations

import numpy as np
from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

from eunomia.serving.http2.frames import Code, Fault

MOST_FIELDS = 128  # of a block, as over HTTP
MOST_LIST = 16384  # bytes that it may stand for, each field with 32 more: clients that keep to it send no longer block
MOST_TABLE = 4096  # bytes of the table
EACH = 32  # bytes that a field counts for beside its name and value
LONGEST = 5  # bytes of a number behind its first
BROKEN = "a header block cannot be read"
Field = tuple[bytes, bytes]


def read_block(block: bytes, table: HeaderTable) -> list[Field]:
    """Its fields; the table learns some of them. Raises Fault."""
    found, at, size = list[Field](), 0, 0
    try:
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _number(block, at, 0x7F)
                field: Field = table.get_by_index(index)
            elif first & 0x60 == 0x20:
                if found:
                    raise ValueError("the table's size changes behind a field")
                wanted, at = _number(block, at, 0x1F)
                if wanted > MOST_TABLE:
                    raise ValueError("the table is too large")
                table.maxsize = wanted
                continue
            else:
                index, at = _number(block, at, 0x3F if first & 0x40 else 0x0F)
                name, at = (table.get_by_index(index)[0], at) if index else _text(block, at)
                value, at = _text(block, at)
                field = name, value
                if first & 0x40:
                    table.add(name, value)
            found.append(field)
            size += len(field[0]) + len(field[1]) + EACH
            if size > MOST_LIST:
                raise Fault(Code.NO_ERROR, f"headers stand for more than {MOST_LIST} bytes")
            if len(found) > MOST_FIELDS:
                raise Fault(Code.NO_ERROR, f"a header block has at most {MOST_FIELDS} fields")
    except Fault:
        raise
    except Exception:  # of several kinds, the library's among them
        raise Fault(Code.COMPRESSION_ERROR, BROKEN) from None
    return found


def _number(block: bytes, at: int, most: int) -> tuple[int, int]:
    """A number that begins in the last bits of a byte, and where it ends; raises ValueError or IndexError."""
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    for n in range(LONGEST):
        byte = block[at + n]
        value += (byte & 0x7F) << 7 * n
        if byte < 0x80:
            return value, at + n + 1
    raise ValueError("a number is too long")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    """Its bytes, and where it ends; raises ValueError or IndexError."""
    packed = block[at] & 0x80
    size, at = _number(block, at, 0x7F)
    text = block[at : at + size]
    if len(text) < size:
        raise ValueError("the block ends in a text")
    return unpack(text) if packed else text, at + size


def unpack(data: bytes) -> bytes:
    """A text in Huffman's code; raises ValueError."""
    out, state, at = bytearray(), 0, 0
    for byte in data:
        at = state | byte
        out += OUT[at]
        state = NEXT[at]
    if data and not WHOLE[at]:
        raise ValueError("a text ends in the middle of a letter")
    return bytes(out)


def _by_bytes() -> tuple[list[int], list[bytes], bytes]:
    """The library's table of half bytes put together: by state and byte, the next state, letters, and an end there.

    From one state more than it has, nothing leads away: that of a broken text.
    """
    half = np.array(HUFFMAN_TABLE).reshape(-1, 16, 3)
    states, byte = len(half), np.arange(256)
    to, flags, letter = np.moveaxis(half[:, byte >> 4], -1, 0)
    then, last, other = np.moveaxis(half[to, byte & 15], -1, 0)
    broken = ((flags | last) & HUFFMAN_FAIL) > 0
    said = [
        np.where(mark & HUFFMAN_EMIT_SYMBOL, text, -1).ravel().tolist()
        for mark, text in ((flags, letter), (last, other))
    ]
    known = {(a, b): bytes(n for n in (a, b) if n >= 0) for a, b in set(zip(*said, strict=True))}
    sink = [states << 8] * 256
    return (
        [*(np.where(broken, states, then) << 8).ravel().tolist(), *sink],
        [*(known[pair] for pair in zip(*said, strict=True)), *[b""] * 256],
        (~broken & ((last & HUFFMAN_COMPLETE) > 0)).tobytes() + bytes(256),
    )


NEXT, OUT, WHOLE = _by_bytes()

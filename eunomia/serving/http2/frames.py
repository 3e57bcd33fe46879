"""Frames of HTTP/2: their heads, what a server writes, and the faults that end a stream or a connection."""

from __future__ import annotations

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = 9  # bytes before the content of a frame
LARGEST = 256 * 1024  # bytes of a frame that is taken or sent
LEAST_FRAME, MOST_FRAME = 16384, 2**24 - 1  # what either side may be asked to take in one
FIRST_WINDOW, MOST_WINDOW = 65535, 2**31 - 1
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITISED = 1, 1, 4, 8, 32


class Kind(IntEnum):
    """Of a frame; others are ignored."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Code(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """What one side tells the other; others are ignored."""

    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Fault(Exception):
    """What the other side did wrong: the connection ends. ``stream``: the call that hears why; 0 = none."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.code, self.stream = code, 0


def frame(kind: Kind, flags: int, stream: int, content: bytes = b"") -> bytes:
    """One frame."""
    return head(kind, flags, stream, len(content)) + content


def head(kind: Kind, flags: int, stream: int, size: int) -> bytes:
    """What stands before so many bytes."""
    return struct.pack(">HBBBI", size >> 8, size & 0xFF, kind, flags, stream)


def settings(values: dict[Setting, int]) -> bytes:
    """What this side can take."""
    content = b"".join(struct.pack(">HI", name, value) for name, value in values.items())
    return frame(Kind.SETTINGS, 0, 0, content)


def settings_in(content: bytes) -> list[tuple[int, int]]:
    """Names and values; raises Fault."""
    if len(content) % 6:
        raise Fault(Code.FRAME_SIZE_ERROR, "settings have 6 bytes each")
    return list(struct.iter_unpack(">HI", content))


def more(stream: int, size: int) -> bytes:
    """The other side may send so many bytes more; stream 0 = in all."""
    return frame(Kind.WINDOW_UPDATE, 0, stream, size.to_bytes(4, "big"))


def reset(stream: int, code: Code) -> bytes:
    """A stream ends."""
    return frame(Kind.RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(last: int, code: Code, why: str = "") -> bytes:
    """The connection ends; streams up to ``last`` have been taken up."""
    return frame(Kind.GOAWAY, 0, 0, struct.pack(">II", last, code) + why.encode())


def number(content: bytes, what: str) -> int:
    """Four bytes, without the first bit; raises Fault."""
    if len(content) != 4:
        raise Fault(Code.FRAME_SIZE_ERROR, f"{what} has 4 bytes")
    return int.from_bytes(content, "big") & MOST_WINDOW


def check_priority(stream: int, content: bytes) -> None:
    """Whom a call stands behind, which changes nothing here; raises Fault."""
    if not stream:
        raise Fault(Code.PROTOCOL_ERROR, "the connection has no priority")
    if len(content) != 5:
        raise Fault(Code.FRAME_SIZE_ERROR, "a priority has 5 bytes")
    if int.from_bytes(content[:4], "big") & MOST_WINDOW == stream:
        raise Fault(Code.PROTOCOL_ERROR, "a call stands behind itself")


def content_of(flags: int, stream: int, content: bytes) -> bytes:
    """Of HEADERS, without padding and priority; raises Fault."""
    begin, end = 0, len(content)
    if flags & PADDED:
        if not content:
            raise Fault(Code.FRAME_SIZE_ERROR, "a padded frame says how much of it is padding")
        begin, end = 1, end - content[0]
    begin += 5 if flags & PRIORITISED else 0
    if begin > end:
        raise Fault(Code.PROTOCOL_ERROR, "a frame has more padding than content")
    if flags & PRIORITISED:
        check_priority(stream, content[begin - 5 : begin])
    return content[begin:end]

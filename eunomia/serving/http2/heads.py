"""Heads of calls, in and out: what a header block says, and blocks to be sent, which hardly vary.

To read a block again that changed nothing the first time gives the same: most calls of a client cost no reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote

from hpack.table import HeaderTable

from eunomia.serving.fronts.caller import FAIRNESS, FORWARDED
from eunomia.serving.http2.blocks import read_block
from eunomia.serving.http2.frames import Code, Fault

MOST_BLOCK = 16384  # bytes of a block, as over HTTP
STATUS_200 = b"\x88"
CONTENT_TYPE, NAMED = b"\x0f\x10", b"\x00"  # a field of the table's name; a field with its own name
GRPC = "application/grpc"
FORBIDDEN = (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
FAULT, TWICE = "!", "!!"  # names that no field has; the second: of fields that say two things
PSEUDO = (":method", ":path", ":scheme", ":authority")
LENGTH_DIGITS = 19
BROKEN = re.compile(rb"[\0\r\n]")
KEPT = {
    name.encode(): name
    for name in (
        *(*PSEUDO, "content-type", "content-length", "authorization", "x-api-key", "x-tenant-id"),
        *("grpc-timeout", "grpc-encoding", "traceparent", *FAIRNESS, *FORWARDED),
    )
}
MOST_UPDATES = 2  # of the table's size
KNOWN_BYTES = 2048  # of a block that is kept, in case the next is the same
Fields = dict[str, str]


class Counted(HeaderTable):
    """Knows whether it has changed."""

    def __init__(self) -> None:
        self.changes = 0
        super().__init__()

    def add(self, name: bytes, value: bytes) -> None:
        """One more entry."""
        self.changes += 1
        super().add(name, value)


class Heads:
    """Of one connection: the table that both sides keep."""

    def __init__(self) -> None:
        self._table = Counted()
        self._known: tuple[bytes, int, int, Fields] | None = None  # a block, the table's state, what it says

    def read(self, block: bytes) -> Fields:
        """Fields by name; of those that are given twice the first counts. Raises Fault."""
        before = self._table.changes, self._table.maxsize
        if self._known is not None and self._known[0] == block and self._known[1:3] == before:
            return self._known[3]
        if updates_in(block) > MOST_UPDATES:
            raise Fault(Code.COMPRESSION_ERROR, "a header block changes the table's size twice at most")
        fields = _fields(read_block(block, self._table))
        after = self._table.changes, self._table.maxsize
        self._known = (block, *after, fields) if after == before and len(block) <= KNOWN_BYTES else None
        return fields


def updates_in(block: bytes) -> int:
    """How often a block changes the size of the table at its beginning (RFC 7541, 4.2), up to one too many."""
    at, found = 0, 0
    while at < len(block) and block[at] & 0xE0 == 0x20 and found <= MOST_UPDATES:
        goes_on, at, found = block[at] & 0x1F == 0x1F, at + 1, found + 1
        while goes_on and at < len(block):
            goes_on, at = bool(block[at] & 0x80), at + 1
    return found


def _fields(found: Sequence[tuple[bytes, bytes]]) -> Fields:
    """Those that somebody reads: a head of very many would hold memory for as long as its call."""
    fields: Fields = {}
    regular = False
    for name, value in found:
        if name.startswith(b":"):
            if regular or name not in KEPT or KEPT[name] in fields:
                fields[FAULT] = "a request has :method, :path and :scheme, each once and before all else"
        else:
            regular = True
        if (text := KEPT.get(name)) is not None:
            said = value.strip(b" \t").decode("latin-1")
            if fields.setdefault(text, said) != said:  # as gRPC's rules allow
                fields[TWICE] = f"{fields.get(TWICE, '')} {text}"
        elif name in FORBIDDEN or (name == b"te" and value.lower() != b"trailers"):
            fields[FAULT] = "fields of HTTP/1 have no place in HTTP/2"
        elif name != name.lower():
            fields[FAULT] = "names of fields have small letters"
        if BROKEN.search(value):
            fields[FAULT] = "a value has no ends of lines and no zeros"
    return fields


def fault_of(fields: Fields) -> str:
    """What is wrong with the head of a request; "" = nothing."""
    if not all(fields.get(name) for name in PSEUDO[:3]):
        return "a request has :method, :path and :scheme"
    size = fields.get("content-length", "0")
    if len(size) > LENGTH_DIGITS or not size.isdecimal():
        return "content-length is a number of bytes"
    return fields.get(FAULT, "")


def fault_behind(fields: Fields) -> str:
    """The same of a head that ends a request."""
    return "what ends a request has no :fields" if fields.keys() & PSEUDO else fields.get(FAULT, "")


def _text(data: bytes) -> bytes:
    """Its length, in 7 bits and then more, and itself."""
    size = len(data)
    if size < 127:
        return bytes([size]) + data
    digits, size = bytearray([127]), size - 127
    while size > 127:
        digits.append(size & 127 | 128)
        size >>= 7
    digits.append(size)
    return bytes(digits) + data


def field(name: str, value: str) -> bytes:
    """One that the table does not learn."""
    return NAMED + _text(name.encode("latin-1")) + _text(value.encode("latin-1"))


BEGIN = STATUS_200 + CONTENT_TYPE + _text(GRPC.encode())  # of an answer that follows
END_OK = field("grpc-status", "0")


@lru_cache(maxsize=256)
def plain(status: int, text: str) -> bytes:
    """The head of an answer to what is no gRPC, of which the text follows."""
    digits = b"\x08" + _text(str(status).encode())  # index 8: :status
    return digits + CONTENT_TYPE + _text(b"text/plain") + field("x-reason", text)


def end(status: int, message: str = "", metadata: Sequence[tuple[str, str]] = ()) -> bytes:
    """What stands behind the messages of a call."""
    if not status and not message and not metadata:
        return END_OK
    fields = [field("grpc-status", str(status))]
    if message:
        fields.append(field("grpc-message", quote(message, safe=SAFE)))
    return b"".join([*fields, *(field(name, value) for name, value in metadata)])


SAFE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")  # of a message; all else as %XX

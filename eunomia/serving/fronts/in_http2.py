"""The answer to a client that begins in HTTP/2 where HTTP/1.1 is spoken: it would understand no other.

Clients of gRPC send no request before they know how this side speaks HTTP/2, others begin with it.
"""

from __future__ import annotations

import asyncio

from eunomia.serving.fronts.in_words import error_facts
from eunomia.serving.http2.frames import END_HEADERS, END_STREAM, HEAD, PREFACE, Kind, frame, settings
from eunomia.serving.protocol.errors import OtherVersion

BLOCK = b"\x08\x03505\x0f\x10\x10application/json"  # :status and content-type, which no table learns
MOST = 8 * 1024  # bytes before its first request: those who send more say nothing


class InHttp2:
    """Waits for the first request, and answers it; ``came``: what is here, from the first byte on."""

    def __init__(
        self, transport: asyncio.Transport, fault: OtherVersion, grpc_port: int, came: bytes, most_s: float
    ) -> None:
        where = f"; gRPC is on port {grpc_port}" if grpc_port else ""
        self._text = error_facts(OtherVersion(f"{fault}{where}"))[2].encode()
        self._transport, self._opening, self._over, self._left = transport, Opening(), False, MOST
        transport.write(settings({}))
        self._timer = asyncio.get_running_loop().call_later(most_s, transport.abort)
        self.hear(came)

    def hear(self, data: bytes) -> None:
        """Some more."""
        if self._over:
            return
        if stream := self._opening.first_request(data[: self._left]):
            self._over = True
            head = frame(Kind.HEADERS, END_HEADERS, stream, BLOCK)
            self._transport.write(head + frame(Kind.DATA, END_STREAM, stream, self._text))
            if self._transport.can_write_eof():
                self._transport.write_eof()
        elif self._left <= len(data):
            self._over = True
            self._transport.abort()
        self._left -= len(data)

    def cancel(self) -> None:
        """The client has gone."""
        self._timer.cancel()


class Opening:
    """What comes before the first request, each byte once; only the head of a frame is kept until it is whole."""

    def __init__(self) -> None:
        self._skip, self._head = len(PREFACE), b""  # bytes until the next head; what is here of it

    def first_request(self, data: bytes) -> int:
        """Its number, if its head ends in these bytes; 0 = it does not."""
        at = 0
        while self._skip < len(data) - at:
            at += self._skip
            more = data[at : at + HEAD - len(self._head)]
            self._skip, self._head, at = 0, self._head + more, at + len(more)
            if len(self._head) < HEAD:
                return 0
            if self._head[3] == Kind.HEADERS:
                return int.from_bytes(self._head[5:], "big")
            self._skip, self._head = int.from_bytes(self._head[:3], "big"), b""
        self._skip -= len(data) - at
        return 0

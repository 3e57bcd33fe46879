"""The answer to a client that begins in HTTP/2 where HTTP/1.1 is spoken: it would understand no other.

Clients of gRPC send no request before they know how this side speaks HTTP/2, others begin with it.
"""

from __future__ import annotations

import asyncio

from eunomia.serving.fronts.in_words import error_facts
from eunomia.serving.http2.frames import END_HEADERS, END_STREAM, HEAD, PREFACE, Kind, frame, settings
from eunomia.serving.protocol.errors import OtherVersion

BLOCK = b"\x08\x03505\x0f\x10\x10application/json"  # :status and content-type, which no table learns
MOST = 64 * 1024  # bytes before its first request


class InHttp2:
    """Waits for the first request, and answers it; ``came``: what is here, from the first byte on."""

    def __init__(
        self, transport: asyncio.Transport, fault: OtherVersion, grpc_port: int, came: bytes, most_s: float
    ) -> None:
        where = f"; gRPC is on port {grpc_port}" if grpc_port else ""
        self._text = error_facts(OtherVersion(f"{fault}{where}"))[2].encode()
        self._transport, self._came, self._over = transport, b"", False
        transport.write(settings({}))
        self._timer = asyncio.get_running_loop().call_later(most_s, transport.abort)
        self.hear(came)

    def hear(self, data: bytes) -> None:
        """Some more."""
        if self._over:
            return
        self._came += data
        if stream := first_request(self._came):
            self._over = True
            head = frame(Kind.HEADERS, END_HEADERS, stream, BLOCK)
            self._transport.write(head + frame(Kind.DATA, END_STREAM, stream, self._text))
            if self._transport.can_write_eof():
                self._transport.write_eof()
        elif len(self._came) > MOST:
            self._transport.abort()

    def cancel(self) -> None:
        """The client has gone."""
        self._timer.cancel()


def first_request(came: bytes) -> int:
    """The number of the first request in HTTP/2; 0 = its head has not begun."""
    at = len(PREFACE)
    while at + HEAD <= len(came):
        if came[at + 3] == Kind.HEADERS:
            return int.from_bytes(came[at + 5 : at + HEAD], "big")
        at += HEAD + int.from_bytes(came[at : at + 3], "big")
    return 0

"""A gRPC client of a few lines that starts messages and never ends them: HTTP/2 by hand, as no library would send it.

It sends as much as the server's flow control lets it, which is what the server may have to hold.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
INITIAL_WINDOW, MAX_FRAME, WINDOW = 4, 16384, 65535
CHUNK = bytes(MAX_FRAME)


class Stalling:
    """One connection. ``room``: bytes that each stream may still send. ``ended``: streams that the server ended."""

    def __init__(self, address: str, source: str = "") -> None:
        host, _, port = address.rpartition(":")
        self._line = socket.create_connection(
            (host, int(port)), source_address=(source, 0) if source else None
        )
        self._line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(SETTINGS, 0, 0, b""))
        self.room: dict[int, int] = {0: WINDOW}
        self.sent: dict[int, int] = {}
        self.ended: set[int] = set()
        self.closed = False
        self._initial, self._next, self._left = WINDOW, 1, b""

    def begin(self, path: str, size: int, headers: Mapping[str, str]) -> int:
        """Open a stream and announce a message of so many bytes."""
        number, self._next = self._next, self._next + 2
        fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x",
                  "content-type": "application/grpc", "te": "trailers", **headers}  # fmt: skip
        block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())
        if not self._send(_frame(HEADERS, 4, number, block)):
            return number
        self.room[number], self.sent[number] = self._initial, 0
        self._data(number, b"\0" + struct.pack(">I", size))
        return number

    def push(self, most: int, patience_s: float = 0.3) -> int:
        """Send ``most`` bytes of every open message, until the server grants none for a while; how many in all."""
        while not self.closed:
            moved = False
            for number in list(self.sent):
                while number not in self.ended and self.sent[number] < most and self._granted(number):
                    size = min(MAX_FRAME, self.room[0], self.room[number], most - self.sent[number])
                    if not self._data(number, CHUNK[:size]):
                        break
                    moved = True
            if not self._hear(0.0 if moved else patience_s) and not moved:
                break
        return sum(self.sent.values())

    def hear_out(self, count: int, patience_s: float) -> int:
        """Listen until so many streams have ended, or the connection; how many have."""
        while len(self.ended) < count and not self.closed and self._hear(patience_s):
            pass
        return len(self.sent) if self.closed else len(self.ended)

    def take_back(self, number: int, content: bytes) -> None:
        """Reset a stream, and send what was on its way before the server says so."""
        size = min(len(content), self.room[0], self.room[number])
        while size > 0 and (piece := content[: min(size, MAX_FRAME)]) and self._data(number, piece):
            size -= len(piece)
        self._send(_frame(RST_STREAM, 0, number, (8).to_bytes(4, "big")))
        self.sent.pop(number, None)
        while self._hear(0.0):
            pass

    def end(self, number: int) -> None:
        """No more of this message comes."""
        self._send(_frame(DATA, 1, number, b""))

    def close(self) -> None:
        """Leave."""
        self._line.close()

    def _granted(self, number: int) -> bool:
        return self.room[number] > 0 and self.room[0] > 0

    def _send(self, frame: bytes) -> bool:
        """Whether the server has not hung up."""
        try:
            self._line.sendall(frame)
        except OSError:
            self.closed = True
        return not self.closed

    def _data(self, number: int, content: bytes) -> bool:
        if not self._send(_frame(DATA, 0, number, content)):
            return False
        self.sent[number] += len(content)
        self.room[number] -= len(content)
        self.room[0] -= len(content)
        return True

    def _hear(self, patience_s: float) -> bool:
        """Read what is there; whether anything was."""
        if not select.select([self._line], [], [], patience_s)[0]:
            return False
        try:
            more = self._line.recv(65536)
        except OSError:
            more = b""
        if not more:
            self.closed = True
            return False
        self._left += more
        while len(self._left) >= 9:
            size = int.from_bytes(self._left[:3], "big")
            if len(self._left) < 9 + size:
                break
            kind, flags, number = struct.unpack(">BBI", self._left[3:9])
            self._take(kind, flags, number, self._left[9 : 9 + size])
            self._left = self._left[9 + size :]
        return True

    def _take(self, kind: int, flags: int, number: int, content: bytes) -> None:
        if kind == WINDOW_UPDATE:
            self.room[number] = self.room.get(number, 0) + struct.unpack(">I", content)[0]
        elif kind == SETTINGS and not flags & 1:
            for at in range(0, len(content), 6):
                key, value = struct.unpack(">HI", content[at : at + 6])
                if key == INITIAL_WINDOW:
                    for stream in self.sent:
                        self.room[stream] += value - self._initial
                    self._initial = value
            self._send(_frame(SETTINGS, 1, 0, b""))
        elif kind == PING and not flags & 1:
            self._send(_frame(PING, 1, 0, content))
        elif kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & 1):
            self.ended.add(number)
        elif kind == GOAWAY:
            self.closed = True


@contextmanager
def stalling(address: str, source: str = "") -> Iterator[Stalling]:
    """One connection, closed after the block; ``source``: the client's own address."""
    line = Stalling(address, source)
    try:
        yield line
    finally:
        line.close()


def _frame(kind: int, flags: int, number: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, number) + content


def _text(text: str) -> bytes:
    """A string of HPACK, as it is: at most 126 bytes."""
    raw = text.encode()
    assert len(raw) < 127
    return bytes([len(raw)]) + raw

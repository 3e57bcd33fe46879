"""The server's end of a connection over HTTP/2 without a network and without services: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from eunomia.serving.fronts.connections import ConnectionLimits, Connections
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.http2.call import Call
from eunomia.serving.http2.line import House, Line
from eunomia.serving.observe.turns import Turns
from eunomia.serving.protocol.errors import BadRequest, NoCall, Unauthenticated, Unspoken
from eunomia.serving.rpc.ending import refuse
from eunomia.serving.tenants.bodies import Bodies
from tests.hostile import frames
from tests.serving.speaking import Speaker, message
from tests.serving.wire import Wire

MIB = 1024**2
FIELDS = {":method": "POST", ":scheme": "http", ":path": "/echo", ":authority": "x",
          "te": "trailers", "content-type": "application/grpc"}  # fmt: skip


def within(work: Callable[[], Any]) -> Any:
    """In an event loop, for as long as it takes."""

    async def main() -> Any:
        return work()

    return asyncio.run(main())


class Echo:
    """Answers with a field of the head and all messages, one behind the other; holds room while it waits."""

    def __init__(self, call: Call, bodies: Bodies) -> None:
        self.call, self.messages, self.is_gone, self.ended = call, list[bytes](), False, False
        self._came, self.room = bytearray(), bodies.open("gold")
        self.room.need(1)
        call.tenant, call.awaited = "gold", True

    def begin(self, size: int, *, packed: bool) -> None:
        if packed:
            raise BadRequest("not packed")
        self._came = bytearray()

    def take(self, data: memoryview) -> None:
        self._came += data

    def whole(self) -> None:
        self.messages.append(bytes(self._came))

    def end(self) -> None:
        self.ended = True
        self.room.close()
        self.call.answer(
            [self.call.fields.get("x-tenant-id", "").encode("latin-1"), b"=", b"|".join(self.messages)]
        )

    def gone(self) -> None:
        self.is_gone = True
        self.room.close()


class Silent(Echo):
    """Never answers."""

    def end(self) -> None:
        self.ended = True


class Reader(Echo):
    """Reads one message after the other, when it is told to; answers in the end with how many."""

    def whole(self) -> None:
        super().whole()
        self.call.unread += 1

    def read(self) -> None:
        """One."""
        self.call.read()

    def end(self) -> None:
        self.room.close()
        self.call.answer([str(len(self.messages)).encode()])


class Keeper(Echo):
    """Keeps what has come as it came."""

    def __init__(self, call: Call, bodies: Bodies) -> None:
        super().__init__(call, bodies)
        self.views = list[memoryview]()

    def take(self, data: memoryview) -> None:
        self.views.append(data)


class Counting(Echo):
    """Answers with so many bytes as its message says, all different from their neighbours."""

    def end(self) -> None:
        self.room.close()
        self.call.answer([numbered(int(self.messages[0]))])


KINDS: dict[str, type[Echo]] = {
    "/echo": Echo,
    "/silent": Silent,
    "/read": Reader,
    "/keep": Keeper,
    "/count": Counting,
}


class Near:
    """In a running event loop. ``takers``: of all calls, by number."""

    def __init__(self, limits: ConnectionLimits | None = None, room_bytes: int = 64 * MIB) -> None:
        self.connections, self.bodies = Connections(limits or ConnectionLimits()), Bodies(room_bytes)
        self.wire, self.takers, self.leaving = Wire(), dict[int, Echo](), False
        house = House(self.connections, self.bodies, self._serve, refuse, lambda: self.leaving)
        self.line = Line(house, Rota(Turns(), math.inf))
        self.line.connection_made(self.wire)

    def _serve(self, call: Call) -> Echo:
        path = call.fields[":path"]
        if path == "/key":
            raise Unauthenticated("an API key is needed")
        if path == "/http":
            raise NoCall("this is no call")
        if path not in KINDS:
            raise Unspoken(f"there is no method {path}")
        self.takers[call.number] = found = KINDS[path](call, self.bodies)
        return found

    def say(self, data: bytes) -> None:
        """Bytes of the client's, unless the connection has ended."""
        if not self.over:
            self.line.data_received(data)

    def said(self) -> bytes:
        """Bytes for the client, since the last time."""
        found = b"".join(self.wire.sent)
        self.wire.sent.clear()
        return found

    def leave(self) -> None:
        """The client has gone."""
        self.line.connection_lost(None)

    @property
    def over(self) -> bool:
        """Whether the server has said its last word."""
        return self.wire.ended or self.wire.closed or self.wire.aborted


class Talk(Speaker):
    """A client of the library ``h2`` at this end, and the server at the other: each hears the other at once."""

    def __init__(self, near: Near, **more: dict[int, int]) -> None:
        self._near, self._sent = near, list[bytes]()
        super().__init__(self._sent.append, **more)

    def exchange(self) -> None:
        """Until both are silent."""
        while self._sent or self._near.wire.sent:
            sent, self._sent[:] = b"".join(self._sent), []
            self._near.say(sent)
            self.hear(self._near.said())


def setting(name: int, value: int) -> bytes:
    """One of the client's."""
    return frames.frame(frames.SETTINGS, 0, 0, struct.pack(">HI", name, value))


def wider(stream: int, size: int) -> bytes:
    """So many bytes more may come, of a call or in all."""
    return frames.frame(frames.WINDOW, 0, stream, size.to_bytes(4, "big"))


def numbered(size: int) -> bytes:
    """So many bytes, all different from their neighbours."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def fields(path: str = "/echo", **more: str) -> list[tuple[str, str]]:
    """Of a call."""
    return [*(FIELDS | {":path": path}).items(), *more.items()]


def head(
    number: int, path: str = "/echo", flags: int = frames.END_HEADERS, more: Sequence[tuple[str, str]] = ()
) -> bytes:
    """A call begins."""
    return frames.frame(frames.HEADERS, flags, number, plain([*fields(path), *more]))


def plain(pairs: Sequence[tuple[str, str]]) -> bytes:
    """A block that needs no table."""
    return b"".join(frames.literal(*pair) for pair in pairs)


def whole(number: int, content: bytes, path: str = "/echo") -> bytes:
    """A call of one message."""
    return head(number, path) + frames.frame(frames.DATA, frames.END_STREAM, number, message(content))


def heard(said: bytes) -> list[tuple[int, int, int, bytes]]:
    """Frames: kind, flags, stream, content."""
    found, at = [], 0
    while at < len(said):
        size = int.from_bytes(said[at : at + 3], "big")
        stream = int.from_bytes(said[at + 5 : at + 9], "big")
        found.append((said[at + 3], said[at + 4], stream, said[at + 9 : at + 9 + size]))
        at += 9 + size
    assert at == len(said), "all frames are whole"
    return found


def away(said: bytes) -> int | None:
    """The code with which the connection ends."""
    codes = [
        int.from_bytes(content[4:8], "big") for kind, _, _, content in heard(said) if kind == frames.AWAY
    ]
    return codes[-1] if codes else None


def resets(said: bytes) -> dict[int, int]:
    """Codes with which streams end."""
    return {n: int.from_bytes(content, "big") for kind, _, n, content in heard(said) if kind == frames.RESET}

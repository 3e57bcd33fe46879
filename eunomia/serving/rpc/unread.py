"""Messages of a call that wait to be read: small ones lie in one piece, as a client may send very many of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from eunomia.serving.http2.call import PREFIX
from eunomia.serving.http2.outlet import CALL_BYTES
from eunomia.serving.protocol.errors import ServingError
from eunomia.serving.protocol.packed import room_of
from eunomia.serving.protocol.pieces import Gathered
from eunomia.serving.tenants.bodies import Body

SMALL, READ = (
    4096,
    64 * 1024,
)  # bytes of a message that lies among others; of such that have been read and stay


@dataclass(frozen=True, slots=True)
class Message:
    """``objection``: why it is refused, of which no more than the beginning is here."""

    content: bytes | memoryview
    packed: bool = False
    objection: ServingError | None = None


@dataclass
class Large:
    """A message of its own."""

    packed: bool
    room: Body
    message: Gathered = field(default_factory=Gathered)
    objection: ServingError | None = None


@dataclass
class Small:
    """Messages as they came, the first of those that wait at a place."""

    room: Body
    data: bytearray = field(default_factory=bytearray)
    at: int = 0


class Unread:
    """``room``: opens some for the bytes that wait. ``most``: of a message that is inflated."""

    def __init__(self, room: Callable[[], Body], most: int) -> None:
        self._open, self._most = room, most
        self._here = deque[Large | Small]()
        self._large: Large | None = None  # that comes
        self._in_vain = False  # what comes has been refused

    def __bool__(self) -> bool:
        """Whether a whole one waits."""
        return bool(self._here)

    def begin(self, size: int, *, packed: bool) -> None:
        """A message of so many bytes comes; raises Refused."""
        self._in_vain = False
        if size > SMALL:
            self._large = Large(packed, self._open())
            self._large.room.need(CALL_BYTES + size + (room_of(size, self._most) if packed else 0))

    def take(self, data: memoryview) -> bool:
        """Some of it, of a large one; whether it is kept."""
        if self._large is not None:
            self._large.message.add(data)
        return self._large is not None

    def refuse(self, beginning: bytes, objection: ServingError) -> None:
        """The one that comes waits no longer; nothing but its beginning is kept."""
        large, self._large = self._large, None
        assert large is not None, "a large one comes"
        self._in_vain = True
        large.message, large.objection = Gathered(), objection
        large.message.add(beginning)
        large.room.shrink(CALL_BYTES + len(beginning))
        self._here.append(large)

    def whole(self, small: bytes, *, packed: bool) -> bool:
        """All of it is here; ``small``: what it holds, if it is. Whether it waits from now on. Raises Refused."""
        if self._in_vain:
            return False
        large, self._large = self._large, None
        if large is not None:
            self._here.append(large)
            return True
        last = self._here[-1] if self._here else None
        if not isinstance(last, Small):
            last = Small(self._open())
            self._here.append(last)
        last.room.need(CALL_BYTES + len(last.data) + PREFIX + len(small))
        last.data += bytes([packed]) + len(small).to_bytes(4, "big") + small
        return True

    async def next(self) -> Message:
        """The first."""
        first = self._here[0]
        if isinstance(first, Large):
            self._here.popleft()
            whole = first.message.so_far()
            try:
                if first.message.size < Gathered.LARGE:
                    return Message(bytes(whole.joined()), first.packed, first.objection)
                return Message(await asyncio.to_thread(whole.whole), first.packed)
            finally:
                first.room.close()
        begin = first.at + PREFIX
        first.at = begin + int.from_bytes(first.data[first.at + 1 : begin], "big")
        message = Message(bytes(first.data[begin : first.at]), bool(first.data[begin - PREFIX]))
        if first.at == len(first.data):
            self._here.popleft()
            first.room.close()
        elif first.at > READ:
            del first.data[: first.at]
            first.at = 0
        return message

    def close(self) -> None:
        """Nobody reads them."""
        if self._large is not None:
            self._large.room.close()
            self._large = None
        while self._here:
            self._here.popleft().room.close()

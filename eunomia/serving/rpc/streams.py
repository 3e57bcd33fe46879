"""Calls of many messages: a task reads and writes them; so many at a time, and none of them silent for ever.

A client may be one message ahead of what is read, and a megabyte of others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from eunomia.serving.http2.call import NOBODY, Call
from eunomia.serving.protocol.errors import FEWER, Expired, ServingError, TooLarge
from eunomia.serving.rpc.caller import packing_of, timeout_s
from eunomia.serving.rpc.ending import refuse
from eunomia.serving.rpc.unary import CONTROL_BYTES, Common
from eunomia.serving.rpc.unread import SMALL, Unread
from eunomia.serving.tenants.circle import STRANGERS, group_of
from eunomia.serving.tenants.slots import Slots

LEAST, PLACE_BYTES = 4, 16 * 1024**2  # streams; of the room for messages, one for so many bytes
PART = 4  # one in so many is for callers without a key
WATCHES = 4096  # of the server's health: each waits, and holds next to nothing
Piece = bytes | memoryview


@dataclass(frozen=True)
class Places:
    """For streams: more of them, the more room there is. ``turn``: of a tenant; ``idle_s``: between two messages."""

    common: Common
    known: Slots
    strange: Slots
    watches: Slots
    strange_watches: Slots
    turn: Callable[[str], Awaitable[None]]
    idle_s: float
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # nobody waits for them when the server ends

    @staticmethod
    def slots(room_bytes: int) -> tuple[Slots, Slots, Slots, Slots]:
        """Of tenants, of callers without a key, and for those who watch."""
        places = max(LEAST, room_bytes // PLACE_BYTES)
        return (
            Slots(places, "streams"),
            Slots(max(LEAST, places // PART), "streams"),
            Slots(WATCHES, "watches"),
            Slots(WATCHES // PART, "watches"),
        )

    def watching(self, who: str) -> AbstractContextManager[None]:
        """A place among those who watch; raises Refused."""
        return (self.strange_watches if group_of(who) == STRANGERS else self.watches).now(who)

    def place(self, who: str) -> AbstractContextManager[None]:
        """One of the streams that this caller may have; raises Refused."""
        return (self.strange if group_of(who) == STRANGERS else self.known).now(who)


class Sight(Protocol):
    """Judges messages before they are whole."""

    @property
    def content(self) -> bytes:
        """The beginning of one that it refuses."""
        ...

    def begin(self, size: int, *, packed: bool) -> None:
        """A message of so many bytes comes."""

    def take(self, data: memoryview) -> None:
        """Some of it; raises ServingError."""


class Stream:
    """One such call, and its taker. ``who``: the tenant, or what stands for a caller without a key. Raises Refused.

    ``objection``: to the message that was read last, of which there is no more than its beginning.
    """

    def __init__(
        self,
        call: Call,
        who: str,
        places: Places,
        behave: Callable[[Stream], Awaitable[None]],
        most: int = CONTROL_BYTES,
        sight: Sight | None = None,
    ) -> None:
        left_s = timeout_s(call.fields.get("grpc-timeout"))
        self.call, self.who, self._places, self._behave = call, who, places, behave
        self._most, self._sight = most, sight
        self.objection: ServingError | None = None
        payer = STRANGERS if group_of(who) == STRANGERS else who
        self._unread = Unread(partial(places.common.bodies.open, payer), most)
        self._small, self._is_small, self._packed = bytearray(), False, False  # of the message that comes
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._place = ExitStack()
        self._place.enter_context(places.place(who))
        self._task: asyncio.Task[None] | None = asyncio.get_running_loop().create_task(self._run())
        places.tasks.add(self._task)
        self._task.add_done_callback(places.tasks.discard)
        self._late = (
            None if left_s == math.inf else asyncio.get_running_loop().call_later(left_s, self._expire)
        )

    # --- what the connection says ----------------------------------------------------------------------

    def begin(self, size: int, *, packed: bool) -> None:
        """A message comes; raises ServingError."""
        if packed:
            packing_of(self.call)
        if size > self._most:
            raise TooLarge(f"the message has {size} bytes; at most {self._most} are taken here{FEWER}")
        self._packed, self._small = packed, bytearray()
        self._is_small = size <= SMALL
        self._unread.begin(size, packed=packed)
        if self._sight is not None:
            self._sight.begin(size, packed=packed)

    def take(self, data: memoryview) -> None:
        """Some of it."""
        if self._is_small:
            self._small += data
        elif self._unread.take(data) and self._sight is not None:
            self._look(self._sight, data)

    def _look(self, sight: Sight, data: memoryview) -> None:
        """What is refused is answered in its turn, and what still comes of it goes nowhere."""
        try:
            sight.take(data)
        except ServingError as error:
            self._unread.refuse(sight.content, error)
            self._waits()

    def whole(self) -> None:
        """It can be read; raises Refused."""
        if self._unread.whole(bytes(self._small), packed=self._packed):
            self._waits()

    def _waits(self) -> None:
        self.call.unread += 1
        self._wake()

    def end(self) -> None:
        """No more come."""
        self._ended = True
        self._wake()

    def gone(self) -> None:
        """Nobody waits for answers any more."""
        self._close()
        task, self._task = self._task, None  # the two, and what was read, would hold each other
        if task is not None:
            task.cancel()

    # --- what its service does -------------------------------------------------------------------------

    async def messages(self) -> AsyncIterator[Piece]:
        """One after the other, each in its tenant's turn; raises Expired where none comes."""
        while (message := await self.read()) is not None:
            yield message

    async def read(self) -> Piece | None:
        """The next, None at the end; raises Expired or BadRequest."""
        idle_s = self._places.idle_s
        try:
            async with asyncio.timeout(idle_s):
                while not self._unread and not self._ended:
                    self._waiter = asyncio.get_running_loop().create_future()
                    await self._waiter
        except TimeoutError:
            raise Expired(f"no whole message has arrived for {idle_s:g} s") from None
        if not self._unread:
            return None
        await self._places.turn(self.who)
        message = await self._unread.next()
        self.call.read()
        self.objection = message.objection
        if message.packed:
            return await self._places.common.unpack(message.content, self._most, self.who)
        return message.content

    async def write(self, pieces: Sequence[Piece]) -> None:
        """A message; returns when the client's window has let it out."""
        self.call.send(pieces)
        await self.call.emptied()

    async def _run(self) -> None:
        try:
            await self._behave(self)
        except Exception as error:
            self._fail(error)
        else:
            self.call.finish()
        finally:
            self._close()

    def _expire(self) -> None:
        self._fail(Expired("the call's own deadline has passed"))
        self.gone()

    def _fail(self, error: Exception) -> None:
        self.call.taker = NOBODY
        refuse(self.call, error)

    def _wake(self) -> None:
        if self._waiter is not None:
            with suppress(asyncio.InvalidStateError):
                self._waiter.set_result(None)

    def _close(self) -> None:
        self._place.close()
        if self._late is not None:
            self._late.cancel()
        self._unread.close()

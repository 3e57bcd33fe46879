"""Calls of one small message and one answer: read and answered in their turn, without a task where nothing waits.

Callers without a key are one tenant together, send less, and have less time: who asks for the server's health keeps
nobody waiting.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from eunomia.serving.http2.call import NOBODY, Call
from eunomia.serving.http2.outlet import CALL_BYTES
from eunomia.serving.protocol.errors import BadRequest, Expired, TooLarge
from eunomia.serving.protocol.packed import room_of
from eunomia.serving.protocol.rpc_types import Response
from eunomia.serving.rpc.caller import check_only
from eunomia.serving.rpc.ending import refuse
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.circle import STRANGERS, group_of

CONTROL_BYTES, OF_STRANGERS = 64 * 1024, 4096  # of a message, with a key and without
STRANGER_S = 2.0  # for the message of one without: it fits into one packet
Answer = Callable[[bytes, Call], Response | Awaitable[Response]]
Unpack = Callable[
    [bytes | memoryview, int, str], Awaitable[bytes | memoryview]
]  # a packed message, its most bytes, and whose it is
Later = Callable[[Coroutine[None, None, None]], asyncio.Task[None]]


@dataclass(frozen=True)
class Common:
    """What all calls need. ``body_s``: for a message to arrive; ``later``: a task that the server's end waits for."""

    bodies: Bodies
    body_s: float
    unpack: Unpack
    later: Later


def serialized(message: Response) -> bytes:
    """A message as bytes."""
    data: bytes = message.SerializeToString()  # type: ignore[attr-defined]
    return data


class Unary:
    """``who``: the tenant, or what stands for a caller without a key. ``answer`` gets the message.

    ``too_large``: asked before a message is refused for its size; it may raise what says more.
    """

    def __init__(self, call: Call, who: str, answer: Answer, common: Common) -> None:
        strange = group_of(who) == STRANGERS
        self._call, self._who, self._answer, self._common = call, who, answer, common
        self._most = OF_STRANGERS if strange else CONTROL_BYTES
        self._room = common.bodies.open(STRANGERS if strange else who)
        self._room.need(CALL_BYTES)
        self.too_large: Callable[[], None] = lambda: None
        self._message, self._came, self._packed = bytearray(), False, False
        self._task: asyncio.Task[None] | None = None
        call.awaited = True
        seconds = min(common.body_s, STRANGER_S) if strange else common.body_s
        self._late = asyncio.get_running_loop().call_later(seconds, self._expire, seconds)

    def begin(self, size: int, *, packed: bool) -> None:
        """Its message comes; raises ServingError."""
        check_only(self._call, came=self._came, packed=packed)
        self._came, self._packed = True, packed
        if size > self._most:
            self.too_large()
            raise TooLarge(f"the message has {size} bytes; at most {self._most} are taken here")
        self._room.need(CALL_BYTES + size + (room_of(size, self._most) if packed else 0))

    def take(self, data: memoryview) -> None:
        """Some of it."""
        self._message += data

    def whole(self) -> None:
        """The end of the call says that there is no other."""

    def end(self) -> None:
        """All is here; raises ServingError."""
        self._late.cancel()
        if not self._came:
            raise BadRequest("the call has no message")
        if self._packed:
            self._task = self._common.later(self._unpacked())
            return
        found = self._answer(bytes(self._message), self._call)
        if inspect.isawaitable(found):
            self._task = self._common.later(self._finish(found))
        else:
            self._say(found)

    def gone(self) -> None:
        """Nobody waits for the answer any more."""
        self._late.cancel()
        self._let_go()
        task, self._task = self._task, None  # the two would hold each other
        if task is not None:
            task.cancel()

    def _expire(self, seconds: float) -> None:
        self._fail(Expired(f"the message has not arrived within {seconds:g} s"))

    async def _unpacked(self) -> None:
        try:
            message = await self._common.unpack(bytes(self._message), self._most, self._who)
            found = self._answer(bytes(message), self._call)
        except Exception as error:
            self._fail(error)
            return
        if inspect.isawaitable(found):
            await self._finish(found)
        else:
            self._say(found)

    async def _finish(self, answer: Awaitable[Response]) -> None:
        try:
            self._say(await answer)
        except Exception as error:
            self._fail(error)

    def _let_go(self) -> None:
        self._room.close()
        self._message = bytearray()

    def _say(self, response: Response) -> None:
        self._let_go()
        self._call.answer([serialized(response)])

    def _fail(self, error: Exception) -> None:
        self._let_go()
        self._call.taker = NOBODY
        refuse(self._call, error)

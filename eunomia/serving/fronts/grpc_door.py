"""What a gRPC call may cost before it is understood: whose it is is known before its message is taken in.

The library would take a whole message of any caller into memory, and wait for its end for ever. Here every call of one
message is served as a stream of one: the same on the wire, but the server's code runs first. It names the tenant, waits
for one of the tenant's places (``Slots``: a message that arrives may be as large as any), and reads within a time.
Callers without a key have places of their own, and less time: who asks for the server's health keeps no tenant waiting.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote

import grpc

from eunomia.serving.fronts.address import place_of
from eunomia.serving.fronts.grpc_wire import Wire
from eunomia.serving.protocol.errors import (
    BadRequest,
    Expired,
    ServingError,
    TooLarge,
    Unauthenticated,
    forget_frames,
    without_folders,
)
from eunomia.serving.protocol.packed import is_packed
from eunomia.serving.protocol.rpc_types import Call, Response
from eunomia.serving.tenants.circle import STRANGERS, group_of, stranger_at
from eunomia.serving.tenants.slots import Slots

LEAST = 4  # places, however large a message may be
WATCHES = 4096  # of the server's health: each waits, and holds next to nothing
OF_STRANGERS = 4  # one in so many places is for callers without a key
STRANGER_S = 2.0  # for the message of one of these: it fits into one packet
CONTROL_BYTES = 64 * 1024  # of a message that is no inference request
Unpack = Callable[
    [bytes, int, str], Awaitable[bytes]
]  # a packed message, the most it may become, and whose it is
Behaviour = Callable[[object, Call], Awaitable[Response]]


@dataclass(frozen=True)
class DoorLimits:
    """Seconds for a message to arrive and between two of a stream; places for each."""

    body_s: float
    idle_s: float
    places: int

    @classmethod
    def within(cls, room_bytes: int, message_bytes: int, body_s: float, idle_s: float) -> DoorLimits:
        """As many places as largest messages fit into a room."""
        return cls(body_s, idle_s, max(LEAST, room_bytes // message_bytes))


class Door:
    """Reads messages of calls; ``messages`` and ``streams`` say who holds how many places.

    A message that is here waits for its tenant's ``turn``: a thousand calls that come at once go one in each round.
    """

    def __init__(
        self,
        limits: DoorLimits,
        unpack: Unpack,
        turn: Callable[[str], Awaitable[None]],
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits, self._unpack, self._turn, self._begin = limits, unpack, turn, begin
        self.wire = Wire()
        few = max(LEAST, limits.places // OF_STRANGERS)
        self.messages, self.strange_messages = Slots(limits.places, "messages"), Slots(few, "messages")
        self.streams, self.strange_streams = Slots(limits.places, "streams"), Slots(few, "streams")
        self.watches = Slots(WATCHES, "watches")

    async def read(self, context: Call, tenant: str, most: int = CONTROL_BYTES) -> bytes:
        """The message of a call; raises Expired, Refused, TooLarge, or BadRequest where there is none."""
        body_s, places = self.limits.body_s, self.messages
        if group_of(tenant) == STRANGERS:
            body_s, places = min(body_s, STRANGER_S), self.strange_messages
        else:
            self.known(context)
        try:
            async with asyncio.timeout(body_s), places.soon(tenant):
                message = await self._whole(context, tenant, most)
                await self._turn(tenant)
        except TimeoutError:
            raise Expired(f"the message has not arrived within {body_s:g} s") from None
        if message is None:
            raise BadRequest("the call has no message")
        return message

    def known(self, context: Call) -> None:
        """Its caller has a valid key."""
        self.wire.known(place_of(host_of(context)), context.peer())

    def stranger(self, context: Call) -> str:
        """What stands for the tenant of a caller without a key: its address, which is no tenant's name."""
        self.wire.strange(host := place_of(host_of(context)))
        return stranger_at(host)

    @asynccontextmanager
    async def stream(
        self, context: Call, tenant: str, most: int = CONTROL_BYTES
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The messages of a stream; raises Refused when the tenant has too many of them."""
        with self.holding_stream(tenant):
            yield self._messages(context, tenant, most)

    def holding_stream(self, tenant: str) -> AbstractContextManager[None]:
        """One of the streams that this caller may have; raises Refused."""
        return (self.strange_streams if group_of(tenant) == STRANGERS else self.streams).now(tenant)

    async def _messages(self, context: Call, tenant: str, most: int) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self.limits.idle_s):
                    message = await self._whole(context, tenant, most)
                    await self._turn(tenant)
            except TimeoutError:
                raise Expired(f"no whole message has arrived for {self.limits.idle_s:g} s") from None
            if message is None:
                return
            if group_of(tenant) != STRANGERS:
                self.known(context)
            yield message

    async def _whole(self, context: Call, tenant: str, most: int) -> bytes | None:
        """The next message, inflated if it was packed; None at the end. Raises TooLarge above ``most``, BadRequest."""
        peer = context.peer()
        with self.wire.message(peer, most):
            message = await context.read()
        self._begin()
        if not isinstance(message, bytes):  # the library says so too of one that its client takes back
            self.wire.lost(peer, most)
            return None
        self.wire.took(peer, len(message))
        if is_packed(message):
            return await self._unpack(message, most, tenant)
        if len(message) > most:
            raise TooLarge(f"the message has {len(message)} bytes; at most {most} are taken here")
        return message

    def gave(self, context: Call, response: Response) -> None:
        """An answer that is about to be sent."""
        if isinstance(response, bytes):
            self.wire.gave(context.peer(), len(response))

    def served(
        self, behaviours: dict[str, Behaviour], streams: dict[str, Behaviour], service: str
    ) -> grpc.GenericRpcHandler:
        """Handlers of ``behaviours`` (one answer) and ``streams``; all of them read bytes by ``context.read``."""
        return grpc.method_handlers_generic_handler(
            service,
            {
                name: grpc.stream_unary_rpc_method_handler(self._in_words(behave), None, serialized)
                for name, behave in behaviours.items()
            }
            | {
                name: grpc.stream_stream_rpc_method_handler(self._in_words(behave), None, serialized)
                for name, behave in streams.items()
            },
        )

    def _in_words(self, behave: Behaviour) -> Behaviour:
        """The same; a ServingError ends the RPC with its status and one sentence."""

        async def answer(messages: object, context: Call) -> Response:
            self._begin()
            try:
                with self.wire.call(context.peer()):
                    response = await behave(messages, context)
                self.gave(context, response)
                return response
            except ServingError as error:
                if isinstance(error, Unauthenticated):
                    self.stranger(context)
                forget_frames(error)
                await abort(context, error)
            finally:
                self._begin()  # what ends it goes on in the library

        return answer


def serialized(message: Response) -> bytes:
    """A message as bytes, if it is not."""
    if isinstance(message, bytes):
        return message
    data: bytes = message.SerializeToString()  # type: ignore[attr-defined]
    return data


async def abort(context: Call, error: ServingError) -> NoReturn:
    """End an RPC with one sentence, and when to ask again."""
    if error.retry_after_s is not None:
        context.set_trailing_metadata(
            (("retry-after-ms", str(max(1, math.ceil(error.retry_after_s * 1e3)))),)
        )
    await context.abort(getattr(grpc.StatusCode, error.grpc), without_folders(str(error)))


def host_of(context: Call) -> str:
    """The address in gRPC's name of a caller: ``ipv4:127.0.0.1:4711``, ``ipv6:%5B::1%5D:4711``, ``unix:``."""
    kind, _, place = context.peer().partition(":")
    return "" if kind == "unix" else unquote(place).rpartition(":")[0].strip("[]")

"""Bounds on connections, so that slow, silent and half-open ones cost little and end.

Looked at once a second, away from the way of requests. A connection ends when it has not sent a whole header in
``head_s`` (``idle_s`` once it was served), or not its whole body in ``body_s``. Of bodies that together hold more than
``buffered_bytes`` while they arrive, the largest end first. The ``most`` connections are kept to at each newcomer: for
it one ends of whoever has the most of them (``parties``), there of the most crowded address, which has waited longest
without a request.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Protocol, TypeVar, cast

from aiohttp import web
from aiohttp.typedefs import Middleware

from eunomia.serving.fronts.hearing import Hearing
from eunomia.serving.fronts.parties import Parties
from eunomia.serving.fronts.records import Secure
from eunomia.serving.tenants.circle import STRANGERS, group_of, newcomer_at
from eunomia.serving.tenants.places import Places

log = logging.getLogger("eunomia.serving")
T = TypeVar("T")
EVERY_S = 1.0
FREE = 64  # connections of an address that are read as soon as they have something
OF_ALL = 256  # of a party
AT_ONCE = 4  # connections that end in one round of the event loop
LOOKED_AT = 256  # connections in one round; to look at one takes microseconds
OWN_FILES = 200  # descriptors that are not connections: devices, ledger, database; and of those that just end


@dataclass(frozen=True)
class ConnectionLimits:
    """Seconds, connections, bytes."""

    most: int = 10_000
    head_s: float = 10.0
    idle_s: float = 75.0
    body_s: float = 30.0
    buffered_bytes: int = 512 * 1024**2


class Connection(Protocol):
    """What may have to end."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """None if it has none yet, or any more."""
        ...

    def force_close(self) -> None:
        """End it."""


class Content(Protocol):
    """The body of a request."""

    @property
    def total_bytes(self) -> int:
        """That have come."""
        ...

    def is_eof(self) -> bool:
        """Whether it is whole."""
        ...


@dataclass(slots=True)
class _Seen:
    """One connection. ``since_s``: of its opening, or of the end of its last request; ``content``: of one in work."""

    address: str
    transport: asyncio.Transport | None
    secure: bool
    since_s: float
    served: bool = False
    party: str = STRANGERS  # a tenant of its requests with a valid key, or a group of newcomers
    content: Content | None = None
    began_s: float = 0.0


@dataclass
class Connections:
    """Which connections there are, and what each is doing. ``ended``: how many were cut off, by reason."""

    limits: ConnectionLimits
    ended: dict[str, int] = field(
        default_factory=lambda: {"head": 0, "idle": 0, "body": 0, "most": 0, "bytes": 0}
    )
    hearing: Hearing | None = None  # of those that are not read until they have something
    idles: Callable[[Connection], bool] = lambda connection: False  # whether nobody with a key waits for it
    _seen: dict[Connection, _Seen] = field(default_factory=dict)
    _parties: Parties[Connection] = field(default_factory=Parties)
    _at: Counter[str] = field(default_factory=Counter)  # addresses
    _places: Places = field(default_factory=Places)

    def __len__(self) -> int:
        return len(self._seen)

    def crowded(self, connection: Connection) -> bool:
        """Whether it is one of so many, of its address or party, that they would fill a turn of the event loop."""
        seen = self._seen.get(connection)
        return seen is not None and (self._at[seen.address] > FREE or self._parties.size(seen.party) > OF_ALL)

    def newcomer_at(self, address: str) -> str:
        """Whose turn one waits for that has shown no key."""
        return newcomer_at(address, self._places.tenant(address))

    def secure(self) -> Iterator[Secure]:
        """Those over TLS, without those that are still greeting."""
        return (cast(Secure, connection) for connection, seen in self._seen.items() if seen.secure)

    def of(self, kind: type[T]) -> list[T]:
        """Those of one kind."""
        return [connection for connection in self._seen if isinstance(connection, kind)]

    def middleware(self) -> Middleware:
        """Notes which connections have a request."""

        @web.middleware
        async def noting(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            self.begun(request.protocol, request.content)
            try:
                return await handler(request)
            finally:
                self.over(request.protocol)

        return noting

    def admit(self, connection: Connection, address: str) -> None:
        """A newcomer: if there are too many, others end, or where none can it does."""
        self.came(connection, address)
        self.make_room(connection)
        if len(self) > self.limits.most and connection in self._seen:
            self.end(connection, "most")

    def came(self, connection: Connection, address: str) -> None:
        """It is here, in place of one that was admitted and is gone soon."""
        transport = connection.transport
        secure = transport is not None and transport.get_extra_info("sslcontext") is not None
        party = group_of(self.newcomer_at(address))
        self._seen[connection] = _Seen(address, transport, secure, time.monotonic(), party=party)
        self._parties.join(party, address, connection)
        self._at[address] += 1

    def gone(self, connection: Connection) -> None:
        """Nobody is there any more."""
        if (seen := self._seen.pop(connection, None)) is not None:
            self._parties.leave(seen.party, seen.address, connection)
            self._at[seen.address] -= 1
            if not self._at[seen.address]:
                del self._at[seen.address]

    def waits(self, connection: Connection, *, turn: bool) -> None:
        """From now on for its turn, or else for its client again."""
        if (seen := self._seen.get(connection)) is not None:
            seen.since_s = math.inf if turn else time.monotonic()

    def knows(self, connection: Connection, tenants: str) -> None:
        """Requests on it have valid keys of these tenants': it joins the smallest of their parties."""
        seen = self._seen.get(connection)
        if seen is None:
            return
        before = seen.party
        party = group_of(tenants, lambda one: self._parties.size(one) + (one != before))
        if party != before:
            self._parties.leave(before, seen.address, connection)
            seen.party = party
            self._places.shown(seen.address, party)
            self._parties.join(party, seen.address, connection)
            if seen.content is not None:
                self._parties.ask(party, seen.address, connection)

    def begun(self, connection: Connection, content: Content) -> None:
        """A request has come; its body follows."""
        if (seen := self._seen.get(connection)) is not None:
            seen.content, seen.began_s = content, time.monotonic()
            self._parties.ask(seen.party, seen.address, connection)

    def over(self, connection: Connection) -> None:
        """It has its answer."""
        if (seen := self._seen.get(connection)) is not None:
            seen.content, seen.served, seen.since_s = None, True, time.monotonic()
            self._parties.rest(seen.party, seen.address, connection)

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look(time.monotonic())

    async def look(self, now_s: float) -> None:
        """End what is over a limit, a few at a time; one that has begun or ended a request meanwhile stays."""
        steps = 0
        for connection, seen in [*self._seen.items()]:
            if self._seen.get(connection) is seen and (reason := self._reason(seen, now_s)):
                self.end(connection, reason)
                steps += LOOKED_AT // AT_ONCE
            steps += 1
            if steps >= LOOKED_AT:
                steps = 0
                await asyncio.sleep(0)
        while self.make_room():
            await asyncio.sleep(0)
        for n, connection in enumerate([*self._too_large()], 1):
            if connection in self._seen:
                self.end(connection, "bytes")
            if n % AT_ONCE == 0:
                await asyncio.sleep(0)

    def make_room(self, newcomer: Connection | None = None) -> bool:
        """End a few of those that are too many; True = there may be more."""
        return all(len(self) > self.limits.most and self.end_one(newcomer) for _ in range(AT_ONCE))

    def end_one(self, newcomer: Connection | None = None) -> bool:
        """Of the largest party's most crowded address, what has waited longest, or else a request that arrives.

        The newcomer goes last. False = none can.
        """
        for crowd in islice(self._parties.largest_first(), LOOKED_AT):
            arriving = (
                c for c in islice(crowd.asking, LOOKED_AT) if _arriving(self._seen[c]) or self.idles(c)
            )
            waiting = (c for c in islice(crowd.waiting, 2) if c is not newcomer)
            if (one := next(chain(waiting, arriving, crowd.waiting), None)) is not None:
                self.end(one, "most")
                return True
        return False

    def end(self, connection: Connection, reason: str) -> None:
        """It is over a limit."""
        self.ended[reason] += 1
        if self.ended[reason] in (1, 100, 10_000):
            log.warning("a connection was ended (%s; %d times so far)", reason, self.ended[reason])
        self._cut(connection)

    def end_all(self) -> None:
        """The server ends."""
        for connection in [*self._seen]:
            self._cut(connection)

    def _cut(self, connection: Connection) -> None:
        seen = self._seen[connection]
        self.gone(connection)
        if seen.transport is not None and (seen.secure or seen.transport.get_write_buffer_size()):
            seen.transport.abort()  # to be closed, it would wait for a client that may never read or say goodbye
        connection.force_close()

    def _reason(self, seen: _Seen, now_s: float) -> str:
        limits = self.limits
        if seen.content is not None:
            return "body" if _arriving(seen) and now_s - seen.began_s > limits.body_s else ""
        if seen.served:
            return "idle" if now_s - seen.since_s > limits.idle_s else ""
        return "head" if now_s - seen.since_s > limits.head_s else ""

    def _too_large(self) -> Iterator[Connection]:
        sizes = [
            (s.content.total_bytes, n, c)
            for n, (c, s) in enumerate(self._seen.items())
            if s.content is not None and _arriving(s)
        ]
        held = sum(size for size, _, _ in sizes)
        for size, _, connection in sorted(sizes, reverse=True):
            if held <= self.limits.buffered_bytes:
                return
            yield connection
            held -= size


def _arriving(seen: _Seen) -> bool:
    return seen.content is not None and not seen.content.is_eof()


def room_for(wanted: int, ports: int) -> int:
    """Raise this process's limit of open files if need be; how many connections fit, at each of so many ports."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = ports * wanted + OWN_FILES
    if soft < need:
        soft = need if hard == resource.RLIM_INFINITY else min(need, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    fits = max(min(wanted, (soft - OWN_FILES) // ports), 1)
    if fits < wanted:
        log.warning(
            "the system lets this process hold %d connections at each port, not %d (ulimit -n)", fits, wanted
        )
    return fits

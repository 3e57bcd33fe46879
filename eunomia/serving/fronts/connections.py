"""Bounds on HTTP connections, so that slow, silent and half-open ones cost little and end.

Looked at once a second, away from the way of requests. A connection ends when it has not sent a whole header in
``head_s`` (``idle_s`` once it was served), or not its whole body in ``body_s``. Of more than ``most`` connections,
those end first that come from the address with the most of them, and have waited longest without a request. Of bodies
that together hold more than ``buffered_bytes`` while they arrive, the largest end first.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import resource
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Middleware
from aiohttp.web_protocol import RequestHandler

log = logging.getLogger("eunomia.serving")
EVERY_S = 1.0
AT_ONCE = 4  # connections that end in one round of the event loop
OWN_FILES = 200  # descriptors that are not connections: devices, ledger, database, gRPC


@dataclass(frozen=True)
class ConnectionLimits:
    """Seconds, connections, bytes."""

    most: int = 10_000
    head_s: float = 10.0
    idle_s: float = 75.0
    body_s: float = 30.0
    age_s: float = 60.0  # of a connection over gRPC, which then gets a new one
    buffered_bytes: int = 512 * 1024**2


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

    since_s: float
    served: bool = False
    content: Content | None = None
    began_s: float = 0.0


@dataclass
class Connections:
    """Which connections there are, and what each is doing. ``ended``: how many were cut off, by reason."""

    limits: ConnectionLimits
    ended: dict[str, int] = field(
        default_factory=lambda: {"head": 0, "idle": 0, "body": 0, "most": 0, "bytes": 0}
    )
    _seen: dict[RequestHandler, _Seen] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._seen)

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

    def begun(self, connection: RequestHandler, content: Content) -> None:
        """A request has come; its body follows."""
        now_s = time.monotonic()
        seen = self._seen.get(connection)
        if seen is None:
            seen = self._seen[connection] = _Seen(now_s)
        seen.content, seen.began_s = content, now_s

    def over(self, connection: RequestHandler) -> None:
        """It has its answer."""
        if (seen := self._seen.get(connection)) is not None:
            seen.content, seen.served, seen.since_s = None, True, time.monotonic()

    async def watch(self, server: web.Server) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look(server.connections, time.monotonic())

    async def look(self, connections: list[RequestHandler], now_s: float) -> None:
        """End what is over a limit, a few at a time; one that has begun or ended a request meanwhile stays."""
        self._seen = {c: self._seen.get(c) or _Seen(now_s) for c in connections}
        ending = [(c, self._seen[c].content, reason) for c, reason in self._over_limits(now_s).items()]
        for n, (connection, content, reason) in enumerate(ending, 1):
            if connection in self._seen and self._seen[connection].content is content:
                self._end(connection, reason)
            if n % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _over_limits(self, now_s: float) -> dict[RequestHandler, str]:
        """Which connections are to end, and why."""
        found = {c: reason for c, seen in self._seen.items() if (reason := self._reason(seen, now_s))}
        left = {c: seen for c, seen in self._seen.items() if c not in found}
        found |= dict.fromkeys(self._too_many(left), "most")
        left = {c: seen for c, seen in left.items() if c not in found}
        return found | dict.fromkeys(self._too_large(left), "bytes")

    def _reason(self, seen: _Seen, now_s: float) -> str:
        limits = self.limits
        if seen.content is not None:
            return "body" if _arriving(seen) and now_s - seen.began_s > limits.body_s else ""
        if seen.served:
            return "idle" if now_s - seen.since_s > limits.idle_s else ""
        return "head" if now_s - seen.since_s > limits.head_s else ""

    def _too_many(self, left: dict[RequestHandler, _Seen]) -> Iterator[RequestHandler]:
        over = len(left) - self.limits.most
        if over <= 0:
            return
        waiting = [(s.since_s, n, c) for n, (c, s) in enumerate(left.items()) if s.content is None]
        arriving = [(s.began_s, n, c) for n, (c, s) in enumerate(left.items()) if _arriving(s)]
        crowds: dict[str, deque[RequestHandler]] = {}
        for _, _, connection in [*sorted(waiting), *sorted(arriving)]:
            crowds.setdefault(_address(connection), deque()).append(connection)
        heap = [(-len(crowd), n, crowd) for n, crowd in enumerate(crowds.values())]
        heapq.heapify(heap)
        for _ in range(min(over, len(waiting) + len(arriving))):
            size, n, crowd = heap[0]
            yield crowd.popleft()
            heapq.heapreplace(heap, (size + 1, n, crowd))

    def _too_large(self, left: dict[RequestHandler, _Seen]) -> Iterator[RequestHandler]:
        sizes = [
            (s.content.total_bytes, n, c)
            for n, (c, s) in enumerate(left.items())
            if s.content is not None and _arriving(s)
        ]
        held = sum(size for size, _, _ in sizes)
        for size, _, connection in sorted(sizes, reverse=True):
            if held <= self.limits.buffered_bytes:
                return
            yield connection
            held -= size

    def _end(self, connection: RequestHandler, reason: str) -> None:
        self.ended[reason] += 1
        if self.ended[reason] in (1, 100, 10_000):
            log.warning("a connection was ended (%s; %d times so far)", reason, self.ended[reason])
        self._seen.pop(connection, None)
        transport = connection.transport
        if transport is not None and transport.get_write_buffer_size():
            transport.abort()  # to be closed, it would wait for a client that may never read
        connection.force_close()


def _address(connection: RequestHandler) -> str:
    """Where it comes from; "" if that is not known any more."""
    peer = connection.transport.get_extra_info("peername") if connection.transport is not None else None
    return str(peer[0]) if peer else ""


def _arriving(seen: _Seen) -> bool:
    return seen.content is not None and not seen.content.is_eof()


def room_for(wanted: int) -> int:
    """Raise this process's limit of open files if need be; how many connections fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = wanted + OWN_FILES
    if soft < need:
        soft = need if hard == resource.RLIM_INFINITY else min(need, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    fits = max(min(wanted, soft - OWN_FILES), 1)
    if fits < wanted:
        log.warning("the system lets this process hold %d connections, not %d (ulimit -n)", fits, wanted)
    return fits

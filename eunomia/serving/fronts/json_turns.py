"""Whose turn it is at a process that reads and writes JSON.

Tenants take turns, one message each, so that a tenant waits for at most one message of every other. A tenant whose
messages there hold more than ``most_bytes`` is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

from eunomia.serving.protocol.errors import Refused

AGAIN_S = 0.5


class Turns:
    """One at a time; who waits, waits in a queue of its tenant, and the queues are served in turn."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._busy = False

    @contextlib.asynccontextmanager
    async def turn(self, tenant: str, size: int) -> AsyncIterator[None]:
        """Inside, nobody else is; raises Refused when the tenant has too much waiting already."""
        held = self._held.get(tenant, 0)
        if held and held + size > self._most:
            raise Refused(
                f"tenant '{tenant}' has {held} bytes of JSON in work; at most {self._most} are taken at a time: wait,"
                " or send raw tensors (binary_data_size)",
                retry_after_s=AGAIN_S,
            )
        self._held[tenant] = held + size
        try:
            await self._wait(tenant)
            try:
                yield
            finally:
                self._next()
        finally:
            self._held[tenant] -= size
            if not self._held[tenant]:
                del self._held[tenant]

    async def _wait(self, tenant: str) -> None:
        if not self._busy:
            self._busy = True
            return
        mine = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was our turn already
                self._next()
            raise

    def _next(self) -> None:
        """The first tenant in the circle has its turn and goes to the end."""
        while self._queues:
            tenant = next(iter(self._queues))
            queue = self._queues.pop(tenant)
            while queue:
                waiting = queue.popleft()
                if waiting.done():  # cancelled
                    continue
                if queue:
                    self._queues[tenant] = queue
                waiting.set_result(None)
                return
        self._busy = False

"""Places that tenants share: so many at a time, and none may hold more than are left for the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from eunomia.serving.protocol.errors import Refused

MAX_WAITING = 1000  # of one tenant
AGAIN_S = 0.1


class Slots:
    """``most`` places. ``what``: the word for what they hold."""

    def __init__(self, most: int, what: str) -> None:
        self.free, self._what = most, what
        self.held: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @contextmanager
    def now(self, tenant: str) -> Iterator[None]:
        """A place; raises Refused when there is none for this tenant."""
        if not self._fits(tenant):
            raise Refused(
                f"tenant '{tenant}' has {self.held.get(tenant, 0)} {self._what} open: "
                "none may hold more than are left for the others",
                retry_after_s=AGAIN_S,
            )
        self._take(tenant)
        try:
            yield
        finally:
            self._give_back(tenant)

    @asynccontextmanager
    async def soon(self, tenant: str) -> AsyncIterator[None]:
        """A place, as soon as there is one for this tenant; raises Refused when too many of its own wait already."""
        if self._waiting.get(tenant) or not self._fits(tenant):
            await self._wait(tenant)
        else:
            self._take(tenant)
        try:
            yield
        finally:
            self._give_back(tenant)

    def _fits(self, tenant: str) -> bool:
        held = self.held.get(tenant, 0)
        return self.free > 0 and (not held or held + 1 <= self.free - 1)

    def _take(self, tenant: str) -> None:
        self.free -= 1
        self.held[tenant] = self.held.get(tenant, 0) + 1

    def _give_back(self, tenant: str) -> None:
        self.free += 1
        self.held[tenant] -= 1
        if not self.held[tenant]:
            del self.held[tenant]
        for other in list(self._waiting):
            while other in self._waiting and self._fits(other):
                self._call(other)

    def _call(self, tenant: str) -> None:
        """The tenant's first that still waits has its place; the tenant goes to the end of the circle."""
        queue = self._waiting.pop(tenant)
        while queue:
            mine = queue.popleft()
            if not mine.done():
                self._take(tenant)
                mine.set_result(None)
                break
        if queue:
            self._waiting[tenant] = queue

    async def _wait(self, tenant: str) -> None:
        queue = self._waiting.setdefault(tenant, deque())
        if len(queue) >= MAX_WAITING:
            raise Refused(
                f"tenant '{tenant}' has {len(queue)} {self._what} that wait for a place",
                retry_after_s=AGAIN_S,
            )
        mine = asyncio.get_running_loop().create_future()
        queue.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it had its place already
                self._give_back(tenant)
            raise

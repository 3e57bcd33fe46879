"""Looks at a folder for those who ask what is in it: beside the event loop, one for all who wait, and not all the time.

A folder of 300 networks takes 15 ms to look through. Eight connections that did nothing but ask held the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
REST = 4.0


class Looks(Generic[T]):
    """``look``: in a thread; ``see`` gets what it finds, in the event loop. Whatever ``look`` raises is raised.

    ``rest``: times what a look takes, until the next.
    """

    def __init__(self, look: Callable[[], T], see: Callable[[T], None], rest: float = REST) -> None:
        self._look, self._see, self._rest = look, see, rest
        self._next: asyncio.Task[None] | None = None  # a look that has not begun
        self._lock = asyncio.Lock()
        self._due_s = 0.0  # by the loop's clock

    async def fresh(self) -> None:
        """Return when a look has ended that began after this call."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._carry_out())
        await asyncio.shield(self._next)

    async def _carry_out(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._lock:
            await asyncio.sleep(max(0.0, self._due_s - loop.time()))
            self._next, began_s = None, loop.time()
            try:
                self._see(await asyncio.to_thread(self._look))
            finally:
                self._due_s = loop.time() + self._rest * (loop.time() - began_s)

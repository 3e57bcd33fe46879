"""Work in a thread, one piece after the other: the event loop's threads are few, and others need them, too."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OneThread:
    """For work that may wait for long, as for a database."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def do(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What it returns or raises; the next begins when it has ended, though nobody waits for it any more."""
        async with self._lock:
            under_way = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
            try:
                return await asyncio.shield(under_way)
            except asyncio.CancelledError:
                await over(under_way)
                raise


async def over(work: asyncio.Future[T]) -> None:
    """Until it has ended, however often the wait is cancelled."""
    while not work.done():
        with contextlib.suppress(BaseException):
            await asyncio.shield(work)

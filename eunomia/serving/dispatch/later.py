"""Work that nobody waits for: it is done when a device has its order, or the event loop a moment, or somebody looks.

What a finished request moves (metrics, statistics, block times) would otherwise stand between the network's end and the
client's answer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger("eunomia.serving")
LATEST_S = 0.01  # a client that asks again at once has its next order on a device by then
MOST = 40  # pieces that are put off: whoever looks has to wait for them
AT_ONCE = 16  # pieces in one turn of the event loop


class Later:
    """Pieces of work in their order, all done in the event loop in which they were added."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # of the loop
        self._armed = False

    def add(self, work: Callable[[], None]) -> None:
        """Do it before long; needs a running event loop."""
        self._work.append(work)
        loop = asyncio.get_running_loop()
        if len(self._work) > MOST:
            self._do(2)  # one more than has come
        elif not self._armed or loop is not self._loop:  # a loop that has ended forgets what it was to do
            self._armed, self._thread, self._loop = True, threading.get_ident(), loop
            loop.call_later(LATEST_S, self._at_last)

    def soon(self) -> None:
        """A device has its order: the next round of the event loop has time."""
        if self._work:
            asyncio.get_running_loop().call_soon(self._do, AT_ONCE)

    def settle(self) -> None:
        """All of it is done when this returns; another thread than the event loop's waits for that."""
        if not self._work:
            return
        if self._loop is None or self._loop.is_closed() or threading.get_ident() == self._thread:
            self._do(len(self._work))
            return
        done = threading.Event()
        self._loop.call_soon_threadsafe(self._do, len(self._work))
        self._loop.call_soon_threadsafe(done.set)
        done.wait()

    def _at_last(self) -> None:
        self._armed = False
        self._do(AT_ONCE)
        if self._work and self._loop is not None:
            self._armed = True
            self._loop.call_soon(self._at_last)

    def _do(self, most: int) -> None:
        for _ in range(min(most, len(self._work))):
            try:
                self._work[0]()
            except Exception:  # of one piece: the rest is done all the same
                log.exception("bookkeeping failed")
            self._work.popleft()  # only now: whoever finds nothing here finds it done

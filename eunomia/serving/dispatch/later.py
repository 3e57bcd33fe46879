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
LAZY = 10.0  # times as late, at most, is what is gathered


class Later:
    """Pieces of work in their order, all done in the event loop in which they were added."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], None]] = deque()
        self._gathered: deque[Callable[[], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # of the loop
        self._armed = False
        self._gathers: asyncio.AbstractEventLoop | None = None  # has a timer for what is gathered

    def add(self, work: Callable[[], None]) -> None:
        """Do it before long; needs a running event loop."""
        self._work.append(work)
        loop = asyncio.get_running_loop()
        if len(self._work) > MOST:
            self._take(self._work, 2)  # one more than has come
        elif not self._armed or loop is not self._loop:  # a loop that has ended forgets what it was to do
            self._armed, self._thread, self._loop = True, threading.get_ident(), loop
            loop.call_later(LATEST_S, self._at_last)

    def gather(self, work: Callable[[], None]) -> None:
        """Do it together with others of its kind, ``LAZY`` times as late: alone, each finds its code cold."""
        self._gathered.append(work)
        loop = asyncio.get_running_loop()
        if len(self._gathered) > MOST:
            self._take(self._gathered, 2)
        elif loop is not self._gathers:
            self._thread, self._loop, self._gathers = threading.get_ident(), loop, loop
            loop.call_later(LAZY * LATEST_S, self._write_up)

    def soon(self) -> None:
        """A device has its order: the next round of the event loop has time."""
        if self._work or len(self._gathered) >= AT_ONCE:
            asyncio.get_running_loop().call_soon(self._do, AT_ONCE)

    def settle(self) -> None:
        """All of it is done when this returns; another thread than the event loop's waits for that."""
        if not (self._work or self._gathered):
            return
        if self._loop is None or self._loop.is_closed() or threading.get_ident() == self._thread:
            self._do_all()
            return
        done = threading.Event()
        self._loop.call_soon_threadsafe(self._do_all)
        self._loop.call_soon_threadsafe(done.set)
        done.wait()

    def _do_all(self) -> None:
        self._take(self._work, len(self._work))
        self._take(self._gathered, len(self._gathered))

    def _at_last(self) -> None:
        self._armed = False
        self._do(AT_ONCE)
        if self._work and self._loop is not None:
            self._armed = True
            self._loop.call_soon(self._at_last)

    def _write_up(self) -> None:
        self._take(self._gathered, AT_ONCE)
        if self._gathered and self._gathers is not None:
            self._gathers.call_soon(self._write_up)
        else:
            self._gathers = None

    def _do(self, most: int) -> None:
        """So many pieces, those that are gathered only where there are enough."""
        most -= self._take(self._work, most)
        if len(self._gathered) >= AT_ONCE:
            self._take(self._gathered, most)

    def _take(self, pieces: deque[Callable[[], None]], most: int) -> int:
        count = min(most, len(pieces))
        for _ in range(count):
            try:
                pieces[0]()
            except Exception:  # of one piece: the rest is done all the same
                log.exception("bookkeeping failed")
            pieces.popleft()  # only now: whoever finds nothing here finds it done
        return count

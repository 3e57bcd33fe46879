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
from typing import TypeVar

log = logging.getLogger("eunomia.serving")
LATEST_S = 0.01  # a client that asks again at once has its next order on a device by then
MOST = 40  # pieces that are put off: whoever looks has to wait for them
AT_ONCE = 16  # pieces in one turn of the event loop
LAZY = 10.0  # times as late, at most, is what is gathered
Piece = TypeVar("Piece")


class Later:
    """Pieces of work in their order, all done in the event loop in which they were added.

    What is gathered is done kind by kind, each kind in its order.
    """

    def __init__(self) -> None:
        self._work: deque[Callable[[], None]] = deque()
        self._gathered: dict[Callable[..., None], list[object]] = {}
        self._count = 0  # of what is gathered and not done yet
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # of the loop
        self._armed = False
        self._gathers: asyncio.AbstractEventLoop | None = None  # has a timer for what is gathered

    def add(self, work: Callable[[], None]) -> None:
        """Do it before long; needs a running event loop."""
        self._work.append(work)
        loop = asyncio.get_running_loop()
        if len(self._work) > MOST:
            self._take(2)  # one more than has come
        elif not self._armed or loop is not self._loop:  # a loop that has ended forgets what it was to do
            self._armed, self._thread, self._loop = True, threading.get_ident(), loop
            loop.call_later(LATEST_S, self._at_last)

    def gather(self, kind: Callable[[list[Piece]], None], piece: Piece) -> None:
        """Do it together with others, all by one call of ``kind``, ``LAZY`` times as late: alone, each is cold."""
        pieces = self._gathered.get(kind)
        if pieces is None:
            pieces = self._gathered[kind] = []
        pieces.append(piece)
        self._count += 1
        loop = asyncio.get_running_loop()
        if self._count > MOST:
            self._write_up()
        elif loop is not self._gathers:
            self._thread, self._loop, self._gathers = threading.get_ident(), loop, loop
            loop.call_later(LAZY * LATEST_S, self._in_time)

    def soon(self) -> None:
        """A device has its order: the next round of the event loop has time."""
        if self._work or self._count >= AT_ONCE:
            asyncio.get_running_loop().call_soon(self._do)

    def settle(self) -> None:
        """All of it is done when this returns; another thread than the event loop's waits for that."""
        if not (self._work or self._count):
            return
        if self._loop is None or self._loop.is_closed() or threading.get_ident() == self._thread:
            self._do_all()
            return
        done = threading.Event()
        self._loop.call_soon_threadsafe(self._do_all)
        self._loop.call_soon_threadsafe(done.set)
        done.wait()

    def _do_all(self) -> None:
        self._take(len(self._work))
        self._write_up()

    def _at_last(self) -> None:
        self._armed = False
        self._do()
        if self._work and self._loop is not None:
            self._armed = True
            self._loop.call_soon(self._at_last)

    def _in_time(self) -> None:
        self._gathers = None
        self._write_up()

    def _do(self) -> None:
        """A few pieces, and those that are gathered where there are enough."""
        self._take(AT_ONCE)
        if self._count >= AT_ONCE:
            self._write_up()

    def _take(self, most: int) -> None:
        for _ in range(min(most, len(self._work))):
            try:
                self._work[0]()
            except Exception:  # of one piece: the rest is done all the same
                log.exception("bookkeeping failed")
            self._work.popleft()  # only now: whoever finds nothing here finds it done

    def _write_up(self) -> None:
        for kind in [*self._gathered]:
            if pieces := self._gathered[kind]:
                self._gathered[kind] = []  # what a piece adds is of the next time
                try:
                    kind(pieces)
                except Exception:  # of one kind
                    log.exception("bookkeeping failed")
                self._count -= len(pieces)

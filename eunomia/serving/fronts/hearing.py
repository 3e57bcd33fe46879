"""Connections that are not read before it is known that they have something: thousands may say something at once.

The event loop reads whatever has bytes in one turn, up to 256 KB of each connection. Those that stand here are watched
by a selector of their own; of those that have something, or have left, a few go on in each turn.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

HEARD = 16  # in one turn: what they say is read in the next


class Heard(Protocol):
    """A connection."""

    def heard(self) -> None:
        """It has something, or has left; it does not stand here any more."""


class Hearing:
    """In a running event loop; ``begin``: a turn has work."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._silent = selectors.DefaultSelector()
        self._at: dict[Heard, int] = {}  # descriptors
        self._due: deque[Heard] = deque()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._silent.fileno(), self._look)

    def hear(self, one: Heard, descriptor: int) -> None:
        """It is not read for now."""
        try:
            self._silent.register(descriptor, selectors.EVENT_READ, one)
        except KeyError:  # of one that has gone without a word
            self.forget(self._silent.get_key(descriptor).data)
            self._silent.register(descriptor, selectors.EVENT_READ, one)
        self._at[one] = descriptor

    def forget(self, one: Heard) -> None:
        """It need not be heard any more."""
        descriptor = self._at.pop(one, None)
        if descriptor is not None:
            with suppress(KeyError):
                self._silent.unregister(descriptor)

    def close(self) -> None:
        """Nobody is heard any more."""
        self._loop.remove_reader(self._silent.fileno())
        self._silent.close()
        self._at.clear()
        self._due.clear()

    def _look(self) -> None:
        self._begin()
        if not self._due:
            self._due.extend(key.data for key, _ in self._silent.select(0))
        for _ in range(min(HEARD, len(self._due))):
            one = self._due.popleft()
            if one in self._at:
                self.forget(one)
                one.heard()


class Standing:
    """A connection that may stand there, with ``_heard_by`` and ``_has_something``; ``_line_up``: for its turn."""

    transport: asyncio.Transport | None
    entered: Callable[[], None] = staticmethod(lambda: None)  # who stood for it until it was here is gone
    _heard_by: Hearing | None
    _has_something: bool  # as far as is known

    def _line_up(self) -> None:
        raise NotImplementedError

    @property
    def descriptor(self) -> int:
        """Of its socket; -1 = it has gone."""
        sock = self.transport.get_extra_info("socket") if self.transport is not None else None
        return -1 if sock is None else int(sock.fileno())

    def _stand(self, crowd: Hearing) -> None:
        self._heard_by = crowd
        crowd.hear(self, self.descriptor)

    def heard(self) -> None:
        """It has something, or has left."""
        self._heard_by, self._has_something = None, True
        self._line_up()

    def _forget(self) -> None:
        if self._heard_by is not None:
            self._heard_by.forget(self)
            self._heard_by = None

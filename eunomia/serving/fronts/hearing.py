"""Connections that are not read before it is known that they have something: thousands may say something at once.

The event loop reads whatever has bytes in one turn, up to 256 KB of each connection. Those that stand here are watched
by a selector of their own; of those that have something, or have left, a few go on in each turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from eunomia.serving.fronts.ready import Ready, ready
from eunomia.serving.tenants.circle import STRANGERS, group_of

UNCOUNTED, UNCOUNTED_TLS = 1, 64 * 1024  # bytes that may wait on a connection in nobody's account
HEARD = 16  # of a group in one turn: what they say is read in the next


class Heard(Protocol):
    """A connection."""

    def heard(self) -> None:
        """It has something, or has left; it does not stand here any more."""


class Hearing:
    """In a running event loop; ``begin``: a turn has work. Each group is heard by itself: none waits for another."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._groups: dict[str, Ready] = {}
        self._sizes: Counter[str] = Counter()
        self._at: dict[Heard, tuple[str, int]] = {}  # group and descriptor
        self._standing: dict[int, Heard] = {}  # by descriptor
        self._loop = asyncio.get_running_loop()

    def hear(self, one: Heard, descriptor: int, who: str = STRANGERS) -> None:
        """It is not read for now."""
        if (gone := self._standing.get(descriptor)) is not None:  # without a word
            self.forget(gone)
        group = group_of(who, self._sizes.__getitem__)
        if (silent := self._groups.get(group)) is None:
            silent = self._groups[group] = ready()
            self._loop.add_reader(silent.fileno(), self._look, group)
        silent.add(descriptor)
        self._at[one], self._standing[descriptor] = (group, descriptor), one
        self._sizes[group] += 1

    def forget(self, one: Heard) -> None:
        """It need not be heard any more."""
        group, descriptor = self._at.pop(one, ("", -1))
        if not group:
            return
        del self._standing[descriptor]
        self._sizes[group] -= 1
        if self._sizes[group]:
            with suppress(KeyError, OSError):
                self._groups[group].remove(descriptor)
        else:
            self._end(group)

    def close(self) -> None:
        """Nobody is heard any more."""
        for group in [*self._groups]:
            self._end(group)
        self._at.clear()
        self._standing.clear()

    def _end(self, group: str) -> None:
        """Nobody of it stands here."""
        silent = self._groups.pop(group)
        del self._sizes[group]
        self._loop.remove_reader(silent.fileno())
        silent.close()

    def _look(self, group: str) -> None:
        self._begin()
        for descriptor in self._groups[group].some(HEARD):
            if (one := self._standing.get(descriptor)) is not None:
                self.forget(one)
                one.heard()


class Standing:
    """A connection that may stand there, with ``_heard_by`` and ``_has_something``; ``_line_up``: for its turn."""

    transport: asyncio.Transport | None
    entered: Callable[[], None] = staticmethod(lambda: None)  # who stood for it until it was here is gone
    _heard_by: Hearing | None
    _has_something: bool  # as far as is known

    def come_in(self) -> None:
        """It is here, and stands for itself."""
        self.entered()
        self.entered = Standing.entered

    def _line_up(self) -> None:
        raise NotImplementedError

    @property
    def who(self) -> str:
        """Whose turn it waits for."""
        raise NotImplementedError

    @property
    def descriptor(self) -> int:
        """Of its socket; -1 = it has gone."""
        sock = self.transport.get_extra_info("socket") if self.transport is not None else None
        return -1 if sock is None else int(sock.fileno())

    def _stand(self, crowd: Hearing) -> None:
        self._heard_by = crowd
        crowd.hear(self, self.descriptor, self.who)

    def heard(self) -> None:
        """It has something, or has left."""
        self._heard_by, self._has_something = None, True
        self._line_up()

    def _forget(self) -> None:
        if self._heard_by is not None:
            self._heard_by.forget(self)
            self._heard_by = None

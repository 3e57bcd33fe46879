"""Connections that wait for a later turn of the event loop: one turn takes up only so much of what has come.

The loop hands over whatever can be read, of all connections, in one turn: a thousand small requests, or 8 MB of each.
A turn ends once it has taken ``MOST_S`` of its thread's processor. From then on a connection keeps what it has been
given and reads no more. It stands in the queue of its tenant, or of its address while it has not said whose it is.
In the next turns the queues go in turn (``circle.py``), one connection of each. So a request waits for few of another
tenant's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from eunomia.serving.observe.turns import Turns
from eunomia.serving.tenants.circle import Circle

log = logging.getLogger("eunomia.serving")
MOST_S = 1e-3


class Rota:
    """Who waits; nobody twice. ``most_s``: of the processor, for one turn. ``waited`` gets each request's seconds.

    ``rest_s``: from one turn that takes something up to the next.
    """

    def __init__(
        self,
        turns: Turns,
        most_s: float = MOST_S,
        waited: Callable[[float], None] = lambda seconds: None,
        rest_s: float = 0.0,
    ) -> None:
        self._most_s, self.waited, self._rest_s = most_s, waited, rest_s
        self._rested_s = 0.0  # by the loop's clock
        self.turns, self.begin = turns, turns.begin
        self._circle = Circle[Callable[[], None]]()
        self._due = False
        self._owed_s = 0.0

    @property
    def over(self) -> bool:
        """Whether this turn has taken up enough."""
        return self.turns.beyond(self._most_s)

    @property
    def full(self) -> bool:
        """The same, with what it has left to the next turn."""
        return self.turns.beyond(self._most_s - self._owed_s)

    def do(self, who: str, work: Callable[[], None]) -> None:
        """Now, or in a later turn."""
        self.begin()
        if self.over:
            self.join(who, work)
        else:
            work()

    def owe(self, seconds: float) -> None:
        """What has its turn now takes so much of the next one: fewer go with it."""
        self._owed_s += seconds

    def join(self, who: str, work: Callable[[], None]) -> None:
        """At the end of the queue of ``who``."""
        self._circle.join(who, work)
        if not self._due:
            self._due = True
            self._go_on()

    def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        if self._rested_s > loop.time():
            loop.call_at(self._rested_s, self._next)
        else:
            loop.call_soon(self._next)

    def _next(self) -> None:
        """At least one goes, what joins meanwhile in a later turn."""
        self.begin()
        self._owed_s = 0.0
        for _ in range(self._circle.total):
            try:
                self._circle.take()()
            except Exception:  # of one: the others go on
                log.exception("what waited for its turn failed")
            if self.full:
                break
        if self._rest_s:
            self._rested_s = asyncio.get_running_loop().time() + self._rest_s
        self._due = self._circle.total > 0
        if self._due:
            self._go_on()

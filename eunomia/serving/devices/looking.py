"""When the dispatcher looks at what runs: at boundaries, shortly before the end, and when it should be over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from eunomia.serving.devices.run import SUSPECT, SUSPECT_S, Run
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.overheads import LOOK, WAKE

AFTER_S = 3e-4  # after a boundary, the policy is asked about the next one
LEAST_WAIT_S = 1e-3  # uvloop counts in milliseconds, and takes less for "at once"
LOOK_SHARE = 4.0  # a slow policy is left alone for so many times what its last look took


class Looking:
    """``queues``: per device what runs there, then what is queued behind it.

    ``suspects``: asked about a run that should be over; after how many seconds to ask again, 0 = not.
    """

    _dispatcher: Dispatcher

    def __init__(self, queues: Sequence[deque[Run]]) -> None:
        self.suspects: Callable[[int], float] = lambda device: 0.0
        self._queues = queues
        self._looks: list[asyncio.TimerHandle | None] = [None] * len(queues)  # at boundaries

    def connect(self, dispatcher: Dispatcher) -> None:
        """Set who looks."""
        self._dispatcher = dispatcher

    def begins(self, device: int, run: Run, left_s: float) -> None:
        """A run that should take so long."""
        loop, ahead_s = asyncio.get_running_loop(), self._dispatcher.options.ahead_s
        if 0.0 < ahead_s < left_s:
            loop.call_later(left_s - ahead_s, self._nearly_over, device, run.ticket)
        if not self._dispatcher.lanes[device].alone:
            self._look_after(LEAST_WAIT_S, device, run.ticket)
        loop.call_later(SUSPECT * left_s + SUSPECT_S, self._suspect, device, run.ticket)

    def soon(self, device: int) -> None:
        """At the next boundary of what runs, however late it was to be looked at."""
        if queue := self._queues[device]:
            now_s = self._dispatcher.clock.now_s()
            look_s = self._dispatcher.lanes[device].look_s(now_s)
            if look_s is not None:
                self._look_after(max(look_s - now_s + AFTER_S, LEAST_WAIT_S), device, queue[0].ticket)

    def _look_after(self, wait_s: float, device: int, ticket: int) -> None:
        """Only the look that was set last comes."""
        if (earlier := self._looks[device]) is not None:
            earlier.cancel()
        due_s = self._dispatcher.clock.now_s() + wait_s
        self._looks[device] = asyncio.get_running_loop().call_later(wait_s, self._look, device, ticket, due_s)

    def _look(self, device: int, ticket: int, due_s: float) -> None:
        """Between two boundaries: ask the policy about the next one, if it may think otherwise by then."""
        if self._at_work(device, ticket):
            clock = self._dispatcher.clock
            began_s = clock.now_s()
            next_s, now_s = self._dispatcher.look_at(device), clock.now_s()
            if next_s is not None:
                delays = self._dispatcher.overheads[device].delays
                delays[LOOK].put(now_s - began_s)
                delays[WAKE].put(max(0.0, began_s - due_s))
                wait_s = max(next_s - now_s + AFTER_S, LEAST_WAIT_S, LOOK_SHARE * (now_s - began_s))
                self._look_after(wait_s, device, ticket)

    def _nearly_over(self, device: int, ticket: int) -> None:
        """Time to ask the policy what this device shall do next."""
        if self._at_work(device, ticket):
            self._dispatcher.decide()

    def _suspect(self, device: int, ticket: int) -> None:
        """It should be over."""
        if self._at_work(device, ticket) and (again_s := self.suspects(device)):
            asyncio.get_running_loop().call_later(again_s, self._suspect, device, ticket)

    def _at_work(self, device: int, ticket: int) -> bool:
        return bool(queue := self._queues[device]) and queue[0].ticket == ticket

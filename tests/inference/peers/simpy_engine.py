"""The usual SimPy program: one process per accelerator, interrupted whenever the bandwidth share changes."""

from __future__ import annotations

from collections.abc import Generator
from heapq import heappop, heappush
from typing import Any

import simpy

from tests.inference.peers.work import PlainWork


def run(work: PlainWork) -> tuple[int, float, list[float]]:
    """EDF + fastest idle accelerator. Returns layers completed, time of the last end, finish times."""
    return _Engine(work).run()


class _Engine:
    def __init__(self, work: PlainWork) -> None:
        self.work, self.env = work, simpy.Environment()
        self.lanes = len(work.cost_s[0])
        self.row = list(work.first_row)
        self.finish = [0.0] * len(self.row)
        self.ready: list[tuple[float, int, int]] = []
        self.deadline = [0.0] * len(self.row)
        self.idle = dict.fromkeys(range(self.lanes), True)
        self.wake = [self.env.event() for _ in range(self.lanes)]
        self.busy: dict[int, float] = {}  # accelerator -> demand
        self.timed: dict[int, bool] = {}  # accelerators that wait for a timeout, and so can be interrupted
        self.slow = 1.0
        self.sequence = self.events = 0
        self.processes = [self.env.process(self.accelerator(s)) for s in range(self.lanes)]

    def run(self) -> tuple[int, float, list[float]]:
        for k in range(self.work.clients):
            self.send(k)
        self.dispatch()
        self.env.run()
        return self.events, max(self.finish), self.finish

    def send(self, k: int) -> None:
        self.deadline[k] = self.env.now + self.work.relative_deadline_s[k]
        self.enqueue(k)

    def enqueue(self, k: int) -> None:
        heappush(self.ready, (self.deadline[k], self.sequence, k))
        self.sequence += 1

    def dispatch(self) -> None:
        """Give waiting layers to idle accelerators, then tell those running about the new share."""
        while self.ready and self.idle:
            _, _, k = heappop(self.ready)
            at = next(s for s in self.work.fastest[self.row[k]] if s in self.idle)
            del self.idle[at]
            self.busy[at] = self.work.demand[self.row[k]][at]
            self.wake[at].succeed(k)
        slow = max(1.0, sum(self.busy.values()) / self.work.bandwidth)
        if slow != self.slow:
            self.slow = slow
            for s in self.timed:
                self.processes[s].interrupt()

    def accelerator(self, s: int) -> Generator[Any, Any, None]:
        while True:
            k = yield self.wake[s]
            self.wake[s] = self.env.event()
            left = self.work.cost_s[self.row[k]][s]
            while left > 0.0:
                since, slow = self.env.now, self.slow
                self.timed[s] = True
                try:
                    yield self.env.timeout(left * slow)
                    left = 0.0
                except simpy.Interrupt:
                    left -= (self.env.now - since) / slow
            del self.timed[s]
            self.complete(s, k)

    def complete(self, s: int, k: int) -> None:
        self.events += 1
        del self.busy[s]
        self.idle[s] = True
        if self.row[k] < self.work.last_row[k]:
            self.row[k] += 1
            self.enqueue(k)
        else:
            self.finish[k] = self.env.now
            if k + self.work.clients < len(self.row):
                self.send(k + self.work.clients)
        self.dispatch()

"""The token for threads of this process: a thread runs the nodes of its job while its job holds the token."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from eunomia.sharing.slices.scheduler import Turn, TurnScheduler


class Gate:
    """Threads wait at ``boundary`` until it is their turn; a thread that ends, or raises, passes the token on."""

    def __init__(self, scheduler: TurnScheduler) -> None:
        self.scheduler = scheduler
        self._lock = threading.Lock()
        self._calls: dict[str, threading.Condition] = {}

    def join(self, *jobs: Turn) -> None:
        """Take in jobs; together, so that none begins before the others are there."""
        with self._lock:
            for job in jobs:
                self.scheduler.join(job)
                self._calls[job.name] = threading.Condition(self._lock)
            for job in jobs:
                job.wants = True
            if self.scheduler.holder is None:
                self.scheduler.advance()

    @contextmanager
    def job(self, name: str) -> Iterator[None]:
        """What a thread does for a job that has joined; it begins with its turn."""
        try:
            with self._lock:
                self._await(name)
            yield
        finally:
            with self._lock:
                self.scheduler.leave(name)
                self._call()

    def boundary(self, name: str, node: int) -> None:
        """A node has ended; go on, or wait for the next turn."""
        with self._lock:
            if self.scheduler.charge(name, node):
                self.scheduler.advance()
                self._call()
                self._await(name)

    def _await(self, name: str) -> None:
        while self.scheduler.holder is None or self.scheduler.holder.name != name:
            self._calls[name].wait()

    def _call(self) -> None:
        if self.scheduler.holder is not None:
            self._calls[self.scheduler.holder.name].notify()

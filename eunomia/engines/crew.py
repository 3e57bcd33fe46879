"""Work on all cores or on a Ray cluster; the same results, in the same order, for any number of processes."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Lock
from types import TracebackType
from typing import Any, TypeVar

from eunomia.core.errors import PolicyError
from eunomia.core.workers import follow_parent

Result = TypeVar("Result")


@dataclass(frozen=True)
class OnRay:
    """Processes on a Ray cluster: that of ``RAY_ADDRESS``, else one that is started on this machine for the time.

    The cluster's machines need the same version of this package. Does badly for short episodes: every call ships its
    episodes anew.
    """

    count: int


Crew = int | OnRay  # a number of local processes, 1 = this one


class Workers:
    """A crew of processes. Use it in a ``with`` block."""

    def __init__(self, crew: Crew = 1) -> None:
        self.crew = crew
        self.away_s = 0.0  # processor time spent in other processes so far
        self._pool: Any = None

    def __enter__(self) -> Workers:
        if isinstance(self.crew, OnRay):
            self._pool = _ray_pool(self.crew.count)
        elif self.crew > 1:
            context = mp.get_context("spawn")
            self._pool = context.Pool(self.crew, follow_parent, (os.getpid(),))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()

    def map(self, function: Callable[[Any], Result], tasks: Sequence[Any]) -> list[Result]:
        """``function`` of every task, in order; both must be picklable."""
        if self._pool is None:
            return [function(task) for task in tasks]
        done = self._pool.map(_timed, [(function, task) for task in tasks], chunksize=1)
        self.away_s += sum(cpu_s for _, cpu_s in done)
        return [result for result, _ in done]


class Standing:
    """Processes that keep what they are given: each runs ``serve(orders, lock, *given)``, all with the same lock.

    ``serve`` receives one order after another, answers each, and returns when it receives None.
    """

    def __init__(self, count: int, serve: Callable[..., None], *given: object) -> None:
        context = mp.get_context("spawn")
        self._lock = context.Lock()  # kept: a process opens it when it is up
        self.members: list[tuple[SpawnProcess, Connection]] = []
        for _ in range(count):
            orders, theirs = context.Pipe()
            process = context.Process(target=_stand, args=(serve, theirs, self._lock, given), daemon=True)
            process.start()
            theirs.close()  # so that the pipe ends with the process
            self.members.append((process, orders))

    def ask(self, orders: Sequence[object]) -> list[Any]:
        """The answers to one order for each process. Raises PolicyError if a process has died."""
        try:
            for order, (_, pipe) in zip(orders, self.members, strict=True):
                pipe.send(order)
            return [pipe.recv() for _, pipe in self.members]
        except (EOFError, OSError):
            raise PolicyError("a worker of the training ended before its time; start it again") from None

    def close(self) -> None:
        """End the processes."""
        for process, pipe in self.members:
            with suppress(OSError):  # it has died
                pipe.send(None)
            process.join(5.0)
            if process.is_alive():
                process.terminate()


def _stand(serve: Callable[..., None], orders: Connection, lock: Lock, given: tuple[object, ...]) -> None:
    """A process of its own, which ends with its parent."""
    follow_parent(os.getppid())
    serve(orders, lock, *given)


def _ray_pool(count: int) -> Any:
    """Ray's own stand-in for a pool of processes."""
    import ray
    from ray.util.multiprocessing import Pool

    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
    return Pool(processes=count)


def _timed(task: tuple[Callable[[Any], Result], Any]) -> tuple[Result, float]:
    """A result, and the processor time that it took."""
    function, argument = task
    began = time.process_time()
    return function(argument), time.process_time() - began

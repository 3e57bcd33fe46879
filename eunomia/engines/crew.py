"""Work on all cores or on a Ray cluster; the same results, in the same order, for any number of processes."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Lock
from types import TracebackType
from typing import Any, TypeVar

from eunomia.core import interrupts
from eunomia.core.errors import ConfigError, PolicyError
from eunomia.core.workers import follow_parent, start_worker
from eunomia.engines.pool import Pool
from eunomia.engines.ray_cluster import checked, connect, stamp_here

Result = TypeVar("Result")


@dataclass(frozen=True)
class OnRay:
    """Processes on a Ray cluster: that of ``RAY_ADDRESS``, else one that is started on this machine for the time.

    A machine that has another version of this package is refused. Does badly for short episodes: every call ships its
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
            self._pool = Pool(self.crew)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._pool, Pool):
            self._pool.close()
        elif self._pool is not None:
            self._pool.terminate()
            self._pool.join()

    def map(self, function: Callable[[Any], Result], tasks: Sequence[Any]) -> list[Result]:
        """``function`` of every task, in order; both must be picklable."""
        interrupts.check()  # one that came while foreign code ran may be lost
        if self._pool is None:
            return [function(task) for task in tasks]
        given = [(function, task) for task in tasks]
        done = self._pool.map(_timed, given) if isinstance(self._pool, Pool) else _on_ray(self._pool, given)
        self.away_s += sum(cpu_s for _, cpu_s in done)
        return [result for result, _ in done]


class Standing:
    """Processes that keep what they are given: each runs ``serve(orders, lock, *given)``, all with the same lock.

    ``serve`` receives one order after another, answers each, and returns when it receives None.
    """

    def __init__(self, count: int, serve: Callable[..., None], *given: object) -> None:
        context = mp.get_context("spawn")
        self._lock = context.Lock()  # kept: a process opens it when it is up
        self.members: list[tuple[BaseProcess, Connection]] = []
        for _ in range(count):
            self.members.append(start_worker(_stand, serve, self._lock, given))

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


def _stand(orders: Connection, serve: Callable[..., None], lock: Lock, given: tuple[object, ...]) -> None:
    """A process of its own, which ends with its parent."""
    follow_parent(os.getppid())
    serve(orders, lock, *given)


def _ray_pool(count: int) -> Any:
    """Ray's own stand-in for a pool of processes."""
    from ray.util.multiprocessing import Pool

    connect()
    return Pool(processes=count)


def _on_ray(pool: Any, given: Sequence[object]) -> list[tuple[Any, float]]:
    """Raises ConfigError for a worker that has another version of this package."""
    from ray import cloudpickle

    packed = [cloudpickle.dumps((_timed, (task,))) for task in given]  # type: ignore[no-untyped-call]
    done = pool.map(checked(stamp_here()), packed, chunksize=1)
    for ran, answer in done:
        if not ran:
            raise ConfigError(str(answer))
    return [answer for _, answer in done]


def _timed(task: tuple[Callable[[Any], Result], Any]) -> tuple[Result, float]:
    """A result, and the processor time that it took."""
    function, argument = task
    began = time.process_time()
    return function(argument), time.process_time() - began

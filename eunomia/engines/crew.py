"""Work on all cores or on a Ray cluster; the same results, in the same order, for any number of processes."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

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

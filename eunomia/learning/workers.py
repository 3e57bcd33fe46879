"""Values of candidates on episodes, on all cores or on a Ray cluster; the same numbers for any number of processes."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.workers import follow_parent
from eunomia.learning.agents.codec import Codec
from eunomia.learning.episodes import Episode
from eunomia.learning.objectives import value
from eunomia.learning.policy.learned import LearnedPolicy

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OnRay:
    """Processes on a Ray cluster: that of ``RAY_ADDRESS``, else one that is started on this machine for the time.

    The cluster's machines need the same version of this package. Does badly for short episodes: every call ships its
    episodes anew.
    """

    count: int


Crew = int | OnRay  # a number of local processes, 1 = this one


class Workers:
    """A crew of processes that value candidates. Use it in a ``with`` block."""

    def __init__(self, codec: Codec, mixture: Mapping[str, float], crew: Crew = 1) -> None:
        self.codec, self.mixture, self.crew = codec, dict(mixture), crew
        self.cpu_s = 0.0  # processor time of all values so far
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

    def values(self, candidates: Floats, episodes: Sequence[Episode]) -> Floats:
        """(candidates, episodes) value of every candidate on every episode."""
        tasks = [(self.codec, self.mixture, candidates, episode) for episode in episodes]
        return np.array(self.map(_column, tasks)).T

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """``function`` of every task, in order; both must be picklable."""
        timed = [(function, task) for task in tasks]
        done = list(self._pool.map(_timed, timed, chunksize=1) if self._pool else map(_timed, timed))
        self.cpu_s += sum(cpu_s for _, cpu_s in done)
        return [result for result, _ in done]


def _ray_pool(count: int) -> Any:
    """Ray's own stand-in for a pool of processes."""
    import ray
    from ray.util.multiprocessing import Pool

    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
    return Pool(processes=count)


def _timed(task: tuple[Callable[[Any], Any], Any]) -> tuple[Any, float]:
    """A result, and the processor time that it took."""
    function, argument = task
    began = time.process_time()
    return function(argument), time.process_time() - began


def _column(task: tuple[Codec, dict[str, float], Floats, Episode]) -> list[float]:
    """Values of all candidates on one episode."""
    codec, mixture, candidates, episode = task
    return [value(LearnedPolicy(codec.decode(x), alarm=np.inf), episode, mixture) for x in candidates]

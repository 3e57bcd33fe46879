"""When servers and jobs fail: seeded, and the same for every policy."""

from __future__ import annotations

import heapq

import numpy as np

from eunomia.cluster.options import Failures

SERVER_STREAM, JOB_STREAM = 5, 6
HOUR_S = 3600.0


class ServerFailures:
    """Failures and repairs in order of time; each server has a random stream of its own."""

    def __init__(self, options: Failures, servers: int, seed: int) -> None:
        self._options = options
        self._rng = (
            []
            if options.server_mtbf_h is None
            else [np.random.default_rng([seed, SERVER_STREAM, s]) for s in range(servers)]
        )
        self._heap = [(self._draw(s, options.server_mtbf_h or 0.0), s, False) for s in range(len(self._rng))]
        heapq.heapify(self._heap)
        self.down = 0

    def _draw(self, server: int, mean_h: float) -> float:
        return float(self._rng[server].exponential(mean_h * HOUR_S))

    def next_s(self) -> float:
        """Time of the next failure or repair; inf = none."""
        return self._heap[0][0] if self._heap else np.inf

    def pop(self) -> tuple[float, int, bool]:
        """The next event: time, server, whether it works from then on."""
        time_s, server, works = heapq.heappop(self._heap)
        mean_h = self._options.server_mtbf_h if works else self._options.repair_h
        heapq.heappush(self._heap, (time_s + self._draw(server, mean_h or 0.0), server, not works))
        self.down += -1 if works else 1
        return time_s, server, works


class JobFailures:
    """Running time until each job's next crash; drawn per job, so it does not depend on who else runs."""

    def __init__(self, options: Failures, jobs: int, seed: int) -> None:
        self._mean_s = None if options.job_mtbf_h is None else options.job_mtbf_h * HOUR_S
        self._seed, self._crashes = seed, np.zeros(jobs, np.int64)
        self.left_s = np.full(jobs, np.inf)  # running time left until the next crash
        if self._mean_s is not None:
            for key in range(jobs):
                self.draw(key)

    @property
    def happen(self) -> bool:
        """Whether jobs crash at all."""
        return self._mean_s is not None

    def draw(self, key: int) -> None:
        """Time until the next crash of a job."""
        rng = np.random.default_rng([self._seed, JOB_STREAM, key, int(self._crashes[key])])
        self._crashes[key] += 1
        self.left_s[key] = rng.exponential(self._mean_s or np.inf)

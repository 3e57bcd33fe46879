"""What is known of every job while a simulation runs: arrays by key, changed in place."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.problem import ClusterProblem
from eunomia.cluster.shares import isolated_throughput
from eunomia.core.arrays import Floats, Ints


class Ledger:
    """Progress, time received and costs; (N,) unless said otherwise."""

    def __init__(self, problem: ClusterProblem) -> None:
        count, types = len(problem), len(problem.cluster.types)
        self.problem = problem
        self.scale = problem.scale.copy()  # workers now; elastic policies change them
        self.steps_left = problem.total_steps.copy()
        self.attained_s = np.zeros((count, types))  # device-seconds held
        self.useful_s = np.zeros(count)  # device-seconds of lasting progress at consolidated speed
        self.overhead_s = np.zeros(count)  # device-seconds of saving, loading and warming up
        self.lost_s = np.zeros(count)  # device-seconds of progress lost to failures
        self.isolated_s = np.zeros(count)  # C_m
        self.first_start_s = np.full(count, np.nan)
        self.finish_s = np.full(count, np.nan)
        self.dropped = np.zeros(count, np.bool_)
        self.starts = np.zeros(count, np.int64)
        self.preemptions = np.zeros(count, np.int64)
        self.moves = np.zeros(count, np.int64)
        self.resizes = np.zeros(count, np.int64)
        self.failures = np.zeros(count, np.int64)
        self._isolated_rate = np.zeros(count)  # steps/s under the isolated share, since the last settling
        self._settled_steps = problem.total_steps.copy()

    def settle_isolated(self, active: Ints, speed: Floats, counts: Ints) -> None:
        """Add steps done since the last settling over the isolated throughput of then; take today's for the next."""
        self.close_isolated(active)
        self._isolated_rate[active] = isolated_throughput(speed, counts, self.scale[active])

    def close_isolated(self, keys: Ints) -> None:
        """Bring C_m up to date for some jobs."""
        done = self._settled_steps[keys] - self.steps_left[keys]
        rate = self._isolated_rate[keys]
        self.isolated_s[keys] += np.divide(done, rate, out=np.zeros(len(keys)), where=rate > 0.0)
        self._settled_steps[keys] = self.steps_left[keys]

    @property
    def unfinished(self) -> Ints:
        """Keys without a finish that were not dropped."""
        return np.flatnonzero(np.isnan(self.finish_s) & ~self.dropped)

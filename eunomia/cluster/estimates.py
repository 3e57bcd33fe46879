"""What policies believe of throughputs, beside what is true."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.completion import complete_pairs
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.problem import ClusterProblem
from eunomia.core.arrays import Floats, Ints

NOISE_STREAM = 3


class Beliefs:
    """Estimated steps/s of every job, the same array as the true one when estimates are exact."""

    def __init__(self, problem: ClusterProblem, options: SimulationOptions) -> None:
        self._problem, how = problem, options.estimates
        self._rate, self.learns = how.learning_rate, how.kind == "online"
        self.factor: Floats | None = None  # (R, J) believed over true
        self.beside = problem.beside
        rng = np.random.default_rng([options.seed, NOISE_STREAM])
        if how.kind != "exact":
            self.factor = how.bias * np.exp(how.sigma * rng.standard_normal(problem.alone.shape))
        if self.beside is not None and how.pairs_known < 1.0:
            self.beside = complete_pairs(self.beside, problem.alone, how.pairs_known, rng)

    def speed(self, keys: Ints, scale: Ints) -> Floats:
        """Believed steps/s of jobs at their present scale, shape (n, J)."""
        p = self._problem
        same = scale == p.scale[keys]
        if same.all():
            true, rows = p.speed[keys], p.row[keys]
        else:
            k = np.searchsorted(p.scales, scale)
            rows = np.where(same, p.row[keys], p.row_at[keys, np.minimum(k, len(p.scales) - 1)])
            true = np.where(same[:, None], p.speed[keys], self._true_at(keys, rows, scale))
        return true if self.factor is None else np.asarray(true * self.factor[rows])

    def speed_at(self, keys: Ints, k: int, scale: int) -> Floats:
        """Believed steps/s of jobs at the k-th scale factor of the table, shape (n, J); 0 = not allowed."""
        rows = self._problem.row_at[keys, k]
        true = self._true_at(keys, rows, np.full(len(keys), scale, np.int64))
        return true if self.factor is None else np.asarray(true * self.factor[rows])

    def true_speed(self, keys: Ints, scale: Ints) -> Floats:
        """True steps/s at the present scale, consolidated, shape (n, J)."""
        p = self._problem
        same = scale == p.scale[keys]
        if same.all():
            return p.speed[keys]
        k = np.minimum(np.searchsorted(p.scales, scale), len(p.scales) - 1)
        changed = self._true_at(keys, p.row_at[keys, k], scale)
        return np.where(same[:, None], p.speed[keys], changed)

    def true_spread(self, keys: Ints, scale: Ints) -> Floats:
        """True steps/s at the present scale with the workers spread over servers, shape (n, J)."""
        p = self._problem
        same = scale == p.scale[keys]
        if same.all():
            return p.spread_speed[keys]
        k = np.minimum(np.searchsorted(p.scales, scale), len(p.scales) - 1)
        return np.where(same[:, None], p.spread_speed[keys], p.alone_spread[p.row_at[keys, k]])

    def _true_at(self, keys: Ints, rows: Ints, scale: Ints) -> Floats:
        speed = np.nan_to_num(self._problem.alone[rows])
        return np.where((rows[:, None] >= 0) & self._problem.fits(keys, scale), speed, 0.0)

    def observe(self, keys: Ints, kind: Ints) -> None:
        """Jobs that ran a round on a type: what is believed of their row moves towards the truth.

        Without noise, and for that row and type alone (deviation CP31): surer than measurements are.
        """
        if not self.learns or self.factor is None:
            return
        place = np.unique(np.stack([self._problem.row[keys], kind]), axis=1)
        old = self.factor[place[0], place[1]]
        self.factor[place[0], place[1]] = old + self._rate * (1.0 - old)

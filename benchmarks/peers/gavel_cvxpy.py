"""Gavel's own way to its allocations, written from its description: a cvxpy model, built anew each time, for ECOS.

``max_min`` is the programme of max_min_fairness_perf over jobs; ``max_min_packed`` that over jobs and pairs of jobs
of equal scale, with the throughput of each job in each row as Gavel holds it: one array per job. Both return the
objective and the shares. Figures include building the model, as every call of Gavel does.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def max_min(speed: Floats, scale: Floats, weight: Floats, counts: Floats) -> tuple[float, Floats]:
    """max min_m (s_m / w_m) thr(m, X) / thr(m, Xprop)."""
    reference = speed @ (counts / counts.sum())
    gain = speed * (scale / (weight * reference))[:, None]
    x = cp.Variable(speed.shape)
    workers = np.repeat(scale[:, None], speed.shape[1], axis=1)
    limits = [x >= 0, cp.sum(cp.multiply(workers, x), axis=0) <= counts, cp.sum(x, axis=1) <= 1]
    problem = cp.Problem(cp.Maximize(cp.min(cp.sum(cp.multiply(gain, x), axis=1))), limits)
    problem.solve(solver="ECOS")
    return float(problem.value), np.asarray(x.value)


def max_min_packed(
    speed: Floats, scale: Floats, weight: Floats, counts: Floats, first: npt.NDArray[np.int64],
    second: npt.NDArray[np.int64], together: Floats,
) -> tuple[float, Floats]:  # fmt: skip
    """The same over rows of jobs and pairs; ``together`` (P, J, 2) is the throughput of both jobs of a pair."""
    jobs, kinds = speed.shape
    reference = speed @ (counts / counts.sum())
    unit = scale / (weight * reference)
    x = cp.Variable((jobs + len(first), kinds))
    workers = np.repeat(np.concatenate([scale, scale[first]])[:, None], kinds, axis=1)
    terms, times = [], []
    for m in range(jobs):
        one, two = np.flatnonzero(first == m), np.flatnonzero(second == m)
        rows = np.concatenate([[m], jobs + one, jobs + two])
        gains = np.concatenate([speed[m : m + 1], together[one, :, 0], together[two, :, 1]]) * unit[m]
        terms.append(cp.sum(cp.multiply(gains, x[rows])))
        times.append(cp.sum(x[rows]))
    limits = [x >= 0, cp.sum(cp.multiply(workers, x), axis=0) <= counts, cp.hstack(times) <= 1]
    problem = cp.Problem(cp.Maximize(cp.minimum(*terms)), limits)
    problem.solve(solver="ECOS")
    return float(problem.value), np.asarray(x.value)

"""The programmes of the specification, written plainly for scipy and cvxpy, apart from the package's own solvers."""

from __future__ import annotations

import numpy as np
import pytest

from eunomia.contract.allocation import ClusterView

Array = np.ndarray


def normalised(view: ClusterView, speed: Array | None = None) -> Array:
    """(s_m / w_m) T[m, j] / thr(m, Xprop)."""
    speed = np.where(view.runnable, view.throughput, 0.0) if speed is None else speed
    share = view.cluster.counts / view.cluster.counts.sum()
    return np.asarray(speed * (view.scale / (view.weight * (speed @ share)))[:, None])


def limits(view: ClusterView, extra: int) -> tuple[Array, Array]:
    """Rows of time and capacity over M J shares and ``extra`` further columns."""
    jobs, kinds = view.throughput.shape
    time = np.kron(np.eye(jobs), np.ones((1, kinds)))
    room = np.kron(view.scale[None, :], np.eye(kinds))
    rows = np.hstack([np.vstack([time, room]), np.zeros((jobs + kinds, extra))])
    return rows, np.concatenate([np.ones(jobs), view.cluster.counts])


def per_job(gain: Array) -> Array:
    """One row per job: its gains in its own columns."""
    jobs = len(gain)
    rows = np.zeros((jobs, gain.size))
    for m in range(jobs):
        rows[m, m * gain.shape[1] : (m + 1) * gain.shape[1]] = gain[m]
    return rows


def max_min_level(view: ClusterView, gain: Array, rise: Array | None = None) -> float:
    """max y with gain . x >= rise y, by scipy's HiGHS."""
    optimize = pytest.importorskip("scipy.optimize")
    rise = np.ones(len(view)) if rise is None else rise
    rows, right = limits(view, 1)
    fair = np.hstack([-per_job(gain), rise[:, None]])
    cost = np.zeros(gain.size + 1)
    cost[-1] = -1.0
    bounds = [(0.0, None if g > 0.0 else 0.0) for g in gain.ravel()] + [(None, None)]
    answer = optimize.linprog(cost, np.vstack([rows, fair]), np.r_[right, np.zeros(len(view))], bounds=bounds)
    assert answer.status == 0
    return float(-answer.fun)


def most_value(view: ClusterView, value: Array, floor: Array | None = None) -> float:
    """max sum value . x with thr >= floor, by scipy's HiGHS."""
    optimize = pytest.importorskip("scipy.optimize")
    rows, right = limits(view, 0)
    if floor is not None:
        rows, right = np.vstack([rows, -per_job(view.throughput)]), np.r_[right, -floor]
    bounds = [(0.0, None if runs else 0.0) for runs in view.runnable.ravel()]
    answer = optimize.linprog(-value.ravel(), rows, right, bounds=bounds)
    assert answer.status == 0
    return float(-answer.fun)


def violation(view: ClusterView, shares: Array, pairs: object | None = None) -> float:
    """By how much shares break time, capacity or sign; 0 = feasible."""
    used = view.scale @ shares
    time = shares.sum(axis=1)
    if pairs is not None:
        used = used + view.scale[pairs.first] @ pairs.shares
        for side in (pairs.first, pairs.second):
            time = time + np.bincount(side, pairs.shares.sum(axis=1), len(view))
    nowhere = shares[~view.runnable].max(initial=0.0)
    return float(max((time - 1.0).max(), (used - view.cluster.counts).max(), -shares.min(), nowhere, 0.0))


def speeds(view: ClusterView, allocation: object) -> Array:
    """Steps/s of each job under an allocation, pairs included."""
    total = (view.throughput * allocation.shares).sum(axis=1)
    if allocation.pairs is not None:
        pairs = allocation.pairs
        for side, k in ((pairs.first, 0), (pairs.second, 1)):
            total = total + np.bincount(side, (pairs.speed[:, :, k] * pairs.shares).sum(axis=1), len(view))
    return np.asarray(total)

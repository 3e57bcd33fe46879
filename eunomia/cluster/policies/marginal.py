"""Greedy growth: device after device to the job that gains most by it."""

from __future__ import annotations

import numpy as np

from eunomia.contract.allocation import ClusterView
from eunomia.core.arrays import Floats, Ints


def options(view: ClusterView) -> tuple[Ints, Floats]:
    """Scale factors (M, K) that a job may have, and steps/s (M, K, J) there; one each for rigid jobs.

    Where the engine offers other scale factors (``view.elastic``) throughput 0 marks what is not allowed.
    """
    if view.elastic is None:
        return view.scale[:, None], np.where(view.runnable, view.throughput, 0.0)[:, None, :]
    scales = np.tile(view.elastic.scales, (len(view), 1))
    fits = scales[:, :, None] <= view.cluster.counts[None, None, :]
    return scales, np.where(fits, view.elastic.throughput, 0.0)


def grow(view: ClusterView, start: Floats, worth: Floats) -> tuple[Ints, Ints]:
    """Devices (M, J) and scale factors (M,): first a least grant each, then growth by marginal worth.

    ``start`` (M,): jobs get their smallest scale factor on their fastest free type in this order, smallest
    first. ``worth`` (M, K, J) of running at scale k on type j; then the job with the largest gain in worth
    per device takes its next scale factors (one or several) on its type, while that gains. Both ends are
    deterministic; ties go to the earlier job.
    """
    scales, speed = options(view)
    jobs, _, kinds = speed.shape
    free = view.capacity.copy()
    level, kind = np.full(jobs, -1, np.int64), np.full(jobs, -1, np.int64)
    least = (speed > 0.0).argmax(axis=1)  # (M, J) smallest allowed option by type
    for m in np.argsort(start, kind="stable").tolist():
        if not free.any():
            break
        k = least[m]
        can = (speed[m, k, np.arange(kinds)] > 0.0) & (scales[m, k] <= free)
        if can.any():
            stay = (view.held[m] > 0) & can
            j = int(np.argmax(np.where(stay if stay.any() else can, speed[m, k, np.arange(kinds)], -1.0)))
            level[m], kind[m] = k[j], j
            free[j] -= scales[m, k[j]]
    _grow(level, kind, free, scales, speed, worth)
    rows = np.flatnonzero(level >= 0)
    devices, scale = np.zeros((jobs, kinds), np.int64), view.scale.copy()
    devices[rows, kind[rows]] = scales[rows, level[rows]]
    scale[rows] = scales[rows, level[rows]]
    return devices, scale


def _grow(level: Ints, kind: Ints, free: Ints, scales: Ints, speed: Floats, worth: Floats) -> None:
    rows = np.flatnonzero(level >= 0)
    if not len(rows) or scales.shape[1] == 1:
        return
    here = np.arange(len(rows))
    table, size = worth[rows][here, :, kind[rows]], scales[rows]  # (R, K)
    allowed = speed[rows][here, :, kind[rows]] > 0.0
    while free.any():
        now = level[rows]
        extra = size - size[here, now][:, None]
        fits = allowed & (extra > 0) & (extra <= free[kind[rows]][:, None])
        gain = np.where(fits, (table - table[here, now][:, None]) / np.maximum(extra, 1), -np.inf)
        best = int(np.argmax(gain))
        r, k = divmod(best, gain.shape[1])
        if not gain[r, k] > 0.0:
            return
        free[kind[rows[r]]] -= extra[r, k]
        level[rows[r]] = k

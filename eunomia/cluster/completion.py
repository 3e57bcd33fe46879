"""Co-location throughputs that nobody measured, from those that somebody did.

Gavel (OSDI 2020) estimates them in the manner of Quasar (ASPLOS 2014): the matrix of co-located over isolated
throughput has low rank. A few traits of a model (compute, memory bandwidth, host load) decide how it slows
its neighbours. Here: alternating ridge regression on the measured entries of the logarithm, per device type.
A re-implementation of the idea; it does badly where almost nothing of a row is known, and cannot know which
pairs do not fit in memory.
"""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats

RANK, RIDGE, SWEEPS = 3, 0.05, 20


def complete_pairs(beside: Floats, alone: Floats, known: float, rng: np.random.Generator) -> Floats:
    """Believed (R, R, J) co-located throughputs when only a share ``known`` of the pairs was measured.

    Pairs that cannot share stay 0. Which pairs are known is drawn per unordered pair from ``rng``.
    """
    rows = len(beside)
    draw = np.triu(rng.random((rows, rows)))
    seen = (draw + np.triu(draw, 1).T) < known
    believed = beside.copy()
    for j in range(beside.shape[2]):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = beside[:, :, j] / alone[:, j][:, None]
        shares = (beside[:, :, j] > 0.0) & np.isfinite(ratio) & (ratio > 0.0)
        measured = shares & seen
        if not measured.any():
            continue
        logs = np.where(measured, np.log(np.where(shares, ratio, 1.0)), 0.0)
        guess = np.exp(low_rank(logs, measured))
        hidden = shares & ~seen
        believed[:, :, j][hidden] = (guess * alone[:, j][:, None])[hidden]
    return believed


def low_rank(values: Floats, known: np.ndarray) -> Floats:
    """mean + row effect + A B^T fitted to the known entries by alternating ridge regression, shape of ``values``."""
    mean = float(values[known].mean())
    counts = known.sum(axis=1)
    rows = np.where(known, values - mean, 0.0).sum(axis=1) / (counts + 1.0)
    rest = np.where(known, values - mean - rows[:, None], 0.0)
    left = np.linalg.svd(rest, full_matrices=False)[0][:, :RANK]
    right = np.zeros((values.shape[1], left.shape[1]))
    for _ in range(SWEEPS):
        right = _regress(rest.T, known.T, left)
        left = _regress(rest, known, right)
    return np.asarray(mean + rows[:, None] + left @ right.T)


def _regress(values: Floats, known: np.ndarray, factors: Floats) -> Floats:
    """Each row of ``values`` on ``factors``, over its known entries."""
    gram = np.einsum("ij,ja,jb->iab", known.astype(float), factors, factors)
    gram += RIDGE * np.eye(factors.shape[1])
    return np.linalg.solve(gram, (np.where(known, values, 0.0) @ factors)[:, :, None])[:, :, 0]

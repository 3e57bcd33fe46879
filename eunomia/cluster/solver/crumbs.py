"""Traces of time on what a vertex leaves out: who takes devices that stand idle between two programmes."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.solver.assemble import Assembled
from eunomia.cluster.solver.highs import LinearSolution
from eunomia.core.arrays import Floats

CRUMB = 1e-15  # of time, to a column that gains nothing and costs as much as the best one gains
LEAST = 1e-6  # of what the best column gains: lower reduced costs count as this
TAKEN = 1e-9  # shares above this are no crumbs


def with_crumbs(built: Assembled, answer: LinearSolution) -> Floats:
    """The point with ``CRUMB`` over the reduced cost, as an interior point mu / z, where a column has nothing.

    Of pairs only as many as there are rows, those of least reduced cost: an optimum misses them least, and rounds slow
    down with their number.
    """
    lp, end, pairs = built.lp, built.pair_at.stop, built.pair_at
    reduced = np.bincount(lp.column, lp.entry * answer.row_multiplier[lp.row], len(lp.gain)) - lp.gain
    cost = np.maximum(reduced[:end] / max(float(np.abs(lp.gain).max()), 1e-300), LEAST)
    crumb = CRUMB / cost
    most = len(lp.row_low) // 2  # at least the rows of the programme, and not many more
    if len(cost[pairs]) > most:
        crumb[pairs][cost[pairs] > np.partition(cost[pairs], most)[most]] = 0.0
    x = answer.x.copy()
    x[:end] = np.where(x[:end] > TAKEN, x[:end], np.maximum(x[:end], crumb))
    return np.asarray(x)

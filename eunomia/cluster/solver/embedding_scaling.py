"""Ruiz' equilibration of a share programme, as ECOS begins with. See :mod:`embedding_core`."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.solver.embedding_step import ANY_ORDER, jitted
from eunomia.core.compiled import compiled

SCALING_PASSES = 3


@jitted
def _root(largest):  # type: ignore[no-untyped-def]
    return 1.0 if largest < 1e-6 else np.sqrt(largest)


@compiled(error_model="numpy", fastmath=ANY_ORDER)
def ruiz(sign, time, fair, load, edge):  # type: ignore[no-untyped-def]
    """Scale rows and columns towards equal largest entries, in place; returns what columns and rows were divided by."""
    J, G = time.shape
    by_x, by_y = np.ones((J, G)), 1.0
    by_row, by_capacity = np.ones((2, G)), np.ones(J)
    here_x, here_row, here_capacity = np.empty((J, G)), np.empty((2, G)), np.empty(J)
    for _ in range(SCALING_PASSES):
        here_row[:] = 0.0
        most_y = 0.0
        for j in range(J):
            most = 0.0
            for g in range(G):
                most = max(most, load[j, g])
                here_row[0, g] = max(here_row[0, g], time[j, g])
                here_row[1, g] = max(here_row[1, g], abs(fair[j, g]))
                here_x[j, g] = _root(max(max(time[j, g], abs(fair[j, g])), max(load[j, g], sign[j, g])))
            here_capacity[j] = _root(most)
        for g in range(G):
            most_y = max(most_y, edge[g])
            here_row[0, g] = _root(here_row[0, g])
            here_row[1, g] = _root(max(here_row[1, g], edge[g]))
        here_y = _root(most_y)
        for j in range(J):
            for g in range(G):
                sign[j, g] /= _root(sign[j, g]) * here_x[j, g]
                time[j, g] /= here_row[0, g] * here_x[j, g]
                fair[j, g] /= here_row[1, g] * here_x[j, g]
                load[j, g] /= here_capacity[j] * here_x[j, g]
                by_x[j, g] *= here_x[j, g]
            by_capacity[j] *= here_capacity[j]
        for g in range(G):
            edge[g] /= here_row[1, g] * here_y
        by_row *= here_row
        by_y *= here_y
    return by_x, by_y, by_row, by_capacity

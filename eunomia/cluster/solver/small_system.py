"""A few linear equations, compiled."""

from __future__ import annotations

import numpy as np

from eunomia.core.compiled import compiled


@compiled(error_model="numpy")
def eliminate(matrix, right):  # type: ignore[no-untyped-def]
    """Solve a few equations, scaled by their diagonal, with partial pivoting; a singular one gives 0 in its row."""
    size = right.shape[0]
    work = np.empty((size, size + 1))
    scale = np.empty(size)
    for i in range(size):
        scale[i] = 1.0 / np.sqrt(max(abs(matrix[i, i]), 1e-300))
    for i in range(size):
        for k in range(size):
            work[i, k] = matrix[i, k] * scale[i] * scale[k]
        work[i, size] = right[i] * scale[i]
    for k in range(size):
        best = k
        for i in range(k + 1, size):
            if abs(work[i, k]) > abs(work[best, k]):
                best = i
        for i in range(k, size + 1):
            work[k, i], work[best, i] = work[best, i], work[k, i]
        if work[k, k] == 0.0:
            work[k, k] = np.inf
        for r in range(k + 1, size):
            times = work[r, k] / work[k, k]
            for i in range(k, size + 1):
                work[r, i] -= times * work[k, i]
    solution = np.empty(size)
    for k in range(size - 1, -1, -1):
        value = work[k, size]
        for i in range(k + 1, size):
            value -= work[k, i] * solution[i]
        solution[k] = value / work[k, k]
    for k in range(size):
        solution[k] *= scale[k]
    return solution

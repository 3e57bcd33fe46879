"""Which jobs are the same to a programme: equal rows are found by hashing, in one compiled pass."""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.compiled import compiled


def group_rows(columns: Floats) -> tuple[Ints, Ints, Ints]:
    """First row of each group, group of each row, rows per group; groups in order of first appearance.

    ``columns`` is (M, K); rows are equal when all K numbers are (0.0 equals -0.0, nan equals nan of equal bits).
    """
    bits = np.ascontiguousarray(columns + 0.0, np.float64).view(np.uint64)
    first, group = _group(bits)
    return first, group, np.bincount(group, minlength=len(first))


@compiled
def _group(bits):  # type: ignore[no-untyped-def]
    rows, width = bits.shape
    size = 16
    while size < 2 * rows:
        size *= 2
    slots = np.full(size, -1, np.int64)
    group = np.empty(rows, np.int64)
    first = np.empty(rows, np.int64)
    found = 0
    for m in range(rows):
        mix = np.uint64(14695981039346656037)
        for k in range(width):
            mix = (mix ^ bits[m, k]) * np.uint64(1099511628211)
            mix ^= mix >> np.uint64(29)
        slot = np.int64(mix & np.uint64(size - 1))
        while True:
            g = slots[slot]
            if g < 0:
                slots[slot] = found
                first[found] = m
                group[m] = found
                found += 1
                break
            same = True
            for k in range(width):
                if bits[first[g], k] != bits[m, k]:
                    same = False
                    break
            if same:
                group[m] = g
                break
            slot = (slot + 1) & (size - 1)
    return first[:found].copy(), group

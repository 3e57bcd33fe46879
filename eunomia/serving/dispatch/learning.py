"""What a run teaches the tables of block times: one pass, compiled.

NumPy takes a microsecond for each of forty calls on arrays of a dozen numbers, and three where its code is cold.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numba import types

from eunomia.core.arrays import Floats
from eunomia.core.compiled import Compiled, compiled

LEARN = 0.05  # weight of a new measurement; a block's time drifts with clock speed and neighbours
LEARN_TWIN = 0.005  # the same for the digital twin: the mean of some 200 runs, not of the last 20
TRIAL = 20.0  # runs that the trial at loading counts for
WILD = 0.7  # logarithms beyond it (a block that took twice as long) are an interruption, not the block's own spread

Tables = tuple[Floats, Floats, Floats, Floats, Floats]
Learned = tuple[Floats, Floats, float, int, float]
_TABLE = types.Array(types.float64, 2, "C")
SIGNATURE = (types.UniTuple(_TABLE, 5), types.int64, types.int64, types.Array(types.float64, 1, "C"))


@compiled
def learn(tables: Tables, first_row: int, device: int, seen_s: Floats) -> Learned:
    """Take in the times of blocks from ``first_row`` on, per row of input.

    ``tables`` (rows, devices): times, times that stay known when a device dies, means, runs behind the means, runs
    behind the times. Returns times over means and the means, of blocks with a mean; the sum of those times; how many
    logarithms are not wild; the sum of their squares.
    """
    latency_s, known_s, mean_s, counted, runs = tables
    factors, means = np.empty(len(seen_s)), np.empty(len(seen_s))
    count = tame = 0
    total_s = squares = 0.0
    for n in range(len(seen_s)):
        row, now_s = first_row + n, seen_s[n]
        ran, old_s, mean = runs[row, device], latency_s[row, device], mean_s[row, device]
        if not (math.isfinite(old_s) and ran > 0.0):
            old_s = now_s
        latency_s[row, device] = old_s + max(LEARN, 1.0 / (ran + 1.0)) * (now_s - old_s)
        known_s[row, device] = latency_s[row, device]
        runs[row, device] = min(ran + 1.0, TRIAL)
        if not math.isfinite(mean):
            mean = now_s
        elif mean > 0.0 and now_s > 0.0:
            factors[count], means[count] = now_s / mean, mean
            ratio = math.log(factors[count])
            count += 1
            total_s += now_s
            if abs(ratio) < WILD:
                tame += 1
                squares += ratio * ratio
        counted[row, device] += 1.0
        mean_s[row, device] = mean + max(LEARN_TWIN, 1.0 / counted[row, device]) * (now_s - mean)
    return factors[:count], means[:count], total_s, tame, squares


@cache
def compile_learning() -> Compiled[[Tables, int, int, Floats], Learned]:
    """``learn`` as machine code for the types above alone, made or read from disk now."""
    learn.compile(SIGNATURE)
    learn.disable_compile()
    return learn

"""The hidden layer and the Deep Sets pointer, evaluated for all waiting sub-jobs; compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.learning.observation.table import GLOBAL, JOB
from eunomia.learning.policy.weights import CENTRE, INVERSE, KINDS, NETWORK

N_JOB, N_GLOBAL = len(JOB), len(GLOBAL)
POINTER = KINDS.index("pointer")
REACH = 5.0  # normalised inputs are clipped to +-REACH
FIXED = 2.0**40


@jitted
def dense(inputs: Floats, rows: int, block: Floats, at: int, units: int, out: Floats) -> None:
    """out += inputs[:rows] W, with W (rows, units) in the block from ``at`` on."""
    for r in range(rows):
        value, start = inputs[r], at + r * units
        for h in range(units):
            out[h] += value * block[start + h]


@jitted
def squash(values: Floats) -> None:
    """a / (1 + |a|), in place."""
    for h in range(len(values)):
        values[h] = values[h] / (1.0 + abs(values[h]))


@jitted
def hidden_layer(jobs: Floats, overall: Floats, block: Floats, units: int) -> Any:
    """(n, units): g(u W1 + b1)."""
    n = len(jobs)
    hidden, shared, inputs = np.empty((n, units)), np.zeros(units), np.empty(N_JOB)
    after = NETWORK + (N_JOB + N_GLOBAL) * units
    dense(overall, N_GLOBAL, block, NETWORK + N_JOB * units, units, shared)
    for i in range(n):
        for f in range(N_JOB):
            value = (jobs[i, f] - block[CENTRE + f]) * block[INVERSE + f]
            inputs[f] = min(max(value, -REACH), REACH)
        for h in range(units):
            hidden[i, h] = shared[h] + block[after + h]
        dense(inputs, N_JOB, block, NETWORK, units, hidden[i])
        squash(hidden[i])
    return hidden


@jitted
def _pool(hidden: Floats, mean: Floats, most: Floats) -> None:
    """Mean and maximum over sub-jobs. Values lie within +-1; sums are of integers (1 = 2^40), so in any order alike."""
    n = len(hidden)
    for h in range(len(mean)):
        total, greatest, number = 0, hidden[0, h], True
        for i in range(n):
            value = hidden[i, h]
            if value != value:
                number = False
            else:
                total += int(value * FIXED)
                greatest = max(greatest, value)
        mean[h], most[h] = total / FIXED / n, greatest
        if not number:
            mean[h], most[h] = np.nan, np.nan


@jitted
def pointer_layer(hidden: Floats, block: Floats, units: int) -> Any:
    """(n, units): g(e A + mean e M + max e Q + b2)."""
    n = len(hidden)
    at = NETWORK + (N_JOB + N_GLOBAL + 1) * units
    square = units * units
    shared, mean, most = np.empty(units), np.empty(units), np.empty(units)
    _pool(hidden, mean, most)
    for h in range(units):
        shared[h] = block[at + 3 * square + h]
    dense(mean, units, block, at + square, units, shared)
    dense(most, units, block, at + 2 * square, units, shared)
    out = np.empty((n, units))
    for i in range(n):
        for h in range(units):
            out[i, h] = shared[h]
        dense(hidden[i], units, block, at, units, out[i])
        squash(out[i])
    return out


@jitted
def evaluate(
    jobs: Floats, overall: Floats, block: Floats, kind: int, units: int, score: Floats, start: Floats
) -> None:
    """Add the network's share to the scores of sub-jobs and to their start margins."""
    hidden = hidden_layer(jobs, overall, block, units)
    at = len(block) - 2 * units
    if kind == POINTER:
        hidden = pointer_layer(hidden, block, units)
    for i in range(len(jobs)):
        for h in range(units):
            score[i] += hidden[i, h] * block[at + h]
            start[i] += hidden[i, h] * block[at + units + h]

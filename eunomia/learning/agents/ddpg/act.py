"""The networks of an actor in compiled code: rows of features in, an action for every sub-job out.

``act`` is the LSTM of policy.py; ``act_sets`` the Deep Sets of sets.py, whose formulas stand there.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.learning.agents.ddpg.features import EACH, N_JOB
from eunomia.learning.policy.network import dense, squash

PRIORITY, MARGIN, SCORES = range(3)  # places of an action; scores are the last S
N_EACH = len(EACH)


@jitted
def _add_row(value: float, row: Floats, sums: Floats) -> None:
    """sums += value * row."""
    for j in range(len(sums)):
        sums[j] += value * row[j]


@jitted
def _logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


@jitted
def act(rows: Floats, units: int, weights: Floats, actions: Floats) -> None:
    """The LSTM over ``rows`` (n, F); fills ``actions`` (n, 2 + S). ``weights``: tensors in the order of ``shapes``."""
    width, outs = rows.shape[1], actions.shape[1]
    at_bias = (width + units) * 4 * units
    at_out = at_bias + 4 * units
    at_out_bias = at_out + units * outs
    inner = weights[:at_bias].reshape((width + units, 4 * units))  # x, then h
    out = weights[at_out:at_out_bias].reshape((units, outs))
    hidden, cell, gates = np.zeros(units), np.zeros(units), np.empty(4 * units)
    for n in range(len(rows)):
        gates[:] = weights[at_bias:at_out]
        for f in range(width):
            _add_row(rows[n, f], inner[f], gates)
        for u in range(units):
            _add_row(hidden[u], inner[width + u], gates)
        for u in range(units):
            kept, new = _logistic(gates[units + u]) * cell[u], math.tanh(gates[2 * units + u])
            cell[u] = kept + _logistic(gates[u]) * new
            hidden[u] = _logistic(gates[3 * units + u]) * math.tanh(cell[u])
        actions[n] = weights[at_out_bias : at_out_bias + outs]
        for u in range(units):
            _add_row(hidden[u], out[u], actions[n])
        for a in range(outs):
            actions[n, a] = math.tanh(actions[n, a])


@jitted
def fold(row: Floats, lanes: int, own: Floats) -> None:
    """Fill ``own`` with what a row has of its sub-job and the whole, then mean and maximum over accelerators."""
    rest = N_JOB + N_EACH * lanes
    own[:N_JOB] = row[:N_JOB]
    for f in range(len(row) - rest):
        own[N_JOB + f] = row[rest + f]
    for kind in range(N_EACH):
        total, greatest = 0.0, -math.inf
        for s in range(lanes):
            value = row[N_JOB + kind * lanes + s]
            total, greatest = total + value, max(greatest, value)
        own[len(own) - 2 * N_EACH + kind] = total / lanes
        own[len(own) - N_EACH + kind] = greatest


@jitted
def act_sets(rows: Floats, lanes: int, units: int, weights: Floats, actions: Floats) -> None:
    """The Deep Sets over ``rows`` (n, F); fills ``actions`` (n, 2 + S). ``weights``: in the order of their shapes."""
    n, width, outs = len(rows), rows.shape[1] - N_EACH * lanes + 2 * N_EACH, SCORES + N_EACH
    at_bias, square = width * units, units * units
    at_mix = at_bias + units  # of itself, the mean, the maximum
    at_out = at_mix + 3 * square + units
    own, each, inner, raw = np.empty(width), np.empty((n, units)), np.empty(units), np.empty(outs)
    mean, most, shared = np.zeros(units), np.full(units, -1.0), np.empty(units)
    for j in range(n):
        fold(rows[j], lanes, own)
        row = each[j]
        for u in range(units):
            row[u] = weights[at_bias + u]
        dense(own, width, weights, 0, units, row)
        squash(row)
        for u in range(units):
            mean[u] += row[u] / n
            most[u] = max(most[u], row[u])
    for u in range(units):
        shared[u] = weights[at_out - units + u]
    dense(mean, units, weights, at_mix + square, units, shared)
    dense(most, units, weights, at_mix + 2 * square, units, shared)
    for j in range(n):
        for u in range(units):
            inner[u] = shared[u]
        dense(each[j], units, weights, at_mix, units, inner)
        squash(inner)
        for u in range(outs):
            raw[u] = weights[at_out + units * outs + u]
        dense(inner, units, weights, at_out, outs, raw)
        actions[j, PRIORITY], actions[j, MARGIN] = math.tanh(raw[PRIORITY]), math.tanh(raw[MARGIN])
        for s in range(lanes):
            score = 0.0
            for kind in range(N_EACH):
                score += raw[SCORES + kind] * rows[j, N_JOB + kind * lanes + s]
            actions[j, SCORES + s] = math.tanh(score)

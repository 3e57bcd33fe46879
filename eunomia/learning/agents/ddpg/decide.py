"""The compiled decision: features, LSTM, decoding; and, in training, noise and a log of what was done.

Decoding (D12): every sub-job wants the accelerator of its highest score among those that can run it (ties: least
index), and its first output is its priority.
At a tick of T_s, each is queued where it wants to go, and accelerators serve their queues by priority. Without a period
(D9: T_s -> 0), at every event: highest priority first (ties: earlier deadline), each starts where it wants to go
if that is idle, else waits until the next event.
A priority below ``hold`` leaves the sub-job alone until the next decision (our addition: the sources name no way to
hold). When nothing runs or is queued and everything would be held, the one of highest priority goes all the same. An
action that is not a number counts as invalid and becomes priority 0 on the fastest accelerator.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import SYSTEM
from eunomia.core.addresses import block_of
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.learning.agents.ddpg.features import describe_all
from eunomia.learning.agents.ddpg.network import (
    COUNTERS,
    HELD,
    HOLD,
    INVALID,
    KEEP,
    LAYER_S,
    LOGGED_ROWS,
    LOGGED_TICKS,
    MODE,
    NOISE_USED,
    PROMISES,
    SUBJOBS,
    TICKS,
    UNITS,
    WEIGHTS,
)
from eunomia.learning.agents.ddpg.table import EACH, JOB, OVERALL, PROMISE
from eunomia.learning.agents.ddpg.teacher import teach
from eunomia.learning.observation.groups import by_deadline
from eunomia.learning.policy.decide import FINISHED, LEFT, NOW, STARTED, already_decided

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SERVE, EXPLORE, TEACH = range(3)  # modes
N_JOB, N_EACH, N_OVERALL, N_PROMISE = len(JOB), len(EACH), len(OVERALL), len(PROMISE)
# Blocks of the View: the actor's numbers; where it explores, noise and the log (episode.py).
actor_of = block_of(SYSTEM, 0, np.float64)
noise_of = block_of(SYSTEM, 1, np.float64)
times_of = block_of(SYSTEM, 2, np.float64)
counts_of = block_of(SYSTEM, 3, np.int64)
rows_of = block_of(SYSTEM, 4, np.float32)
requests_of = block_of(SYSTEM, 5, np.int64)


@jitted
def _add_row(value: float, block: Floats, at: int, sums: Floats) -> None:
    """sums += value * one row of a matrix."""
    for j in range(len(sums)):
        sums[j] += value * block[at + j]


@jitted
def _logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


@jitted
def act(rows: Floats, block: Floats, actions: Floats) -> None:
    """The LSTM over ``rows`` (n, F); fills ``actions`` (n, 1 + S)."""
    units, width, outs = int(block[UNITS]), rows.shape[1], actions.shape[1]
    at_h = WEIGHTS + width * 4 * units
    at_bias = at_h + units * 4 * units
    at_out = at_bias + 4 * units
    at_out_bias = at_out + units * outs
    hidden, cell, gates = np.zeros(units), np.zeros(units), np.empty(4 * units)
    for n in range(len(rows)):
        gates[:] = block[at_bias:at_out]
        for f in range(width):
            _add_row(rows[n, f], block, WEIGHTS + f * 4 * units, gates)
        for u in range(units):
            _add_row(hidden[u], block, at_h + u * 4 * units, gates)
        for u in range(units):
            cell[u] = _logistic(gates[units + u]) * cell[u] + _logistic(gates[u]) * math.tanh(
                gates[2 * units + u]
            )
            hidden[u] = _logistic(gates[3 * units + u]) * math.tanh(cell[u])
        actions[n] = block[at_out_bias : at_out_bias + outs]
        for u in range(units):
            _add_row(hidden[u], block, at_out + u * outs, actions[n])
        for a in range(outs):
            actions[n, a] = math.tanh(actions[n, a])


@jitted
def _disturb(actions: Floats, block: Floats, noise: Any) -> None:
    """a <- clip(keep a + noise, -1, 1), noise from the given stream, used up in turn."""
    used, keep = int(block[NOISE_USED]), block[KEEP]
    for n in range(len(actions)):
        for a in range(actions.shape[1]):
            actions[n, a] = min(max(keep * actions[n, a] + noise[used % len(noise)], -1.0), 1.0)
            used += 1
    block[NOISE_USED] = float(used)


@jitted
def _log(ready: Record, order: Ints, rows: Floats, actions: Floats, counters: Floats, system: Record) -> None:
    """Append one tick, if there is room: time, number of rows; per row features, action and request."""
    times_s, counts, request = times_of(system), counts_of(system), requests_of(system)
    tick, row = int(counters[LOGGED_TICKS]), int(counters[LOGGED_ROWS])
    n, width, outs = len(rows), rows.shape[1], actions.shape[1]
    if tick >= len(times_s) or row + n > len(request):
        return
    times_s[tick], counts[tick] = system.now_s, n
    space = rows_of(system).reshape((len(request), width + outs))
    for j in range(n):
        for f in range(width):
            space[row + j, f] = rows[j, f]
        for a in range(outs):
            space[row + j, width + a] = actions[j, a]
        request[row + j] = ready[order[j]].request
    counters[LOGGED_TICKS] += 1.0
    counters[LOGGED_ROWS] += n


@jitted
def _best(action: Floats, latency_s: Floats) -> int:
    """Accelerator of the highest score among those that can run the sub-job."""
    best = -1
    for s in range(len(latency_s)):
        if latency_s[s] < math.inf and (best < 0 or action[1 + s] > action[1 + best]):
            best = s
    return best


@jitted
def _check(action: Floats, latency_s: Floats) -> bool:
    """Whether an action is made of numbers; one that is not is replaced by priority 0, fastest accelerator."""
    total = 0.0
    for a in range(len(action)):
        total += action[a]
    if np.isfinite(total):
        return True
    action[0] = 0.0
    for s in range(len(latency_s)):
        action[1 + s] = -latency_s[s]
    return False


@jitted
def decode(
    order: Ints,
    actions: Floats,
    latency_s: Floats,
    hold: float,
    stands_still: bool,
    answer: Ints,
    priority: Floats,
) -> int:
    """Write (row, accelerator) and priority of all that is queued; returns their number."""
    count, top = 0, 0
    for j in range(len(order)):
        if actions[j, 0] > actions[top, 0]:
            top = j
        if actions[j, 0] < hold:
            continue
        answer[count, 0], answer[count, 1] = order[j], _best(actions[j], latency_s[order[j]])
        priority[count] = actions[j, 0]
        count += 1
    if count == 0 and stands_still:
        answer[0, 0], answer[0, 1] = order[top], _best(actions[top], latency_s[order[top]])
        priority[0] = actions[top, 0]
        count = 1
    return count


@jitted
def start_idle(
    order: Ints, actions: Floats, latency_s: Floats, accelerators: Record, hold: float, answer: Ints
) -> int:
    """Write (row, accelerator) of all that starts now, highest priority first; returns their number."""
    idle, count = np.empty(len(accelerators), np.bool_), 0
    for s in range(len(accelerators)):
        idle[s] = accelerators[s].request < 0
    stands_still = idle.all()
    ranking = np.argsort(-actions[:, 0], kind="mergesort")
    for rank in range(len(order)):
        j = ranking[rank]
        if actions[j, 0] < hold and not (stands_still and rank == 0):
            break
        s = _best(actions[j], latency_s[order[j]])
        if s >= 0 and idle[s]:
            answer[count, 0], answer[count, 1] = order[j], s
            idle[s] = False
            count += 1
    return count


def decide(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """The policy, as the kernel calls it."""
    n = len(ready)
    if n == 0 or (system.period_s == 0.0 and already_decided(ready, system)):
        return 0
    block = actor_of(system)
    lanes, promises, mode, counters = (
        len(accelerators),
        block[PROMISES] == 1.0,
        int(block[MODE]),
        block[COUNTERS:],
    )
    order = np.empty(n, np.int64)
    by_deadline(ready, order)
    rows = np.empty((n, N_JOB + N_EACH * lanes + N_OVERALL + (N_PROMISE if promises else 0)))
    actions = np.empty((n, 1 + lanes))
    describe_all(ready, order, latency_s, demand, accelerators, system, block[LAYER_S], promises, rows)
    if mode == TEACH:
        teach(ready, order, latency_s, accelerators, actions)
    else:
        act(rows, block, actions)
    if mode != SERVE:
        _disturb(actions, block, noise_of(system))
        _log(ready, order, rows, actions, counters, system)
    for j in range(n):
        if not _check(actions[j], latency_s[order[j]]):
            counters[INVALID] += 1.0
    counters[TICKS] += 1.0
    counters[SUBJOBS] += n
    if system.period_s == 0.0:
        count = start_idle(order, actions, latency_s, accelerators, block[HOLD], answer)
        memory = system.memory
        memory[NOW], memory[STARTED] = system.now_s, system.starts + count
        memory[LEFT], memory[FINISHED] = n - count, system.finished
        return count
    stands_still = True
    for s in range(lanes):
        stands_still = stands_still and accelerators[s].request < 0 and accelerators[s].queued == 0
    count = decode(order, actions, latency_s, block[HOLD], stands_still, answer, priority)
    counters[HELD] += n - count
    return count

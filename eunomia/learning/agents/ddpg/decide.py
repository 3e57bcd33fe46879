"""The compiled decision: features, LSTM, decoding; and, in training, the teacher, noise and a log of what was done.

Decoding (D12): every sub-job's target is the accelerator of its highest score among those that can run it (ties: least
index), and its first output is its priority. At a tick of T_s, each is queued at its target, and accelerators serve
their queues by priority. Without a period (D9: T_s -> 0), at every event: highest priority first (ties: earlier
deadline), each starts at its target if that is idle, else waits until the next event. A priority below ``hold`` leaves
the sub-job alone until the next decision. When nothing runs or is queued and everything would be held, the one of
highest priority goes all the same. An action that is not a number becomes priority 0 on the fastest accelerator.

The actor is cloned from the teacher: feasible earliest deadline first, each on the accelerator of its earliest finish.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import SYSTEM
from eunomia.core.addresses import block_of, block_record
from eunomia.core.arrays import Floats, Ints
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.learning.agents.ddpg.features import N_JOB, describe
from eunomia.learning.observation.groups import by_deadline
from eunomia.learning.policy.decide import already_decided, remember

Singles = npt.NDArray[np.float32]
SERVE, EXPLORE, TEACH = range(3)  # modes
COUNTED = ("ticks", "subjobs", "held", "invalid")
LOGGED = ("noise_used", "logged_ticks", "logged_rows")
WHOLE = ("units", "width", "promises", "mode", *COUNTED, *LOGGED)
HEAD = np.dtype([("layer_s", "f8"), ("hold", "f8"), *((name, "i8") for name in WHOLE)])
# Blocks of the View: head, the actor's numbers; where it explores, noise and the log (episode.py).
head_of = block_record(SYSTEM, 0, HEAD)
weights_of = block_of(SYSTEM, 1, np.float64)
noise_of = block_of(SYSTEM, 2, np.float64)
times_of = block_of(SYSTEM, 3, np.float64)
counts_of = block_of(SYSTEM, 4, np.int64)
rows_of = block_of(SYSTEM, 5, np.float32)
requests_of = block_of(SYSTEM, 6, np.int64)
TOP, FALL, FLOOR = 1.2, 0.85, -0.3  # taught priority of the k-th: FLOOR + TOP FALL^k, above the hold of -0.5
CHOSEN, OTHER = 0.8, -0.4  # taught scores


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
    """The LSTM over ``rows`` (n, F); fills ``actions`` (n, 1 + S). ``weights``: tensors in the order of ``shapes``."""
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
def teach(ready: Record, order: Ints, latency_s: Floats, accelerators: Record, actions: Floats) -> None:
    """Fill ``actions`` (n, 1 + S) for sub-jobs in ``order`` (by deadline): feasible ones first, then hopeless ones.

    Finish = time until free + c, ties to the least index. What starts at once makes its accelerator busy for the
    rest; what waits reserves nothing, as in the rule ``edf+f+eft``, which at every event this is.
    """
    lanes = len(accelerators)
    free_s = np.empty(lanes)
    for s in range(lanes):
        free_s[s] = accelerators[s].free_in_s
    rank = 0
    for late in range(2):
        for j in range(len(order)):
            i = order[j]
            if ready[i].late != late:
                continue
            best, finish_s = 0, math.inf
            for s in range(lanes):
                if free_s[s] + latency_s[i, s] < finish_s:
                    best, finish_s = s, free_s[s] + latency_s[i, s]
            if free_s[best] == 0.0:
                free_s[best] = finish_s
            actions[j, 0] = FLOOR + TOP * FALL**rank
            actions[j, 1:] = OTHER
            actions[j, 1 + best] = CHOSEN
            rank += 1


@jitted
def _disturb(actions: Floats, head: Record, noise: Floats) -> None:
    """a <- clip(a + noise, -1, 1), noise from the given stream, used up in turn."""
    for n in range(len(actions)):
        for a in range(actions.shape[1]):
            actions[n, a] = min(max(actions[n, a] + noise[head.noise_used % len(noise)], -1.0), 1.0)
            head.noise_used += 1


@jitted
def _log(ready: Record, order: Ints, rows: Floats, actions: Floats, head: Record, system: Record) -> None:
    """Append one tick, if there is room: time, number of rows; per row features, action and request."""
    times_s, counts, request = times_of(system), counts_of(system), requests_of(system)
    tick, row = head.logged_ticks, head.logged_rows
    n, width, outs = len(rows), rows.shape[1], actions.shape[1]
    if tick >= len(times_s) or row + n > len(request):
        return
    times_s[tick], counts[tick] = system.now_s, n
    space = rows_of(system).reshape((len(request), width + outs))
    for j in range(n):
        space[row + j, :width], space[row + j, width:] = rows[j], actions[j]
        request[row + j] = ready[order[j]].request
    head.logged_ticks += 1
    head.logged_rows += n


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
    if np.isfinite(action.sum()):
        return True
    action[0], action[1:] = 0.0, -latency_s
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
    n, lanes = len(ready), len(accelerators)
    if n == 0 or (system.period_s == 0.0 and already_decided(ready, system)):
        return 0
    head = head_of(system)
    order, actions = np.empty(n, np.int64), np.empty((n, 1 + lanes))
    by_deadline(ready, order)
    rows = np.empty((n, head.width))
    late = 0
    for i in range(n):
        late += ready[i].late
    for j in range(n):
        i, at = order[j], N_JOB + 3 * lanes
        describe(ready[i], latency_s[i], demand[i], accelerators, system, head, rows[j])
        rows[j, at + 1], rows[j, at + 2] = min(8.0, n / lanes) / 4.0, late / n
    if head.mode == TEACH:
        teach(ready, order, latency_s, accelerators, actions)
    else:
        act(rows, head.units, weights_of(system), actions)
    if head.mode != SERVE:
        _disturb(actions, head, noise_of(system))
        _log(ready, order, rows, actions, head, system)
    for j in range(n):
        if not _check(actions[j], latency_s[order[j]]):
            head.invalid += 1
    head.ticks += 1
    head.subjobs += n
    if system.period_s == 0.0:
        count = start_idle(order, actions, latency_s, accelerators, head.hold, answer)
        remember(ready, system, count)
        return count
    stands_still = True
    for s in range(lanes):
        stands_still = stands_still and accelerators[s].request < 0 and accelerators[s].queued == 0
    count = decode(order, actions, latency_s, head.hold, stands_still, answer, priority)
    head.held += n - count
    return count

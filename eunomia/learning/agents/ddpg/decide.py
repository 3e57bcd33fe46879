"""The compiled decision: features, network, decoding; and, in training, the teacher, noise and a log of what was done.

The network (act.py) gives every sub-job a priority a_p, a start margin a_h and a score a_s for every accelerator, in
(-1, 1). With ``residual`` they correct a rule with a bandwidth gate (``edf+f+eft+gG``), else they stand alone:

    priority = - (d + toll V/B - t) / span + a_p             span: mean relative deadline of what waits
    target   = least (free + c) - REACH a_s least (free + c)
    margin   = G - D/B + REACH a_h                           alone: a_h - (D - D at the beginning) / B

Feasible sub-jobs go first, then by priority (ties: earlier deadline). Each starts on its target if that is idle, else
waits; a negative margin holds it. A start changes D and the accelerators' times for those that follow at the same
instant. When nothing runs, the first one goes whatever its margin. At a tick of T_s (D12), each that is not held is
queued at its target. An action that is not a number becomes 0. Beyond ``most`` sub-jobs (D10) actions are 0. Where the
demand is so high that no margin lets anything start, nothing is computed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import SYSTEM
from eunomia.core.addresses import block_of, block_record
from eunomia.core.arrays import Floats, Ints
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.inference.kernel.sorting import sort_rows
from eunomia.learning.agents.ddpg.act import MARGIN, PRIORITY, SCORES, act, act_sets
from eunomia.learning.agents.ddpg.features import N_JOB, describe, press
from eunomia.learning.observation.groups import COLUMNS, by_deadline, gather, sum_ahead
from eunomia.learning.policy.decide import already_decided, remember

Singles = npt.NDArray[np.float32]
SERVE, EXPLORE, TEACH = range(3)  # modes
COUNTED = ("ticks", "subjobs", "held", "invalid")
LOGGED = ("noise_used", "logged_ticks", "logged_rows")
WHOLE = (
    "sets",
    "units",
    "width",
    "promises",
    "residual",
    "most",
    "mode",
    "coherent",
    "every",
    *COUNTED,
    *LOGGED,
)
HEAD = np.dtype([("layer_s", "f8"), ("gate", "f8"), ("toll", "f8"), *((name, "i8") for name in WHOLE)])
# Blocks of the View: head, the actor's numbers; where it explores, noise and the log (episode.py).
head_of = block_record(SYSTEM, 0, HEAD)
weights_of = block_of(SYSTEM, 1, np.float64)
noise_of = block_of(SYSTEM, 2, np.float64)
times_of = block_of(SYSTEM, 3, np.float64)
counts_of = block_of(SYSTEM, 4, np.int64)
rows_of = block_of(SYSTEM, 5, np.float32)
requests_of = block_of(SYSTEM, 6, np.int64)
REACH = 0.5  # of a margin, in B, and of a score, in least finish times
TOP, FALL, FLOOR = 1.2, 0.85, -0.3  # taught priority of the k-th: FLOOR + TOP FALL^k
CHOSEN, OTHER = 0.8, -0.4  # taught scores
LATE = 1e6  # what hopeless sub-jobs lose of their priority


class Scene(NamedTuple):
    """The View's arrays."""

    ready: Record
    latency_s: Floats
    demand: Floats
    accelerators: Record
    system: Record


@jitted
def _disturb(ready: Record, order: Ints, actions: Floats, head: Record, noise: Floats) -> None:
    """a <- clip(a + noise, -1, 1): the same noise for a request at all its ticks (``coherent``), or fresh numbers."""
    outs = actions.shape[1]
    for n in range(len(actions)):
        for a in range(outs):
            at = ready[order[n]].request * outs + a if head.coherent == 1 else head.noise_used
            actions[n, a] = min(max(actions[n, a] + noise[at % len(noise)], -1.0), 1.0)
            head.noise_used += 1


@jitted
def _log(ready: Record, order: Ints, rows: Floats, actions: Floats, head: Record, system: Record) -> None:
    """Append one tick of ``every``, if there is room: time, number of rows; per row features, action and request."""
    times_s, counts, request = times_of(system), counts_of(system), requests_of(system)
    tick, row = head.logged_ticks, head.logged_rows
    n, width, outs = len(rows), rows.shape[1], actions.shape[1]
    if head.ticks % head.every != 0 or tick >= len(times_s) or row + n > len(request):
        return
    times_s[tick], counts[tick] = system.now_s, n
    space = rows_of(system).reshape((len(request), width + outs))
    for j in range(n):
        space[row + j, :width], space[row + j, width:] = rows[j], actions[j]
        request[row + j] = ready[order[j]].request
    head.logged_ticks += 1
    head.logged_rows += n


@jitted
def target_of(latency_s: Floats, free_s: Floats, action: Floats, residual: int) -> int:
    """Accelerator of a sub-job, busy or not; ties: an idle one, then least index. -1 = none can run it."""
    soonest_s = math.inf
    for s in range(len(free_s)):
        soonest_s = min(soonest_s, free_s[s] + latency_s[s])
    best, least = -1, math.inf
    for s in range(len(free_s)):
        if latency_s[s] == math.inf:
            continue
        value = -action[SCORES + s]
        if residual == 1:
            value = free_s[s] + latency_s[s] + REACH * soonest_s * value
        if best < 0 or value < least or (value == least and free_s[s] == 0.0 and free_s[best] > 0.0):
            best, least = s, value
    return best


@jitted
def teach(order: Ints, latency_s: Floats, accelerators: Record, margin: float, actions: Floats) -> None:
    """Fill ``actions`` (n, 2 + S) of sub-jobs in ``order`` with the rule ``edf+f+eft`` and its margin at the gate.

    What starts at once makes its accelerator busy for the rest; what waits reserves nothing.
    """
    free_s, none = np.empty(len(accelerators)), np.zeros(actions.shape[1])
    for s in range(len(accelerators)):
        free_s[s] = accelerators[s].free_in_s
    for j in range(len(actions)):
        actions[j, PRIORITY], actions[j, MARGIN] = FLOOR + TOP * FALL**j, min(max(margin, -1.0), 1.0)
        actions[j, SCORES:] = OTHER
        best = target_of(latency_s[order[j]], free_s, none, 1)
        if best >= 0:
            actions[j, SCORES + best] = CHOSEN
            free_s[best] += latency_s[order[j], best] if free_s[best] == 0.0 else 0.0


@jitted
def prioritise(
    ready: Record, order: Ints, actions: Floats, system: Record, head: Record, key: Floats
) -> None:
    """Fill ``key`` (n,) with the priority of every sub-job in ``order``."""
    span_s, dated = 0.0, 0
    for j in range(len(order)):
        relative_s = ready[order[j]].deadline_s - ready[order[j]].arrival_s
        if relative_s < math.inf:
            span_s += relative_s
            dated += 1
    span_s = span_s / dated if dated > 0 else 1.0
    for j in range(len(order)):
        job = ready[order[j]]
        key[j] = actions[j, PRIORITY] if j < len(actions) else 0.0
        if head.residual == 1:
            due_s = job.deadline_s + head.toll * job.bytes_left / system.bandwidth_bytes_s
            key[j] -= (due_s - system.now_s) / span_s
        key[j] -= LATE * job.late


@jitted
def start_in_turn(
    scene: Scene, order: Ints, actions: Floats, key: Floats, answer: Ints, priority: Floats
) -> int:
    """Write (row, accelerator) and priority of all that starts now, or is queued at a tick; returns their number."""
    _, latency_s, demand, accelerators, system = scene
    head = head_of(system)
    lanes, ticks, bandwidth = len(accelerators), system.period_s > 0.0, system.bandwidth_bytes_s
    free_s, nothing, count, added, rest = np.empty(lanes), True, 0, 0.0, np.zeros(actions.shape[1])
    for s in range(lanes):
        busy = accelerators[s].request >= 0
        free_s[s] = max(accelerators[s].free_in_s, 1e-300) if busy else 0.0
        nothing = nothing and not busy and (accelerators[s].queued == 0 or not ticks)
    ranking, falling = np.empty(len(order), np.int64), np.empty(len(order))
    for j in range(len(order)):
        ranking[j], falling[j] = j, -key[j]
    sort_rows(ranking, falling)
    for rank in range(len(order)):
        j = ranking[rank]
        i, action = order[j], actions[j] if j < len(actions) else rest
        s = target_of(latency_s[i], free_s, action, head.residual)
        if s < 0 or (free_s[s] > 0.0 and not ticks):
            continue
        held = action[MARGIN] < added / bandwidth
        if head.residual == 1:
            held = system.demand_bytes_s + added > (head.gate + REACH * action[MARGIN]) * bandwidth
        if held and not nothing:
            head.held += 1
            continue
        answer[count, 0], answer[count, 1], priority[count] = i, s, key[j]
        count += 1
        nothing = False
        if free_s[s] == 0.0:
            added += demand[i, s]
        if free_s[s] == 0.0 or ticks:
            free_s[s] += max(latency_s[i, s], 1e-300)
    return count


@jitted
def survey(scene: Scene, order: Ints, rows: Floats) -> None:
    """Fill ``order`` (n,), feasible sub-jobs by deadline and then hopeless ones, and the features of the first."""
    ready, latency_s, demand, accelerators, system = scene
    n, lanes, head, lost = len(ready), len(accelerators), head_of(system), 0
    by_time, group_of, groups = np.empty(n, np.int64), np.empty(n, np.int64), np.empty((n, COLUMNS))
    by_deadline(ready, by_time)
    sum_ahead(groups, gather(ready, by_time, group_of, groups))
    count, at = 0, N_JOB + 3 * lanes
    for late in range(2):
        for i in by_time:
            if ready[i].late == late:
                order[count] = i
                count += 1
        lost = n - count if late == 0 else lost
    for j in range(len(rows)):
        i = order[j]
        describe(ready[i], latency_s[i], demand[i], accelerators, system, head, rows[j])
        press(ready[i], groups[group_of[i]], rows[j], head.layer_s, lanes, system)
        rows[j, at + 1], rows[j, at + 2] = min(8.0, n / lanes) / 4.0, lost / n


def decide(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """The policy, as the kernel calls it."""
    n = len(ready)
    if n == 0 or (system.period_s == 0.0 and already_decided(n, system)):
        return 0
    head = head_of(system)
    if head.residual == 1 and system.demand_bytes_s > (head.gate + REACH) * system.bandwidth_bytes_s:
        head.held += n
        return 0
    order, key, some = np.empty(n, np.int64), np.empty(n), min(n, head.most)
    rows, actions = np.empty((some, head.width)), np.zeros((some, SCORES + len(accelerators)))
    scene = Scene(ready, latency_s, demand, accelerators, system)
    survey(scene, order, rows)
    if head.mode != TEACH and head.sets == 1:
        act_sets(rows, len(accelerators), head.units, weights_of(system), actions)
    elif head.mode != TEACH:
        act(rows, head.units, weights_of(system), actions)
    elif head.residual == 0:
        margin = head.gate - system.demand_bytes_s / system.bandwidth_bytes_s
        teach(order, latency_s, accelerators, margin, actions)
    if head.mode != SERVE:
        _disturb(ready, order, actions, head, noise_of(system))
        _log(ready, order, rows, actions, head, system)
    for j in range(some):
        if not np.isfinite(actions[j].sum()):
            actions[j] = 0.0
            head.invalid += 1
    head.ticks += 1
    head.subjobs += n
    prioritise(ready, order, actions, system, head, key)
    count = start_in_turn(scene, order, actions, key, answer, priority)
    if system.period_s == 0.0:
        remember(n, system, count)
    return count

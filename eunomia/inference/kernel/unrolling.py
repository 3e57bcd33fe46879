"""A scheduler that starts one layer at a time, called at a tick: what it would start next, and next, in which order.

With a period, a tick queues waiting sub-jobs and accelerators serve their queues until the next one. A
scheduler that was written for events is called repeatedly on a copy of the View, in which time advances. Its
starts are booked. When it holds, the clock moves to the next accelerator that becomes free, at isolated times
over max(1, D / B). The order of these starts becomes the priority; what it never starts is not queued.

``periods`` ends the simulated clock. Beyond the next tick the scheduler is asked again anyway, and knows more then;
an accelerator starts what is queued for it at once, although the scheduler would hold it until then.

Does badly: successors of what it starts are not there yet, and appear only when the next tick, or the patching of
``period_mode``, places them. An accelerator that is free sooner than estimated waits for the next tick, if nothing
was queued for it within ``periods``.
"""

from __future__ import annotations

import numpy as np

from eunomia.contract.rows import Accelerator, Ready, Rows, System
from eunomia.contract.view import ACCELERATOR, READY, SYSTEM
from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.setup import GRACE_S


@jitted
def _free_next(lanes: Rows[Accelerator], clock: Rows[System]) -> bool:
    """Move the clock to the next end of a layer; False = nothing runs."""
    step_s = np.inf
    for s in range(len(lanes)):
        if lanes[s].request >= 0:
            step_s = min(step_s, lanes[s].free_in_s)
    if step_s == np.inf:
        return False
    clock[0].now_s += step_s * max(1.0, clock[0].demand_bytes_s / clock[0].bandwidth_bytes_s)
    demand = 0.0
    for s in range(len(lanes)):
        if lanes[s].request < 0:
            continue
        lanes[s].free_in_s -= step_s
        if lanes[s].free_in_s <= 1e-12 * step_s:
            lanes[s].free_in_s, lanes[s].last_request, lanes[s].request = 0.0, lanes[s].request, -1
            lanes[s].demand_bytes_s = 0.0
        else:
            demand += lanes[s].demand_bytes_s
    clock[0].demand_bytes_s = demand
    return True


@jitted
def _book(
    i: int,
    s: int,
    left: Rows[Ready],
    latency_s: Floats,
    demand: Floats,
    lanes: Rows[Accelerator],
    clock: Rows[System],
) -> None:
    """Sub-job i runs on accelerator s from now on."""
    lanes[s].request, lanes[s].layer = left[i].request, left[i].layer
    lanes[s].free_in_s, lanes[s].demand_bytes_s = max(latency_s[i, s], 1e-12), demand[i, s]
    clock[0].demand_bytes_s += demand[i, s]
    clock[0].starts += 1


@jitted
def _keep(
    gone: Flags, count: int, left: Rows[Ready], row: Ints, latency_s: Floats, demand: Floats, energy: Floats
) -> int:
    """Close the ranks of those that are left; returns their number."""
    kept = 0
    for i in range(count):
        if not gone[i]:
            left[kept], row[kept] = left[i], row[i]
            for s in range(latency_s.shape[1]):
                latency_s[kept, s], demand[kept, s], energy[kept, s] = (
                    latency_s[i, s],
                    demand[i, s],
                    energy[i, s],
                )
            kept += 1
    return kept


@jitted
def _copy(rows: Floats) -> Floats:
    copy = np.empty(rows.shape)
    for i in range(rows.shape[0]):
        for s in range(rows.shape[1]):
            copy[i, s] = rows[i, s]
    return copy


def plan(ready, latency_s, demand, energy, accelerators, system, answer, priority, decide, periods):  # type: ignore[no-untyped-def]
    """Answer with all that a scheduler would start within ``periods``, in turn, and priorities.

    ``decide`` is called by its address, so that one plan serves all schedulers. Copies are loops: NumPy's take half of
    the time to compile, most of it for the message that shapes differ.
    """
    total, count, queued = len(ready), len(ready), 0
    left, lanes, clock = np.empty(total, READY), np.empty(len(accelerators), ACCELERATOR), np.empty(1, SYSTEM)
    row, gone = np.empty(total, np.int64), np.empty(total, np.bool_)
    for i in range(total):
        left[i], row[i] = ready[i], i
    for s in range(len(lanes)):
        lanes[s] = accelerators[s]
    clock[0] = system
    end_s = system.now_s + periods * system.period_s
    times, demands, energies = _copy(latency_s), _copy(demand), _copy(energy)
    started, ranks = np.empty((total + len(lanes), 2), np.int64), np.empty(total + len(lanes))
    while count > 0:
        for i in range(count):
            late = left[i].deadline_s + GRACE_S < clock[0].now_s + left[i].path_best_s
            left[i].late, gone[i] = 1 if late else 0, False
        starts = decide(
            left[:count], times[:count], demands[:count], energies[:count], lanes, clock[0], started, ranks
        )
        if starts == 0 and not _free_next(lanes, clock):
            break
        if clock[0].now_s > end_s:
            break
        for n in range(starts):
            i, s = started[n, 0], started[n, 1]
            if not (0 <= i < count and 0 <= s < len(lanes)):  # the engine says what is wrong with it
                answer[queued, 0], answer[queued, 1] = row[i] if 0 <= i < count else -1, s
                return queued + 1
            _book(i, s, left, times, demands, lanes, clock)
            answer[queued, 0], answer[queued, 1], priority[queued] = row[i], s, float(total - queued)
            gone[i] = True
            queued += 1
        count = _keep(gone, count, left, row, times, demands, energies)
    for n in range(len(system.memory)):
        system.memory[n] = clock[0].memory[n]
    return queued

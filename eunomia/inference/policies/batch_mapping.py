"""Min-min and max-min: map all ready sub-jobs, one at a time, to the accelerator that finishes them first."""

from __future__ import annotations

import numpy as np

from eunomia.contract.rows import Accelerator, Ready, Rows, System
from eunomia.core.arrays import Floats, Ints
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.sorting import rows_of, sort_rows
from eunomia.inference.policies.compiled import Compiled

CONSIDERED = 64  # most urgent sub-jobs mapped per decision (deviation D10)


@jitted
def _map(
    ready: Rows[Ready],
    latency_s: Floats,
    accelerators: Rows[Accelerator],
    system: System,
    answer: Ints,
    largest: bool,
) -> int:
    """Repeat: take the sub-job whose earliest completion is least (or greatest), book its accelerator.

    A booked accelerator is busy for the sub-jobs mapped after it; only those mapped first on an
    idle accelerator start now. (Ibarra and Kim, JACM 1977; Braun et al., JPDC 2001.)
    """
    count, lanes = min(len(ready), CONSIDERED), len(accelerators)
    order, sequence, due_s = rows_of(len(ready)), np.empty(len(ready)), np.empty(len(ready))
    for i in range(len(ready)):
        sequence[i], due_s[i] = ready[i].sequence, ready[i].deadline_s
    sort_rows(order, sequence)
    sort_rows(order, due_s)
    slow = max(1.0, system.demand_bytes_s / system.bandwidth_bytes_s)
    free_s = np.empty(lanes)
    startable = np.empty(lanes, np.bool_)
    for s in range(lanes):
        free_s[s] = accelerators[s].free_in_s
        startable[s] = accelerators[s].request < 0
    left = np.ones(count, np.bool_)
    answers = 0
    for _ in range(count):
        chosen, chosen_s, chosen_finish = -1, -1, 0.0
        for j in range(count):
            if not left[j]:
                continue
            best_s, best = -1, np.inf
            for s in range(lanes):
                finish = (free_s[s] + latency_s[order[j], s]) * slow
                if finish < best:
                    best_s, best = s, finish
            if best_s < 0:  # no accelerator can run it
                continue
            better = best > chosen_finish if largest else best < chosen_finish
            if chosen < 0 or better:
                chosen, chosen_s, chosen_finish = j, best_s, best
        if chosen < 0:
            break
        left[chosen] = False
        if startable[chosen_s]:
            answer[answers, 0] = order[chosen]
            answer[answers, 1] = chosen_s
            answers += 1
            startable[chosen_s] = False
        free_s[chosen_s] += latency_s[order[chosen], chosen_s]
        if not startable.any():
            break
    return answers


def _min_min(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    return _map(ready, latency_s, accelerators, system, answer, False)


def _max_min(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    return _map(ready, latency_s, accelerators, system, answer, True)


def min_min() -> Compiled:
    """Smallest earliest completion first: short layers never wait for long ones, which may starve."""
    return Compiled(_min_min, "min_min")


def max_min() -> Compiled:
    """Greatest earliest completion first: long layers start early, short ones fill the gaps. Hurts deadlines."""
    return Compiled(_max_min, "max_min")

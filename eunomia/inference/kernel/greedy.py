"""The greedy rule over the View's arrays: the slow, obvious form, used for keys that change with time.

The event loop's heaps give the same answers for static keys (tests/inference); a stepped
``Greedy`` calls this function too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import Records
from eunomia.inference.kernel.setup import ANY_IDLE, EFT_CA, FIRST_IDLE, PREF

Floats = npt.NDArray[np.float64]


@jitted
def greedy_choice(
    key: Callable[..., float],
    ready: Records,
    latency_s: Floats,
    demand: Floats,
    accelerators: Records,
    system: Any,  # one SYSTEM record
    place: int,
    feasible: bool,
    gate: float,
) -> tuple[int, int]:
    """(sub-job, accelerator) to start next; (-1, -1) = hold.

    Among the sub-jobs whose chosen accelerator is idle: on time first (if asked), least key, least sequence.
    """
    if system.demand_bytes_s > gate * system.bandwidth_bytes_s:
        return -1, -1
    tiered = feasible or system.late_last == 1
    best, best_s, best_late, best_key = -1, -1, 0, 0.0
    for i in range(len(ready)):
        late = ready[i].late if tiered else 0
        value = key(ready[i], system)
        if best >= 0:
            if late != best_late:
                if late > best_late:
                    continue
            elif value > best_key or (value == best_key and ready[i].sequence > ready[best].sequence):
                continue
        s = place_over_view(i, latency_s, demand, accelerators, system, place)
        if s >= 0:
            best, best_s, best_late, best_key = i, s, late, value
    return best, best_s


@jitted
def place_over_view(
    i: int, latency_s: Floats, demand: Floats, accelerators: Records, system: Any, place: int
) -> int:
    """The idle accelerator that a placement rule gives sub-job i of the view; -1 = hold."""
    slow = max(1.0, system.demand_bytes_s / system.bandwidth_bytes_s)
    if place == PREF:
        kind, shortest = -1, np.inf
        for s in range(len(accelerators)):
            value = latency_s[i, s]
            if kind < 0 or value < shortest or (value == shortest and accelerators[s].type < kind):
                kind, shortest = accelerators[s].type, value
        for s in range(len(accelerators)):
            if accelerators[s].type == kind and accelerators[s].request < 0:
                return s
        return -1
    chosen, idle, least = -1, False, np.inf
    for s in range(len(accelerators)):
        value = latency_s[i, s]
        is_idle = accelerators[s].request < 0
        if value == np.inf or (place in (ANY_IDLE, FIRST_IDLE) and not is_idle):
            continue
        if place == FIRST_IDLE:
            return s
        if place == ANY_IDLE:
            finish_s = value
        elif place == EFT_CA:
            own = max(1.0, (system.demand_bytes_s + demand[i, s]) / system.bandwidth_bytes_s)
            finish_s = accelerators[s].free_in_s * slow + value * own
        else:
            finish_s = (accelerators[s].free_in_s + value) * slow
        if finish_s < least or (finish_s == least and is_idle and not idle):
            chosen, idle, least = s, is_idle, finish_s
    return chosen if idle else -1

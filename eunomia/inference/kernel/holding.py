"""Which standing heap gives the next sub-job: the placement rule is asked about one after the other."""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, facts_at, heap_at, heap_estimate_at, standing_at, type_at
from eunomia.inference.kernel.placement import choose
from eunomia.inference.kernel.setup import WIDE

NEARLY = 1.0 + 1e-9  # what rounding may make of 1


@jitted
def first_heap(k: Kernel, before: int) -> tuple[int, int]:
    """Of the heaps whose first node can start, the one that goes before all others: its place, where it starts.

    -1 = hold. ``before``: the place of the one that started before at this instant, -1 = none has. Those that went
    before that one were held, and are, as no accelerator has become idle since, unless rounding decided it.
    """
    top = k.num_standing - 1
    if before < 0 or k.sieved == 0:
        k.unclear = 0
    elif k.unclear == 0:
        top = min(top, before)
    for at in range(top, -1, -1):
        s = place_first(k, standing_at(k, at).value)
        if s >= 0:
            return at, s
    return -1, -1


@jitted
def place_first(k: Kernel, heap: int) -> int:
    """The idle accelerator that the rule gives the first sub-job of a heap; -1 = hold."""
    if k.sieved == 1:
        idle_s, busy_s = _finish(k, heap)
        if idle_s > busy_s * NEARLY:
            return -1
        s = _clearly_best(k, heap, idle_s * NEARLY, busy_s)
        if s >= 0:
            return s
        k.unclear = 1
    return choose(k, k.place, facts_at(k, heap_at(k, heap).node).row)


@jitted
def _finish(k: Kernel, heap: int) -> tuple[float, float]:
    """Least isolated time until an idle accelerator ends the first sub-job, and a busy one; four types at a time."""
    idle_s, busy_s, at = np.inf, np.inf, heap * k.wide_types
    for kind in range(0, k.num_types, WIDE):
        a, b = heap_estimate_at(k, at + kind).value, heap_estimate_at(k, at + kind + 1).value
        c, d = heap_estimate_at(k, at + kind + 2).value, heap_estimate_at(k, at + kind + 3).value
        p, q, r, s = type_at(k, kind), type_at(k, kind + 1), type_at(k, kind + 2), type_at(k, kind + 3)
        here_s = min(min(a + p.start_s, b + q.start_s), min(c + r.start_s, d + s.start_s))
        there_s = min(min(a + p.free_s, b + q.free_s), min(c + r.free_s, d + s.free_s))
        idle_s, busy_s = min(idle_s, here_s), min(busy_s, there_s)
    return idle_s, busy_s


@jitted
def _clearly_best(k: Kernel, heap: int, bar_s: float, busy_s: float) -> int:
    """The idle accelerator that alone ends it by ``bar_s``, while no busy one does; -1 = there is none."""
    chosen, found = -1, 0
    for kind in range(k.num_types):
        mine = type_at(k, kind)
        ends = heap_estimate_at(k, heap * k.wide_types + kind).value + mine.start_s <= bar_s
        chosen, found = mine.idle if ends else chosen, found + (1 if ends else 0)
    return chosen if found == 1 and bar_s < busy_s else -1

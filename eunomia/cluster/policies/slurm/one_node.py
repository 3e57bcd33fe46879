"""Slurm's backfill where all GPUs stand on one node, as slurmctld 22.05 was seen to do it. Compiled.

Its map of the future knows nodes, not GPUs: whoever is reserved on a node takes all of it, so a later job starts there
now only if its limit ends before. When a job could start at the earliest comes from the running jobs' limits, which are
looked at in windows of 30, 60, 120 ... s (``bf_window_linear`` in slurm.conf(5)): it waits for the last of a window.
Reservations are cut to whole ``resolution_s`` (bf_resolution).
"""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.compiled import compiled

FIRST_WINDOW_S = 30.0
Running = tuple[Floats, Ints, Ints]  # expected end (R,), type (R,), devices (R,)


@compiled(keep=False)
def first_start(
    count: int, kind: int, now_s: float, free: Ints, running: Running, order: Ints, size: int
) -> float:
    """When running jobs alone leave ``count`` devices of a type; inf = never. ``order``: by end."""
    if free[kind] >= count:
        return now_s
    end_s, kinds, counts = running
    left, window_s, at = free[kind], FIRST_WINDOW_S, 0
    while at < size:
        begin_s = end_s[order[at]]
        last_s = begin_s
        while at < size and end_s[order[at]] <= begin_s + window_s:
            last_s = end_s[order[at]]
            if kinds[order[at]] == kind:
                left += counts[order[at]]
            at += 1
        if left >= count:
            return float(max(last_s, now_s))
        window_s *= 2.0
    return np.inf


@compiled
def plan_node(
    count: Ints,
    limit_s: Floats,
    speed: Floats,
    now_s: float,
    free: Ints,
    running: Running,
    ahead: tuple[float, float],
) -> Ints:
    """Type (n,) on which each job starts now, -1 = waits; jobs in order of priority. ``free`` (J,) is changed.

    ``limit_s`` (n, J): inf = cannot run there. ``ahead``: how far reservations are kept, and their resolution.
    """
    window_s, resolution_s = ahead
    jobs, ran = len(count), len(running[0])
    end_s, kinds, counts = (
        np.full(ran + jobs, np.inf),
        np.zeros(ran + jobs, np.int64),
        np.zeros(ran + jobs, np.int64),
    )
    end_s[:ran], kinds[:ran], counts[:ran] = running
    order, size = np.argsort(end_s), ran
    begins, ends, kept = np.zeros(jobs), np.zeros(jobs), 0  # reservations of the node
    chosen = np.full(jobs, -1, np.int64)
    for m in range(jobs):
        best, first_s = -1, np.inf
        for j in range(len(free)):
            if limit_s[m, j] < np.inf:
                at_s = first_start(count[m], j, now_s, free, (end_s, kinds, counts), order, size)
                if at_s < first_s or (at_s == first_s and best >= 0 and speed[m, j] > speed[m, best]):
                    best, first_s = j, at_s
        if best < 0:
            continue
        try_s, start_s, length_s = now_s, first_s, limit_s[m, best]
        while try_s < np.inf:
            later_s, blocked = np.inf, False
            for r in range(kept):
                for edge_s in (begins[r], ends[r]):
                    if edge_s > try_s:
                        later_s = min(later_s, edge_s)
                blocked |= ends[r] > try_s and begins[r] <= try_s + length_s
            start_s = max(first_s, try_s)
            if not blocked and start_s <= later_s:
                break
            try_s = later_s
        if try_s == np.inf:
            continue
        if start_s <= now_s:
            chosen[m] = best
            free[best] -= count[m]
            end_s[size], kinds[size], counts[size] = now_s + length_s, best, count[m]
            size += 1
            order = np.argsort(end_s)
        elif start_s <= now_s + window_s:
            begins[kept] = np.floor(start_s / resolution_s) * resolution_s
            ends[kept] = np.floor((start_s + length_s) / resolution_s) * resolution_s
            kept += 1
    return chosen

"""Waiting sub-jobs gathered by request, and what lies ahead of each request; compiled."""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.inference.kernel.sorting import rows_of, sort_rows

# Columns of the table of waiting requests.
DUE, REMAINING, VOLUME, PATH, ISO, LATE, LAYERS = range(7)
AHEAD_EDF, AHEAD_EDF_BYTES, AHEAD_SJF, AHEAD_SJF_BYTES = range(7, 11)
COLUMNS = 11


@jitted
def before(ready: Record, i: int, j: int) -> bool:
    """Order by deadline, then request, then sequence."""
    a, b = ready[i], ready[j]
    if a.deadline_s != b.deadline_s:
        return a.deadline_s < b.deadline_s  # type: ignore[no-any-return]
    if a.request != b.request:
        return a.request < b.request  # type: ignore[no-any-return]
    return a.sequence < b.sequence  # type: ignore[no-any-return]


@jitted
def by_deadline(ready: Record, order: Ints) -> None:
    """Indices of sub-jobs in the order of ``before``."""
    count = len(ready)
    for i in range(count):
        order[i] = i
    if count > 48:  # nearly sorted from here on
        due = np.empty(count)
        for i in range(count):
            due[i] = ready[i].deadline_s
        sort_rows(order, due)
    for n in range(1, count):
        i, place = order[n], n
        while place > 0 and before(ready, i, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = i


@jitted
def gather(ready: Record, order: Ints, group_of: Ints, groups: Floats) -> int:
    """Fill one row per waiting request, in order of deadline; returns their number."""
    count = 0
    for n in range(len(ready)):
        i = order[n]
        job = ready[i]
        if n == 0 or ready[order[n - 1]].request != job.request:
            count += 1
        group_of[i] = g = count - 1
        groups[g, DUE], groups[g, REMAINING] = job.deadline_s, job.work_best_s
        groups[g, VOLUME] = job.bytes_left
        groups[g, PATH], groups[g, ISO], groups[g, LATE] = job.path_best_s, job.iso_best_s, job.late
        groups[g, LAYERS] = job.layers_total
    return count


@jitted
def sum_ahead(groups: Floats, count: int) -> None:
    """Work and bytes of the feasible requests ahead of each: earlier deadlines, and less work."""
    work, data, first = 0.0, 0.0, 0
    for g in range(count):
        groups[g, AHEAD_EDF], groups[g, AHEAD_EDF_BYTES] = work, data
        if groups[g, LATE] == 0.0:
            work += groups[g, REMAINING]
            data += groups[g, VOLUME]
    order, remaining = rows_of(count), np.empty(count)
    for g in range(count):
        remaining[g] = groups[g, REMAINING]
    sort_rows(order, remaining)
    work, data = 0.0, 0.0
    for n in range(count):
        g = order[n]
        while groups[order[first], REMAINING] < groups[g, REMAINING]:  # strictly shorter ones only
            if groups[order[first], LATE] == 0.0:
                work += groups[order[first], REMAINING]
                data += groups[order[first], VOLUME]
            first += 1
        groups[g, AHEAD_SJF], groups[g, AHEAD_SJF_BYTES] = work, data

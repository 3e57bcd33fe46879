"""Rows for small cases that no linear program has: whole requests, whole layers, one layer at a time."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.metrics.bounds.formulate import Parts, Shares
from eunomia.metrics.bounds.instance import Instance
from eunomia.metrics.bounds.program import Builder


def sequence(build: Builder, instance: Instance, parts: Parts, share: Shares, unit_s: float) -> Ints:
    """Add starts, ends and the order on each accelerator; returns the columns that must be whole.

    Every part is one layer (``segments = 0``). For layers u, v of served requests: the end of u is at least its
    time on its type after its start; who depends on u starts after that end; and of two layers on one accelerator
    one starts after the other's end. Contention, switching and waiting only lengthen what lies between start and
    end, so every schedule satisfies these rows. Many requests make the search for the optimum hopeless.
    """
    window = parts.end_s - parts.start_s
    start, end = build.columns(window / unit_s), build.columns(window / unit_s)
    origin = parts.start_s / unit_s
    lasts = build.rows(np.zeros(len(start)), np.full(len(start), np.inf))
    build.put(lasts, end, 1.0)
    build.put(lasts, start, -1.0)
    owner = parts.first[share.request] + share.segment
    build.put(lasts[owner], share.column, -share.work_s / unit_s)
    before = _before(instance, parts)
    least_s = np.full(len(start), np.inf)
    np.minimum.at(least_s, owner, share.work_s)
    lanes = _lanes(build, instance, share, owner, len(start))
    order = []
    for u, v in zip(*np.nonzero(before), strict=True):
        _after(build, end[u], start[v], origin[u] - origin[v])
    for u, v in combinations(range(len(start)), 2):
        overlap = min(parts.end_s[u], parts.end_s[v]) > max(parts.start_s[u], parts.start_s[v])
        if parts.request[u] == parts.request[v] and (before[u, v] or before[v, u]) or not overlap:
            continue
        shared = [(lane[u], lane[v]) for lane in lanes if lane[u] >= 0 and lane[v] >= 0]
        if not shared:
            continue
        both = build.columns(np.array([_possible(parts, least_s, a, b) for a, b in ((u, v), (v, u))]))
        order.append(both)
        for (a, b), x in zip(((u, v), (v, u)), both, strict=True):  # x = 1: b starts after a has ended
            far = (parts.end_s[a] - parts.start_s[b]) / unit_s
            _after(build, end[a], start[b], origin[a] - origin[b], int(x), far)
        for one, other in shared:
            row = build.rows(np.array([-1.0]), np.array([np.inf]))
            build.put(np.repeat(row, 4), np.array([*both, one, other]), np.array([1.0, 1.0, -1.0, -1.0]))
    chosen = [lane[lane >= 0] for lane in lanes]
    return np.unique(np.concatenate([share.column, *chosen, *order]))


def _possible(parts: Parts, least_s: Floats, a: int, b: int) -> float:
    """1 where layer b can start after a has ended, 0 where their windows forbid it."""
    return float(parts.start_s[a] + least_s[a] + least_s[b] <= parts.end_s[b])


def _after(build: Builder, end: int, start: int, shift: float, x: int = -1, far: float = 0.0) -> None:
    """start - end >= shift, given up by ``far`` where the binary ``x`` is 0."""
    bound = shift if x < 0 else shift - max(far, 0.0)
    row = build.rows(np.array([bound]), np.array([np.inf]))
    build.put(np.repeat(row, 2), np.array([start, end]), np.array([1.0, -1.0]))
    if x >= 0:
        build.put(row, np.array([x]), -max(far, 0.0))


def _before(instance: Instance, parts: Parts) -> Flags:
    """(parts, parts): the second needs the first's end."""
    before = np.zeros((len(parts.request), len(parts.request)), np.bool_)
    for r, m in enumerate(instance.model):
        for layer, direct in enumerate(instance.models[m].predecessors):
            for other in direct:
                before[parts.first[r] + other, parts.first[r] + layer] = True
                before[:, parts.first[r] + layer] |= before[:, parts.first[r] + other]
    return before


def _lanes(build: Builder, instance: Instance, share: Shares, owner: Ints, count: int) -> list[Ints]:
    """For each accelerator (parts,) the column that says whether the layer runs there; -1 = it cannot."""
    lanes = []
    for t, size in enumerate(instance.count.astype(int)):
        mine = np.flatnonzero(share.kind == t)
        if size == 1:
            lanes.append(_at(owner[mine], share.column[mine], count))
            continue
        row = build.rows(np.zeros(len(mine)), np.zeros(len(mine)))
        build.put(row, share.column[mine], -1.0)
        for _ in range(size):
            column = build.columns(np.ones(len(mine)))
            build.put(row, column, 1.0)
            lanes.append(_at(owner[mine], column, count))
    return lanes


def _at(index: Ints, value: Ints, count: int) -> Ints:
    found = np.full(count, -1, np.int64)
    found[index] = value
    return found

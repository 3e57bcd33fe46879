"""The linear program of the clairvoyant bound (docs/bounds.md), block by block."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.metrics.bounds.instance import Instance
from eunomia.metrics.bounds.program import Builder
from eunomia.metrics.bounds.windows import AUTO_EVENTS, cut_points, overlaps


@dataclass(frozen=True, eq=False)
class Parts:
    """(request, segment) pairs of all requests in question, and when each may run."""

    request: Ints  # (parts,)
    segment: Ints  # (parts,) within its model
    first: Ints  # (requests,) part of each request's segment 0
    start_s: Floats
    end_s: Floats

    @classmethod
    def of(cls, instance: Instance) -> Parts:
        """All parts, requests in order."""
        counts = np.array([len(d.head_s) for d in instance.demands], np.int64)[instance.model]
        first = np.cumsum(counts) - counts
        request = np.repeat(np.arange(len(counts)), counts)
        segment = np.arange(len(request)) - first[request]
        head = np.concatenate([d.head_s for d in instance.demands])
        tail = np.concatenate([d.tail_s for d in instance.demands])
        base = np.cumsum([0, *(len(d.head_s) for d in instance.demands)])[instance.model][request]
        return cls(
            request,
            segment,
            first,
            instance.start_s[request] + head[base + segment],
            instance.end_s[request] - tail[base + segment],
        )


def cut(instance: Instance, intervals: int | None) -> Floats:
    """Points of the intervals: of the segments' windows where they are few or asked for, else of the requests'."""
    parts = Parts.of(instance)
    if intervals == 0 or (intervals is None and len(parts.request) <= AUTO_EVENTS):
        return cut_points(parts.start_s, parts.end_s, 0)
    return cut_points(instance.start_s, instance.end_s, intervals)


@dataclass(frozen=True, eq=False)
class Shares:
    """Columns f[r, q, t], one row each: whose, of which part's segment, on which type."""

    column: Ints
    request: Ints
    segment: Ints
    kind: Ints
    work_s: Floats
    dram_bytes: Floats


@dataclass(frozen=True, eq=False)
class Formulated:
    """A program that can be added to: the columns of y and f, and its unit of time."""

    build: Builder
    y: Ints
    parts: Parts
    share: Shares
    unit_s: float


def formulate(instance: Instance, points_s: Floats, gain: Floats | float, tied: bool = False) -> Formulated:
    """The program without extra objectives. ``tied``: bytes move while their layer runs.

    The unit of time is the models' mean critical path, that of bytes what B moves in that time. So
    coefficients are near 1.
    """
    build = Builder()
    y = build.columns(np.ones(len(instance.open)), gain)
    parts = Parts.of(instance)
    unit_s = float(np.mean([d.path_s for d in instance.demands])) or 1.0
    part, interval, length_s = overlaps(parts.start_s, parts.end_s, points_s)
    length, limited = length_s / unit_s, math.isfinite(instance.bandwidth_bytes_s)
    share = _shares(build, instance, y)
    work = _work(build, instance, parts, y, share, unit_s, (part, interval, length), points_s)
    if limited:
        volume = instance.bandwidth_bytes_s * unit_s
        moved = _bytes(build, parts, share, volume, (part, interval, length), np.diff(points_s) / unit_s)
        if tied:
            _tie(build, instance, parts.request[part], parts.segment[part], work, moved)
    return Formulated(build, y, parts, share, unit_s)


def _shares(build: Builder, instance: Instance, y: Ints) -> Shares:
    """f[r, q, t] in [0, 1] for types able to run group q; sum_t f[r, q, t] = y_r."""
    pieces = []
    for m, demand in enumerate(instance.demands):
        mine = np.flatnonzero(instance.model == m)
        group, kind = np.nonzero(np.isfinite(demand.work_s))
        request = np.repeat(mine, len(group))
        g, t = np.tile(group, len(mine)), np.tile(kind, len(mine))
        column = build.columns(np.ones(len(request)))
        row = build.rows(np.zeros(len(mine) * len(demand.work_s)), np.zeros(len(mine) * len(demand.work_s)))
        build.put(
            np.repeat(np.arange(len(mine)), len(group)) * len(demand.work_s)
            + g
            + (row[0] if len(row) else 0),
            column,
            1.0,
        )
        build.put(row, np.repeat(y[mine], len(demand.work_s)), -1.0)
        pieces.append((column, request, demand.segment[g], t, demand.work_s[g, t], demand.dram_bytes[g, t]))
    return Shares(*(np.concatenate(part) for part in zip(*pieces, strict=True)))


def _work(
    build: Builder,
    instance: Instance,
    parts: Parts,
    y: Ints,
    share: Shares,
    unit_s: float,
    overlap: tuple[Ints, Ints, Floats],
    points_s: Floats,
) -> Ints:
    """W[r, k, t, i]: work of a part on a type in an interval.

    sum_i W = sum_q T f; sum W <= count_t * length_i; sum_t W <= width * y_r * |window and interval|.
    """
    part, interval, length = overlap
    types, lengths = len(instance.count), np.diff(points_s) / unit_s
    width = np.minimum([d.width for d in instance.demands], instance.count.sum())[instance.model]
    room = width[parts.request[part]] * length
    kinds = np.arange(types)
    high = np.minimum(room[:, None], instance.count[None, :] * length[:, None])
    column = build.columns(high.ravel()).reshape(len(part), types)
    done = build.rows(np.zeros(len(parts.request) * types), np.zeros(len(parts.request) * types))
    build.put((part[:, None] * types + kinds + done[0]).ravel(), column.ravel(), -1.0)
    owner = parts.first[share.request] + share.segment
    build.put(owner * types + share.kind + done[0], share.column, share.work_s / unit_s)
    capacity = (instance.count[:, None] * lengths[None, :]).ravel()
    held = build.rows(np.full(len(capacity), -np.inf), capacity)
    build.put((kinds * len(lengths) + interval[:, None] + held[0]).ravel(), column.ravel(), 1.0)
    _at_once(build, y[parts.request[part]], room, np.arange(len(part)), column)
    if len(parts.first) < len(parts.request):  # several segments: together no more than the request may run
        keys, index = np.unique(parts.request[part] * len(lengths) + interval, return_inverse=True)
        request, i = keys // len(lengths), keys % len(lengths)
        low = np.maximum(instance.start_s[request], points_s[i])
        reach = width[request] * (np.minimum(instance.end_s[request], points_s[i + 1]) - low) / unit_s
        _at_once(build, y[request], reach, index, column)
    return column


def _at_once(build: Builder, y: Ints, room: Floats, index: Ints, column: Ints) -> None:
    """sum over columns of one index <= y * room."""
    row = build.rows(np.full(len(room), -np.inf), np.zeros(len(room)))
    build.put(np.repeat(row[index], column.shape[1]), column.ravel(), 1.0)
    build.put(row, y, -room)


def _bytes(
    build: Builder,
    parts: Parts,
    share: Shares,
    unit_bytes: float,
    overlap: tuple[Ints, Ints, Floats],
    lengths: Floats,
) -> Ints:
    """b[r, k, i]: sum_i b = bytes of the part; b <= B * |window and interval|; sum b <= B * length_i."""
    part, interval, length = overlap
    column = build.columns(length)
    moved = build.rows(np.zeros(len(parts.request)), np.zeros(len(parts.request)))
    build.put(moved[part], column, -1.0)
    build.put(moved[parts.first[share.request] + share.segment], share.column, share.dram_bytes / unit_bytes)
    held = build.rows(np.full(len(lengths), -np.inf), lengths)
    build.put(held[interval], column, 1.0)
    return column


def _tie(build: Builder, instance: Instance, request: Ints, segment: Ints, work: Ints, moved: Ints) -> None:
    """Bytes move while their layer runs: sum_t least[t] W[r, k, t, i] <= b[r, k, i] <= sum_t most[t] W[r, k, t, i]."""
    base = np.cumsum([0, *(len(d.head_s) for d in instance.demands)])[instance.model][request]
    rows = np.arange(len(moved))
    for limit, side in (("least_bytes_s", 1.0), ("most_bytes_s", -1.0)):
        rate = np.concatenate([getattr(d, limit) for d in instance.demands])[base + segment]
        row = build.rows(np.full(len(rows), -np.inf), np.zeros(len(rows)))
        build.put(
            np.repeat(row, rate.shape[1]), work.ravel(), side * rate.ravel() / instance.bandwidth_bytes_s
        )
        build.put(row, moved, -side)

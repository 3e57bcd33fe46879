"""The compiled core of a round: who runs where, and on which servers."""

from __future__ import annotations

import numpy as np

from eunomia.core.compiled import compiled

PACK, STRIDED, SPREAD = 0, 1, 2


@compiled
def pick(entry_unit, entry_type, first, second, scale, free, taken, work):  # type: ignore[no-untyped-def]
    """Serve entries in order: a unit (a job, or a pair of jobs) takes a type if it fits and no member is placed.

    ``entry_unit``, ``entry_type`` (E,): the queue. ``first``, ``second`` (U,): members, -1 = none. ``free``
    (J,): devices
    left, changed. ``taken`` (jobs,): members placed, changed. ``work`` (U,): types chosen, -1 = waits, changed.
    """
    for e in range(len(entry_unit)):
        unit, kind = entry_unit[e], entry_type[e]
        if free[kind] < scale[unit] or taken[first[unit]]:
            continue
        if second[unit] >= 0 and taken[second[unit]]:
            continue
        free[kind] -= scale[unit]
        taken[first[unit]] = True
        if second[unit] >= 0:
            taken[second[unit]] = True
        work[unit] = kind


@compiled
def place(  # type: ignore[no-untyped-def]
    order, kind, scale, pointer, held_server, held_count, free, start, end, rack, style, out
):
    """Give units their servers: larger ones first, each where it was if type and size are
    the same and that is free, else by ``style``.

    ``order`` (n,): units by decreasing scale. ``pointer`` (U + 1,): a unit's former servers and counts, empty = none.
    ``free`` (S,): devices left, changed. ``start``, ``end`` (J,): servers of a type. ``out`` (H, 3): unit,
    server, count,
    written. Returns the number of rows written, or -1 - unit for a unit whose devices cannot be found.
    """
    rows = 0
    group = 0
    while group < len(order):
        after = group
        while after < len(order) and scale[order[after]] == scale[order[group]]:
            after += 1
        kept = np.zeros(after - group, np.bool_)
        for i in range(group, after):
            unit = order[i]
            low, high = pointer[unit], pointer[unit + 1]
            if low == high:
                continue
            stays, total = True, 0
            for h in range(low, high):
                server = held_server[h]
                total += held_count[h]
                if free[server] < held_count[h] or server < start[kind[unit]] or server >= end[kind[unit]]:
                    stays = False
            if stays and total == scale[unit]:
                kept[i - group] = True
                for h in range(low, high):
                    free[held_server[h]] -= held_count[h]
                    out[rows, 0], out[rows, 1], out[rows, 2] = unit, held_server[h], held_count[h]
                    rows += 1
        for i in range(group, after):
            if not kept[i - group]:
                rows = _assign(order[i], kind, scale, free, start, end, rack, style, out, rows)
                if rows < 0:
                    return rows
        group = after
    return rows


@compiled(keep=False)
def _assign(unit, kind, scale, free, start, end, rack, style, out, rows):  # type: ignore[no-untyped-def]
    need, low, high = scale[unit], start[kind[unit]], end[kind[unit]]
    if style == 0:  # pack: the fullest server that takes all of it
        best = -1
        for s in range(low, high):
            if free[s] >= need and (best < 0 or free[s] < free[best]):
                best = s
        if best >= 0:
            free[best] -= need
            out[rows, 0], out[rows, 1], out[rows, 2] = unit, best, need
            return rows + 1
        chosen = _rack_for(need, low, high, free, rack)
        while need > 0:  # few servers: the emptiest first, within one rack if one rack has enough
            best = -1
            for s in range(low, high):
                if free[s] > 0 and (chosen < 0 or rack[s] == chosen) and (best < 0 or free[s] > free[best]):
                    best = s
            if best < 0:
                return -1 - unit
            part = min(free[best], need)
            free[best] -= part
            need -= part
            out[rows, 0], out[rows, 1], out[rows, 2] = unit, best, part
            rows += 1
        return rows
    if style == 1:  # strided: servers in order
        for s in range(low, high):
            if free[s] > 0 and need > 0:
                part = min(free[s], need)
                free[s] -= part
                need -= part
                out[rows, 0], out[rows, 1], out[rows, 2] = unit, s, part
                rows += 1
        return rows if need == 0 else -1 - unit
    first = rows
    while need > 0:  # spread: one device at a time from the emptiest server
        best = -1
        for s in range(low, high):
            if free[s] > 0 and (best < 0 or free[s] > free[best]):
                best = s
        if best < 0:
            return -1 - unit
        free[best] -= 1
        need -= 1
        found = False
        for r in range(first, rows):
            if out[r, 1] == best:
                out[r, 2] += 1
                found = True
        if not found:
            out[rows, 0], out[rows, 1], out[rows, 2] = unit, best, 1
            rows += 1
    return rows


@compiled(keep=False)
def _rack_for(need, low, high, free, rack):  # type: ignore[no-untyped-def]
    """The rack with the fewest free devices that still takes all of it; -1 = none does."""
    best, least = -1, 0
    s = low
    while s < high:
        here, total = rack[s], 0
        while s < high and rack[s] == here:
            total += free[s]
            s += 1
        if total >= need and (best < 0 or total < least):
            best, least = here, total
    return best

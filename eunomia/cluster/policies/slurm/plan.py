"""Backfill over time limits: who starts now, and who is reserved when. Compiled; one profile of free devices per type.

A profile is a step function: ``free[j, i]`` devices from ``time[j, i]`` until the next entry, ``size[j]`` entries. Jobs
come in the order in which they are served. ``limit_s`` (n, J): inf = cannot run there.
"""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.compiled import compiled

NONE, EASY, ALL = 0, 1, 2  # who is reserved: nobody (the head blocks), the head, everybody
Profiles = tuple[Floats, Ints, Ints]  # time (J, room), free (J, room), size (J,)


def profiles(now_s: float, free: Ints, kind: Ints, end_s: Floats, count: Ints, jobs: int) -> Profiles:
    """Free now, and what running jobs (``kind``, ``end_s``, ``count``) give back; room to reserve for ``jobs``."""
    types = len(free)
    room = int(np.bincount(kind, minlength=types).max(initial=0)) + 2 + 4 * jobs
    time, level = np.full((types, room), np.inf), np.zeros((types, room), np.int64)
    size = np.ones(types, np.int64)
    for j in range(types):
        here = np.flatnonzero(kind == j)
        order = here[np.argsort(end_s[here], kind="stable")]
        time[j, 0], level[j, 0] = now_s, free[j]
        time[j, 1 : len(order) + 1] = end_s[order]
        level[j, 1 : len(order) + 1] = free[j] + np.cumsum(count[order])
        size[j] = len(order) + 1
    return time, level, size


@compiled(keep=False)
def earliest(time: Floats, free: Ints, size: int, length_s: float, count: int) -> float:
    """First time from which ``count`` devices are free for ``length_s``; inf = never."""
    start = np.inf
    for i in range(size):
        if free[i] < count:
            start = np.inf
            continue
        if start == np.inf:
            start = time[i]
        if i + 1 == size or time[i + 1] >= start + length_s:
            return start
    return np.inf


@compiled(keep=False)
def reserve(time: Floats, free: Ints, size: int, start_s: float, end_s: float, count: int) -> int:
    """Take ``count`` devices (give back, where negative) during [start, end); the new number of entries."""
    for at in (start_s, end_s):
        i = 0
        while i < size and time[i] < at:
            i += 1
        if at == np.inf or (i < size and time[i] == at):
            continue
        for k in range(size, i, -1):
            time[k] = time[k - 1]
            free[k] = free[k - 1]
        time[i] = at
        free[i] = free[i - 1]
        size += 1
    for i in range(size):
        if start_s <= time[i] < end_s:
            free[i] -= count
    return size


@compiled
def plan(
    count: Ints, limit_s: Floats, speed: Floats, profile: Profiles, how: int, window_s: float, start: Floats
) -> Ints:
    """Type (n,) that each job starts on or is reserved on, -1 = none; ``start`` (n,) in place.

    A job goes where it would end first, by its limit; ``speed`` (n, J) breaks ties. A reservation that would begin
    later than ``window_s`` from now is not kept.
    """
    time, free, size = profile
    now_s = time[0, 0]
    chosen = np.full(len(count), -1, np.int64)
    reserved = 0
    for m in range(len(count)):
        best, begins, ends = -1, np.inf, np.inf
        now, now_ends = -1, np.inf
        for j in range(len(size)):
            if limit_s[m, j] == np.inf:
                continue
            begin = earliest(time[j], free[j], size[j], limit_s[m, j], count[m])
            end = begin + limit_s[m, j]
            if end < ends or (end == ends and best >= 0 and speed[m, j] > speed[m, best]):
                best, begins, ends = j, begin, end
            if begin <= now_s and (end < now_ends or (end == now_ends and speed[m, j] > speed[m, now])):
                now, now_ends = j, end
        if best < 0:
            continue
        if begins > now_s and how == NONE:
            break
        if begins > now_s and how == EASY and reserved > 0:
            if now < 0:
                continue
            best, begins = now, now_s
        if begins > now_s + window_s:
            continue
        chosen[m], start[m] = best, begins
        reserved += begins > now_s
        size[best] = reserve(time[best], free[best], size[best], begins, begins + limit_s[m, best], count[m])
    return chosen


@compiled
def keep(count: Ints, limit_s: Floats, speed: Floats, profile: Profiles, kind: Ints, start: Floats) -> None:
    """Reservations that only ever move forward: ``kind`` (n,), -1 = none yet, and ``start`` (n,), both in place.

    Those that still fit are laid down, the earliest first. Then each job may move to where it ends sooner, and jobs
    without a reservation find the first gap. What no longer fits (a job beyond its limit, a broken server) is reserved
    anew.
    """
    time, free, size = profile
    now_s = time[0, 0]
    for m in np.argsort(start):
        j = kind[m]
        if j < 0:
            continue
        begin = max(start[m], now_s)
        if limit_s[m, j] < np.inf and _fits(
            time[j], free[j], size[j], begin, begin + limit_s[m, j], count[m]
        ):
            start[m] = begin
            size[j] = reserve(time[j], free[j], size[j], begin, begin + limit_s[m, j], count[m])
        else:
            kind[m] = -1
    for m in range(len(count)):
        ends = np.inf
        if kind[m] >= 0:
            j = kind[m]
            ends = start[m] + limit_s[m, j]
            size[j] = reserve(time[j], free[j], size[j], start[m], ends, -count[m])
        for j in range(len(size)):
            if limit_s[m, j] == np.inf:
                continue
            begin = earliest(time[j], free[j], size[j], limit_s[m, j], count[m])
            end = begin + limit_s[m, j]
            if end < ends or (end == ends and kind[m] >= 0 and speed[m, j] > speed[m, kind[m]]):
                kind[m], start[m], ends = j, begin, end
        j = kind[m]
        if j >= 0:
            size[j] = reserve(time[j], free[j], size[j], start[m], ends, count[m])


@compiled(keep=False)
def _fits(time: Floats, free: Ints, size: int, start_s: float, end_s: float, count: int) -> bool:
    for i in range(size):
        after = time[i + 1] if i + 1 < size else np.inf
        if after > start_s and time[i] < end_s and free[i] < count:
            return False
    return True

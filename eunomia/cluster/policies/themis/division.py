"""Proportional fairness over whole GPUs, compiled: where GPUs lie, and who should have them.

All compiled functions stand in this one file, for numba looks for changes in the file of a function alone.

Levels of spread: 0 = one machine, 1 = one rack, 2 = several racks. ``use`` (machines,) are the GPUs that a
bidder has, ``free`` (machines,) those that nobody has, ``rack`` (machines,) the rack of each machine.
"""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.core.compiled import compiled

LEVELS = 3
PASSES = 20  # rounds of pairwise exchange, at most; 3 are usual
TOLERANCE = 1e-12  # smaller gains of log value are ties


@compiled
def level_of(use: Ints, rack: Ints) -> int:
    """Level of spread of the GPUs in use; 0 for none."""
    machine = -1
    level = 0
    for m in range(len(use)):
        if use[m] > 0:
            if machine < 0:
                machine = m
            elif rack[m] == rack[machine]:
                level = max(level, 1)
            else:
                return 2
    return level


@compiled
def reach(use: Ints, free: Ints, rack: Ints, racks: int, reachable: Ints) -> None:
    """How many more GPUs fit at each level: fills ``reachable`` (LEVELS,), never falling with the level."""
    machines, home, spread = 0, -1, False
    for m in range(len(use)):
        if use[m] > 0:
            machines += 1
            if home < 0:
                home = m
            elif rack[m] != rack[home]:
                spread = True
    per_rack = np.zeros(racks, np.int64)
    largest, total = 0, 0
    for m in range(len(free)):
        per_rack[rack[m]] += free[m]
        largest = max(largest, free[m])
        total += free[m]
    if machines == 0:
        reachable[0], reachable[1] = largest, per_rack.max()
    else:
        reachable[0] = free[home] if machines == 1 else 0
        reachable[1] = 0 if spread else per_rack[rack[home]]
    reachable[2] = total


@compiled
def take(use: Ints, free: Ints, rack: Ints, racks: int, wanted: int, level: int) -> None:
    """Move ``wanted`` GPUs from ``free`` to ``use`` within ``level``; they must fit (see ``reach``).

    Best fit: the fullest machine, or rack, that holds them all; machines already in use come first.
    """
    home = -1
    for m in range(len(use)):
        if use[m] > 0:
            home = m
            break
    allowed = -1  # the one rack that may be used
    if level == 0:
        if home < 0:
            for m in range(len(free)):
                if free[m] >= wanted and (home < 0 or free[m] < free[home]):
                    home = m
        free[home] -= wanted
        use[home] += wanted
        return
    if level == 1:
        if home >= 0:
            allowed = rack[home]
        else:
            per_rack = np.zeros(racks, np.int64)
            for m in range(len(free)):
                per_rack[rack[m]] += free[m]
            for r in range(racks):
                if per_rack[r] >= wanted and (allowed < 0 or per_rack[r] < per_rack[allowed]):
                    allowed = r
    while wanted > 0:
        chosen = len(free)  # none yet
        for m in range(len(free)):
            if free[m] == 0 or (allowed >= 0 and rack[m] != allowed):
                continue
            if chosen == len(free) or _before(m, chosen, use, free, wanted):
                chosen = m
        taken = min(wanted, free[chosen])
        free[chosen] -= taken
        use[chosen] += taken
        wanted -= taken


@compiled(keep=False)
def _before(m: int, other: int, use: Ints, free: Ints, wanted: int) -> bool:
    """Machines in use first; then the fullest that holds all that is wanted; else the emptiest."""
    if (use[m] > 0) != (use[other] > 0):
        return bool(use[m] > 0)
    if (free[m] >= wanted) != (free[other] >= wanted):
        return bool(free[m] >= wanted)
    return bool(free[m] < free[other]) if free[m] >= wanted else bool(free[m] > free[other])


@compiled
def give_back(use: Ints, grant: Ints, free: Ints, surplus: int) -> None:
    """Return ``surplus`` GPUs of ``grant`` to ``free``, from the machines where the bidder has least."""
    while surplus > 0:
        chosen = -1
        for m in range(len(grant)):
            if grant[m] > 0 and (chosen < 0 or use[m] < use[chosen]):
                chosen = m
        returned = min(surplus, grant[chosen])
        grant[chosen] -= returned
        use[chosen] -= returned
        free[chosen] += returned
        surplus -= returned


@compiled
def improve(logv: Floats, use: Ints, grant: Ints, free: Ints, rack: Ints, racks: int) -> None:
    """Best of two starts: greedy by gain per GPU, and by gain per step."""
    held, top, steps = use - grant, _tops(logv), _steps(logv)
    best = -np.inf
    for start in range(2):
        mine, pool = use.copy(), free.copy()
        value = _climb(logv, top, steps, held, mine, pool, rack, racks, start == 0)
        if value > best + TOLERANCE:
            best = value
            grant[:] = mine - held


@compiled(keep=False)
def _climb(
    logv: Floats,
    top: Floats,
    steps: Flags,
    held: Ints,
    use: Ints,
    free: Ints,
    rack: Ints,
    racks: int,
    per_gpu: bool,
) -> float:
    """Fill, then exchange between pairs until nothing gains; returns the sum of log values."""
    _fill(logv, steps, use, free, rack, racks, per_gpu)
    for _ in range(PASSES):
        changed = False
        for i in range(len(logv)):
            for j in range(i + 1, len(logv)):
                changed |= _exchange(logv, top, steps, held, use, free, rack, racks, i, j)
        if not changed:
            break
        _fill(logv, steps, use, free, rack, racks, per_gpu)
    total = 0.0
    for i in range(len(logv)):
        total += _value(logv[i], use[i], rack)
    return total


@compiled(keep=False)
def _value(logv: Floats, use: Ints, rack: Ints) -> float:
    return float(logv[use.sum(), level_of(use, rack)])


@compiled(keep=False)
def _tops(logv: Floats) -> Floats:
    """(bidders,) the most that each could reach: a pair that has it need not be looked at."""
    top = np.empty(len(logv))
    for i in range(len(logv)):
        top[i] = logv[i].max()
    return top


@compiled(keep=False)
def _steps(logv: Floats) -> Flags:
    """(bidders, GPUs + 1) whether one GPU fewer would be worth less at some level: other numbers are idle."""
    steps = np.zeros(logv.shape[:2], np.bool_)
    for i in range(len(logv)):
        for n in range(1, logv.shape[1]):
            for level in range(LEVELS):
                if logv[i, n, level] > logv[i, n - 1, level] + TOLERANCE:
                    steps[i, n] = True
    return steps


@compiled(keep=False)
def _fill(logv: Floats, steps: Flags, use: Ints, free: Ints, rack: Ints, racks: int, per_gpu: bool) -> None:
    """Give away free GPUs, each time to the bidder and in the number that gain most, per GPU or in all."""
    reachable = np.zeros(LEVELS, np.int64)
    while True:
        best, pick = TOLERANCE, np.full(3, -1)  # bidder, number, level
        for i in range(len(logv)):
            reach(use[i], free, rack, racks, reachable)
            have = use[i].sum()
            now = logv[i, have, level_of(use[i], rack)]
            level = 0
            for q in range(1, min(reachable[LEVELS - 1], logv.shape[1] - 1 - have) + 1):
                if not steps[i, have + q]:
                    continue
                while q > reachable[level]:
                    level += 1
                gain = (logv[i, have + q, level] - now) / (q if per_gpu else 1)
                if gain > best + TOLERANCE:
                    best, pick[0], pick[1], pick[2] = gain, i, q, level
        if pick[0] < 0:
            return
        take(use[pick[0]], free, rack, racks, pick[1], pick[2])


@compiled(keep=False)
def _exchange(
    logv: Floats,
    top: Floats,
    steps: Flags,
    held: Ints,
    use: Ints,
    free: Ints,
    rack: Ints,
    racks: int,
    i: int,
    j: int,
) -> bool:
    """Split anew what i and j were granted and what is free; True if their joint value rose."""
    before = _value(logv[i], use[i], rack) + _value(logv[j], use[j], rack)
    if before > top[i] + top[j] - TOLERANCE:
        return False
    pool = free + use[i] + use[j] - held[i] - held[j]
    total = pool.sum()
    best, split = before + TOLERANCE, np.full(3, -1)  # GPUs of the first, of the second, who was second
    reachable = np.zeros(LEVELS, np.int64)
    for swap in range(2):
        first, second = (i, j) if swap == 0 else (j, i)
        have = held[first].sum()
        for q in range(min(total, logv.shape[1] - 1 - have) + 1):
            if q > 0 and not steps[first, have + q]:
                continue
            mine, left = held[first].copy(), pool.copy()
            _take_tight(mine, left, rack, racks, q, reachable)
            value = logv[first, have + q, level_of(mine, rack)]
            if value + top[second] <= best + TOLERANCE:
                continue
            rest, number = _best_number(logv[second], held[second], left, rack, racks, reachable)
            if value + rest > best + TOLERANCE:
                best, split[0], split[1], split[2] = value + rest, q, number, swap
    if split[0] < 0:
        return False
    first, second = (i, j) if split[2] == 0 else (j, i)
    use[first], use[second], free[:] = held[first], held[second], pool
    _take_tight(use[first], free, rack, racks, split[0], reachable)
    _take_tight(use[second], free, rack, racks, split[1], reachable)
    return True


@compiled(keep=False)
def _take_tight(use: Ints, free: Ints, rack: Ints, racks: int, wanted: int, reachable: Ints) -> None:
    """Take ``wanted`` GPUs at the lowest level that holds them."""
    if wanted == 0:
        return
    reach(use, free, rack, racks, reachable)
    level = 0
    while wanted > reachable[level]:
        level += 1
    take(use, free, rack, racks, wanted, level)


@compiled(keep=False)
def _best_number(
    logv: Floats, use: Ints, free: Ints, rack: Ints, racks: int, reachable: Ints
) -> tuple[float, int]:
    """Best log value of one bidder among what is free, and the fewest GPUs that reach it."""
    reach(use, free, rack, racks, reachable)
    have = use.sum()
    best, number, level = logv[have, level_of(use, rack)], 0, 0
    for q in range(1, min(reachable[LEVELS - 1], logv.shape[0] - 1 - have) + 1):
        while q > reachable[level]:
            level += 1
        if logv[have + q, level] > best + TOLERANCE:
            best, number = logv[have + q, level], q
    return best, number

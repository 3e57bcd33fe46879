"""Spread of whole GPUs over machines and racks, compiled: what a bidder could still get, and where it would lie.

Levels of spread: 0 = one machine, 1 = one rack, 2 = several racks. ``use`` (machines,) are the GPUs that a
bidder has, ``free`` (machines,) those that nobody has, ``rack`` (machines,) the rack of each machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

LEVELS = 3


@njit(cache=True)
def level_of(use: Any, rack: Any) -> int:
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


@njit(cache=True)
def reach(use: Any, free: Any, rack: Any, racks: int, reachable: Any) -> None:
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


@njit(cache=True)
def take(use: Any, free: Any, rack: Any, racks: int, wanted: int, level: int) -> None:
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
        chosen = -1
        for m in range(len(free)):
            if free[m] == 0 or (allowed >= 0 and rack[m] != allowed):
                continue
            if chosen < 0 or _before(m, chosen, use, free, wanted):
                chosen = m
        taken = min(wanted, free[chosen])
        free[chosen] -= taken
        use[chosen] += taken
        wanted -= taken


@njit(cache=True)
def _before(m: int, other: int, use: Any, free: Any, wanted: int) -> bool:
    """Machines in use first; then the fullest that holds all that is wanted; else the emptiest."""
    if (use[m] > 0) != (use[other] > 0):
        return bool(use[m] > 0)
    if (free[m] >= wanted) != (free[other] >= wanted):
        return bool(free[m] >= wanted)
    return bool(free[m] < free[other]) if free[m] >= wanted else bool(free[m] > free[other])


@njit(cache=True)
def give_back(use: Any, grant: Any, free: Any, surplus: int) -> None:
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

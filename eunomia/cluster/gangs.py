"""Gangs over several device types: data parallelism that takes what is left on each (Gavel's extension list).

``slowest``: equal shards, so every worker waits for the slowest: s * min_j T_j / s over the types used.
``uneven``: shards in proportion to speed, so no worker waits: sum_j n_j T_j / s. Communication between types
is taken to
cost what it costs within one; measured figures do not exist.
"""

from __future__ import annotations

import numpy as np

from eunomia.cluster.rounds import Units
from eunomia.core.arrays import Floats, Ints


def gang_speed(speed: Floats, used: Ints | Floats, how: str) -> float:
    """Steps/s of one job: ``speed`` (J,) with all its workers on one type, ``used`` (J,) workers per type."""
    types = used > 0
    if how == "slowest":
        return float(speed[types].min())
    return float((speed[types] * used[types]).sum() / used.sum())


def mixed_gangs(units: Units, chosen: Ints, throughput: Floats, scale: Ints, free: Ints) -> Ints:
    """Devices for waiting jobs that fit on no single type but on several together, shape (M, J); the others 0.

    In order of their best priority; faster types first. ``free`` (J,) is changed.
    """
    count = len(throughput)
    devices = np.zeros(throughput.shape, np.int64)
    paired = {
        int(k) for u in np.flatnonzero(chosen[count:] >= 0) + count for k in (units.first[u], units.second[u])
    }
    waiting = [m for m in np.flatnonzero(chosen[:count] == -1).tolist() if int(units.first[m]) not in paired]
    for m in sorted(waiting, key=lambda m: -units.priority[m].max()):
        need = int(scale[units.first[m]])
        usable = np.flatnonzero((throughput[m] > 0.0) & (free > 0))
        if need < 2 or len(usable) < 2 or free[usable].sum() < need:
            continue
        for j in usable[np.argsort(-throughput[m, usable], kind="stable")].tolist():
            part = min(need, int(free[j]))
            devices[m, j] = part
            free[j] -= part
            need -= part
    return devices

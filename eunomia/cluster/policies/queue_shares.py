"""What queues deserve, and what one may reclaim from the others: proportional shares as batch schedulers keep them.

Written from the descriptions of Volcano's plugins proportion and gang and of KAI's fairness. Devices of all types count
alike.
"""

from __future__ import annotations

import numpy as np

from eunomia.contract.allocation import ClusterView
from eunomia.core.arrays import Floats, Ints


def deserved(total: float, weight: Floats, demand: Floats) -> Floats:
    """Devices (Q,) that each queue deserves: in proportion to the weights, nobody more than its demand.

    What a queue does not want is divided among the others, again by weight, until nothing or nobody is left.
    """
    share = np.zeros(len(weight))
    left, hungry = float(total), (demand > 0.0) & (weight > 0.0)
    while left > 1e-9 and hungry.any():
        part = np.where(hungry, left * weight / weight[hungry].sum(), 0.0)
        given = np.minimum(part, demand - share)
        share += given
        left -= float(given.sum())
        full = demand - share <= 1e-9
        if not (hungry & full).any():
            break
        hungry &= ~full
    return share


def victims(view: ClusterView, devices: Ints, m: int, due: Floats) -> tuple[int, list[int]]:
    """The type on which gang ``m`` may start after evicting these rows; type -1 = none.

    Its queue stays within its due, and every other queue keeps at least its own. Last come, first evicted; gangs go
    whole. ``due`` (Q,) is what queues deserve.
    """
    queue, count = int(view.tenant[m]), int(view.scale[m])
    used = np.bincount(view.tenant, devices.sum(axis=1), len(due))
    if used[queue] + count > due[queue] + 1e-9:
        return -1, []
    free = view.capacity - devices.sum(axis=0)
    for j in np.argsort(-view.throughput[m], kind="stable").tolist():
        if not view.usable[m, j]:
            continue
        after, room, found = used.copy(), int(free[j]), []
        for row in np.flatnonzero(devices[:, j] > 0)[::-1].tolist():
            other, held = int(view.tenant[row]), int(devices[row, j])
            if room >= count:
                break
            if other != queue and after[other] - held >= due[other] - 1e-9:
                after[other] -= held
                room += held
                found.append(row)
        if room >= count:
            return j, found
    return -1, []

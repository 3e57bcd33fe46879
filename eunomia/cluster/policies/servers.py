"""On which servers a gang should lie: as few as possible, and where it was if that is as good."""

from __future__ import annotations

import numpy as np

from eunomia.contract.allocation import ClusterView, Holdings
from eunomia.core.arrays import Ints


def tight_gang(rest: Ints, gang: int) -> Ints:
    """(servers,) where ``gang`` devices of ``rest`` lie tightest: best fit on one server, else the emptiest first."""
    result = np.zeros(len(rest), np.int64)
    holds = np.flatnonzero(rest >= gang)
    if len(holds):
        result[holds[np.argmin(rest[holds])]] = gang
        return result
    for server in np.argsort(-rest, kind="stable").tolist():
        result[server] = min(rest[server], gang - result.sum())
    return result


def place_tight(view: ClusterView, devices: Ints) -> Holdings:
    """Servers for ``devices`` (M, J), widest gangs first; who already lies on as few as possible stays.

    Greedy, so a gang may be spread although another order would have kept it together.
    """
    free = np.array(view.up, np.int64)
    table = np.zeros((len(view), len(free)), np.int64)
    before = np.zeros_like(table)
    np.add.at(before, (view.holdings.job, view.holdings.server), view.holdings.count)
    kind = view.cluster.server_type
    placed = np.flatnonzero(devices.any(axis=1))
    widest = int(view.up.max(initial=1))
    for m in placed.tolist():
        column, gang = int(np.argmax(devices[m])), int(devices[m].max())
        was = np.where(kind == column, before[m], 0)
        fewest = -(-gang // widest)
        if was.sum() == gang and (was > 0).sum() <= fewest and (was <= free).all():
            table[m] = was
            free -= was
    rest = placed[~table[placed].any(axis=1)]
    for m in rest[np.argsort(-devices[rest].max(axis=1), kind="stable")].tolist():
        column, gang = int(np.argmax(devices[m])), int(devices[m].max())
        table[m] = tight_gang(np.where(kind == column, free, 0), gang)
        free -= table[m]
    return holdings_of(table)


def holdings_of(table: Ints) -> Holdings:
    """(jobs, servers) devices as holdings."""
    job, server = np.nonzero(table)
    return Holdings(job.astype(np.int64), server.astype(np.int64), table[job, server])

"""What a plan makes least: known beforehand, or bounded from below until a platform is tried."""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.study.plan.search import Score, Search
from eunomia.study.plan.trial import Tally

UNITS = {"cost": "", "area": "mm2", "power": "W", "energy": "J per request", "headroom": ""}


def score_of(search: Search) -> tuple[Floats, Score | None]:
    """(platforms,) what is made least, and, where that is only a lower bound, what a trial says."""
    platforms = search.platforms
    known = {"area": platforms.area_mm2, "power": platforms.power_w}
    known |= {target: platforms.cost for target in ("cost", "headroom")}  # of equal head-room the cheaper
    target = search.on.plan.target
    if target in known:
        return known[target], None

    def actual(row: int, found: Tally) -> float:
        return energy_per_request_j(search, row, found)

    return _least_energy_j(search), actual


def energy_per_request_j(search: Search, row: int, found: Tally) -> float:
    """Of layers, and of what stands by all the time."""
    standby_j = float(search.platforms.standby_w[row]) * found.duration_s
    return (found.energy_j + standby_j) / max(found.requests, 1)


def _least_energy_j(search: Search) -> Floats:
    """(platforms,) no schedule needs less per request: promised hits alone, each layer on its thriftiest type."""
    on, platforms, screen = search.on, search.platforms, search.screen
    table, models = on.bench.machine.table, screen.model_of()
    sets, which = np.unique(platforms.counts > 0, axis=0, return_inverse=True)
    per_set = []
    for types in sets:
        layer_j = np.where(types[None, :] & np.isfinite(table.latency_s), table.energy_j, np.inf).min(axis=1)
        model_j = np.add.reduceat(np.where(np.isfinite(layer_j), layer_j, 0.0), table.offsets[:-1])
        per_set.append(sum(need * model_j[models[pair]] for pair, need in enumerate(screen.needs)))
    count = max(int(screen.asked.sum()), 1)
    standby_s = on.measured_s * search.settings.seeds
    return np.asarray((np.array(per_set)[which.ravel()] + platforms.standby_w * standby_s) / count)

"""First come first served and shortest job first as programmes: an order becomes weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.cluster.policies.programmes import ProgrammePolicy, as_allocation
from eunomia.cluster.solver.programme import programme
from eunomia.contract.allocation import Allocation, ClusterView
from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError

ORDERS = ("arrival", "shortest")


@dataclass(frozen=True)
class RankedThroughput(ProgrammePolicy):
    """Maximise sum_m (M - rank_m) thr(m, X) / thr(m, fastest type), rank from 0.

    ``order="arrival"``: first come first served; ``"shortest"``: by time left on the fastest type. Gavel, OSDI 2020,
    section 4.2, on paper only. The weights are a soft order: late jobs still run where early ones gain little.
    """

    order: str = "arrival"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in ORDERS:
            raise ConfigError(f"order is '{self.order}'; choose one of: {', '.join(ORDERS)}")

    def decide(self, view: ClusterView) -> Allocation:
        """One linear programme."""
        speed = self.speeds(view)
        fastest = speed.max(axis=1)
        by: Floats = view.arrival_s if self.order == "arrival" else view.steps_left / fastest
        rank = np.empty(len(view))
        rank[np.lexsort((view.key, by))] = np.arange(len(view))
        solved = self.solve(
            programme(
                speed,
                view.scale,
                view.capacity,
                rowed=False,
                value=(len(view) - rank) / fastest,
                kind=view.row,
                beside=view.beside if self.packed else None,
            )
        )
        return as_allocation(view, solved)

"""Fair shares that cannot be gamed: maximal geometric mean, then a discount on what a job takes from the others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eunomia.cluster.policies.programmes import ProgrammePolicy, as_allocation, fair_norm
from eunomia.cluster.solver.geometric import solve_geometric
from eunomia.cluster.solver.programme import ShareProgramme, programme
from eunomia.contract.allocation import Allocation, ClusterView, Note
from eunomia.core.errors import ConfigError


@dataclass(frozen=True)
class StrategyProof(ProgrammePolicy):
    """Maximise the geometric mean of normalised throughputs, then multiply row i by its partial-allocation discount.

    The discount is prod_{m != i} thr(m, X) / thr(m, X without i) <= 1 (Cole, Gkatzelis, Goel, EC 2013; Gavel names the
    policy max_min_fairness_strategy_proof). Identical jobs need one programme without one of them. Devices that the
    discount frees stay idle: with many jobs up to 1 - 1/e of the cluster. ``discount=False`` leaves the
    proportionally fair shares alone. Jobs' own weights enter the normaliser and drop out of a geometric mean.
    """

    discount: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.packed or self.split != 1 or self.solver == "as_gavel":
            raise ConfigError("strategy-proof shares have no packed, split or as_gavel form")

    def decide(self, view: ClusterView) -> Allocation:
        """Objective: geometric mean of normalised throughput before the discount."""
        speed = self.speeds(view)
        problem = programme(speed, view.scale, view.capacity, norm=fair_norm(view, speed))
        small, group = problem.collapse()
        solved = solve_geometric(small)
        mean = float(np.exp(np.average(np.log(small.norm * solved.throughput(small)), weights=small.count)))
        shares = solved.shares[group]
        notes: tuple[Note, ...] = ()
        if self.discount:
            factor = np.array(
                [_discount(small, solved.throughput(small), i) for i in range(len(small.scale))]
            )
            shares = shares * factor[group][:, None]
            lost = 1.0 - float(small.count @ factor) / float(small.count.sum())
            notes = (Note("info", f"discount: {lost:.1%} of shares withheld on average"),)
        return as_allocation(view, replace(solved, shares=shares), mean, notes)


def _discount(problem: ShareProgramme, speed: np.ndarray, i: int) -> float:
    """Product over all other jobs of speed with i / speed without i."""
    others = problem.count.copy()
    others[i] -= 1.0
    rows = np.flatnonzero(others > 0.0)
    if len(rows) == 0:
        return 1.0
    without = replace(problem.take(rows), count=others[rows])
    alone = solve_geometric(without).throughput(without)
    return min(1.0, float(np.exp(others[rows] @ (np.log(speed[rows]) - np.log(alone)))))

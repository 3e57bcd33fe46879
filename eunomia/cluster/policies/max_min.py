"""Max-min fairness, Gavel's reading of least attained service."""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.cluster.policies.programmes import ProgrammePolicy, as_allocation, fair_norm
from eunomia.cluster.solver.programme import programme
from eunomia.contract.allocation import Allocation, ClusterView


@dataclass(frozen=True)
class MaxMinFairness(ProgrammePolicy):
    """Raise the least normalised throughput: max min_m (s_m / w_m) thr(m, X) / thr(m, Xprop).

    Xprop gives every job x_j = N_j / sum(N). Agnostic: the same with all throughputs 1. Gavel, OSDI 2020, section 4.1.
    The optimum is not unique while devices are plenty: what nobody at the minimum needs goes where the solver leaves it
    (water filling divides that, too); with pairs, to where it does most work. A job with a bad normaliser can hold
    everybody down.
    """

    def decide(self, view: ClusterView) -> Allocation:
        """One linear programme."""
        speed = self.speeds(view)
        problem = programme(
            speed,
            view.scale,
            view.capacity,
            norm=fair_norm(view, speed),
            rise=1.0,
            reward=1.0,
            kind=view.row,
            beside=view.beside if self.packed else None,
        )
        solved = self.solve_sooner(problem) if self.packed else self.solve(problem)
        return as_allocation(view, solved)

"""Shortest makespan."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eunomia.cluster.policies.programmes import ProgrammePolicy, as_allocation
from eunomia.cluster.solver.highs import SolverError
from eunomia.cluster.solver.programme import ShareProgramme, ShareSolution, programme
from eunomia.contract.allocation import Allocation, ClusterView, Note
from eunomia.core.arrays import Floats

BISECTION = (100.0, 1e6)  # Gavel's first bracket, seconds
WIDTH = 1.05


@dataclass(frozen=True)
class MinTotalDuration(ProgrammePolicy):
    """Finish the last job as early as possible: max y such that thr(m, X) >= r_m y; the makespan is 1 / y.

    One linear programme, exact. ``solver="as_gavel"`` bisects the makespan as Gavel does (from [100, 1e6] s down to
    5 %) and returns the last feasible shares. Agnostic: every type runs a job at its speed on ``reference_type`` (None:
    the mean over the types where it runs). What the longest jobs leave goes to those that finish soonest; where they
    leave nothing, short jobs wait as long as all others.
    """

    reference_type: str | None = None

    def decide(self, view: ClusterView) -> Allocation:
        """Objective: makespan of what is left, in seconds."""
        speed = self.speeds(view) if self.aware else reference_speed(view, self.reference_type)
        problem = programme(
            speed,
            view.scale,
            view.capacity,
            rise=view.steps_left,
            reward=1.0,
            kind=view.row,
            beside=view.beside if self.packed else None,
        )
        if self.solver == "as_gavel":
            makespan_s, solved = self._bisected(problem)
            note = Note("info", f"bisection stopped at {makespan_s:.6g} s, at most 5 % above the optimum")
            return as_allocation(view, solved, makespan_s, (note,))
        solved = self.solve_sooner(problem, view.steps_left / speed.max(axis=1))
        return as_allocation(view, solved, 1.0 / solved.level)

    def _bisected(self, problem: ShareProgramme) -> tuple[float, ShareSolution]:
        """Which makespans are feasible is known from the exact optimum; the embedding then gives the shares."""
        optimum_s = 1.0 / replace(self, solver="interior_point").solve(problem).level
        low, high = BISECTION
        while high < optimum_s:
            low, high = high, 10.0 * high
        while WIDTH * low < high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if middle >= optimum_s else (middle, high)
        feasible = replace(problem, floor=problem.rise / high, rise=np.zeros(len(problem.rise)), reward=0.0)
        try:
            return high, self.solve(feasible)
        except SolverError:  # the last bracket may lie within rounding of the optimum
            return high, replace(self, solver="simplex").solve(feasible)


def reference_speed(view: ClusterView, reference_type: str | None) -> Floats:
    """The same steps/s on every type where a job runs, shape (M, J): for forms that ignore heterogeneity.

    The speed is that on ``reference_type``, or the mean over usable types where None is named or the job cannot use it.
    """
    runs = view.usable
    known = np.where(runs, view.throughput, 0.0)
    speed = known.sum(axis=1) / runs.sum(axis=1)
    if reference_type is not None:
        named = known[:, view.cluster.column(reference_type)]
        speed = np.where(named > 0.0, named, speed)
    return np.where(runs, speed[:, None], 0.0)

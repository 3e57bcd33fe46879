"""Most throughput, alone or per unit of cost, with deadlines as floors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eunomia.cluster.policies.programmes import AS_SOLVED, LEAST_LEFT_S, ProgrammePolicy, as_allocation
from eunomia.cluster.solver.assemble import assemble, pair_columns
from eunomia.cluster.solver.highs import solve_linear
from eunomia.cluster.solver.programme import ShareProgramme, ShareSolution, programme
from eunomia.cluster.solver.ratio import solve_ratio
from eunomia.cluster.solver.solve import solve_shares
from eunomia.contract.allocation import Allocation, ClusterView, Note
from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError

GIVEN_UP = 1.0 - 1e-6
RELAXED = 1e-7
SOONER = 1e-5  # of its value, at most: what the job with the least work left counts more; decides ties only


@dataclass(frozen=True)
class MaxSumThroughput(ProgrammePolicy):
    """Maximise sum_m thr(m, X), not normalised: models with many steps per second win, others may starve.

    ``per_cost``: each type counts T[m, j] / cost_j instead, Gavel's linear surrogate of throughput per cost.
    ``ratio``: (sum_m thr) / (cost of the devices used per hour) itself, exact by the transformation of
    Charnes and Cooper; without deadlines its optimum may serve a single job, the cheapest per step. ``slos``:
    a job with a deadline gets at least steps left / time left. Infeasible deadlines are relaxed by the least
    weighted sum of given-up parts of those floors: a linear programme, whose vertices touch few jobs. A note
    names every relaxed job with its expected lateness; Gavel drops all of them. Jobs of one model tie in the sum.
    With pairs and deadlines the programme knows the work that is left, and the job with the least of it comes first.
    Devices that would idle go to jobs and pairs without a share, first to those that the optimum misses least: an
    interior point, as Gavel's, has such crumbs by itself.
    ``simplex`` and ``as_gavel`` keep their own choice.
    """

    per_cost: bool = False
    ratio: bool = False
    slos: bool = False

    def decide(self, view: ClusterView) -> Allocation:
        """Objective: steps/s, steps/s per price, or steps per unit of money."""
        cost = view.cluster.cost_per_hour
        if self.per_cost or self.ratio:
            for kind in view.cluster.types:
                if not kind.cost_per_hour > 0.0:
                    raise ConfigError(
                        f"device type '{kind.name}' has no cost_per_hour; this policy needs one"
                    )
        problem = programme(
            self.speeds(view),
            view.scale,
            view.capacity,
            value=1.0,
            rowed=False,
            price=1.0 / cost if self.per_cost else 1.0,
            kind=view.row,
            beside=view.beside if self.packed else None,
        )
        notes: tuple[Note, ...] = ()
        if self.slos:
            problem, notes = with_deadlines(view, problem)
        if not (self.slos and self.packed) or self.ratio or self.solver in AS_SOLVED:
            return as_allocation(view, self._solved(problem, cost), notes=notes)
        # jobs of one model tie: the sum is the same whoever of them runs
        left_s = np.maximum(view.steps_left / problem.speed.max(axis=1), LEAST_LEFT_S)
        problem = replace(problem, value=1.0 + SOONER * left_s.min() / left_s)
        if self.split > 1:
            solved = self.solve(problem)
        else:
            solved = solve_shares(problem, self.solver, warm=self._warm, crumbs=True)
        return as_allocation(view, solved, _worth(view, problem, solved), notes)

    def _solved(self, problem: ShareProgramme, cost: Floats) -> ShareSolution:
        return solve_ratio(problem, cost) if self.ratio else self.solve(problem)


def _worth(view: ClusterView, problem: ShareProgramme, solved: ShareSolution) -> float:
    """The sum of throughputs by price, without what decided ties."""
    worth = float((problem.speed * solved.shares @ problem.price).sum())
    if len(solved.pair_first):
        pairs = view.pair_speed(solved.pair_first, solved.pair_second).sum(axis=2)
        worth += float((pairs * solved.pair_shares @ problem.price).sum())
    return worth


def with_deadlines(view: ClusterView, problem: ShareProgramme) -> tuple[ShareProgramme, tuple[Note, ...]]:
    """The programme with a floor per deadline, relaxed as little as possible where they cannot all be met.

    Least: the weighted sum of the parts of the floors that are given up. The note names jobs and seconds of lateness to
    be expected at the relaxed pace (inf = no floor left).
    """
    due = np.isfinite(view.deadline_s)
    if not due.any():
        return problem, ()
    time_left = np.where(due, view.time_left_s, np.inf)
    late = due & (time_left <= 0.0)
    fastest = problem.speed.max(axis=1)
    need = np.where(due & ~late, view.steps_left / np.maximum(time_left, 1e-9), 0.0)
    part = np.where(late, 1.0, 0.0)
    alone = need > 2.0 * fastest  # hopeless even with pairs: keep the numbers of the programme sane
    part[alone], need[alone] = 1.0, 0.0
    floored = replace(problem, floor=need, rowed=need > 0.0)
    if (need > 0.0).any():
        cost = np.where(need > 0.0, view.weight, np.nan)
        small, group = _with_cost(floored, cost)
        built = assemble(small[0], pair_columns(small[0]), relief=small[1])
        answer = solve_linear(built.lp)
        given = np.zeros(len(small[1]))
        given[built.relieved] = answer.x[built.relief_at]
        part = np.maximum(part, given[group])
    part = np.where(part < RELAXED, 0.0, part)
    kept = np.where(part > GIVEN_UP, 0.0, need * (1.0 - part) * (1.0 - 1e-9))
    floored = replace(floored, floor=kept, rowed=kept > 0.0)
    return floored, _relaxed_note(view, part)


def _with_cost(problem: ShareProgramme, cost: Floats) -> tuple[tuple[ShareProgramme, Floats], np.ndarray]:
    """Grouped with the cost of relief as a further column (it stands in for ``rise``, which is 0 here)."""
    tagged = replace(problem, rise=np.nan_to_num(cost, nan=-1.0))
    small, group = tagged.collapse()
    by_group = np.where(small.rise < 0.0, np.nan, small.rise)
    return (replace(small, rise=np.zeros(len(small.rise))), by_group), group


def _relaxed_note(view: ClusterView, part: Floats) -> tuple[Note, ...]:
    rows = np.flatnonzero(part > 0.0)
    if len(rows) == 0:
        return ()
    left = np.maximum(view.time_left_s[rows], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        lateness = np.where(part[rows] > GIVEN_UP, np.inf, left * part[rows] / (1.0 - part[rows]))
    text = f"{len(rows)} of {int(np.isfinite(view.deadline_s).sum())} deadlines cannot be met"
    return (Note("relaxed", text, tuple(rows.tolist()), tuple(lateness.tolist())),)

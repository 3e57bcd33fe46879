"""Finish-time fairness as Gavel's programme: the largest rho is made small. (Not Themis' auction.)"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eunomia.cluster.policies.makespan import reference_speed
from eunomia.cluster.policies.programmes import ProgrammePolicy, as_allocation
from eunomia.cluster.shares import isolated_throughput
from eunomia.cluster.solver.cones import solve_cones
from eunomia.cluster.solver.embedded import AGREED
from eunomia.cluster.solver.highs import SolverError
from eunomia.cluster.solver.programme import programme
from eunomia.contract.allocation import Allocation, ClusterView, Note
from eunomia.core.arrays import Floats

TOLERANCE = 1e-7
MAX_ROUNDS = 50


@dataclass(frozen=True)
class FinishTimeFairness(ProgrammePolicy):
    """Minimise max_m rho_m, rho_m = (t_m + r_m / thr(m, X)) / (C_m + r_m / thr(m, Xiso)).

    t_m is the job's age, r_m its steps left, C_m the isolated time it has accumulated (``view.isolated_s``).
    Gavel, OSDI 2020, section 4.2. Priority weights are ignored, as there. A level rho is feasible iff thr(m,
    X) >= r_m / (rho D_m - t_m) for all m, D_m the denominator. The exact optimum is found by linear
    programmes alone: each gives shares (an upper bound on rho) and multipliers, whose weighted sum of those
    rows must hold at every feasible rho (a lower bound); the next programme is built at the lower bound. Both
    meet within 1e-7, mostly in 3 to 6 rounds. A job that is hopelessly late sets rho for all; what the others
    do not need for that rho goes to those that finish soonest.
    """

    solver: str = "interior_point"  # the bounds on rho need its digits
    reference_type: str | None = None

    def decide(self, view: ClusterView) -> Allocation:
        """Objective: the largest rho."""
        speed = self.speeds(view) if self.aware else reference_speed(view, self.reference_type)
        alone = isolated_throughput(speed, view.cluster.counts, view.scale)
        late = LateJobs(view.age_s, view.steps_left, view.isolated_s + view.steps_left / alone)
        if self.solver == "as_gavel" and not self.packed and self.split == 1:
            shares = cone_shares(view, speed, late)
            if shares is not None:
                rho = float(late.rho((speed * shares).sum(axis=1)).max())
                note = Note("solve", f"cone programme as ECOS, rho {rho:.9g}")
                return Allocation(shares=shares, objective=rho, notes=(note,))
        base = programme(
            speed,
            view.scale,
            view.capacity,
            reward=1.0,
            kind=view.row,
            beside=view.beside if self.packed else None,
        )
        least = float(
            late.least().max()
        )  # nothing below it is feasible, nor asks for a positive speed of all
        rho, best = least + 1.0, None
        low, high = least, np.inf
        for _ in range(MAX_ROUNDS):
            need = late.need(rho)
            problem = replace(base, norm=1.0 / need, rise=np.ones(len(view)))
            solved = self.solve(problem)
            reached = float(late.rho(solved.throughput(problem)).max())
            if reached < high:
                high, best = reached, solved
            # sum_m lambda_m thr_m <= bound for every X; so a feasible rho has sum_m lambda_m need_m(rho) <= bound
            price = solved.multiplier / need
            low = max(low, late.root(price, float(price @ need) * solved.level, rho))
            if high - low <= TOLERANCE * high:
                break
            rho = low if low > least * (1.0 + 1e-12) else 0.5 * (low + high)
        if best is None or not np.isfinite(high):
            raise SolverError(f"finish-time fairness: no finite rho among {len(view)} jobs")
        kept = replace(base, rise=late.need(high)), replace(best, level=1.0)
        best = self.sooner(*kept, view.steps_left / speed.max(axis=1))
        notes: tuple[Note, ...] = (Note("info", f"rho within [{low:.9g}, {high:.9g}]"),)
        if high - low > 1e-5 * high and self.split == 1:
            notes += (Note("fallback", f"rho is proven only within [{low:.6g}, {high:.6g}]"),)
        return as_allocation(view, best, high, notes)


def cone_shares(view: ClusterView, speed: Floats, late: LateJobs) -> Floats | None:
    """Gavel's cone programme at ECOS's point, shape (M, J); None = that method stops short.

    Variables: shares, u_m >= 1 / thr_m, and the largest rho. Rows: shares, capacity, time, rho; then one cone per job.
    """
    jobs, types = speed.shape
    x = np.arange(jobs * types).reshape(jobs, types)
    u, level, width = jobs * types + np.arange(jobs), jobs * types + jobs, jobs * types + jobs + 1
    every = np.arange(jobs)
    positive = -np.eye(jobs * types, width)
    room, time, lateness = np.zeros((types, width)), np.zeros((jobs, width)), np.zeros((jobs, width))
    for j in range(types):
        room[j, x[:, j]] = view.scale
        time[every, x[:, j]] = 1.0
    lateness[every, u], lateness[:, level] = late.left / late.fair_s, -1.0
    cone = np.zeros((jobs, 3, width))
    for j in range(types):
        cone[every, 0, x[:, j]] = cone[every, 1, x[:, j]] = -speed[:, j]
    cone[every, 0, u], cone[every, 1, u] = -1.0, 1.0
    rows = np.vstack([positive, room, time, lateness])
    limit = np.concatenate([np.zeros(jobs * types), view.capacity, np.ones(jobs), -late.age_s / late.fair_s])
    cost = np.zeros(width)
    cost[level] = 1.0
    found, optimal = solve_cones(
        cost,
        np.vstack([rows, cone.reshape(-1, width)]),
        np.r_[limit, np.tile([0.0, 0.0, 2.0], jobs)],
        len(rows),
    )
    if not optimal:
        return None
    shares = np.where(speed > 0.0, np.clip(np.round(found[x], AGREED), 0.0, 1.0), 0.0)
    used = view.scale @ shares / view.capacity
    return np.asarray(shares / np.maximum(used, 1.0) / np.maximum(shares.sum(axis=1, keepdims=True), 1.0))


@dataclass(frozen=True)
class LateJobs:
    """rho_m = (age + left / thr) / fair, and its inverse."""

    age_s: Floats
    left: Floats
    fair_s: Floats

    def least(self) -> Floats:
        """rho at infinite speed: below it nothing is feasible."""
        return self.age_s / self.fair_s

    def rho(self, speed: Floats) -> Floats:
        """rho at these speeds."""
        with np.errstate(divide="ignore"):
            return np.asarray((self.age_s + self.left / speed) / self.fair_s)

    def need(self, rho: float) -> Floats:
        """Speed that each job needs for rho; rho must be above ``least``."""
        return np.asarray(self.left / (rho * self.fair_s - self.age_s))

    def root(self, price: Floats, bound: float, start: float) -> float:
        """Least rho with price . need(rho) <= bound: Newton on its reciprocal, bracketed."""
        active = price > 0.0
        floor = float(self.least()[active].max(initial=0.0))
        low, high = floor, start
        while self._sum(price, high) > bound:
            low, high = high, floor + 2.0 * (high - floor) + 1.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (low, middle) if self._sum(price, middle) <= bound else (middle, high)
        return low

    def _sum(self, price: Floats, rho: float) -> float:
        active = price > 0.0
        slack = rho * self.fair_s[active] - self.age_s[active]
        if (slack <= 0.0).any():
            return np.inf
        return float((price[active] * self.left[active] / slack).sum())

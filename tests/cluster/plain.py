"""Every programme written out plainly for scipy and cvxpy: a column per job or pair and type, no groups, no tricks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from eunomia.contract.allocation import ClusterView
from eunomia.contract.cluster import Cluster

Array = np.ndarray
FORMS = ("agnostic", "aware", "packed")
EVEN = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
SLACK = 1e-8  # what saturated jobs may lose in later passes of water filling (deviation CG8)


def small_view(seed: int, jobs: int, kinds: int, even: bool = False) -> ClusterView:
    """Jobs of 1 or 2 workers with zeros among their throughputs; pairs that gain, lose or do not fit; two tenants.

    ``even``: throughputs are halves and tenths, so that who is saturated is never a matter of the last digits.
    """
    from tests.cluster.views import view_of

    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 5, kinds)
    speed = rng.choice(EVEN, (jobs, kinds)) if even else rng.lognormal(0.0, 0.8, (jobs, kinds))
    speed = speed * (rng.random((jobs, kinds)) > 0.2)
    speed[np.arange(jobs), rng.integers(0, kinds, jobs)] = 1.0
    part = rng.uniform(0.2, 1.0, (jobs, jobs, kinds))
    part = (np.round(part, 1) if even else part) * (rng.random((jobs, jobs, kinds)) > 0.2)
    scale = rng.choice([1, 1, 2], jobs)
    left = rng.uniform(100.0, 1000.0, jobs)
    cluster = Cluster.of(
        {f"t{j}": int(n) for j, n in enumerate(counts)},
        cost_per_hour={f"t{j}": float(c) for j, c in enumerate(rng.uniform(0.5, 3.0, kinds))},
    )
    due = np.where(
        rng.random(jobs) < 0.7, 1000.0 + left / speed.max(axis=1) * rng.uniform(0.8, 6.0, jobs), np.inf
    )
    return view_of(
        cluster, speed, scale=scale, weight=rng.choice([1.0, 2.0, 5.0], jobs), steps_left=left,
        isolated_s=rng.uniform(0.0, 400.0, jobs), row=np.arange(jobs), beside=part * speed[:, None, :],
        tenant=rng.integers(0, 2, jobs), tenants=("x", "y"), tenant_weight=np.array([1.0, 2.0]),
        deadline_s=np.where(rng.random(jobs) < 0.1, 900.0, due),
    )  # fmt: skip


@dataclass(frozen=True)
class Plain:
    """Columns over members and types: ``speed`` (M, C) steps/s for each job, ``time`` (M, C), ``room`` (J, C)."""

    speed: Array
    time: Array
    room: Array
    type: Array
    workers: Array
    counts: Array

    def most(self, gain: Array, floor: Array | None = None) -> float:
        """max gain . x with speed x >= floor."""
        rows, right = self._limits()
        if floor is not None:
            rows, right = np.vstack([rows, -self.speed]), np.r_[right, -floor]
        return -solved(-gain, rows, right)[0]

    def level(self, rise: Array, floor: Array | None = None) -> float:
        """max y with speed_m x >= rise_m y + floor_m."""
        rows, right = self._limits()
        fair = np.hstack([-self.speed, rise[:, None]])
        rows = np.vstack([np.hstack([rows, np.zeros((len(rows), 1))]), fair])
        right = np.r_[right, np.zeros(len(rise)) if floor is None else -floor]
        return -solved(np.r_[np.zeros(len(self.type)), -1.0], rows, right)[0]

    def least_relief(self, need: Array, weight: Array) -> float:
        """min sum of weight p, 0 <= p <= 1, with speed x >= need (1 - p)."""
        rows, right = self._limits()
        jobs = len(need)
        rows = np.hstack([rows, np.zeros((len(rows), jobs))])
        rows = np.vstack([rows, np.hstack([-self.speed, -np.diag(need)])])
        ends = [(0.0, None)] * len(self.type) + [(0.0, 1.0)] * jobs
        return solved(np.r_[np.zeros(len(self.type)), weight], rows, np.r_[right, -need], ends)[0]

    def best_ratio(self, cost: Array, floor: Array) -> float:
        """max (sum of speeds) / (cost of the devices used per second) with speed x >= floor: u = t x, cost . u = 1."""
        rows, right = self._limits()
        scaled = np.vstack([np.hstack([rows, -right[:, None]]), np.hstack([-self.speed, floor[:, None]])])
        spent = np.r_[self.workers * cost[self.type] / 3600.0, 0.0]
        gain = np.r_[-self.speed.sum(axis=0), 0.0]
        return -solved(gain, scaled, np.zeros(len(scaled)), equal=(spent[None], np.ones(1)))[0]

    def _limits(self) -> tuple[Array, Array]:
        return np.vstack([self.time, self.room]), np.r_[np.ones(len(self.time)), self.counts]


def solved(
    cost: Array, rows: Array, right: Array, bounds: object = None, equal: tuple[Array, Array] | None = None
) -> tuple[float, Array]:
    """Least cost and its point, by scipy; the last column is free where no bounds are given and it is only a level."""
    optimize = pytest.importorskip("scipy.optimize")
    if bounds is None:
        free = equal is None and cost[-1] == -1.0 and not cost[:-1].any()
        bounds = [(0.0, None)] * (len(cost) - 1) + [(None if free else 0.0, None)]
    more = {} if equal is None else {"A_eq": equal[0], "b_eq": equal[1]}
    answer = optimize.linprog(cost, rows, right, bounds=bounds, **more)
    assert answer.status == 0, answer.message
    return float(answer.fun), answer.x


def plain(view: ClusterView, form: str, speed: Array | None = None) -> Plain:
    """``speed`` (M, J) replaces the throughputs of single jobs."""
    own = np.where(view.runnable, view.throughput if speed is None else speed, 0.0)
    jobs, kinds = own.shape
    columns: list[tuple[dict[int, float], int, int]] = []  # steps/s by job, type, workers
    for m in range(jobs):
        columns += [({m: own[m, j]}, j, int(view.scale[m])) for j in range(kinds) if own[m, j] > 0.0]
    for a in range(jobs if form == "packed" else 0):
        for b in range(a + 1, jobs):
            for j in range(kinds):
                one, two = view.beside[a, b, j], view.beside[b, a, j]
                if view.scale[a] == view.scale[b] and view.runnable[[a, b], j].all() and min(one, two) > 0.0:
                    columns.append(({a: one, b: two}, j, int(view.scale[a])))
    rate, time, room = (np.zeros((n, len(columns))) for n in (jobs, jobs, kinds))
    for c, (gains, j, workers) in enumerate(columns):
        room[j, c] = workers
        for m, steps in gains.items():
            rate[m, c], time[m, c] = steps, 1.0
    kind = np.array([j for _, j, _ in columns])
    return Plain(rate, time, room, kind, np.array([w for _, _, w in columns]), view.cluster.counts)


def seen(view: ClusterView, form: str) -> Array:
    """(M, J) throughputs that max-min looks at."""
    return np.where(view.runnable, view.throughput if form != "agnostic" else 1.0, 0.0)


def one_speed(view: ClusterView, form: str, reference: int | None = None) -> Array:
    """(M, J) throughputs that finish-time fairness and makespan look at.

    Agnostic: on every type the mean of a job's types, or its speed on the type ``reference`` where it runs there.
    """
    own = np.where(view.runnable, view.throughput, 0.0)
    if form != "agnostic":
        return own
    one = own.sum(axis=1) / view.runnable.sum(axis=1)
    if reference is not None:
        one = np.where(own[:, reference] > 0.0, own[:, reference], one)
    return np.where(view.runnable, one[:, None], 0.0)


def fair_unit(view: ClusterView, speed: Array) -> Array:
    """(M,) steps/s of one unit of normalised throughput, weights left out: thr(m, Xprop) / s_m."""
    return (speed @ (view.cluster.counts / view.cluster.counts.sum())) / view.scale


def fair_rho(view: ClusterView, form: str, reference: int | None = None) -> float:
    """min max rho by bisection: a level is feasible iff everybody can have r / (rho D - t) steps/s."""
    speed = one_speed(view, form, reference)
    share = view.cluster.counts / (len(view) * view.scale[:, None])
    share = share / np.maximum(share.sum(axis=1, keepdims=True), 1.0)
    fair_s = view.isolated_s + view.steps_left / (speed * share).sum(axis=1)
    columns = plain(view, form, speed)
    low, high = float((view.age_s / fair_s).max()), 1e4
    while high - low > 1e-9 * high:
        rho = 0.5 * (low + high)
        slack = rho * fair_s - view.age_s
        feasible = (slack > 0.0).all() and columns.level(view.steps_left / np.maximum(slack, 1e-300)) >= 1.0
        low, high = (low, rho) if feasible else (rho, high)
    return high


def water_levels(view: ClusterView, form: str, within: str = "none") -> tuple[float, Array]:
    """First level, and the normalised throughput (weights left out) at which each job ends.

    A pass adds as much as it can, in proportion to weights, to what unsaturated jobs have; nobody loses. Each job is
    then tested by itself: can it have more while the others keep what they have?
    """
    speed = seen(view, form)
    columns = plain(view, form, speed)
    unit = fair_unit(view, speed)
    gained, frozen, first = np.zeros(len(view)), np.zeros(len(view), bool), np.nan
    while not frozen.all():
        weight = _weights(view, frozen, within)
        added = columns.level(weight * unit, gained * unit * (1.0 - SLACK))
        first = added if np.isnan(first) else first
        gained = gained + weight * added
        kept = gained * unit * (1.0 - 2.0 * SLACK)
        stuck = []
        for m in np.flatnonzero(weight > 0.0):
            if columns.most(columns.speed[m], kept) <= gained[m] * unit[m] * (1.0 + 1e-5) + 1e-5:
                stuck.append(m)
        assert stuck, "somebody is saturated in every pass"
        frozen[stuck] = True
    return first, gained


def _weights(view: ClusterView, frozen: Array, within: str) -> Array:
    if within == "none":
        return np.where(frozen, 0.0, view.weight)
    weight = np.zeros(len(view))
    for entity in range(len(view.tenants)):
        jobs = [m for m in range(len(view)) if view.tenant[m] == entity and not frozen[m]]
        for m in jobs if within == "fairness" else jobs[:1]:
            total = sum(view.weight[n] for n in jobs) if within == "fairness" else view.weight[m]
            weight[m] = view.tenant_weight[entity] * view.weight[m] / total
    return weight


def geometric(view: ClusterView, jobs: list[int]) -> Array:
    """(jobs,) throughputs of the largest geometric mean when only ``jobs`` are there, by cvxpy and Clarabel."""
    cvxpy = pytest.importorskip("cvxpy")
    speed = np.where(view.runnable, view.throughput, 0.0)[jobs]
    unit = speed.max(axis=1)
    x = cvxpy.Variable(speed.shape, nonneg=True)
    reached = cvxpy.sum(cvxpy.multiply(speed / unit[:, None], x), axis=1)
    held = [cvxpy.sum(x, axis=1) <= 1, view.scale[jobs] @ x <= view.cluster.counts]
    cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(cvxpy.log(reached))), held).solve(solver="CLARABEL")
    return np.asarray(reached.value) * unit

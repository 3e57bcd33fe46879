"""Share programmes without pairs by ECOS' method: compiled, over distinct rows, with a certificate."""

from __future__ import annotations

import threading

import numpy as np

from eunomia.cluster.solver.programme import ShareProgramme, ShareSolution, SolveReport
from eunomia.core.arrays import Floats

AGREED = 13  # decimals kept: identical jobs tie; who starves keeps his tiny share, which is his rank
OURS, AS_ECOS = (
    (3, 1e-11, 1e-9),
    (9, 1e-14, 1e-8),
)  # refinements of a solve, what may be left of it, and of feasibility
SPACE_KEPT = 1 << 22  # numbers, 32 MiB: memory that one solve leaves to the next
NAMES = ("self-dual embedding", "self-dual embedding as ECOS")


def solve_embedded_shares(problem: ShareProgramme, as_gavel: bool = False) -> ShareSolution:
    """The point where ECOS stops, for the programme as it is given.

    Types where a job cannot run keep their columns on the way, as in Gavel's model: the method's end depends
    on them. They are cleared at the end; rounds hand out what they held. ``as_gavel`` refines every solve as
    far as ECOS does, otherwise only late ones are refined. The gap is to the bound that the multipliers
    prove, see :func:`bound`.
    """
    from eunomia.cluster.solver.embedding_core import embed, space_needed
    from eunomia.cluster.solver.embedding_scaling import ruiz

    speed = np.ascontiguousarray(problem.speed.T)
    kinds, rows = speed.shape
    every = np.ones(speed.shape)
    fair = np.where(problem.rowed, -problem.norm * speed, 0.0)
    grid = np.concatenate([every, every, fair, every * problem.scale])
    edge = np.where(problem.rowed, problem.rise, 0.0) if problem.reward else np.zeros(rows)
    unit = _unit_of_y(problem) if problem.reward and not as_gavel else 1.0
    edge, worth = edge / unit, problem.reward / unit if problem.reward and not as_gavel else 1.0
    jobs = np.stack([problem.count, edge])
    signs, time, fair, capacity = np.split(grid, 4)
    by_x, by_y, by_row, by_capacity = ruiz(signs, time, fair, capacity, jobs[1])
    cost = np.concatenate(
        [
            (-problem.value / worth * problem.price[:, None] * speed / by_x).ravel(),
            [-problem.reward / unit / worth / by_y],
            np.zeros(kinds * rows),
            1.0 / by_row[0],
            np.where(problem.rowed, -problem.floor, 0.0) / by_row[1],
            problem.capacity / by_capacity,
        ]
    )
    live = np.concatenate([np.ones((kinds + 1) * rows), problem.rowed.astype(float), np.ones(kinds)])
    space = _space(space_needed(kinds, rows))
    passes, exact, feasible = AS_ECOS if as_gavel else OURS
    point, steps, _ = embed(jobs, grid, live, cost, passes, exact, feasible, as_gavel, space)
    own = kinds * rows  # entries of x; then y, signs, time, fairness, capacities
    shares = np.clip(np.round((point[:own].reshape(kinds, rows) / by_x).T, AGREED), 0.0, 1.0)
    shares = np.where(problem.speed > 0.0, shares, 0.0)
    level = float(point[own]) / by_y / unit if problem.reward else float("nan")
    at = 2 * own + 1 + rows
    multiplier = np.where(problem.rowed, point[at : at + rows] / by_row[1] * worth, 0.0)
    prices = point[-kinds:] / by_capacity * worth
    return judged(problem, shares, level, multiplier, prices, steps, NAMES[as_gavel])


def _space(size: int) -> Floats:
    """Memory to work in. A solve reuses what an earlier one of this thread had."""
    space: Floats | None = getattr(_KEPT, "space", None)
    if space is None or len(space) < size:
        space = np.empty(size)
        if size <= SPACE_KEPT:
            _KEPT.space = space
    return space


_KEPT = threading.local()


def _unit_of_y(problem: ShareProgramme) -> float:
    """Mean rise: in this unit the level is of ordinary size, and so is ECOS' absolute gap. 1 for max-min fairness."""
    return float(np.average(problem.rise, weights=problem.count)) or 1.0


def judged(
    problem: ShareProgramme,
    shares: Floats,
    level: float,
    multiplier: Floats,
    prices: Floats,
    steps: int,
    name: str,
) -> ShareSolution:
    """The answer with objective, residual and gap recomputed from its own numbers."""
    speed = np.einsum("mj,mj->m", problem.speed, shares)  # several times as fast as sums over short lines
    y = level if problem.reward else 0.0
    worth = np.einsum("mj,mj,j->m", problem.speed, shares, problem.price) * problem.value
    objective = float(problem.count @ worth) + problem.reward * y
    least = problem.floor + problem.rise * y
    over = (problem.count * problem.scale) @ shares / problem.capacity - 1.0
    short = np.where(problem.rowed, (least - problem.norm * speed) / np.maximum(np.abs(least), 1e-12), 0.0)
    time = (shares @ np.ones(shares.shape[1])).max(initial=0.0)
    residual = max(over.max(), short.max(initial=0.0), time - 1.0, 0.0)
    proven = bound(problem, multiplier, prices)
    idle = not problem.reward and not problem.value.any()  # any feasible point will do
    gap = float("nan") if idle else abs(proven - objective) / max(abs(objective), 1e-12)
    report = SolveReport(name, objective, gap, float(residual), steps, len(shares))
    return ShareSolution(shares, level, multiplier, prices, report)


def bound(problem: ShareProgramme, multiplier: Floats, prices: Floats) -> float:
    """What no feasible answer can exceed, by weak duality, whatever the multipliers and prices (>= 0) are.

    A job's time is worth at most max_j of what a share of type j adds to its row and value, less its devices'
    price. The multipliers of fairness rows are first scaled so that y cancels.
    """
    rows = multiplier
    if problem.reward:
        rising = float((problem.count * multiplier) @ problem.rise)
        if not rising > 0.0:
            return float("inf")
        rows = multiplier * (problem.reward / rising)
    worth = np.zeros(len(problem.scale))
    for speed, cost, price in zip(problem.speed.T, prices.tolist(), problem.price.tolist(), strict=True):
        gain = (rows * problem.norm + problem.value * price) * speed
        worth = np.maximum(worth, gain - problem.scale * cost)
    total = prices @ problem.capacity + problem.count @ worth - (problem.count * rows) @ problem.floor
    return float(total)

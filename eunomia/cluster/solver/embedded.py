"""Share programmes without pairs by ECOS' method: compiled, over distinct rows, with a certificate."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.cluster import Floats
from eunomia.cluster.solver.programme import ShareProgramme, ShareSolution, SolveReport

AGREED = 13  # decimals kept: identical jobs tie; who starves keeps his tiny share, which is his rank
OURS, AS_ECOS = (
    (3, 1e-11, 1e-9),
    (9, 1e-14, 1e-8),
)  # refinements of a solve, what may be left of it, and of feasibility
NAMES = ("self-dual embedding", "self-dual embedding as ECOS")


def solve_embedded_shares(problem: ShareProgramme, as_gavel: bool = False) -> ShareSolution:
    """The point where ECOS stops, for the programme as it is given.

    Types where a job cannot run keep their columns on the way, as in Gavel's model (where the method stops depends on
    them), and are cleared at the end; what they held, rounds hand out. ``as_gavel`` refines every solve as far as ECOS
    does, otherwise only late ones are refined. The gap is to the bound that the multipliers prove, see :func:`bound`.
    """
    from eunomia.cluster.solver.embedding_core import embed
    from eunomia.cluster.solver.embedding_step import ruiz

    speed = np.ascontiguousarray(problem.speed.T)
    kinds, rows = speed.shape
    every = np.ones(speed.shape)
    fair = np.where(problem.rowed, -problem.norm * speed, 0.0)
    grid = np.concatenate([every, every, fair, every * problem.scale])
    edge = np.where(problem.rowed, problem.rise, 0.0) if problem.reward else np.zeros(rows)
    unit = _unit_of_y(problem) if problem.reward and not as_gavel else 1.0
    edge, worth = edge / unit, problem.reward / unit if problem.reward and not as_gavel else 1.0
    jobs = np.stack([problem.count, edge])
    by_x, by_y, by_row, by_capacity = ruiz(*np.split(grid, 4), jobs[1])
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
    point, steps, _ = embed(jobs, grid, live, cost, *(AS_ECOS if as_gavel else OURS), as_gavel)
    own = kinds * rows  # entries of x; then y, signs, time, fairness, capacities
    shares = np.clip(np.round((point[:own].reshape(kinds, rows) / by_x).T, AGREED), 0.0, 1.0)
    shares = np.where(problem.speed > 0.0, shares, 0.0)
    level = float(point[own]) / by_y / unit if problem.reward else float("nan")
    at = 2 * own + 1 + rows
    multiplier = np.where(problem.rowed, point[at : at + rows] / by_row[1] * worth, 0.0)
    prices = point[-kinds:] / by_capacity * worth
    return judged(problem, shares, level, multiplier, prices, steps, NAMES[as_gavel])


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
    speed = (problem.speed * shares).sum(axis=1)
    y = level if problem.reward else 0.0
    worth = (problem.speed * problem.price * shares).sum(axis=1) * problem.value
    objective = float(problem.count @ worth) + problem.reward * y
    least = problem.floor + problem.rise * y
    over = (problem.count * problem.scale) @ shares / problem.capacity - 1.0
    short = np.where(problem.rowed, (least - problem.norm * speed) / np.maximum(np.abs(least), 1e-12), 0.0)
    residual = max(over.max(), short.max(initial=0.0), (shares.sum(axis=1) - 1.0).max(initial=0.0), 0.0)
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
    gain = (rows * problem.norm)[:, None] + problem.value[:, None] * problem.price
    worth = (gain * problem.speed - problem.scale[:, None] * prices).max(axis=1)
    worth = problem.count @ np.maximum(worth, 0.0)
    return float(prices @ problem.capacity + worth - (problem.count * rows) @ problem.floor)

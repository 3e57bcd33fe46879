"""Splitting a programme that is too large: random parts of the jobs, each with its part of the devices.

POP (Narayanan and others, SOSP 2021). Not exact: how much is lost depends on the policy (little for max-min fairness,
more for makespan, whose long jobs may meet in one part).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eunomia.cluster.solver.programme import ShareProgramme, ShareSolution, SolveReport
from eunomia.cluster.solver.solve import DEFAULT, solve_shares
from eunomia.cluster.solver.warm import WarmStart
from eunomia.core.errors import ConfigError


def solve_split(
    problem: ShareProgramme, parts: int, seed: int, solver: str = DEFAULT, warm: WarmStart | None = None
) -> ShareSolution:
    """Deal the rows at random to ``parts`` programmes of equal capacity and solve each.

    The level is the least of the parts'; multipliers are those of the parts. ``warm`` serves one part only.
    """
    size = len(problem.scale)
    if parts < 1:
        raise ConfigError(f"a programme is split into {parts} parts; it must be 1 or more")
    parts = min(parts, max(size, 1))
    if parts == 1:
        return solve_shares(problem, solver, warm=warm)
    part = np.random.default_rng(seed).permutation(size) % parts
    rows = [np.flatnonzero(part == k) for k in range(parts)]
    small = replace(problem, capacity=problem.capacity / parts)
    solved = [solve_shares(small.take(mine), solver) for mine in rows]
    shares, multiplier = np.zeros(problem.speed.shape), np.zeros(size)
    for mine, answer in zip(rows, solved, strict=True):
        shares[mine], multiplier[mine] = answer.shares, answer.multiplier
    pairs = [
        (mine[s.pair_first], mine[s.pair_second], s.pair_shares) for mine, s in zip(rows, solved, strict=True)
    ]
    reports = [answer.report for answer in solved]
    level = min(answer.level for answer in solved)
    objective = level if problem.reward else sum(report.objective for report in reports)
    report = SolveReport(
        f"{reports[0].solver}, {parts} parts",
        objective,
        float("nan"),  # the parts' bounds prove nothing about the whole
        max(report.primal_residual for report in reports),
        sum(report.steps for report in reports),
        sum(report.rows for report in reports),
        "; ".join(report.fallback for report in reports if report.fallback),
    )
    return ShareSolution(
        shares,
        level,
        multiplier,
        np.mean([answer.prices for answer in solved], axis=0),
        report,
        np.concatenate([pair[0] for pair in pairs]),
        np.concatenate([pair[1] for pair in pairs]),
        np.concatenate([pair[2].reshape(-1, len(problem.capacity)) for pair in pairs]),
    )

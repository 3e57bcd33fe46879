"""Maximal geometric mean of throughputs: proportional fairness over divisible device time."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.solver.highs import SolverError
from eunomia.cluster.solver.programme import ShareProgramme, ShareSolution, SolveReport

TOLERANCE = 1e-9
ACCEPTED = 1e-7


def solve_geometric(problem: ShareProgramme) -> ShareSolution:
    """Maximise sum_m n_m log thr_m(x) under the limits of time and capacity (floors and values are not looked at).

    The same compiled steps as for linear programmes, with slack times multiplier of each row held at 1: the conditions
    of optimality of Eisenberg and Gale's programme. The throughputs at the optimum are unique. By concavity the mean
    of log throughput is within ``report.gap`` of the optimum; SolverError if that exceeds 1e-7.
    """
    from eunomia.cluster.solver.interior import centre

    size, kinds = problem.speed.shape
    usable = problem.speed > 0.0
    live = np.column_stack([usable, np.ones((size, 2), bool)])
    unit = problem.speed.max(axis=1)
    zeros = np.zeros(size)
    slack, multiplier, prices, _, steps, gap, primal, dual = centre(
        problem.count,
        problem.scale,
        problem.speed / unit[:, None],
        zeros,
        zeros,
        live,
        np.zeros((size, kinds)),
        problem.capacity,
        0.0,
        True,
        TOLERANCE,
    )
    shares = np.where(usable, slack[:, :kinds], 0.0)
    shares /= np.maximum(shares.sum(axis=1), 1.0)[:, None]
    shares /= np.maximum((problem.count * problem.scale) @ shares / problem.capacity, 1.0)[None, :]
    if not max(gap, primal, dual) <= ACCEPTED:
        found = f"gap {gap:.1e}, residuals {primal:.1e} and {dual:.1e} after {steps} steps"
        raise SolverError(f"the geometric-mean programme was not solved: {found}")
    speed = (problem.speed * shares).sum(axis=1)
    report = SolveReport(
        "interior point", float(problem.count @ np.log(speed)), max(gap, dual), primal, steps, size
    )
    return ShareSolution(shares, float("nan"), multiplier[:, kinds + 1] / unit, prices, report)

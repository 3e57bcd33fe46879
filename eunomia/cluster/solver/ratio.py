"""Throughput per cost, exactly: a linear-fractional programme by Charnes and Cooper (1962)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eunomia.cluster.solver.assemble import assemble, pair_columns
from eunomia.cluster.solver.highs import INFINITY, LinearProgramme, SolverError, solve_linear
from eunomia.cluster.solver.programme import ShareProgramme, ShareSolution
from eunomia.cluster.solver.solve import ACCEPTED, accepted, dual_gap, from_linear, short, undo
from eunomia.core.arrays import Floats, Ints


def solve_ratio(problem: ShareProgramme, cost: Floats) -> ShareSolution:
    """Maximise (sum of values) / (cost of the device time used), floors included; ``cost`` per type and hour.

    With x = u / t: maximise the values of u subject to cost(u) = 1 and every limit times t. The objective is then in
    steps per unit of money (steps/s times 3600, per cost per hour). The gap is that of the scaled programme, which has
    the same optimum; SolverError if it or the residual is above 1e-7.
    """
    small, where = problem.collapse()
    built = assemble(small, pair_columns(small))
    lp = built.lp
    width = len(lp.gain)  # the last column, y, becomes t
    spent = np.zeros(width)
    m, j = built.share_row, built.share_type
    spent[: len(m)] = small.count[m] * small.scale[m] * cost[j]
    spent[built.pair_at] = small.scale[built.pairs.first] * cost[built.pairs.type]
    own = lp.column < width - 1
    limit = np.where(
        np.isfinite(lp.row_high), lp.row_high, np.where(np.isfinite(lp.row_low), lp.row_low, 0.0)
    )
    rows = np.arange(len(limit))
    t = np.full(len(limit), width - 1)
    row = np.concatenate([lp.row[own], rows[limit != 0.0], np.full(width - 1, len(limit))])
    column = np.concatenate([lp.column[own], t[limit != 0.0], np.arange(width - 1)])
    entry = np.concatenate([lp.entry[own], -limit[limit != 0.0], spent[:-1]])
    scaled = LinearProgramme(
        gain=3600.0 * lp.gain,
        low=np.zeros(width),
        high=np.full(width, INFINITY),
        row_low=np.append(np.where(np.isfinite(lp.row_low), 0.0, -INFINITY), 1.0),
        row_high=np.append(np.where(np.isfinite(lp.row_high), 0.0, INFINITY), 1.0),
        row=row.astype(np.int64),
        column=column.astype(np.int64),
        entry=entry,
    )
    answer = solve_linear(scaled)
    if not answer.feasible:
        raise SolverError(
            "the ratio programme is infeasible: its floors ask for more than the devices can do"
        )
    # any scaling of u up to the limits is an optimum; with t at its vertex value x is one of them
    stretch = answer.x[-1]
    if stretch <= 0.0:
        raise SolverError("the ratio programme is unbounded in t; a device type must cost nothing")
    x = replace(answer, x=np.append(answer.x[:-1] / stretch, 0.0), row_multiplier=answer.row_multiplier[:-1])
    solved = from_linear(small, built, x)
    report = replace(solved.report, solver="HiGHS simplex, Charnes-Cooper", gap=dual_gap(scaled, answer))
    if not accepted(report):
        raise SolverError(f"{short(report)}; {ACCEPTED:.0e} is accepted")
    return undo(problem, small, replace(solved, report=report), where)


def device_cost(shares: Floats, scale: Ints | Floats, cost: Floats) -> float:
    """Cost per hour of the device time in use."""
    return float((shares * np.asarray(scale)[:, None] * cost[None, :]).sum())

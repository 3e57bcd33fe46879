"""Solve a share programme: group, choose the solver, check the answer, undo the groups."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

import numpy as np

from eunomia.cluster.solver.assemble import Assembled, assemble, gains, pair_columns
from eunomia.cluster.solver.crumbs import with_crumbs
from eunomia.cluster.solver.embedded import AGREED, NAMES, solve_embedded_shares
from eunomia.cluster.solver.highs import LinearProgramme, LinearSolution, SolverError, Then, solve_linear
from eunomia.cluster.solver.programme import ShareProgramme, ShareSolution, SolveReport, programme
from eunomia.cluster.solver.unpack import job_pairs
from eunomia.cluster.solver.warm import WarmStart
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import UnknownNameError

TOLERANCE = 1e-9
ACCEPTED = 1e-7  # relative gap and residuals above this are a failed solve
LOST = 1e-9  # of a level, to rounding, for a second objective
SMALL = 1e-3  # of the level that all could reach alone: smaller levels are judged by this
LARGE = 4096  # rows without pairs; HiGHS takes many minutes beyond
DEFAULT = "embedding"
SOLVERS = (DEFAULT, "interior_point", "simplex", "as_gavel")


def solve_shares(
    problem: ShareProgramme,
    solver: str = DEFAULT,
    group: bool = True,
    warm: WarmStart | None = None,
    then: Floats | None = None,
    crumbs: bool = False,
) -> ShareSolution:
    """Solve and check; the answer is feasible to rounding and within 1e-7 of the optimum, relative.

    ``embedding`` (the default): the method of ECOS, compiled and over distinct rows, :mod:`embedded`; of many optima
    the one that Gavel's rounds follow. ``interior_point``: the compiled method of :mod:`interior`, more digits and
    clearer multipliers. With pairs both are HiGHS. ``simplex``: HiGHS' dual simplex, a vertex: fewest positive shares,
    identical jobs still alike because they are grouped. ``as_gavel``: the embedding, ungrouped, with Gavel's columns.

    ``warm``: what simplex begins with and leaves behind for the next programme. ``then`` (M,), with pairs and a level
    only: of the optima the one of the largest sum_m then_m thr_m, alike for rows that are alike, up to ``LOST`` of it.
    ``crumbs``, with pairs: :func:`~.crumbs.with_crumbs`.

    A solve that fails its check is repeated with HiGHS and reported as a fallback; that answer is judged by the same
    measure. A large programme is first repeated by interior point: ECOS' stop is absolute, so its gap exceeds the limit
    beyond about 70,000 rows. SolverError if it fails too, or if the programme is infeasible (floors too high). Where a
    gap has no meaning (nan: without an objective any feasible point will do) the residuals alone are judged.
    """
    if solver not in SOLVERS:
        raise UnknownNameError("solver", solver, SOLVERS)
    small, where = problem.collapse() if group and solver != "as_gavel" else (problem, None)
    if then is not None and where is not None:
        then = then[np.unique(where, return_index=True)[1]]
    run: Callable[[ShareProgramme], ShareSolution] = partial(_simplex, warm=warm, then=then, crumbs=crumbs)
    if solver == "as_gavel":
        run = _as_gavel
    elif problem.beside is None and solver != "simplex":
        run = _interior if solver == "interior_point" else solve_embedded_shares
    solved = run(small)
    if not accepted(solved.report):
        again = _again(small, solver, then)
        reason = f"{short(solved.report)}; solved again with {again.report.solver}"
        if not accepted(again.report):
            raise SolverError(f"{reason}, and {short(again.report)}; {ACCEPTED:.0e} is accepted")
        solved = replace(again, report=replace(again.report, fallback=reason))
    return undo(problem, small, solved, np.arange(len(problem.scale)) if where is None else where)


def _again(problem: ShareProgramme, failed: str, then: Floats | None) -> ShareSolution:
    """The second attempt: by interior point if the programme is large and has no pairs, else with HiGHS."""
    if len(problem.scale) > LARGE and problem.beside is None and failed != "interior_point":
        found = _interior(problem)
        if accepted(found.report):
            return found
    return _simplex(problem, then=then)


@cache
def warm_up(solver: str = DEFAULT) -> None:
    """Solve a tiny programme once per process: compiles what ``solver`` needs, or loads it; times then exclude that."""
    tiny = programme(np.ones((2, 2)), np.ones(2), np.ones(2), rise=1.0, reward=1.0)
    with suppress(SolverError):  # the true programme will say so
        solve_shares(tiny, solver)


def accepted(report: SolveReport) -> bool:
    """Whether a solve passes: residuals, and the gap where there is one, within ``ACCEPTED``."""
    return report.primal_residual <= ACCEPTED and (np.isnan(report.gap) or report.gap <= ACCEPTED)


def short(report: SolveReport) -> str:
    """How a solve that failed its check ended."""
    found = f"gap {report.gap:.1e}, residual {report.primal_residual:.1e} after {report.steps} steps"
    return f"{report.solver} stopped short ({found})"


def _interior(problem: ShareProgramme) -> ShareSolution:
    from eunomia.cluster.solver.interior import centre

    live = np.column_stack([problem.speed > 0.0, np.ones(len(problem.scale), bool), problem.rowed])
    gain = problem.norm[:, None] * problem.speed
    unit = np.where(problem.rowed, gain.max(axis=1), 1.0)  # rows in units of their own best type
    rise, floor = problem.rise / unit, problem.floor / unit
    y_unit = float(np.average(rise, weights=problem.count)) or 1.0
    worth = problem.value[:, None] * problem.price[None, :] * problem.speed
    worth_unit = problem.reward / y_unit if problem.reward else float(np.abs(worth).max()) or 1.0
    slack, multiplier, price, y, steps, gap, primal, dual = centre(
        problem.count,
        problem.scale,
        np.where(problem.rowed[:, None], gain / unit[:, None], 0.0),
        rise / y_unit,
        floor,
        live,
        worth / worth_unit,
        problem.capacity,
        problem.reward / y_unit / worth_unit,
        False,
        TOLERANCE,
    )
    kinds = problem.speed.shape[1]
    shares = np.where(live[:, :kinds], slack[:, :kinds], 0.0)
    level = y / y_unit if problem.reward else float("nan")
    objective = _objective(problem, shares, level)
    report = SolveReport("interior point", objective, max(gap, dual), primal, steps, len(shares))
    by_row = np.where(problem.rowed, multiplier[:, kinds + 1] / unit * worth_unit, 0.0)
    return ShareSolution(shares, level, by_row, price * worth_unit, report)


def _simplex(
    problem: ShareProgramme,
    warm: WarmStart | None = None,
    then: Floats | None = None,
    crumbs: bool = False,
) -> ShareSolution:
    built = assemble(problem, pair_columns(problem))
    start = warm.basis(problem, built) if warm is not None else None
    second = None if then is None else Then(gains(problem, then, built), 1.0 - LOST)
    answer = solve_linear(built.lp, start=start, keep=warm is not None, then=second)
    if warm is not None:
        warm.keep(problem, built, answer.basis)
    if not answer.feasible:
        raise SolverError("the programme is infeasible: its floors ask for more than the devices can do")
    if crumbs:
        point = with_crumbs(built, answer)
        worst = max(answer.violation, built.lp.violation(point))
        answer = replace(answer, then=point, violation=worst) if worst <= ACCEPTED else answer
    return from_linear(problem, built, answer)


def from_linear(problem: ShareProgramme, built: Assembled, answer: LinearSolution) -> ShareSolution:
    """Read an assembled programme's answer; pairs stay pairs of groups."""
    shares, x = np.zeros(problem.speed.shape), answer.x if answer.then is None else answer.then
    shares[built.share_row, built.share_type] = x[: len(built.share_row)]
    size = len(problem.scale)
    gap = dual_gap(built.lp, answer, SMALL * _level_alone(problem))
    report = SolveReport("HiGHS simplex", answer.objective, gap, answer.violation, answer.steps, size)
    together = np.zeros((len(built.pairs.type), problem.speed.shape[1]))
    together[np.arange(len(together)), built.pairs.type] = x[built.pair_at]
    return ShareSolution(
        shares,
        float(answer.x[-1]) if problem.reward else float("nan"),
        np.maximum(-answer.row_multiplier[size : 2 * size], 0.0) / problem.count,
        np.maximum(answer.row_multiplier[2 * size :], 0.0),
        report,
        built.pairs.first,
        built.pairs.second,
        together,
    )


def _level_alone(problem: ShareProgramme) -> float:
    """Times its reward, the level that every rising row could reach if it had the devices to itself; 0 without one."""
    rising = problem.rowed & (problem.rise > 0.0)
    if not problem.reward or not rising.any():
        return 0.0
    alone = problem.norm[rising] * problem.speed[rising].max(axis=1) / problem.rise[rising]
    return float(problem.reward * alone.min())


def dual_gap(lp: LinearProgramme, answer: LinearSolution, least: float = 0.0) -> float:
    """Relative distance to the bound that the multipliers prove, reduced costs of bounded columns included.

    Relative to the objective, or to ``least`` where that is larger: a level of (nearly) 0 has no digits of its own. A
    multiplier on a side where its row has no limit is within the solver's tolerance of 0 and is taken as 0.
    """
    limit = np.where(answer.row_multiplier > 0.0, lp.row_high, lp.row_low)
    y = np.where(np.isfinite(limit), answer.row_multiplier, 0.0)
    bound = float((y * np.where(np.isfinite(limit), limit, 0.0)).sum())
    reduced = lp.gain - np.bincount(lp.column, lp.entry * y[lp.row], len(lp.gain))
    edge = np.where(reduced > 0.0, lp.high, lp.low)
    bound += float((reduced * np.where(np.isfinite(edge), edge, 0.0)).sum())
    return abs(bound - answer.objective) / max(abs(answer.objective), least, 1e-12)


def _as_gavel(problem: ShareProgramme) -> ShareSolution:
    if problem.beside is None:
        return solve_embedded_shares(problem, as_gavel=True)
    return _by_one_system(problem)


def _by_one_system(problem: ShareProgramme) -> ShareSolution:
    """The embedding without regard to structure: for pairs, and as the reference form of the compiled one."""
    from eunomia.cluster.solver.embedding import Rows, solve_embedded

    built = assemble(problem, pair_columns(problem, whole=True), whole=True)
    lp, size = built.lp, len(problem.scale)
    width = len(lp.gain) - (0 if problem.reward else 1)
    limit = np.where(np.isfinite(lp.row_high), lp.row_high, -lp.row_low)
    keep = np.isfinite(limit)
    number = np.cumsum(keep) - 1
    sign = np.where(np.isfinite(lp.row_high), 1.0, -1.0)  # fairness rows become <=
    inside = keep[lp.row] & (lp.column < width)
    rows = Rows(
        number[lp.row[inside]],
        lp.column[inside],
        (sign[lp.row] * lp.entry)[inside],
        (int(keep.sum()), width),
    )
    signed = np.ones(width, bool)
    signed[-1] = not problem.reward
    found = solve_embedded(-lp.gain[:width], rows, limit[keep], signed)
    x = np.zeros(len(lp.gain))
    x[:width] = found.z
    x[: built.pair_at.stop] = np.clip(np.round(x[: built.pair_at.stop], AGREED), 0.0, 1.0)
    by_row = np.zeros(len(keep))
    by_row[keep] = found.multipliers
    by_row[size : 2 * size] *= -1.0
    answer = LinearSolution(x, by_row, float(lp.gain @ x), lp.violation(x), found.steps, True)
    solved = from_linear(problem, built, answer)
    gap = (
        solved.report.gap if lp.gain.any() else float("nan")
    )  # without an objective any feasible point will do
    gap = gap if found.optimal else float("inf")
    return replace(solved, report=replace(solved.report, solver=NAMES[True], gap=gap))


def _objective(problem: ShareProgramme, shares: Floats, level: float) -> float:
    worth = (problem.speed * problem.price[None, :] * shares).sum(axis=1) * problem.value * problem.count
    return float(worth.sum()) + (problem.reward * level if problem.reward else 0.0)


def _made_feasible(problem: ShareProgramme, solved: ShareSolution) -> ShareSolution:
    """Shares cut by what rounding put above a limit, so that capacity and time hold exactly."""
    shares = np.where(problem.speed > 0.0, np.maximum(solved.shares, 0.0), 0.0)
    together = np.maximum(solved.pair_shares, 0.0)
    used = (problem.count * problem.scale) @ shares
    time = shares @ np.ones(shares.shape[1])
    if len(together):
        used += problem.scale[solved.pair_first] @ together
        for side in (solved.pair_first, solved.pair_second):
            time += np.bincount(side, together.sum(axis=1), len(time)) / problem.count
    by_type = np.maximum(used / problem.capacity, 1.0)
    by_row = np.maximum(time, 1.0)
    shares = shares / (by_type[None, :] * by_row[:, None])
    if len(together):
        worst = np.maximum(by_row[solved.pair_first], by_row[solved.pair_second])
        together = together / (by_type[None, :] * worst[:, None])
    return replace(solved, shares=shares, pair_shares=together)


def undo(problem: ShareProgramme, small: ShareProgramme, solved: ShareSolution, where: Ints) -> ShareSolution:
    """Every job gets its group's share; time of pairs of groups is dealt to pairs of jobs."""
    solved = _made_feasible(small, solved)
    first, second, together = solved.pair_first, solved.pair_second, solved.pair_shares
    if problem.beside is not None:
        first, second, together = job_pairs(first, second, together, where, len(small.scale))
    return replace(
        solved,
        shares=solved.shares[where],
        multiplier=solved.multiplier[where],
        pair_first=first,
        pair_second=second,
        pair_shares=together,
    )

"""HiGHS on a sparse linear programme, called directly; loaded on first use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.core.highs import silent_solver

if TYPE_CHECKING:
    import highspy

INFINITY = float("inf")
PRIMAL = 4  # HiGHS' number of a strategy


class SolverError(EunomiaError):
    """No solver found an optimum; the message carries the status."""


@dataclass(frozen=True)
class LinearProgramme:
    """Maximise gain . x subject to row_low <= A x <= row_high, low <= x <= high; A as coordinates."""

    gain: Floats
    low: Floats
    high: Floats
    row_low: Floats
    row_high: Floats
    row: Ints
    column: Ints
    entry: Floats

    def compressed(self) -> tuple[Ints, Ints, Floats]:
        """A by columns: starts, rows, entries."""
        order = np.argsort(self.column, kind="stable")
        start = np.searchsorted(self.column[order], np.arange(len(self.gain) + 1))
        return start, self.row[order], self.entry[order]

    def activity(self, x: Floats) -> Floats:
        """A x."""
        return np.asarray(np.bincount(self.row, self.entry * x[self.column], len(self.row_low)), float)

    def violation(self, x: Floats) -> float:
        """Largest violation of a limit at x, relative to the row's limit where that is above 1."""
        activity = self.activity(x)
        over = np.maximum(self.row_low - activity, activity - self.row_high)
        limit = np.where(np.isfinite(self.row_high), self.row_high, self.row_low)
        outside = np.maximum(self.low - x, x - self.high)
        scaled = over / np.maximum(np.abs(np.nan_to_num(limit, posinf=1.0, neginf=1.0)), 1.0)
        return float(max(scaled.max(initial=0.0), outside.max(initial=0.0), 0.0))


LOWER, BASIC = 0, 1  # HiGHS' numbers for a column at its lower limit and in the basis


@dataclass(frozen=True)
class Basis:
    """Status of every column and row at a vertex, by HiGHS' numbers."""

    column: Ints
    row: Ints


@dataclass(frozen=True)
class Then:
    """What to maximise next, while the last column stays above ``kept`` of what it reached."""

    gain: Floats
    kept: float


@dataclass(frozen=True)
class LinearSolution:
    """What HiGHS says, and the violation as recomputed here; ``then``: the point after a second objective."""

    x: Floats
    row_multiplier: Floats
    objective: float
    violation: float
    steps: int
    feasible: bool  # False: proven infeasible; x is then empty
    basis: Basis | None = None  # of a vertex, when asked for
    then: Floats | None = None


def solve_linear(
    problem: LinearProgramme,
    method: str = "simplex",
    start: Basis | None = None,
    keep: bool = False,
    then: Then | None = None,
) -> LinearSolution:
    """Solve with HiGHS: ``simplex`` (a vertex) or ``ipm`` (interior point without crossover).

    ``start``: a basis to begin with; one that does not fit is repaired. ``keep``: the answer carries its basis.
    ``then``: a second objective over the optima, from that vertex on; left out where it finds no optimum.

    Infeasibility is an answer; anything else that is not optimal is tried again without presolve, and then a
    SolverError. ConfigError when highspy is missing.
    """
    highs, highspy = _loaded(problem, method)
    if start is not None:
        highs.setBasis(_given(start, highspy))
    highs.run()
    status = highs.modelStatusToString(highs.getModelStatus())
    if status not in ("Optimal", "Infeasible"):
        highs.clearSolver()
        highs.setOptionValue("presolve", "off")
        highs.setOptionValue("solver", "simplex")
        highs.run()
        status = highs.modelStatusToString(highs.getModelStatus())
    if status == "Infeasible":
        return LinearSolution(np.zeros(0), np.zeros(0), float("nan"), float("nan"), 0, False)
    if status != "Optimal":
        size = f"{len(problem.gain)} columns, {len(problem.row_low)} rows"
        raise SolverError(f"HiGHS ended with status '{status}' on a programme of {size}")
    solution, info = highs.getSolution(), highs.getInfo()
    x = np.array(solution.col_value)
    steps = max(info.simplex_iteration_count, info.ipm_iteration_count, 0)
    basis = None
    if keep:
        status = highs.getBasis()
        basis = Basis(
            np.array([int(v) for v in status.col_status]), np.array([int(v) for v in status.row_status])
        )
    found = LinearSolution(
        x, np.array(solution.row_dual), float(problem.gain @ x), problem.violation(x), int(steps), True, basis
    )
    return found if then is None else _continued(highs, problem, found, then)


def _continued(
    highs: highspy.Highs, problem: LinearProgramme, first: LinearSolution, then: Then
) -> LinearSolution:
    """The second objective by the primal simplex method: the first vertex is feasible, and mostly a few steps off."""
    width = len(then.gain)
    highs.changeColsCost(width, np.arange(width, dtype=np.int32), then.gain)
    highs.changeColBounds(width - 1, float(then.kept * first.x[-1]), float(problem.high[-1]))
    highs.setOptionValue("simplex_strategy", PRIMAL)
    highs.run()
    if highs.modelStatusToString(highs.getModelStatus()) != "Optimal":
        return first
    x, more = np.array(highs.getSolution().col_value), max(highs.getInfo().simplex_iteration_count, 0)
    worst = max(first.violation, problem.violation(x))
    return replace(first, then=x, violation=worst, steps=first.steps + more)


def _given(basis: Basis, highspy: Any) -> Any:
    status = [highspy.HighsBasisStatus(k) for k in range(5)]
    given = highspy.HighsBasis()
    given.col_status = [status[k] for k in basis.column.tolist()]
    given.row_status = [status[k] for k in basis.row.tolist()]
    given.valid = given.alien = True
    return given


def _loaded(problem: LinearProgramme, method: str) -> tuple[Any, Any]:
    try:
        import highspy
    except ImportError:
        raise ConfigError("this programme needs HiGHS: pip install 'eunomia[cluster]'") from None
    start, index, entry = problem.compressed()
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(problem.gain), len(problem.row_low)
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = problem.gain, problem.low, problem.high
    lp.row_lower_, lp.row_upper_ = problem.row_low, problem.row_high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = start.astype(np.int32), index.astype(np.int32)
    lp.a_matrix_.value_ = entry
    highs = silent_solver()
    settings: dict[str, str | int | float] = {"threads": 1, "random_seed": 0}
    settings |= {"solver": method, "primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
    if method == "ipm":
        settings |= {"run_crossover": "off", "ipm_optimality_tolerance": 1e-10}
    for name, value in settings.items():
        highs.setOptionValue(name, value)
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise SolverError("HiGHS refused the programme; its coefficients are out of range")
    return highs, highspy

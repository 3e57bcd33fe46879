"""HiGHS behind one function; loaded on first use."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.core.highs import silent_solver
from eunomia.metrics.bounds.program import Program

DONE = ("Optimal", "Time limit reached", "Solution limit reached", "Iteration limit reached")
NODES = 3_000  # of a branch and bound, at most: the same on every machine


@dataclass(frozen=True, eq=False)
class Solution:
    """What the solver says; none of it is taken on trust."""

    status: str  # in the solver's words: Optimal, Time limit reached, ...
    value: float  # objective of ``x``; nan when no solution was found
    x: Floats  # (columns,) empty when none was found
    multipliers: Floats  # (rows,) zeros when there are none
    dual_bound: float  # integer programs: upper bound by the solver's tree; inf otherwise
    violation: float  # largest violation of a limit at x, as recomputed here
    seconds: float


def solve(program: Program, time_limit_s: float | None = None) -> Solution:
    """Solve with HiGHS: dual simplex, or branch and bound where columns must be whole.

    Raises ConfigError when highspy is missing and EunomiaError when the solver gives up. Running out of
    time is no error: whatever multipliers there are prove a valid, weaker bound.
    """
    highs = _load(program, time_limit_s)
    began = time.perf_counter()
    highs.run()
    status = highs.modelStatusToString(highs.getModelStatus())
    if status not in DONE:  # presolve has been seen to call a program infeasible that x = 0 satisfies
        highs.setOptionValue("presolve", "off")
        highs.run()
        status = highs.modelStatusToString(highs.getModelStatus())
    seconds = time.perf_counter() - began
    if status not in DONE:
        raise EunomiaError(
            f"the bound's program could not be solved: HiGHS ended with status '{status}' "
            f"({len(program.gain)} columns, {len(program.row_low)} rows); try other intervals"
        )
    solution, info = highs.getSolution(), highs.getInfo()
    x = np.array(solution.col_value) if solution.value_valid else np.empty(0)
    multipliers = np.array(solution.row_dual) if solution.dual_valid else np.zeros(len(program.row_low))
    return Solution(
        status,
        float(program.gain @ x) if len(x) else math.nan,
        x,
        multipliers,
        float(info.mip_dual_bound) if len(program.integral) else math.inf,
        program.violation(x) if len(x) else math.nan,
        seconds,
    )


def _load(program: Program, time_limit_s: float | None) -> Any:
    """A solver holding the program."""
    try:
        import highspy
    except ImportError:
        raise ConfigError("clairvoyant bounds need HiGHS: pip install 'eunomia[lp]'") from None
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.gain), len(program.row_low)
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.gain, program.low, program.high
    lp.row_lower_, lp.row_upper_ = program.row_low, program.row_high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = program.start.astype(np.int32)
    lp.a_matrix_.index_ = program.index.astype(np.int32)
    lp.a_matrix_.value_ = program.value
    if len(program.integral):
        kinds = np.full(lp.num_col_, highspy.HighsVarType.kContinuous, object)
        kinds[program.integral] = highspy.HighsVarType.kInteger
        lp.integrality_ = kinds.tolist()
    highs = silent_solver()
    settings: dict[str, str | int | float] = {"threads": 1, "random_seed": 0}
    if not len(program.integral):
        settings |= {"solver": "simplex", "simplex_strategy": 1}  # dual
    else:
        settings |= {"mip_max_nodes": NODES}
    if time_limit_s is not None:
        settings["time_limit"] = float(time_limit_s)
    for name, value in settings.items():
        highs.setOptionValue(name, value)
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise EunomiaError("HiGHS refused the bound's program; its coefficients are out of range")
    return highs

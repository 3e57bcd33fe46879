"""max gain x, A x <= limit, x binary: the one integer programme of these policies, by HiGHS called directly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError
from eunomia.core.highs import silent_solver


def best_packing(
    gain: Floats,
    entries: Sequence[tuple[Ints, Floats]],
    limit: Floats,
    gap: float,
    seconds: float,
) -> tuple[Ints | None, str]:
    """Chosen columns and the solver's status; None unless optimal within ``gap``.

    ``entries``: rows (ascending) and coefficients of each column; ``limit`` (rows,). One thread and a fixed seed, so
    the answer is the same every time.
    """
    try:
        import highspy
    except ImportError:
        raise ConfigError("this policy needs HiGHS: pip install 'eunomia[cluster]'") from None
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(gain), len(limit)
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = gain, np.zeros(len(gain)), np.ones(len(gain))
    lp.row_lower_, lp.row_upper_ = np.full(len(limit), -np.inf), np.asarray(limit, float)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.cumsum([0, *(len(rows) for rows, _ in entries)]).astype(np.int32)
    lp.a_matrix_.index_ = np.concatenate([rows for rows, _ in entries]).astype(np.int32)
    lp.a_matrix_.value_ = np.concatenate([values for _, values in entries]).astype(float)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(gain)
    highs = silent_solver()
    for name, value in (
        ("threads", 1),
        ("random_seed", 0),
        ("mip_rel_gap", gap),
        ("time_limit", seconds),
    ):
        highs.setOptionValue(name, value)
    highs.passModel(lp)
    highs.run()
    status = str(highs.modelStatusToString(highs.getModelStatus()))
    if status != "Optimal":
        return None, status
    return np.flatnonzero(np.array(highs.getSolution().col_value) > 0.5), status

"""Columns of record tables as arrays, nulls replaced by what the reader means by them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def floats(table: pa.Table, column: str, missing: float = np.nan) -> Floats:
    """A column as float64, nulls replaced."""
    return np.asarray(table[column].fill_null(missing).to_numpy(), np.float64)


def ints(table: pa.Table, column: str, missing: int = -1) -> Ints:
    """A column as int64, nulls replaced."""
    return np.asarray(table[column].fill_null(missing).to_numpy(), np.int64)


def words(table: pa.Table, column: str) -> list[str]:
    """A column of names; null is None, for columns that have nulls."""
    return list(table[column].to_pylist())

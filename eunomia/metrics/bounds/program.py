"""A sparse linear program as arrays, and the bound that any row multipliers prove (weak duality)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from eunomia.core.arrays import Floats, Ints

ROUNDING = 1e-12  # relative to the sum of absolute terms: far above what summing doubles can lose


@dataclass(frozen=True, eq=False)
class Program:
    """Maximise ``gain . x`` subject to ``row_low <= A x <= row_high`` and ``low <= x <= high``, all of them finite.

    A in compressed sparse rows: entries ``start[i]`` to ``start[i + 1]`` are row i.
    """

    gain: Floats  # (columns,)
    low: Floats  # (columns,)
    high: Floats  # (columns,)
    row_low: Floats  # (rows,) -inf = none
    row_high: Floats  # (rows,)
    start: Ints  # (rows + 1,)
    index: Ints  # (entries,)
    value: Floats  # (entries,)
    integral: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # columns that must be whole

    def proven(self, multipliers: Floats) -> float:
        """An upper bound on the optimum from any row multipliers, right whatever the solver's tolerance.

        For every feasible x and every lambda: gain.x = (gain - A' lambda).x + lambda.(A x). That is at most
        sum_j max over [low_j, high_j] of (gain - A' lambda)_j x_j + sum_i max over [row_low_i, row_high_i] of
        lambda_i a_i. Multipliers that would make a term infinite are set to 0. Optimal multipliers give the
        optimum itself. Rounding is covered by a margin. The bound holds for the relaxation, so also where
        ``integral`` columns exist.
        """
        usable = np.where(multipliers > 0.0, np.isfinite(self.row_high), np.isfinite(self.row_low))
        weight = np.where(usable & np.isfinite(multipliers), multipliers, 0.0)
        row_of = np.repeat(np.arange(len(self.row_low)), np.diff(self.start))
        products = self.value * weight[row_of]
        reduced = self.gain - np.bincount(self.index, products, len(self.gain))
        absolute = np.abs(self.gain) + np.bincount(self.index, np.abs(products), len(self.gain))
        columns = np.maximum(reduced * self.low, reduced * self.high)
        limit = np.where(weight > 0.0, self.row_high, self.row_low)
        rows = weight * np.where(weight == 0.0, 0.0, limit)
        reach = np.maximum(np.abs(self.low), np.abs(self.high))
        margin = ROUNDING * (math.fsum(absolute * reach) + math.fsum(np.abs(rows)))
        return math.fsum(columns) + math.fsum(rows) + margin

    def loosened(self, slack: float) -> Program:
        """Every row may be missed by ``slack``: what is feasible lies inside, whatever the solver's tolerance."""
        return replace(self, row_low=self.row_low - slack, row_high=self.row_high + slack)

    def violation(self, x: Floats) -> float:
        """Largest violation of a row or a column bound at ``x``."""
        row_of = np.repeat(np.arange(len(self.row_low)), np.diff(self.start))
        activity = np.bincount(row_of, self.value * x[self.index], len(self.row_low))
        excess = (self.row_low - activity, activity - self.row_high, self.low - x, x - self.high)
        return max(0.0, *(float(part.max(initial=0.0)) for part in excess))


class Builder:
    """Collects blocks of columns and rows; every call adds many at once."""

    def __init__(self) -> None:
        self._columns: list[tuple[Floats, Floats, Floats]] = []
        self._rows: list[tuple[Floats, Floats]] = []
        self._entries: list[tuple[Ints, Ints, Floats]] = []
        self.num_columns = self.num_rows = 0

    def columns(self, high: Floats, gain: Floats | float = 0.0) -> Ints:
        """Add columns in [0, high]; returns their numbers."""
        count = len(high)
        self._columns.append((np.broadcast_to(gain, count).astype(np.float64), np.zeros(count), high))
        self.num_columns += count
        return np.arange(self.num_columns - count, self.num_columns)

    def rows(self, low: Floats, high: Floats) -> Ints:
        """Add rows with these limits; returns their numbers."""
        self._rows.append((low, high))
        self.num_rows += len(low)
        return np.arange(self.num_rows - len(low), self.num_rows)

    def put(self, row: Ints, column: Ints, value: Floats | float) -> None:
        """Add coefficients."""
        self._entries.append((row, column, np.broadcast_to(value, len(row)).astype(np.float64)))

    def program(self, integral: Ints | None = None) -> Program:
        """All of it."""
        gain, low, high = (np.concatenate(part) for part in zip(*self._columns, strict=True))
        row_low, row_high = (np.concatenate(part) for part in zip(*self._rows, strict=True))
        row, column, value = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        order = np.lexsort((column, row))
        start = np.searchsorted(row[order], np.arange(self.num_rows + 1))
        whole = np.empty(0, np.int64) if integral is None else integral
        return Program(
            gain, low, high, row_low, row_high, start.astype(np.int64), column[order], value[order], whole
        )

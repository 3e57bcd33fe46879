"""Warm starts of the simplex method from one programme to the next of the same policy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.solver.assemble import Assembled
from eunomia.cluster.solver.highs import BASIC, LOWER, Basis
from eunomia.cluster.solver.programme import ShareProgramme
from eunomia.core.arrays import Ints

ENOUGH = 0.95  # part of the columns that must be known; with less, the old basis is farther away than none
ROWS = 1 << 24
TYPES = 1 << 6


@dataclass
class WarmStart:
    """The last basis, by the names of its columns and rows: groups keep theirs while jobs come and go.

    A group is identified by its row of the throughput table and its number among the groups of that row. That
    is only a guess: a wrong one costs steps, never the optimum. Of several optimal vertices the nearest is
    found, so answers depend on those before them, the same in every run.
    """

    _columns: dict[int, int] = field(default_factory=dict, repr=False)
    _rows: dict[int, int] = field(default_factory=dict, repr=False)

    def forget(self) -> None:
        """Start the next programme from nothing."""
        self._columns, self._rows = {}, {}

    def basis(self, problem: ShareProgramme, built: Assembled) -> Basis | None:
        """The old basis in the places of this programme; None = too little of it is known."""
        if not self._columns:
            return None
        columns, rows = _names(problem, built)
        found = [self._columns.get(name, -1) for name in columns.tolist()]
        if sum(status >= 0 for status in found) < ENOUGH * max(len(found), len(self._columns)):
            return None
        return Basis(
            np.array([status if status >= 0 else LOWER for status in found]),
            np.array([self._rows.get(name, BASIC) for name in rows.tolist()]),
        )

    def keep(self, problem: ShareProgramme, built: Assembled, basis: Basis | None) -> None:
        """Remember an optimal basis."""
        self.forget()
        if basis is not None:
            columns, rows = _names(problem, built)
            self._columns = dict(zip(columns.tolist(), basis.column.tolist(), strict=True))
            self._rows = dict(zip(rows.tolist(), basis.row.tolist(), strict=True))


def _names(problem: ShareProgramme, built: Assembled) -> tuple[Ints, Ints]:
    """A number per column and per row of the linear programme that says what it stands for."""
    seen: dict[int, int] = {}
    group = np.empty(len(problem.kind), np.int64)
    for m, kind in enumerate(problem.kind.tolist()):
        seen[kind] = seen.get(kind, -1) + 1
        group[m] = kind * 256 + min(seen[kind], 255)
    group += 1
    share = group[built.share_row] * (ROWS * TYPES) + built.share_type
    pairs = built.pairs
    pair = group[pairs.first] * (ROWS * TYPES) + group[pairs.second] * TYPES + pairs.type
    last = [-1 - k for k in range(len(built.lp.gain) - len(share) - len(pair))]
    kinds = np.arange(problem.speed.shape[1])
    return np.concatenate([share, pair, np.array(last, np.int64)]), np.concatenate(
        [group, ROWS * TYPES + group, 2 * ROWS * TYPES + kinds]
    )

"""Programmes over time shares: what every linear policy of this wing hands to a solver."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from eunomia.cluster.solver.grouping import group_rows
from eunomia.contract.allocation import Note
from eunomia.core.arrays import Floats, Ints

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ShareProgramme:
    """Shares x of wall time for M rows (jobs, or groups of identical jobs) on J device types.

    ::

        maximise    reward y + sum_m n_m value_m sum_j price_j T_mj x_mj
        subject to  norm_m thr_m(x) >= floor_m + rise_m y        where ``rowed``
                    sum_j x_mj <= 1,   sum_m n_m scale_m x_mj <= capacity_j,   x >= 0

    thr_m(x) = sum_j T_mj x_mj, plus, where ``beside`` is given, what m does in pairs with jobs of equal scale.
    A share is 0 where T is 0. ``kind`` is the row of ``beside``; jobs of one kind pair alike.
    """

    speed: Floats  # T (M, J) steps/s, 0 = not usable
    scale: Floats  # (M,)
    capacity: Floats  # (J,) devices
    norm: Floats  # (M,)
    rise: Floats  # (M,) >= 0
    floor: Floats  # (M,)
    value: Floats  # (M,)
    price: Floats  # (J,)
    reward: float
    rowed: Bools  # (M,)
    count: Floats  # n (M,)
    kind: Ints  # (M,)
    beside: Floats | None = None  # (R, R, J)

    def collapse(self) -> tuple[ShareProgramme, Ints]:
        """Rows that are equal in everything become one that counts for all; also the group of each row.

        Exact: the programme is convex and symmetric in identical jobs, so some optimum treats them alike.
        """
        columns = [self.scale, self.norm, self.rise, self.floor, self.value, self.rowed.astype(float)]
        if self.beside is not None:
            columns.append(self.kind.astype(float))
        first, group, _ = group_rows(np.column_stack([self.speed, *columns]))
        if len(first) == len(group):
            return self, group  # nothing is alike; groups stand in order of first appearance
        count = np.bincount(group, self.count, len(first)).astype(float)
        return replace(self.take(first), count=count), group

    def take(self, rows: Ints) -> ShareProgramme:
        """The same programme over some of the rows."""
        names = ("speed", "scale", "norm", "rise", "floor", "value", "rowed", "count", "kind")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


class Terms(TypedDict, total=False):
    """Terms of a programme, see ``ShareProgramme``. Left out: ``norm`` and ``price`` 1, ``rowed`` true, others 0."""

    norm: Floats | float
    rise: Floats | float
    floor: Floats | float
    rowed: Bools | bool
    value: Floats | float
    price: Floats | float
    reward: float
    kind: Ints | None
    beside: Floats | None


def programme(
    speed: Floats,
    scale: Ints | Floats,
    capacity: Ints | Floats,
    **terms: Unpack[Terms],
) -> ShareProgramme:
    """Build a programme; single numbers stand for every row (type). Terms that are left out: see ``Terms``."""
    rows, kinds = speed.shape
    kind = terms.get("kind")

    def each(given: Floats | float, size: int = rows) -> Floats:
        return np.broadcast_to(np.asarray(given, float), (size,))

    devices = np.asarray(capacity, float)
    there = devices > 0.0
    return ShareProgramme(
        speed=np.where(there, speed, 0.0),
        scale=np.asarray(scale, float),
        capacity=np.where(there, devices, 1.0),  # of a type without devices nothing can be used anyway
        norm=each(terms.get("norm", 1.0)),
        rise=each(terms.get("rise", 0.0)),
        floor=each(terms.get("floor", 0.0)),
        value=each(terms.get("value", 0.0)),
        price=each(terms.get("price", 1.0), kinds),
        reward=terms.get("reward", 0.0),
        rowed=np.broadcast_to(np.asarray(terms.get("rowed", True), bool), (rows,)),
        count=np.ones(rows),
        kind=np.zeros(rows, np.int64) if kind is None else kind,
        beside=terms.get("beside"),
    )


@dataclass(frozen=True)
class SolveReport:
    """How a solve went, as recomputed from the answer; residuals and gap are relative."""

    solver: str
    objective: float
    gap: float  # nan = the solver gives no bound
    primal_residual: float
    steps: int
    rows: int  # rows of the programme that was solved, after grouping
    fallback: str = ""  # why the first choice was not used

    def notes(self) -> tuple[Note, ...]:
        """For the allocation: the solve, and the fallback if there was one."""
        text = (
            f"{self.solver}: objective {self.objective:.9g}, gap {self.gap:.1e}, "
            f"residual {self.primal_residual:.1e}, {self.steps} steps, {self.rows} distinct rows"
        )
        solve = Note("solve", text, values=(self.objective, self.gap, self.primal_residual))
        return (solve, Note("fallback", self.fallback)) if self.fallback else (solve,)


@dataclass(frozen=True)
class ShareSolution:
    """Answer to a programme, in the rows that were given (groups undone)."""

    shares: Floats  # (M, J)
    level: float  # y; nan without reward
    multiplier: Floats  # (M,) of the fairness rows, per job, >= 0
    prices: Floats  # (J,) of capacity
    report: SolveReport
    pair_first: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    pair_second: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    pair_shares: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (P, J)

    def throughput(self, problem: ShareProgramme) -> Floats:
        """thr_m of every row, shape (M,), pairs included."""
        total = (problem.speed * self.shares).sum(axis=1)
        if len(self.pair_first):
            assert problem.beside is not None
            a, b = problem.kind[self.pair_first], problem.kind[self.pair_second]
            size = len(total)
            first = (problem.beside[a, b] * self.pair_shares).sum(axis=1)
            second = (problem.beside[b, a] * self.pair_shares).sum(axis=1)
            total = (
                total
                + np.bincount(self.pair_first, first, size)
                + np.bincount(self.pair_second, second, size)
            )
        return np.asarray(total)

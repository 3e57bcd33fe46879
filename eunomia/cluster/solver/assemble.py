"""A share programme as a sparse linear programme, pairs of jobs included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.cluster.solver.highs import INFINITY, LinearProgramme
from eunomia.cluster.solver.programme import ShareProgramme
from eunomia.core.arrays import Floats, Ints


@dataclass(frozen=True)
class PairColumns:
    """Columns of pairs of groups: total time z that jobs of two groups (or of one) run together on a type."""

    first: Ints  # (Q,)
    second: Ints
    type: Ints
    first_speed: Floats  # (Q,) steps/s
    second_speed: Floats


NONE = np.zeros(0, np.int64)
NO_PAIRS = PairColumns(NONE, NONE, NONE, np.zeros(0), np.zeros(0))


def pair_columns(problem: ShareProgramme, whole: bool = False) -> PairColumns:
    """All pairs that can share a device and are worth it.

    Left out, without loss, are those that time slicing matches: speed_a / T_a + speed_b / T_b <= 1 on that type;
    ``whole`` keeps them, and useless ones too. A group pairs with itself if it counts at least two jobs.
    """
    if problem.beside is None:
        return NO_PAIRS
    a, b = np.triu_indices(len(problem.scale))
    fits = (problem.scale[a] == problem.scale[b]) & ((a != b) | (problem.count[a] >= 2.0))
    a, b = a[fits], b[fits]
    at_a = problem.beside[problem.kind[a], problem.kind[b]]
    at_b = problem.beside[problem.kind[b], problem.kind[a]]
    alone_a, alone_b = problem.speed[a], problem.speed[b]
    good = (at_a > 0.0) & (at_b > 0.0) & (alone_a > 0.0) & (alone_b > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        good &= at_a / alone_a + at_b / alone_b > 1.0
    good |= whole
    pair, kind = np.nonzero(good)
    return PairColumns(a[pair], b[pair], kind, at_a[pair, kind], at_b[pair, kind])


@dataclass(frozen=True)
class Assembled:
    """The linear programme and where its columns are: shares, pairs, relief, y."""

    lp: LinearProgramme
    share_row: Ints  # row of the programme of each share column
    share_type: Ints
    pairs: PairColumns
    relieved: Ints  # rows whose floor has a relief column

    @property
    def pair_at(self) -> slice:
        """Columns of pairs."""
        return slice(len(self.share_row), len(self.share_row) + len(self.pairs.type))

    @property
    def relief_at(self) -> slice:
        """Columns of relief: part of the floor that is given up."""
        return slice(self.pair_at.stop, self.pair_at.stop + len(self.relieved))


def assemble(
    problem: ShareProgramme, pairs: PairColumns, relief: Floats | None = None, whole: bool = False
) -> Assembled:
    """Rows: M times, M fairness rows (free where not ``rowed``), J capacities. The last column is y.

    ``relief`` (M,): cost of giving up all of a row's floor; nan = not to be given up. The objective is then that
    cost alone. ``whole`` makes columns for types where a job cannot run, too.
    """
    size, kinds = problem.speed.shape
    m, j = np.nonzero((problem.speed > 0.0) | whole)
    shares, couples = len(m), len(pairs.type)
    p, q = pairs.first, pairs.second
    relieved = np.zeros(0, np.int64) if relief is None else np.flatnonzero(~np.isnan(relief))
    x, z = np.arange(shares), shares + np.arange(couples)
    v = shares + couples + np.arange(len(relieved))
    width = shares + couples + len(relieved) + 1
    n, norm = problem.count, problem.norm
    y = np.full(size, width - 1)
    every = np.arange(size)
    # (row, column, entry) of: time, fairness, capacity; a pair of one group with itself enters its row twice
    parts = [
        (m, x, np.ones(shares)),
        (p, z, 1.0 / n[p]),
        (q, z, 1.0 / n[q]),
        (size + m, x, norm[m] * problem.speed[m, j]),
        (size + p, z, norm[p] * pairs.first_speed / n[p]),
        (size + q, z, norm[q] * pairs.second_speed / n[q]),
        (size + every, y, -problem.rise),
        (2 * size + j, x, n[m] * problem.scale[m]),
        (2 * size + pairs.type, z, problem.scale[p]),
    ]
    if relief is not None:
        parts.append((size + relieved, v, problem.floor[relieved]))
    gain = np.zeros(width)
    if relief is None:
        gain[: shares + couples] = _worth(problem, problem.value, m, j, pairs)
        gain[-1] = problem.reward
    else:
        gain[v] = -n[relieved] * relief[relieved]
    row, column, entry = (np.concatenate([part[k] for part in parts]) for k in range(3))
    row, column, entry = _summed(row, column, entry, width)
    low, high = np.zeros(width), np.full(width, INFINITY)
    high[v] = 1.0
    low[-1], high[-1] = (-INFINITY, INFINITY) if problem.reward else (0.0, 0.0)
    floor = np.where(problem.rowed, problem.floor, -INFINITY)
    lp = LinearProgramme(
        gain,
        low,
        high,
        np.concatenate([np.full(size, -INFINITY), floor, np.full(kinds, -INFINITY)]),
        np.concatenate([np.ones(size), np.full(size, INFINITY), problem.capacity]),
        row,
        column,
        entry,
    )
    return Assembled(lp, m, j, pairs, relieved)


def gains(problem: ShareProgramme, value: Floats, built: Assembled) -> Floats:
    """(columns,) of sum_m value_m thr_m as the objective, all else 0."""
    gain = np.zeros(len(built.lp.gain))
    gain[: built.pair_at.stop] = _worth(problem, value, built.share_row, built.share_type, built.pairs)
    return gain


def _worth(problem: ShareProgramme, value: Floats, m: Ints, j: Ints, pairs: PairColumns) -> Floats:
    """Of shares (of rows ``m`` on types ``j``), then of pairs: what a unit of each adds to sum_m value_m thr_m."""
    alone = problem.count[m] * value[m] * problem.price[j] * problem.speed[m, j]
    both = value[pairs.first] * pairs.first_speed + value[pairs.second] * pairs.second_speed
    return np.concatenate([alone, problem.price[pairs.type] * both])


def _summed(row: Ints, column: Ints, entry: Floats, width: int) -> tuple[Ints, Ints, Floats]:
    """Equal positions added up, zeros left out."""
    keep = entry != 0.0
    row, column, entry = row[keep], column[keep], entry[keep]
    place = row * width + column
    if len(np.unique(place)) == len(place):
        return row, column, entry
    unique, at = np.unique(place, return_inverse=True)
    return unique // width, unique % width, np.asarray(np.bincount(at, entry, len(unique)), float)

"""Rows of a programme as a sparse matrix, and A E A' + W solved by what little couples its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.cluster.cluster import Floats, Ints

TAIL = -1


@dataclass(frozen=True)
class Rows:
    """A as coordinates. ``block`` (rows): rows of one job share a number; TAIL = couples all; None = unknown.

    With blocks, no variable may stand in rows of two of them, and a block has at most two rows.
    """

    row: Ints
    column: Ints
    entry: Floats
    shape: tuple[int, int]
    block: Ints | None = None

    def times(self, x: Floats) -> Floats:
        """A x."""
        return np.asarray(np.bincount(self.row, self.entry * x[self.column], self.shape[0]), float)

    def transposed_times(self, z: Floats) -> Floats:
        """A' z."""
        return np.asarray(np.bincount(self.column, self.entry * z[self.row], self.shape[1]), float)

    def largest(self) -> tuple[Floats, Floats]:
        """Largest size of an entry in each row and in each column."""
        by_row, by_column = np.zeros(self.shape[0]), np.zeros(self.shape[1])
        np.maximum.at(by_row, self.row, np.abs(self.entry))
        np.maximum.at(by_column, self.column, np.abs(self.entry))
        return by_row, by_column

    def divided(self, by_row: Floats, by_column: Floats) -> Rows:
        """Entries over their row's and column's number."""
        entry = self.entry / (by_row[self.row] * by_column[self.column])
        return Rows(self.row, self.column, entry, self.shape, self.block)

    def dense(self) -> Floats:
        """The full matrix."""
        out = np.zeros(self.shape)
        out[self.row, self.column] = self.entry
        return out


class DenseCore:
    """Solves (A E A' + W) y = v with an inverse; for rows that all variables couple, as with pairs of jobs."""

    def __init__(self, rows: Rows, index: Ints) -> None:
        self._signed = rows.dense()[:, index]

    def factor(self, ease: Floats, w: Floats) -> None:
        """Prepare for these diagonals E (signed variables) and W (rows)."""
        core = (self._signed * ease) @ self._signed.T
        core[np.diag_indices_from(core)] += w
        self._inverse = np.linalg.inv(core)

    def solve(self, v: Floats) -> Floats:
        """y for v of shape (rows,) or (rows, columns)."""
        return np.asarray(self._inverse @ v)


class BlockCore:
    """The same where each variable stands in the rows of one job and in the tail: 2 x 2 blocks and a small rest."""

    def __init__(self, rows: Rows, index: Ints) -> None:
        assert rows.block is not None
        block = rows.block
        order = np.argsort(block, kind="stable")
        second = np.zeros(len(block), bool)
        second[order[1:]] = (block[order[1:]] == block[order[:-1]]) & (block[order[1:]] != TAIL)
        self._place = np.where(block == TAIL, 2, second.astype(np.int64))
        self._block = block
        self._tail = np.flatnonzero(block == TAIL)
        self._count = int(block.max(initial=-1)) + 1
        width = rows.shape[1]
        at_tail = np.full(rows.shape[0], -1)
        at_tail[self._tail] = np.arange(len(self._tail))
        self._own = np.zeros((2, width))
        self._shared = np.zeros((len(self._tail), width))
        self._of = np.zeros(width, np.int64)
        place = self._place[rows.row]
        for k in (0, 1):
            mine = place == k
            self._own[k, rows.column[mine]] = rows.entry[mine]
            self._of[rows.column[mine]] = block[rows.row[mine]]
        mine = place == 2
        self._shared[at_tail[rows.row[mine]], rows.column[mine]] = rows.entry[mine]
        self._own, self._shared, self._of = self._own[:, index], self._shared[:, index], self._of[index]
        self._rows = [np.full(self._count, -1), np.full(self._count, -1)]
        for k in (0, 1):
            here = np.flatnonzero(self._place == k)
            self._rows[k][block[here]] = here

    def factor(self, ease: Floats, w: Floats) -> None:
        """Prepare for these diagonals E (signed variables) and W (rows)."""

        def summed(value: Floats) -> Floats:
            return np.asarray(np.bincount(self._of, value, self._count), float)

        def own(k: int) -> Floats:
            return np.where(self._rows[k] >= 0, w[self._rows[k]], 1.0)

        t, r = self._own
        b00, b01, b11 = summed(ease * t * t) + own(0), summed(ease * t * r), summed(ease * r * r) + own(1)
        self._inverse = np.array([[b11, -b01], [-b01, b00]]) / (b00 * b11 - b01 * b01)
        self._border = np.array([[summed(ease * row * c) for c in self._shared] for row in (t, r)])
        self._pulled = np.einsum("abm,bkm->akm", self._inverse, self._border)
        rest = (self._shared * ease) @ self._shared.T + np.diag(w[self._tail])
        self._rest = np.linalg.inv(rest - np.einsum("akm,alm->kl", self._border, self._pulled))

    def solve(self, v: Floats) -> Floats:
        """y for v of shape (rows,) or (rows, columns)."""
        if v.ndim == 2:
            columns = np.zeros(v.shape)
            for k in range(v.shape[1]):
                columns[:, k] = self.solve(v[:, k])
            return columns
        own = np.array([np.where(self._rows[k] >= 0, v[self._rows[k]], 0.0) for k in (0, 1)])
        own = np.einsum("abm,bm->am", self._inverse, own)
        tail = self._rest @ (v[self._tail] - np.einsum("akm,am->k", self._border, own))
        own = own - np.einsum("akm,k->am", self._pulled, tail)
        out = np.empty(len(v))
        for k in (0, 1):
            here = self._rows[k] >= 0
            out[self._rows[k][here]] = own[k, here]
        out[self._tail] = tail
        return out

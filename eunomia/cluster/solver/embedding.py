"""A linear programme solved as ECOS solves it, for results that can be compared with Gavel's.

Where optima are many, an interior-point method stops at a point of its own, and Gavel's rounds follow that point. ECOS
(Domahidi, Chu, Boyd: "ECOS: an SOCP solver for embedded systems", ECC 2013) runs a primal-dual method on the
homogeneous self-dual embedding. This is a re-implementation for linear programmes of the published method with ECOS's
settings: three passes of Ruiz scaling, its starting point, one step length for all variables, gamma = 0.99. On Gavel's
programmes it stops where ECOS stops, to about nine digits.

    minimise c.z   subject to  A z <= h,  z_i >= 0 where ``signed``

For programmes with pairs, whose rows couple any two jobs: a step solves as many equations as A has rows. Without pairs
:mod:`embedding_core` does the same in time proportional to the jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats, Ints

GAMMA = 0.99  # part of the longest step that is taken
LONGEST, SHORTEST = 0.999, 1e-6  # bounds of that step
LEAST_CENTRING = 1e-4
TOLERANCE = 1e-8
MAX_STEPS = 100
SCALING_PASSES = 3
REGULAR = 7e-8  # ECOS's static regularisation: part of where it stops
MAX_REFINEMENTS = 9
EXACT = 1e-14


@dataclass(frozen=True)
class Rows:
    """A as coordinates."""

    row: Ints
    column: Ints
    entry: Floats
    shape: tuple[int, int]

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
        return Rows(self.row, self.column, entry, self.shape)

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


@dataclass(frozen=True, slots=True)
class Embedded:
    """Answer of the embedding: primal point, multipliers of A's rows, steps, and whether it is optimal."""

    z: Floats
    multipliers: Floats
    steps: int
    optimal: bool


def solve_embedded(c: Floats, rows: Rows, h: Floats, signed: npt.NDArray[np.bool_]) -> Embedded:
    """Solve; every variable that is not ``signed`` is free."""
    scaled, columns, row_scale, sign_scale = _ruiz(rows, signed)
    # all constraints: first -z <= 0 for signed variables (coefficient ``minus``), then A z <= h
    problem = _Problem(
        c / columns, scaled, np.r_[np.zeros(signed.sum()), h / row_scale], np.flatnonzero(signed), -sign_scale
    )
    x, z, tau, steps, optimal = problem.run()
    return Embedded(x / tau / columns, z[signed.sum() :] / tau / row_scale, steps, optimal)


def _ruiz(rows: Rows, signed: npt.NDArray[np.bool_]) -> tuple[Rows, Floats, Floats, Floats]:
    """Scale rows and columns towards equal largest entries; the -z <= 0 rows take part."""
    minus = np.where(signed, 1.0, 0.0)
    columns, row_scale = np.ones(rows.shape[1]), np.ones(rows.shape[0])
    for _ in range(SCALING_PASSES):
        most_row, most_column = rows.largest()
        by_row, by_column, by_sign = _root(most_row), _root(np.maximum(most_column, minus)), _root(minus)
        rows = rows.divided(by_row, by_column)
        minus = minus / (by_sign * by_column)
        columns, row_scale = columns * by_column, row_scale * by_row
    return rows, columns, row_scale, minus[signed]


def _root(largest: Floats) -> Floats:
    return np.asarray(np.where(largest < 1e-6, 1.0, np.sqrt(largest)))


class _Problem:
    """min c.x s.t. G x + s = h, s >= 0 with G = [-diag; A]; the state of one run."""

    def __init__(self, c: Floats, rows: Rows, h: Floats, index: npt.NDArray[np.int64], minus: Floats) -> None:
        self.c, self.rows, self.h, self.index, self.minus = c, rows, h, index, minus
        self.free = np.setdiff1d(np.arange(len(c)), index)
        self.edge = np.zeros((rows.shape[0], len(self.free)))  # columns of the free variables
        for k, column in enumerate(self.free.tolist()):
            mine = rows.column == column
            self.edge[rows.row[mine], k] = rows.entry[mine]
        self.core = DenseCore(rows, index)
        self.head = len(index)

    def g(self, x: Floats) -> Floats:
        return np.concatenate([self.minus * x[self.index], self.rows.times(x)])

    def g_transposed(self, z: Floats) -> Floats:
        out = self.rows.transposed_times(z[self.head :])
        out[self.index] += self.minus * z[: self.head]
        return np.asarray(out)

    def factor(self, w2: Floats) -> None:
        """Prepare [0 G'; G -W^2] for this W^2 = s / z (per row), made definite by a small diagonal."""
        self.w2 = w2
        self.soft = w2 + REGULAR
        self.ease = 1.0 / (self.minus**2 / self.soft[: self.head] + REGULAR)
        self.core.factor(self.ease, self.soft[self.head :])
        self.through = self.core.solve(self.edge)
        self.small = self.edge.T @ self.through + REGULAR * np.eye(len(self.free))

    def solve(self, rx: Floats, rz: Floats) -> tuple[Floats, Floats]:
        """x, z of G'z = rx, G x - W^2 z = rz; refined against the full equations."""
        x, z = self._once(rx, rz)
        size = 1.0 + float(max(np.abs(rx).max(initial=0.0), np.abs(rz).max()))
        for _ in range(MAX_REFINEMENTS):
            ex = rx - self.g_transposed(z) - REGULAR * x
            ez = rz - (self.g(x) - self.soft * z)
            if max(np.abs(ex).max(), np.abs(ez).max()) <= EXACT * size:
                break
            dx, dz = self._once(ex, ez)
            x, z = x + dx, z + dz
        return x, z

    def _once(self, rx: Floats, rz: Floats) -> tuple[Floats, Floats]:
        """The softened equations: signed variables first, then rows, then free variables."""
        head, index, minus = self.head, self.index, self.minus
        pushed = (rx[index] + minus * rz[:head] / self.soft[:head]) * self.ease
        spread = np.zeros(len(self.c))
        spread[index] = pushed
        right = rz[head:] - self.rows.times(spread)  # edge x_free - core z = right
        inner = self.core.solve(right)
        x = np.zeros(len(self.c))
        x[self.free] = np.linalg.solve(self.small, rx[self.free] + self.edge.T @ inner)
        z_rows = self.through @ x[self.free] - inner
        x[index] = pushed - self.ease * self.rows.transposed_times(z_rows)[index]
        return x, np.concatenate([(minus * x[index] - rz[:head]) / self.soft[:head], z_rows])

    def run(self) -> tuple[Floats, Floats, float, int, bool]:
        """Iterate to ECOS's exit conditions."""
        c, h, m = self.c, self.h, len(self.h)
        self.factor(np.ones(m))
        x, r = self.solve(np.zeros(len(c)), h)
        s = _into_cone(-r)
        _, r = self.solve(-c, np.zeros(m))
        z = _into_cone(r)
        tau = kappa = 1.0
        size_c, size_h = max(1.0, float(np.linalg.norm(c))), max(1.0, float(np.linalg.norm(h)))
        best = (np.inf, x, z, tau)
        for step in range(MAX_STEPS):
            gx, gz = self.g(x), self.g_transposed(z)
            rx, rz = -gz - c * tau, s + gx - h * tau
            cx, hz = float(c @ x), float(h @ z)
            rt = kappa + cx + hz
            gap = float(s @ z)
            mu = (gap + kappa * tau) / (m + 1)
            primal, dual = cx / tau, -hz / tau
            relative = gap / -primal if primal < 0 else (gap / dual if dual > 0 else np.inf)
            p_res = (
                float(np.linalg.norm(rz))
                / max(size_h + float(np.linalg.norm(x) + np.linalg.norm(s)), 1.0)
                / tau
            )
            d_res = float(np.linalg.norm(rx)) / max(size_c + float(np.linalg.norm(z)), 1.0) / tau
            worst = max(p_res, d_res, min(gap, relative))
            if worst < best[0]:
                best = (worst, x, z, tau)
            if p_res < TOLERANCE and d_res < TOLERANCE and (gap < TOLERANCE or relative < TOLERANCE):
                return x, z, tau, step, True
            w = np.sqrt(s / z)
            spread = np.sqrt(s * z)
            self.factor(s / z)
            x1, z1 = self.solve(-c, h)
            below = kappa / tau - float(c @ x1) - float(h @ z1)
            x2, z2 = self.solve(rx, s - rz)
            d_tau = (rt - kappa + float(c @ x2) + float(h @ z2)) / below
            w_dz = w * (z2 + d_tau * z1)
            ds_w = -w_dz - spread
            d_kappa = -kappa - kappa / tau * d_tau
            reach = _reach(spread, ds_w, w_dz, tau, d_tau, kappa, d_kappa)
            sigma = min(max((1.0 - reach) ** 3, LEAST_CENTRING), 1.0)
            target = (spread * spread + ds_w * w_dz - sigma * mu) / spread
            x2, z2 = self.solve((1.0 - sigma) * rx, -(1.0 - sigma) * rz + w * target)
            b_kappa = kappa * tau + d_kappa * d_tau - sigma * mu
            d_tau = ((1.0 - sigma) * rt - b_kappa / tau + float(c @ x2) + float(h @ z2)) / below
            dx, dz = x2 + d_tau * x1, z2 + d_tau * z1
            w_dz = w * dz
            ds_w = -(target + w_dz)
            d_kappa = -(b_kappa + kappa * d_tau) / tau
            reach = GAMMA * _reach(spread, ds_w, w_dz, tau, d_tau, kappa, d_kappa)
            x, z, s = x + reach * dx, z + reach * dz, s + reach * (w * ds_w)
            tau, kappa = tau + reach * d_tau, kappa + reach * d_kappa
            if not (np.isfinite(tau) and (s > 0).all() and (z > 0).all()):
                break
        return best[1], best[2], best[3], step, bool(best[0] < 1e2 * TOLERANCE)


def _into_cone(r: Floats) -> Floats:
    """Shift so that everything is positive, by 0.01 where it already is."""
    return np.asarray(r + 1.0 + max(-GAMMA, float(-r.min())))


def _reach(
    spread: Floats, ds: Floats, dz: Floats, tau: float, d_tau: float, kappa: float, d_kappa: float
) -> float:
    """Longest common step for scaled slacks and multipliers, tau and kappa."""
    worst = max(float(-(ds / spread).min()), float(-(dz / spread).min()), -d_tau / tau, -d_kappa / kappa)
    return min(max(1.0 / worst if worst > 0 else np.inf, SHORTEST), LONGEST)

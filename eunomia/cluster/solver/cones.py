"""Programmes with inverse speeds solved as ECOS solves them, for results that can be compared with Gavel's.

Gavel's finish-time fairness is a cone programme: 1 / thr <= u holds iff (thr + u, thr - u, 2) lies in a second-order
cone. Its optimum leaves free what jobs below the largest rho get, so parity needs ECOS's own point, not any optimum.
This re-implements the published method (Domahidi, Chu, Boyd, ECC 2013) for non-negative and three-dimensional cones:
the self-dual embedding with Nesterov-Todd scaling, ECOS's settings and starting point. Dense: a step costs the cube of
M J. The default solver needs linear programmes only and is much faster.

    minimise c.x   subject to  s = h - G x,  s in K = R+^l x Q3 x ... x Q3
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.cluster.solver.embedding import (
    EXACT,
    GAMMA,
    LEAST_CENTRING,
    LONGEST,
    MAX_REFINEMENTS,
    MAX_STEPS,
    REGULAR,
    SCALING_PASSES,
    SHORTEST,
    TOLERANCE,
)
from eunomia.core.arrays import Floats

SIZE = 3  # of every second-order cone


@dataclass(frozen=True, slots=True)
class Cones:
    """The first ``flat`` rows are non-negative, the rest are second-order cones of three rows each."""

    flat: int

    def split(self, v: Floats) -> tuple[Floats, Floats]:
        """Flat rows, and cones as (M, 3)."""
        return v[: self.flat], v[self.flat :].reshape(-1, SIZE)

    def join(self, flat: Floats, cones: Floats) -> Floats:
        """The inverse of ``split``."""
        return np.concatenate([flat, cones.ravel()])

    def product(self, u: Floats, v: Floats) -> Floats:
        """Jordan product."""
        (a, p), (b, q) = self.split(u), self.split(v)
        head = (p * q).sum(axis=1, keepdims=True)
        return self.join(a * b, np.hstack([head, p[:, :1] * q[:, 1:] + q[:, :1] * p[:, 1:]]))

    def divide(self, u: Floats, v: Floats) -> Floats:
        """w with u o w = v."""
        (a, p), (b, q) = self.split(u), self.split(v)
        inner = (p[:, 1:] * q[:, 1:]).sum(axis=1, keepdims=True)
        rho = _margin(p)[:, None]
        head = (p[:, :1] * q[:, :1] - inner) / rho
        tail = (q[:, 1:] - head * p[:, 1:]) / p[:, :1]
        return self.join(b / a, np.hstack([head, tail]))

    def unit(self, rows: int) -> Floats:
        """The identity of the product."""
        one = np.zeros((rows - self.flat) // SIZE * SIZE).reshape(-1, SIZE)
        one[:, 0] = 1.0
        return self.join(np.ones(self.flat), one)

    def contains(self, v: Floats) -> bool:
        """Whether v lies strictly inside."""
        flat, cones = self.split(v)
        return bool((flat > 0.0).all() and (_margin(cones) > 0.0).all() and (cones[:, 0] > 0.0).all())

    def inside(self, r: Floats) -> Floats:
        """Move into the cone along the identity, as ECOS begins."""
        flat, cones = self.split(r)
        room = np.concatenate([flat, cones[:, 0] - np.linalg.norm(cones[:, 1:], axis=1)])
        outside = room[room <= 0.0]
        return r + (1.0 + float((-outside).max(initial=-GAMMA))) * self.unit(len(r))

    def reach(self, at: Floats, step: Floats) -> float:
        """Reciprocal of the longest step from ``at`` (inside) that stays inside; 0 = any."""
        (a, p), (b, q) = self.split(at), self.split(step)
        length = np.sqrt(_margin(p))
        bar = p / length[:, None]
        along = bar[:, 0] * q[:, 0] - (bar[:, 1:] * q[:, 1:]).sum(axis=1)
        factor = (along + q[:, 0]) / (bar[:, 0] + 1.0)
        rest = (q[:, 1:] - factor[:, None] * bar[:, 1:]) / length[:, None]
        curved = np.linalg.norm(rest, axis=1) - along / length
        return max(float((-b / a).max(initial=0.0)), float(curved.max(initial=0.0)))


def _margin(v: Floats) -> Floats:
    length = np.linalg.norm(v[:, 1:], axis=1)
    return np.asarray((v[:, 0] - length) * (v[:, 0] + length))


class Scaling:
    """Nesterov-Todd: the symmetric W with W z = W^-1 s."""

    def __init__(self, cones: Cones, s: Floats, z: Floats) -> None:
        self.cones = cones
        (a, p), (b, q) = cones.split(s), cones.split(z)
        self.flat = np.sqrt(a / b)
        p_size, q_size = np.sqrt(_margin(p)), np.sqrt(_margin(q))
        p, q = p / p_size[:, None], q / q_size[:, None]
        gamma = np.sqrt((1.0 + (p * q).sum(axis=1)) / 2.0)
        w = np.column_stack([p[:, 0] + q[:, 0], p[:, 1:] - q[:, 1:]]) / (2.0 * gamma[:, None])
        block = np.empty((len(w), SIZE, SIZE))
        block[:, 0, :], block[:, :, 0] = w, w
        outer = w[:, 1:, None] * w[:, None, 1:] / (1.0 + w[:, 0])[:, None, None]
        block[:, 1:, 1:] = np.eye(SIZE - 1) + outer
        size = np.sqrt(p_size / q_size)[:, None, None]
        mirror = np.array([1.0, -1.0, -1.0])
        self.block, self.inverse = block * size, block * mirror * mirror[:, None] / size

    def undo(self, v: Floats) -> Floats:
        """W^-1 v."""
        flat, cones = self.cones.split(v)
        return self.cones.join(flat / self.flat, np.einsum("mab,mb->ma", self.inverse, cones))

    def undo_rows(self, g: Floats) -> Floats:
        """W^-1 G."""
        low = g[self.cones.flat :].reshape(-1, SIZE, g.shape[1])
        pulled = np.matmul(self.inverse, low).reshape(-1, g.shape[1])
        return np.vstack([g[: self.cones.flat] / self.flat[:, None], pulled])

    def times(self, v: Floats) -> Floats:
        """W v."""
        flat, cones = self.cones.split(v)
        return self.cones.join(self.flat * flat, np.einsum("mab,mb->ma", self.block, cones))


class Equations:
    """[d I, G'; G, -W W] with ECOS's small d; solved for x and W z by a QR factorisation of W^-1 G, and refined."""

    def __init__(self, g: Floats, scaling: Scaling | None) -> None:
        self.scaling = scaling
        self.b = g if scaling is None else scaling.undo_rows(g)
        padded = np.vstack([self.b, np.sqrt(REGULAR) * np.eye(g.shape[1])])
        self.inverse = np.linalg.inv(np.linalg.qr(padded, mode="r"))

    def solve(self, rx: Floats, rz: Floats) -> tuple[Floats, Floats]:
        """x, z."""
        right = rz if self.scaling is None else self.scaling.undo(rz)
        x, z = self._once(rx, right)
        size = 1.0 + float(max(np.abs(rx).max(), np.abs(right).max()))
        for _ in range(MAX_REFINEMENTS):
            ex, ez = rx - self.b.T @ z - REGULAR * x, right - self.b @ x + z
            if max(np.abs(ex).max(), np.abs(ez).max()) <= EXACT * size:
                break
            dx, dz = self._once(ex, ez)
            x, z = x + dx, z + dz
        return x, z if self.scaling is None else self.scaling.undo(z)

    def _once(self, rx: Floats, right: Floats) -> tuple[Floats, Floats]:
        x = self.inverse @ (self.inverse.T @ (rx + self.b.T @ right))
        return x, self.b @ x - right


def solve_cones(c: Floats, g: Floats, h: Floats, flat: int) -> tuple[Floats, bool]:
    """x, and whether it is optimal to ECOS's tolerance."""
    cones = Cones(flat)
    g, columns, by_row = _scaled(g, cones)
    x, optimal = _run(c / columns, g, h / by_row, cones)
    return x / columns, optimal


def _scaled(g: Floats, cones: Cones) -> tuple[Floats, Floats, Floats]:
    """Ruiz's scaling; the rows of a cone are scaled alike, by the sum of their largest entries."""
    columns, by_row = np.ones(g.shape[1]), np.ones(g.shape[0])
    for _ in range(SCALING_PASSES):
        most = np.abs(g)
        row, column = most.max(axis=1), most.max(axis=0)
        top, low = cones.split(row)
        row = cones.join(top, np.repeat(low.sum(axis=1, keepdims=True), SIZE, axis=1))
        row, column = (np.where(v < 1e-6, 1.0, np.sqrt(v)) for v in (row, column))
        g = g / row[:, None] / column
        columns, by_row = columns * column, by_row * row
    return g, columns, by_row


@np.errstate(
    divide="ignore", invalid="ignore"
)  # rounding may put a last point on the edge; then the loop ends
def _run(c: Floats, g: Floats, h: Floats, cones: Cones) -> tuple[Floats, bool]:
    """The embedding's iterations."""
    rows, zero_x, zero_z = len(h), np.zeros(len(c)), np.zeros(len(h))
    degree = cones.flat + (rows - cones.flat) // SIZE
    first = Equations(g, None)
    x, r = first.solve(zero_x, h)
    s, z = cones.inside(-r), cones.inside(first.solve(-c, zero_z)[1])
    tau = kappa = 1.0
    size_c, size_h = max(1.0, float(np.linalg.norm(c))), max(1.0, float(np.linalg.norm(h)))
    best = (np.inf, x, tau)
    for _ in range(MAX_STEPS):
        rx, rz = -g.T @ z - c * tau, s + g @ x - h * tau
        cx, hz, gap = float(c @ x), float(h @ z), float(s @ z)
        rt, mu = kappa + cx + hz, (gap + kappa * tau) / (degree + 1)
        relative = gap / -cx * tau if cx < 0 else (gap / -hz * tau if hz < 0 else np.inf)
        primal = (
            float(np.linalg.norm(rz)) / max(size_h + float(np.linalg.norm(x) + np.linalg.norm(s)), 1.0) / tau
        )
        dual = float(np.linalg.norm(rx)) / max(size_c + float(np.linalg.norm(z)), 1.0) / tau
        worst = max(primal, dual, min(gap, relative))
        if worst < best[0]:
            best = (worst, x, tau)
        if primal < TOLERANCE and dual < TOLERANCE and (gap < TOLERANCE or relative < TOLERANCE):
            return x / tau, True
        w = Scaling(cones, s, z)
        spread = w.times(z)
        equations = Equations(g, w)
        x1, z1 = equations.solve(-c, h)
        below = kappa / tau - float(c @ x1) - float(h @ z1)
        x2, z2 = equations.solve(rx, s - rz)
        d_tau = (rt - kappa + float(c @ x2) + float(h @ z2)) / below
        w_dz = w.times(z2 + d_tau * z1)
        ds_w, d_kappa = -w_dz - spread, -kappa - kappa / tau * d_tau
        reach = _longest(cones, spread, ds_w, w_dz, tau, d_tau, kappa, d_kappa)
        sigma = min(max((1.0 - reach) ** 3, LEAST_CENTRING), 1.0)
        target = cones.product(spread, spread) + cones.product(ds_w, w_dz) - sigma * mu * cones.unit(rows)
        target = cones.divide(spread, target)
        x2, z2 = equations.solve((1.0 - sigma) * rx, -(1.0 - sigma) * rz + w.times(target))
        b_kappa = kappa * tau + d_kappa * d_tau - sigma * mu
        d_tau = ((1.0 - sigma) * rt - b_kappa / tau + float(c @ x2) + float(h @ z2)) / below
        dx, dz = x2 + d_tau * x1, z2 + d_tau * z1
        w_dz = w.times(dz)
        ds_w, d_kappa = -(target + w_dz), -(b_kappa + kappa * d_tau) / tau
        reach = GAMMA * _longest(cones, spread, ds_w, w_dz, tau, d_tau, kappa, d_kappa)
        x, z, s = x + reach * dx, z + reach * dz, s + reach * w.times(ds_w)
        tau, kappa = tau + reach * d_tau, kappa + reach * d_kappa
        if not (tau > 0.0 and cones.contains(s) and cones.contains(z)):
            break  # rounding has the last word; the best point so far is judged
    return best[1] / best[2], bool(best[0] < 1e2 * TOLERANCE)


def _longest(
    cones: Cones,
    spread: Floats,
    ds: Floats,
    dz: Floats,
    tau: float,
    d_tau: float,
    kappa: float,
    d_kappa: float,
) -> float:
    """Longest common step of scaled slacks, multipliers, tau and kappa, within ECOS's bounds."""
    worst = max(cones.reach(spread, ds), cones.reach(spread, dz), -d_tau / tau, -d_kappa / kappa)
    return min(max(1.0 / worst if worst > 0.0 else np.inf, SHORTEST), LONGEST)

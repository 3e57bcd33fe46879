"""The Newton equations of the interior point: a closed-form block per job, J + 1 coupled ones. See :mod:`interior`."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.solver.small_system import eliminate
from eunomia.core.compiled import compiled

jitted = compiled(error_model="numpy", keep=False)  # parts of ``centre``


@jitted
def factor(n, s, a, b, live, slack, multiplier, room, price, inverse, matrix, ease):  # type: ignore[no-untyped-def]
    """Invert every job's block and assemble the J + 1 equations of prices and y.

    The block of a job couples its x and the multipliers of its two rows: [D, 1, -a; 1', -f, 0; -a', 0, -h] with D =
    multiplier / slack of x, f and h = slack / multiplier of the rows. With e = 1 / D its inverse has closed forms
    in sums over types; written with differences a_k - a_i, they cancel nothing that is not small itself.
    """
    G, J = a.shape
    for j in range(J + 1):
        for i in range(J + 1):
            matrix[j, i] = 0.0
    for j in range(J):
        matrix[j, j] = room[j] / price[j]
    coupled = False
    for g in range(G):
        k_g = inverse[g]
        f = slack[g, J] / multiplier[g, J]
        h = slack[g, J + 1] / multiplier[g, J + 1] if live[g, J + 1] else 1.0
        rowed = 1.0 if live[g, J + 1] else 0.0
        total, mean, square, crossed = 0.0, 0.0, 0.0, 0.0
        for j in range(J):
            ease[j] = slack[g, j] / multiplier[g, j] if live[g, j] else 0.0
            speed = rowed * a[g, j]
            for i in range(j):
                crossed += ease[i] * ease[j] * (speed - rowed * a[g, i]) ** 2
            total += ease[j]
            mean += ease[j] * speed
            square += ease[j] * speed * speed
        one = 1.0 / (f * h + total * h + square * f + crossed)
        k_g[J, J] = -one * (h + square)
        k_g[J + 1, J + 1] = -one * (f + total)
        k_g[J, J + 1] = -one * mean
        k_g[J + 1, J] = -one * mean
        for j in range(J):
            speed = rowed * a[g, j]
            to_time, to_row, without = h, -f * speed, f * h
            for k in range(J):
                if k != j:
                    other = rowed * a[g, k]
                    to_time += ease[k] * other * (other - speed)
                    to_row += ease[k] * (other - speed)
                    without += ease[k] * (h + f * other * other)
                    for i in range(k):
                        if i != j:
                            without += ease[i] * ease[k] * (other - rowed * a[g, i]) ** 2
            k_g[j, J] = one * ease[j] * to_time
            k_g[J, j] = k_g[j, J]
            k_g[j, J + 1] = one * ease[j] * to_row
            k_g[J + 1, j] = k_g[j, J + 1]
            k_g[j, j] = one * ease[j] * without
            for i in range(j):
                first = rowed * a[g, i]
                both = h + f * speed * first
                for k in range(J):
                    both += ease[k] * (rowed * a[g, k] - speed) * (rowed * a[g, k] - first)
                k_g[j, i] = -one * ease[i] * ease[j] * both
                k_g[i, j] = k_g[j, i]
        weight = n[g] * s[g]
        for j in range(J):
            for i in range(j + 1):
                matrix[j, i] += weight * s[g] * k_g[j, i]
            matrix[J, j] += weight * b[g] * k_g[j, J + 1]
        if b[g] > 0.0:
            coupled = True
            matrix[J, J] += n[g] * b[g] * b[g] * k_g[J + 1, J + 1]
    for j in range(J + 1):
        for i in range(j):
            matrix[i, j] = matrix[j, i]
    if not coupled:
        matrix[J, J] = 1.0


@jitted
def direction(  # type: ignore[no-untyped-def]
    n,
    s,
    a,
    b,
    live,
    slack,
    multiplier,
    room,
    price,
    inverse,
    matrix,
    rd,
    rp,
    rc,
    ry,
    comp,
    comp_c,
    part,
    first,
    d_slack,
    d_multiplier,
    d_room,
    d_price,
):
    """Solve the Newton equations for these residuals; ``comp`` is what slack x multiplier must change by.

    The result replaces (``first``) or refines (else: is added to) the direction in the last four arrays. Returns dy.
    """
    G, J = a.shape
    right = np.zeros(J + 1)
    right[J] = ry
    for j in range(J):
        right[j] = rc[j] - comp_c[j] / price[j]
    rhs = np.zeros(J + 2)
    for g in range(G):
        for j in range(J):
            rhs[j] = -rd[g, j] - comp[g, j] / slack[g, j] if live[g, j] else 0.0
        rhs[J] = -rp[g, 0] + comp[g, J] / multiplier[g, J]
        rhs[J + 1] = -rp[g, 1] + comp[g, J + 1] / multiplier[g, J + 1] if live[g, J + 1] else 0.0
        for k in range(J + 2):
            value = 0.0
            for i in range(J + 2):
                value += inverse[g, k, i] * rhs[i]
            part[g, k] = value
        for j in range(J):
            if live[g, j]:
                right[j] += n[g] * s[g] * part[g, j]
        right[J] += n[g] * b[g] * part[g, J + 1]
    solution = eliminate(matrix, right)
    dy = solution[J]
    keep = 0.0 if first else 1.0
    for g in range(G):
        for k in range(J + 2):
            if live[g, k]:
                value = part[g, k] - b[g] * inverse[g, k, J + 1] * dy
                for i in range(J):
                    value -= s[g] * inverse[g, k, i] * solution[i] if live[g, i] else 0.0
                if k < J:
                    other = -(comp[g, k] + multiplier[g, k] * value) / slack[g, k]
                    d_slack[g, k] = keep * d_slack[g, k] + value
                    d_multiplier[g, k] = keep * d_multiplier[g, k] + other
                else:
                    other = -(comp[g, k] + slack[g, k] * value) / multiplier[g, k]
                    d_slack[g, k] = keep * d_slack[g, k] + other
                    d_multiplier[g, k] = keep * d_multiplier[g, k] + value
    for j in range(J):
        d_room[j] = keep * d_room[j] - (comp_c[j] + room[j] * solution[j]) / price[j]
        d_price[j] = keep * d_price[j] + solution[j]
    return dy


@jitted
def dual_error(n, s, a, b, live, slack, rd, ry, d_multiplier, d_price, error):  # type: ignore[no-untyped-def]
    """How far the direction is from the dual equations: fill ``error``, return that of y and the size of all."""
    G, J = a.shape
    error_y, size = ry, 0.0
    for g in range(G):
        error_y += n[g] * b[g] * d_multiplier[g, J + 1]
        for j in range(J):
            if live[g, j]:
                error[g, j] = (
                    rd[g, j]
                    + s[g] * d_price[j]
                    + d_multiplier[g, J]
                    - d_multiplier[g, j]
                    - a[g, j] * d_multiplier[g, J + 1]
                )
                size += n[g] * abs(error[g, j]) * slack[g, j]
    return error_y, size

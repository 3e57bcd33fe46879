"""The homogeneous self-dual embedding, compiled, for programmes over time shares without pairs.

ECOS' method (Domahidi, Chu, Boyd, ECC 2013) for ::

    minimise c . x - d y   subject to   x_jg >= 0,  sum_j x_jg <= 1,  rise_g y - sum_j gain_jg x_jg <= -floor_g,
                                        sum_g n_g scale_g x_jg <= capacity_j

Row g stands for n_g identical jobs: norms and products count it n_g times, so the iterates are those of the programme
in which all jobs are written out. All that couples rows is the J capacities and y: a step eliminates the signs of x and
the two rows of every job in closed form and solves J + 1 equations (:mod:`embedding_step`).

A *point* is flat: J lines of x (G entries each), y, then multipliers: J lines of signs, time, fairness, and J of
capacities. Right sides and costs are laid out alike; slacks like the multipliers. What does not exist (``alive`` 0)
rests: slack and multiplier are 1 and never move.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from eunomia.cluster.compiled import compiled
from eunomia.cluster.solver.embedding_step import REGULAR, factor, jitted, left_over, once

plain = partial(compiled, error_model="numpy")
GAMMA = 0.99  # part of the longest step that is taken
LONGEST, SHORTEST = 0.999, 1e-6  # bounds of that step
LEAST_CENTRING = 1e-4
TOLERANCE = 1e-8
MAX_STEPS = 100
LATE = 1e-2  # gap below which rounding begins to show
WORTH_KEEPING = 1e-3  # points this good are remembered, should later ones be worse


@jitted
def greatest(array):  # type: ignore[no-untyped-def]
    """The largest entry, or 0 if all are negative.

    Bits of positive floats are ordered as integers are, and integers have a vector instruction for it.
    """
    bits, most = array.view(np.int64), np.zeros(1, np.int64)
    top = most[0]
    for v in bits:
        top = v if v > top else top
    most[0] = top
    return most.view(np.float64)[0]


@jitted
def positive(array):  # type: ignore[no-untyped-def]
    """Whether every entry is above 0."""
    bits = array.view(np.int64)
    least = np.int64(1)
    for v in bits:
        least = v if v < least else least
    return least > 0


@jitted
def largest(array, part):  # type: ignore[no-untyped-def]
    """Largest size of an entry; ``part`` is room as long."""
    for i in range(len(array)):
        part[i] = abs(array[i])
    return greatest(part)


@jitted
def dot(n, a, b):  # type: ignore[no-untyped-def]
    """Sum of n a b."""
    total = 0.0
    for i in range(len(n)):
        total += n[i] * a[i] * b[i]
    return total


@jitted
def add(to, what, times):  # type: ignore[no-untyped-def]
    """to += times what."""
    for i in range(len(to)):
        to[i] += times * what[i]


@jitted
def put(to, what, times):  # type: ignore[no-untyped-def]
    """to = times what."""
    for i in range(len(to)):
        to[i] = times * what[i]


@jitted
def right_side(live, what, lines, factor, times, cut, to):  # type: ignore[no-untyped-def]
    """to = factor what, plus times lines in the part of multipliers (0 there where not alive)."""
    for i in range(cut):
        to[i] = factor * what[i]
    for i in range(len(lines)):
        to[cut + i] = live[i] * (factor * what[cut + i] + times * lines[i])


@jitted
def measured(n, a, b, c, d):  # type: ignore[no-untyped-def]
    """Sums of n times a b, a c, a a, b b and d d in one pass."""
    ab, ac, aa, bb, dd = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(n)):
        ab += n[i] * a[i] * b[i]
        ac += n[i] * a[i] * c[i]
        aa += n[i] * a[i] * a[i]
        bb += n[i] * b[i] * b[i]
        dd += n[i] * d[i] * d[i]
    return ab, ac, aa, bb, dd


@jitted
def soften(s, z, soft):  # type: ignore[no-untyped-def]
    """W^2 = s / z plus the regularisation."""
    for i in range(len(s)):
        soft[i] = s[i] / z[i] + REGULAR


@jitted
def into_cone(live, r):  # type: ignore[no-untyped-def]
    """Shift so that everything is positive, by 0.01 where it already is; what is not alive becomes 1."""
    least = np.inf
    for i in range(len(r)):
        least = min(least, r[i] if live[i] > 0.0 else np.inf)
    shift = 1.0 + max(-GAMMA, -least)
    for i in range(len(r)):
        r[i] = live[i] * (r[i] + shift - 1.0) + 1.0


@jitted
def pull(z, dz, part):  # type: ignore[no-untyped-def]
    """Reciprocal of the longest affine step: the largest of -dz / z and 1 + dz / z; ``part`` is room as long."""
    for i in range(len(z)):
        part[i] = dz[i] / z[i]
    for i in range(len(z)):
        part[i] = max(-part[i], 1.0 + part[i])
    return greatest(part)


@jitted
def aimed(live, s, z, dz, mu, to):  # type: ignore[no-untyped-def]
    """Slack aimed at, corrected to second order: s (1 - a (1 + a)) - mu / z with a = dz / z."""
    for i in range(len(z)):
        a = dz[i] / z[i]
        to[i] = live[i] * (s[i] * (1.0 - a * (1.0 + a)) - mu / z[i])


@jitted
def slack_steps(live, s, z, dz, to, part):  # type: ignore[no-untyped-def]
    """Turn slacks aimed at into steps, -(to + s / z dz), in place; returns the largest -ds / s and -dz / z, or 0."""
    for i in range(len(z)):
        part[i] = -dz[i] / z[i]
    for i in range(len(z)):
        to[i] = live[i] * (s[i] * part[i] - to[i])
    worst = greatest(part)
    for i in range(len(z)):
        part[i] = -to[i] / s[i]
    return max(worst, greatest(part))


@plain
def stride(worst):  # type: ignore[no-untyped-def]
    """The step with this reciprocal, within ECOS' bounds."""
    return min(max(1.0 / worst if worst > 0.0 else np.inf, SHORTEST), LONGEST)


@plain
def refined(jobs, grid, live, soft, blocks, matrix, passes, exact, given, point, spare):  # type: ignore[no-untyped-def]
    """``once``, and up to ``passes`` times on what is left, until that is ``exact`` of the right side."""
    once(jobs, grid, soft, blocks, matrix, given, point)
    if passes == 0:
        return
    size = exact * (1.0 + largest(given, spare[1]))
    for _ in range(passes):
        left_over(jobs, grid, live, soft, REGULAR, given, point, spare[0])
        if largest(spare[0], spare[1]) <= size:
            break
        once(jobs, grid, soft, blocks, matrix, spare[0], spare[1])
        add(point, spare[1], 1.0)


@plain
def embed(jobs, grid, live, cost, passes, exact, feasible, early):  # type: ignore[no-untyped-def]
    """Iterate to ECOS' exit conditions on the scaled programme.

    ``jobs`` (2, G): counts and entries of y; ``grid`` (4 J, G): entries of signs, time, fairness, capacity by type;
    ``live``: alive, laid out like slacks; ``cost``: c and right sides, laid out like a point; ``passes``, ``exact``:
    refinements of each solve, those of ``early`` steps included or not; ``feasible``: primal residual asked for.
    Returns the point, steps, and the worst of gap and residuals.
    """
    G, J = grid.shape[1], grid.shape[0] // 4
    cut, size = J * G + 1, len(cost)
    n = np.ones(size)  # copies of every entry
    for k in range(2 * J + 2):
        low = k * G if k < J else k * G + 1
        for g in range(G):
            n[low + g] = jobs[0, g] * live[(k if k < J else k - J) * G + g]
    n_x, n_z = n[:cut], n[cut:]
    soft, none = np.full(size - cut, 1.0 + REGULAR), np.zeros(size - cut)
    blocks, matrix, spare = np.zeros((5 * J + 5, G)), np.zeros((J + 1, J + 1)), np.zeros((2, size))
    room, lines = np.zeros((6, size)), np.zeros((3, size - cut))
    given, point, first, second, rest, aim = room[0], room[1], room[2], room[3], room[4], room[5]
    given_z, first_z, second_z, rest_z = given[cut:], first[cut:], second[cut:], rest[cut:]
    x, z, c, h, rest_x = point[:cut], point[cut:], cost[:cut], cost[cut:], rest[:cut]
    step, s, part = lines[0], lines[1], lines[2]
    put(aim, cost, 1.0)
    put(aim[:cut], c, -1.0)
    factor(jobs, grid, live, soft, blocks, matrix)
    put(given_z, h, 1.0)
    refined(jobs, grid, live, soft, blocks, matrix, passes, exact, given, point, spare)
    put(s, z, -1.0)
    into_cone(live, s)
    put(given, aim, 1.0)
    put(given_z, h, 0.0)
    refined(jobs, grid, live, soft, blocks, matrix, passes, exact, given, first, spare)
    put(z, first_z, 1.0)
    into_cone(live, z)
    size_c, size_h = max(1.0, np.sqrt(dot(n_x, c, c))), max(1.0, np.sqrt(dot(n_z, h, h)))
    tau, kappa, m = 1.0, 1.0, dot(n_z, live, live)
    best, steps, kept = np.inf, 0, np.zeros(size)
    for now in range(MAX_STEPS):
        steps = now
        right_side(live, aim, s, tau, -1.0, cut, given)
        left_over(jobs, grid, live, none, 0.0, given, point, rest)  # -G'z - c tau, h tau - s - G x
        gap, hz, zz, ss, off_z = measured(n_z, z, s, h, rest_z)
        cx, _, xx, _, off_x = measured(n_x, x, c, x, rest_x)
        rt, mu = kappa + cx + hz, (gap + kappa * tau) / (m + 1.0)
        relative = gap / -cx * tau if cx < 0.0 else (gap / -hz * tau if hz < 0.0 else np.inf)
        primal = np.sqrt(off_z) / max(size_h + np.sqrt(xx) + np.sqrt(ss), 1.0) / tau
        dual = np.sqrt(off_x) / max(size_c + np.sqrt(zz), 1.0) / tau
        worst = max(max(primal, dual), min(gap, relative))
        if worst < best:
            best = worst
            if worst < WORTH_KEEPING:
                put(kept, point, 1.0 / tau)
        if primal < feasible and dual < TOLERANCE and (gap < TOLERANCE or relative < TOLERANCE):
            break
        often = passes if early or gap < LATE else 0
        soften(s, z, soft)
        factor(jobs, grid, live, soft, blocks, matrix)
        refined(jobs, grid, live, soft, blocks, matrix, often, exact, aim, first, spare)
        below = kappa / tau - dot(n, cost, first)
        right_side(live, rest, s, 1.0, 1.0, cut, given)
        refined(jobs, grid, live, soft, blocks, matrix, often, exact, given, second, spare)
        d_tau = (rt - kappa + dot(n, cost, second)) / below
        add(second_z, first_z, d_tau)
        d_kappa = -kappa - kappa / tau * d_tau
        reach = stride(max(pull(z, second_z, part), max(-d_tau / tau, -d_kappa / kappa)))
        sigma = min(max((1.0 - reach) ** 3, LEAST_CENTRING), 1.0)
        aimed(live, s, z, second_z, sigma * mu, step)
        right_side(live, rest, step, 1.0 - sigma, 1.0, cut, given)
        refined(jobs, grid, live, soft, blocks, matrix, often, exact, given, second, spare)
        b_kappa = kappa * tau + d_kappa * d_tau - sigma * mu
        d_tau = ((1.0 - sigma) * rt - b_kappa / tau + dot(n, cost, second)) / below
        add(second, first, d_tau)
        d_kappa = -(b_kappa + kappa * d_tau) / tau
        worst = slack_steps(live, s, z, second_z, step, part)
        reach = GAMMA * stride(max(worst, max(-d_tau / tau, -d_kappa / kappa)))
        add(point, second, reach)
        add(s, step, reach)
        tau, kappa = tau + reach * d_tau, kappa + reach * d_kappa
        if not (np.isfinite(tau) and positive(s) and positive(z)):
            break  # rounding has the last word; the best point so far is judged
    return kept, steps, best

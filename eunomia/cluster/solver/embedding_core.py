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

import numpy as np

from eunomia.cluster.solver.embedding_lines import (
    GAMMA,
    add,
    aimed,
    blend,
    dot,
    into_cone,
    largest,
    pull,
    put,
    slack_steps,
    sums,
    turned,
    worth,
)
from eunomia.cluster.solver.embedding_step import REGULAR, factor, left_over, once
from eunomia.core.compiled import compiled

jitted = compiled(error_model="numpy", keep=False)  # parts of ``embed``
LONGEST, SHORTEST = 0.999, 1e-6  # bounds of that step
LEAST_CENTRING = 1e-4
TOLERANCE = 1e-8
MAX_STEPS = 100
LATE = 1e-3  # gap below which rounding begins to show
WORTH_KEEPING = 1e-3  # points this good are remembered, should later ones be worse


@jitted
def stride(worst):  # type: ignore[no-untyped-def]
    """The step with this reciprocal, within ECOS' bounds."""
    return min(max(1.0 / worst if worst > 0.0 else np.inf, SHORTEST), LONGEST)


@jitted
def refined(jobs, grid, live, soft, over_soft, blocks, matrix, passes, exact, given, point, spare):  # type: ignore[no-untyped-def]
    """``once``, and up to ``passes`` times on what is left, until that is ``exact`` of the right side."""
    once(jobs, grid, over_soft, blocks, matrix, given, point)
    if passes == 0:
        return
    size = exact * (1.0 + largest(given, spare[1]))
    for _ in range(passes):
        left_over(jobs, grid, live, soft, REGULAR, given, point, spare[0])
        if largest(spare[0], spare[1]) <= size:
            break
        once(jobs, grid, over_soft, blocks, matrix, spare[0], spare[1])
        add(point, spare[1], 1.0)


@jitted
def copies(jobs, live, J):  # type: ignore[no-untyped-def]
    """How many jobs every entry of a point stands for: 0 where it is not alive, 1 for y and capacities."""
    G = jobs.shape[1]
    n = np.ones(2 * J * G + 2 * G + 1 + J)
    for k in range(2 * J + 2):
        low = k * G if k < J else k * G + 1
        for g in range(G):
            n[low + g] = jobs[0, g] * live[(k if k < J else k - J) * G + g]
    return n


@jitted
def begin(  # type: ignore[no-untyped-def]
    jobs, grid, live, soft, over_soft, blocks, matrix, passes, exact, cost, aim, given, spare, s, point
):
    """ECOS' first point, into ``point`` and ``s``: two least-squares problems, shifted into the cone."""
    cut = len(cost) - len(s)
    soft[:], over_soft[:] = 1.0 + REGULAR, 1.0 / (1.0 + REGULAR)
    factor(jobs, grid, live, soft, over_soft, blocks, matrix)
    put(given, aim, 1.0)
    put(given[cut:], aim[cut:], 0.0)
    refined(jobs, grid, live, soft, over_soft, blocks, matrix, passes, exact, given, point, spare)
    multipliers = point[cut:].copy()
    into_cone(live, multipliers)
    put(given[:cut], aim[:cut], 0.0)
    put(given[cut:], aim[cut:], 1.0)
    refined(jobs, grid, live, soft, over_soft, blocks, matrix, passes, exact, given, point, spare)
    put(s, point[cut:], -1.0)
    into_cone(live, s)
    put(point[cut:], multipliers, 1.0)


@jitted
def measured(n, cut, point, rest, s, cost, sizes, tau, kappa):  # type: ignore[no-untyped-def]
    """Where a point stands: gap, relative gap, primal and dual residual, and what is left of the equation of tau."""
    gap, hz, zz, ss, off_z = sums(n[cut:], point[cut:], s, cost[cut:], rest[cut:])
    cx, _, xx, _, off_x = sums(n[:cut], point[:cut], cost[:cut], cost[:cut], rest[:cut])
    relative = gap / -cx * tau if cx < 0.0 else (gap / -hz * tau if hz < 0.0 else np.inf)
    primal = np.sqrt(off_z) / max(sizes[1] + np.sqrt(xx) + np.sqrt(ss), 1.0) / tau
    dual = np.sqrt(off_x) / max(sizes[0] + np.sqrt(zz), 1.0) / tau
    return gap, relative, primal, dual, kappa + cx + hz


def space_needed(kinds: int, rows: int) -> int:
    """Numbers that :func:`embed` works in for so many types and rows."""
    lines = 8 * (2 * kinds + 2) + 8 * (kinds + 2) + kinds + 3
    return lines * rows + 8 * (kinds + 1) + 8 * kinds


@compiled(error_model="numpy")
def embed(jobs, grid, live, cost, passes, exact, feasible, early, space):  # type: ignore[no-untyped-def]
    """Iterate to ECOS' exit conditions on the scaled programme.

    ``jobs`` (2, G): counts and entries of y; ``grid`` (4 J, G): entries of signs, time, fairness, capacity by type;
    ``live``: alive, laid out like slacks; ``cost``: c and right sides, laid out like a point; ``passes``, ``exact``:
    refinements of each solve, those of ``early`` steps included or not; ``feasible``: primal residual asked for;
    ``space``: memory to work in, :func:`space_needed` numbers. Returns the point, steps, and the worst of gap and
    residuals.
    """
    G, J = grid.shape[1], grid.shape[0] // 4
    cut, row, size = J * G + 1, 2 * J * G + 1, len(cost)
    n, matrix = copies(jobs, live, J), np.zeros((J + 1, J + 1))
    room, lines = (
        space[: 8 * size].reshape(8, size),
        space[8 * size : 16 * size - 8 * cut].reshape(8, size - cut),
    )
    blocks = space[16 * size - 8 * cut : 16 * size - 8 * cut + (J + 3) * G].reshape(J + 3, G)
    spare = room[6:]
    given, point, first, second, rest, aim = room[0], room[1], room[2], room[3], room[4], room[5]
    step, s, part, soft, over_soft, over_s, over_z = (
        lines[0],
        lines[1],
        lines[2],
        lines[3],
        lines[4],
        lines[5],
        lines[6],
    )
    none, z, z_step = lines[7], point[cut:], second[cut:]
    none[:] = 0.0
    given_x, given_z, rest_x, rest_z, aim_x, aim_z = (
        given[:cut],
        given[cut:],
        rest[:cut],
        rest[cut:],
        aim[:cut],
        aim[cut:],
    )
    put(aim, cost, 1.0)
    put(aim_x, cost[:cut], -1.0)
    begin(jobs, grid, live, soft, over_soft, blocks, matrix, passes, exact, cost, aim, given, spare, s, point)
    sizes = (max(1.0, np.sqrt(dot(n[:cut], aim_x, aim_x))), max(1.0, np.sqrt(dot(n[cut:], aim_z, aim_z))))
    tau, kappa, m = 1.0, 1.0, dot(n[cut:], live, live)
    best, steps, kept = np.inf, 0, np.zeros(size)
    for now in range(MAX_STEPS):
        steps = now
        put(given_x, aim_x, tau)
        blend(live, aim_z, tau, s, -1.0, given_z)
        left_over(jobs, grid, live, none, 0.0, given, point, rest)  # -G'z - c tau, h tau - s - G x
        gap, relative, primal, dual, rt = measured(n, cut, point, rest, s, cost, sizes, tau, kappa)
        mu, worst = (gap + kappa * tau) / (m + 1.0), max(max(primal, dual), min(gap, relative))
        if worst < best:
            best = worst
            if worst < WORTH_KEEPING:
                put(kept, point, 1.0 / tau)
        if primal < feasible and dual < TOLERANCE and (gap < TOLERANCE or relative < TOLERANCE):
            break
        often = passes if early or gap < LATE else 0
        turned(s, z, over_s, over_z, soft, over_soft)
        factor(jobs, grid, live, soft, over_soft, blocks, matrix)
        refined(jobs, grid, live, soft, over_soft, blocks, matrix, often, exact, aim, first, spare)
        below = kappa / tau - worth(n, cut, row, cost, first)
        put(given_x, rest_x, 1.0)
        blend(live, rest_z, 1.0, s, 1.0, given_z)
        refined(jobs, grid, live, soft, over_soft, blocks, matrix, often, exact, given, second, spare)
        d_tau = (rt - kappa + worth(n, cut, row, cost, second)) / below
        d_kappa = -kappa - kappa / tau * d_tau
        worst = pull(over_z, z_step, first[cut:], d_tau, part, step)
        reach = stride(max(worst, max(-d_tau / tau, -d_kappa / kappa)))
        sigma = min(max((1.0 - reach) ** 3, LEAST_CENTRING), 1.0)
        aimed(live, s, over_z, part, sigma * mu, step)
        put(given_x, rest_x, 1.0 - sigma)
        blend(live, rest_z, 1.0 - sigma, step, 1.0, given_z)
        refined(jobs, grid, live, soft, over_soft, blocks, matrix, often, exact, given, second, spare)
        b_kappa = kappa * tau + d_kappa * d_tau - sigma * mu
        d_tau = ((1.0 - sigma) * rt - b_kappa / tau + worth(n, cut, row, cost, second)) / below
        add(second, first, d_tau)
        d_kappa = -(b_kappa + kappa * d_tau) / tau
        worst = slack_steps(live, s, over_s, over_z, z_step, step, part)
        reach = GAMMA * stride(max(worst, max(-d_tau / tau, -d_kappa / kappa)))
        add(point, second, reach)
        add(s, step, reach)
        tau, kappa = tau + reach * d_tau, kappa + reach * d_kappa
        if not (np.isfinite(tau + gap) and reach * worst < 1.0):
            break  # slacks would leave the cone: rounding has the last word; the best point so far is judged
    return kept, steps, best

"""A compiled interior-point method for programmes over time shares.

The programme (one row g per job; identical jobs in one row that counts ``n`` times)::

    maximise    d y + sum_g n_g c_g . x_g
    subject to  a_g . x_g >= l_g + b_g y         rows with ``rowed``: a fairness level or a floor
                sum_j x_gj <= 1
                sum_g n_g s_g x_gj <= N_j
                x_gj >= 0, and x_gj = 0 where not ``usable``

Mehrotra's predictor-corrector (SIAM J. Optimization, 1992) on the inequality form. Only the J capacities and
y couple jobs. So a step eliminates one block per job in closed form (a diagonal and two rank-one terms,
without cancellation) and solves J + 1 equations: O(G J^2) a step, 10 to 25 steps whatever G is. Because no
crossover follows, the answer approaches the analytic centre of the set of optima, which is unique and gives
identical jobs identical shares.

Slacks and multipliers stand in arrays of J + 2 columns: x itself, then the slack of the time row, then that of
the fairness row.
"""

from __future__ import annotations

import numpy as np

from eunomia.cluster.solver.interior_step import direction, dual_error, factor, jitted
from eunomia.core.compiled import compiled

MAX_STEPS = 80
MAX_REFINEMENTS = 2
WORTH_KEEPING = 1e-5  # iterates this good are remembered, should later ones be worse
STEP_BACK = 0.999  # of the way to the boundary


@jitted
def start(n, s, a, b, floor, live, c, capacity, d, logs):  # type: ignore[no-untyped-def]
    """A strictly positive point on the central path of some mu: slacks, multipliers, capacities', y."""
    G, J = a.shape
    load = np.zeros(J)
    pairs = float(J)
    for g in range(G):
        for i in range(J + 2):
            if live[g, i]:
                if i <= J or not logs:
                    pairs += n[g]
                if i < J:
                    load[i] += n[g] * s[g]
    slack = np.ones((G, J + 2))
    room = np.empty(J)
    for j in range(J):
        room[j] = capacity[j]
    level, worth, weight = np.inf, 0.0, 0.0
    speed = np.zeros(G)
    for g in range(G):
        for j in range(J):
            if live[g, j]:
                slack[g, j] = 0.9 * min(1.0 / J, capacity[j] / load[j])
                slack[g, J] -= slack[g, j]
                room[j] -= n[g] * s[g] * slack[g, j]
                speed[g] += a[g, j] * slack[g, j]
                worth += n[g] * abs(c[g, j]) * slack[g, j]
        if live[g, J + 1] and b[g] > 0.0:
            weight += n[g] * b[g]
            level = min(level, (speed[g] - floor[g]) / b[g])
    y = 0.0
    if weight > 0.0:
        y = 0.5 * level if level > 0.0 else level - 1.0
    rows, total = 0.0, 0.0
    for g in range(G):
        if live[g, J + 1]:
            slack[g, J + 1] = max(speed[g] - b[g] * y - floor[g], 0.1 * speed[g] + 1e-3)
            if logs:
                slack[g, J + 1] = speed[g]
            rows += n[g]
            total += n[g] * slack[g, J + 1]
    mu = worth / pairs
    if weight > 0.0:
        mu = max(mu, d / weight * total / rows)
    if logs:
        mu = rows / pairs
    mu = max(mu, 1e-9)
    price = np.empty(J)
    for j in range(J):
        price[j] = mu / room[j]
    multiplier = np.zeros((G, J + 2))
    for g in range(G):
        for i in range(J + 2):
            if live[g, i]:
                multiplier[g, i] = (1.0 if logs and i > J else mu) / slack[g, i]
    return slack, multiplier, room, price, y, pairs


@jitted
def residuals(n, s, a, b, floor, live, c, capacity, d, logs, slack, multiplier, room, price, y, rd, rp, rc):  # type: ignore[no-untyped-def]
    """Fill dual (rd), primal (rp, rc) residuals; return ry, objective, dual bound, complementarity, their sizes."""
    G, J = a.shape
    for j in range(J):
        rc[j] = room[j] - capacity[j]
    ry, objective, bound, product, primal, dual = -d, d * y, 0.0, 0.0, 0.0, 0.0
    for g in range(G):
        used, speed = 0.0, 0.0
        for j in range(J):
            if live[g, j]:
                x = slack[g, j]
                used += x
                speed += a[g, j] * x
                rc[j] += n[g] * s[g] * x
                rd[g, j] = (
                    s[g] * price[j]
                    + multiplier[g, J]
                    - multiplier[g, j]
                    - a[g, j] * multiplier[g, J + 1]
                    - c[g, j]
                )
                dual += abs(rd[g, j]) * x * n[g]
                objective += n[g] * c[g, j] * x
        rp[g, 0] = slack[g, J] - 1.0 + used
        primal = max(primal, abs(rp[g, 0]))
        bound += n[g] * multiplier[g, J]
        if live[g, J + 1]:
            rp[g, 1] = slack[g, J + 1] - (speed - b[g] * y - floor[g])
            primal = max(primal, abs(rp[g, 1]))
            ry += n[g] * b[g] * multiplier[g, J + 1]
            bound -= n[g] * floor[g] * multiplier[g, J + 1]
        for i in range(J + 2):
            if i <= J or not logs:
                product += n[g] * slack[g, i] * multiplier[g, i]
            else:
                objective += n[g]  # of the programme with values 1 / thr, whose optimum is the count of rows
                primal = max(primal, abs(slack[g, i] * multiplier[g, i] - 1.0))
    for j in range(J):
        product += room[j] * price[j]
        bound += price[j] * capacity[j]
        primal = max(primal, abs(rc[j]) / capacity[j])
    dual += abs(ry * y)
    return ry, objective, bound, product, primal, dual


@jitted
def longest(live, value, change, value_c, change_c):  # type: ignore[no-untyped-def]
    """Longest step that keeps everything positive, at most 1."""
    step = 1.0
    for g in range(value.shape[0]):
        for i in range(value.shape[1]):
            if live[g, i] and change[g, i] < 0.0:
                step = min(step, -value[g, i] / change[g, i])
    for j in range(value_c.shape[0]):
        if change_c[j] < 0.0:
            step = min(step, -value_c[j] / change_c[j])
    return step


@jitted
def products(slack, multiplier, room, price, logs, comp, comp_c):  # type: ignore[no-untyped-def]
    """What slack times multiplier must change by to be 0 (1 in fairness rows with ``logs``), into ``comp``."""
    G, width = slack.shape
    for g in range(G):
        for i in range(width):
            comp[g, i] = slack[g, i] * multiplier[g, i]
        if logs:
            comp[g, width - 1] -= 1.0
    for j in range(len(room)):
        comp_c[j] = room[j] * price[j]


@jitted
def correct(  # type: ignore[no-untyped-def]
    n, live, slack, multiplier, room, price, last, up, ud, mu, product, comp, comp_c,
    d_slack, d_multiplier, d_room, d_price,
):  # fmt: skip
    """Mehrotra's corrector: add to ``comp`` the products of the affine steps, less the centring they call for."""
    G, width = slack.shape
    after = 0.0
    for g in range(G):
        for i in range(last):
            after += n[g] * (slack[g, i] + up * d_slack[g, i]) * (multiplier[g, i] + ud * d_multiplier[g, i])
    for j in range(len(room)):
        after += (room[j] + up * d_room[j]) * (price[j] + ud * d_price[j])
    aim = min(max((after / product) ** 3, 1e-6), 1.0) * mu
    for g in range(G):
        for i in range(width):
            if live[g, i]:
                comp[g, i] += d_slack[g, i] * d_multiplier[g, i]
                if i < last:
                    comp[g, i] -= aim
    for j in range(len(room)):
        comp_c[j] += d_room[j] * d_price[j] - aim


@jitted
def move(slack, multiplier, room, price, d_slack, d_multiplier, d_room, d_price, up, ud):  # type: ignore[no-untyped-def]
    """Take the steps."""
    for g in range(slack.shape[0]):
        for i in range(slack.shape[1]):
            slack[g, i] += up * d_slack[g, i]
            multiplier[g, i] += ud * d_multiplier[g, i]
    for j in range(len(room)):
        room[j] += up * d_room[j]
        price[j] += ud * d_price[j]


@compiled(error_model="numpy")
def centre(n, s, a, b, floor, live, c, capacity, d, logs, tolerance):  # type: ignore[no-untyped-def]
    """Solve; ``live`` (G, J + 2) says which x, time and fairness rows exist.

    With ``logs`` it maximises sum_g n_g log(a_g . x_g) instead: then a fairness row has multiplier 1 / (a_g . x_g),
    that is slack times multiplier is 1 where all other products go to 0 (d, b, c and floors must be 0).

    Returns slacks and multipliers (G, J + 2), prices of capacity (J), y and the number of steps. It also
    returns relative gap, primal and dual residual, by which the caller must judge the answer.
    """
    G, J = a.shape
    slack, multiplier, room, price, y, pairs = start(n, s, a, b, floor, live, c, capacity, d, logs)
    rd, rp, rc, error = np.zeros((G, J)), np.zeros((G, 2)), np.zeros(J), np.zeros((G, J))
    no_rp, no_rc, no_comp = np.zeros((G, 2)), np.zeros(J), np.zeros((G, J + 2))
    inverse, matrix = np.zeros((G, J + 2, J + 2)), np.zeros((J + 1, J + 1))
    ease, part, comp, comp_c = np.zeros(J), np.zeros((G, J + 2)), np.zeros((G, J + 2)), np.zeros(J)
    d_slack, d_multiplier = np.zeros((G, J + 2)), np.zeros((G, J + 2))
    d_room, d_price = np.zeros(J), np.zeros(J)
    gap, primal, dual, steps, best = np.inf, np.inf, np.inf, 0, np.inf
    last = J + 1 if logs else J + 2
    kept = (slack.copy(), multiplier.copy(), price.copy(), y, gap, primal, dual)
    for taken in range(MAX_STEPS):
        steps = taken
        ry, objective, bound, product, primal, dual = residuals(
            n, s, a, b, floor, live, c, capacity, d, logs, slack, multiplier, room, price, y, rd, rp, rc
        )
        size = max(abs(objective), 1e-12)
        dual /= size
        gap = max(product, abs(bound - objective)) / size
        worst = max(gap, primal, dual)
        if worst < best:
            best = worst
            if worst < WORTH_KEEPING:
                kept = (slack.copy(), multiplier.copy(), price.copy(), y, gap, primal, dual)
        if worst <= tolerance or not worst < 1e6 * best:
            break
        factor(n, s, a, b, live, slack, multiplier, room, price, inverse, matrix, ease)
        products(slack, multiplier, room, price, logs, comp, comp_c)
        up, ud, dy = 0.0, 0.0, 0.0
        for phase in range(2):
            dy = direction(
                n, s, a, b, live, slack, multiplier, room, price, inverse, matrix, rd, rp, rc, ry,
                comp, comp_c, part, True, d_slack, d_multiplier, d_room, d_price,
            )  # fmt: skip
            for _ in range(MAX_REFINEMENTS * phase):
                error_y, off = dual_error(n, s, a, b, live, slack, rd, ry, d_multiplier, d_price, error)
                if off + abs(error_y * y) <= 0.3 * max(tolerance * size, 1e-3 * product):
                    break
                dy += direction(
                    n, s, a, b, live, slack, multiplier, room, price, inverse, matrix, error, no_rp,
                    no_rc, error_y, no_comp, no_rc, part, False, d_slack, d_multiplier, d_room, d_price,
                )  # fmt: skip
            up = longest(live, slack, d_slack, room, d_room)
            ud = longest(live, multiplier, d_multiplier, price, d_price)
            if phase == 0:
                correct(
                    n, live, slack, multiplier, room, price, last, up, ud, product / pairs, product, comp,
                    comp_c, d_slack, d_multiplier, d_room, d_price,
                )  # fmt: skip
        up, ud = STEP_BACK * up, STEP_BACK * ud
        y += up * dy
        move(slack, multiplier, room, price, d_slack, d_multiplier, d_room, d_price, up, ud)
    slack, multiplier, price, y, gap, primal, dual = kept
    return slack, multiplier, price, y, steps, gap, primal, dual

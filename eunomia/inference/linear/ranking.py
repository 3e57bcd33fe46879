"""Scores of all that waits, and the order that follows from them, kept from one decision to the next."""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, order_at, term_at
from eunomia.inference.kernel.sorting import rows_of, sort_rows
from eunomia.inference.linear.columns import (
    ARRIVAL,
    BY_SCORE,
    ISO,
    LATE,
    MARGIN,
    MOST,
    N_GLOBAL,
    N_JOB,
    N_PAIR,
    SCORE,
    SEQUENCE,
    TIER,
    X,
    own,
    term,
)
from eunomia.learning.observation.table import START_JOB
from eunomia.learning.policy import weights as at
from eunomia.learning.policy.decide import FIRST, LAST, USUAL

MOVES = 16  # per sub-job: an order that asks for more is made anew


@jitted
def _add(k: Kernel, column: int, feature: int, weight: float) -> None:
    """column += weight x feature."""
    out, x = column * k.node_capacity, (X + feature) * k.node_capacity
    for i in range(k.num_waiting):
        term_at(k, out + i).value += weight * term_at(k, x + i).value


@jitted
def score_all(k: Kernel, learned: bool) -> bool:
    """Scores; False if some score is not a number."""
    out, total = SCORE * k.node_capacity, 0.0
    for i in range(k.num_waiting):
        term_at(k, out + i).value = 0.0
    for feature in range(N_JOB):
        base = own(k, at.BASE + feature)
        weight = base + own(k, at.JOB_AT + feature) if learned else base
        if weight != 0.0:
            _add(k, SCORE, feature, weight)
    for i in range(k.num_waiting):
        total += term_at(k, out + i).value
    return np.isfinite(total)  # type: ignore[no-any-return]


@jitted
def set_tiers(k: Kernel, now_s: float, starve: float) -> int:
    """Starving requests first, hopeless ones last; returns how many sub-jobs starve."""
    starving = 0
    for place in range(k.num_waiting):
        tier = LAST if term(k, LATE, place).value == 1.0 else USUAL
        if starve < np.inf and now_s - term(k, ARRIVAL, place).value > starve * term(k, ISO, place).value:
            tier = FIRST
            starving += 1
        term(k, TIER, place).value = tier
    return starving


@jitted
def rank(k: Kernel) -> None:
    """Order by tier, score, sequence, from the order of the decision before."""
    n, first = k.num_waiting, BY_SCORE * k.node_capacity
    moves = MOVES * n
    for m in range(1, n):
        place, i = order_at(k, first + m).value, m
        while i > 0 and _precedes(k, place, order_at(k, first + i - 1).value):
            order_at(k, first + i).value = order_at(k, first + i - 1).value
            i -= 1
        order_at(k, first + i).value = place
        moves -= m - i
        if moves < 0:
            _rank_anew(k)
            return


@jitted
def _precedes(k: Kernel, a: int, b: int) -> bool:
    mine, theirs = term(k, TIER, a).value, term(k, TIER, b).value
    if mine != theirs:
        return mine < theirs  # type: ignore[no-any-return]
    mine, theirs = term(k, SCORE, a).value, term(k, SCORE, b).value
    if mine != theirs:
        return mine > theirs  # type: ignore[no-any-return]
    return term(k, SEQUENCE, a).value < term(k, SEQUENCE, b).value  # type: ignore[no-any-return]


@jitted
def _rank_anew(k: Kernel) -> None:
    """By sequence, then by score, then by tier: sorts that leave equals as they stand."""
    n, first = k.num_waiting, BY_SCORE * k.node_capacity
    order, value = rows_of(n), np.empty(n)
    for column in (SEQUENCE, SCORE, TIER):
        for place in range(n):
            number = term(k, column, place).value
            value[place] = -number if column == SCORE else number
        sort_rows(order, value)
    for i in range(n):
        order_at(k, first + i).value = order[i]


@jitted
def sum_margins(k: Kernel) -> None:
    """What each sub-job adds to its start margin; and the most of it from each rank on."""
    n, first = k.num_waiting, BY_SCORE * k.node_capacity
    for i in range(n):
        term_at(k, MARGIN * k.node_capacity + i).value = 0.0
    for m in range(len(START_JOB)):
        weight = own(k, at.START_AT + N_PAIR + N_GLOBAL + m)
        if weight != 0.0:
            _add(k, MARGIN, START_JOB[m], weight)
    most = -np.inf
    for i in range(n - 1, -1, -1):
        most = max(most, term(k, MARGIN, order_at(k, first + i).value).value)
        term(k, MOST, i).value = most

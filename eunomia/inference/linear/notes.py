"""The same pass while a run is recorded: each start leaves its reasons behind.

Only who stands in the row of a start is looked at closely: the sub-job itself, the first others in the policy's order,
and the last one that was held. Where one that is passed by would run is asked when a row needs it, before a start
changes it.
"""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import (
    Kernel,
    Record,
    answer_at,
    cost_at,
    facts_at,
    lane_at,
    number_at,
    numbers_of,
    order_at,
    shown_at,
    shown_of,
    term_at,
    waiting_at,
)
from eunomia.inference.linear.columns import (
    AIM,
    BANDWIDTH,
    BY_SCORE,
    DEMAND,
    FATE,
    FREE_S,
    HELD_PAIRS,
    HELD_SHARES,
    LANE_ROWS,
    LANES,
    LATE,
    N_GLOBAL,
    N_JOB,
    N_PAIR,
    N_SHARE,
    OVERALL,
    PAIRS,
    RATES,
    REQUEST,
    ROW,
    SCORE,
    SHARES,
    TIER,
    WANTED,
    WEIGHTS,
    X,
    lane_number,
    own,
    term,
)
from eunomia.inference.linear.placing import look_at_types, place, place_anywhere, start_margin
from eunomia.inference.policies.reasons import (
    HELD,
    KEPT,
    LOST,
    RIVALS,
    STARTED,
    Waiting,
    in_a_row,
    note_hold,
    note_start,
    who_waits,
)
from eunomia.inference.policies.sharing import describe_share, lost_work
from eunomia.learning.observation.table import START_JOB
from eunomia.learning.policy import weights as at
from eunomia.learning.policy.decide import TRIED, running_demand
from eunomia.learning.policy.guards import ALARMED

NOWHERE, UNASKED = -1, -2  # accelerators that are none


@jitted
def _of(k: Kernel, system: Record, learned: bool, who: int, others: Floats, count: int) -> Waiting:
    """One that waits, and ``count`` others, as the notes need them."""
    ready, jobs = shown_of(k, 1 + count), np.zeros((1 + count, N_JOB))
    score, tier = np.empty(1 + count), np.empty(1 + count, np.int64)
    weights = numbers_of(k, LANES)[WEIGHTS + at.BASE : WEIGHTS + at.PAIR_AT]
    by = 0 if learned else 1 if own(k, at.RESIDUAL) == 0.0 else 2 if system.memory[ALARMED] == 1.0 else 3
    waiting = who_waits(ready, jobs, score, tier, system, weights, by)
    for n in range(1 + count):
        i = who if n == 0 else int(others[n - 1])
        ready[n] = facts_at(k, waiting_at(k, i).value)
        shown_at(k, n).late = 1 if term(k, LATE, i).value == 1.0 else 0
        score[n], tier[n] = term(k, SCORE, i).value, int(term(k, TIER, i).value)
        waiting.fate[n], waiting.wanted[n] = int(term(k, FATE, i).value), int(term(k, AIM, i).value)
        for feature in range(N_JOB):
            if number_at(k, WANTED + feature).value == 1.0:
                jobs[n, feature] = term(k, X + feature, i).value
    return waiting


@jitted
def _rivals(k: Kernel, who: int, running: float, learned: bool, others: Floats, cost: Floats) -> int:
    """The first of other requests that go without ``who``, in order, and how many.

    One more than a row holds is asked where it would run: that row may be of a sibling of it.
    """
    first, mine, count, asked = BY_SCORE * k.node_capacity, term(k, REQUEST, who).value, 0, 0
    for rank in range(k.num_waiting):
        i = order_at(k, first + rank).value
        if i == who or term(k, FATE, i).value == STARTED:
            continue
        request, seen = term(k, REQUEST, i).value, False
        for n in range(asked):
            seen = seen or term(k, REQUEST, int(others[n])).value == request
        if seen:
            continue
        if term(k, AIM, i).value == UNASKED:
            term(k, AIM, i).value = place_anywhere(k, i, running, learned, cost)
        others[asked] = i
        asked += 1
        if asked > RIVALS:
            break
    for n in range(asked):
        if term(k, REQUEST, int(others[n])).value != mine and count < RIVALS:
            others[count] = others[n]
            count += 1
    return count


@jitted
def _note_held(
    k: Kernel, system: Record, learned: bool, count: int, who: int, value: float, used: float
) -> None:
    """The last one that was held, with the terms of its margin, if that was asked."""
    numbers = numbers_of(k, LANES)
    waiting, weights = _of(k, system, learned, who, numbers[:0], 0), numbers[:0]
    asked = numbers[:0]
    if learned:
        weights = numbers[WEIGHTS + at.START_AT : WEIGHTS + at.LOW]
        y, v = numbers[HELD_PAIRS : HELD_PAIRS + N_PAIR], numbers[HELD_SHARES : HELD_SHARES + N_SHARE]
        asked = in_a_row(y, numbers[OVERALL : OVERALL + N_GLOBAL], waiting.jobs[0], START_JOB, v)
    note_hold(waiting, count, 0, value, used, weights, asked)


@jitted
def start_and_note(k: Kernel, system: Record, running: float, idle: int, learned: bool) -> tuple[int, int]:
    """As ``start_in_turn`` (decision.py), but for the bounds that end it early: who is held is noted."""
    lanes, row, first = k.num_lanes, k.num_lanes + k.num_types, BY_SCORE * k.node_capacity
    numbers, bandwidth = numbers_of(k, LANES + LANE_ROWS * row), number_at(k, BANDWIDTH).value
    demand = numbers[LANES + DEMAND * row : LANES + DEMAND * row + lanes]
    rates = numbers[LANES + RATES * row : LANES + RATES * row + lanes + 1]
    v, cost, others = numbers[SHARES : SHARES + N_SHARE], np.empty(lanes), np.empty(RIVALS + 1)
    way, gate, count, forced, held = int(own(k, at.WAY)), own(k, at.GATE), 0, 0, 0
    last, last_value, last_used, nothing_runs = -1, 0.0, 0.0, idle == lanes
    standing = lost_work(way, demand, bandwidth, rates)
    for i in range(k.num_waiting):
        term_at(k, FATE * k.node_capacity + i).value = LOST
        term_at(k, AIM * k.node_capacity + i).value = NOWHERE
    look_at_types(k)
    for rank in range(k.num_waiting):
        if idle == 0 or held >= TRIED:
            break
        i, value, used = order_at(k, first + rank).value, gate - running / bandwidth, running / bandwidth
        if not learned and not nothing_runs and running > gate * bandwidth:
            _note_held(k, system, learned, count, i, value, used)
            break
        s = place(k, i, running, learned)
        if s < 0:
            term(k, FATE, i).value, term(k, AIM, i).value = KEPT, UNASKED
            continue
        layer = cost_at(k, int(term(k, ROW, i).value) * k.num_types + lane_at(k, s).type)
        term(k, AIM, i).value = s
        if learned:
            describe_share(way, demand, standing, layer.estimate_demand, bandwidth, rates, v)
            value = start_margin(k, i, running)
            if not value >= 0.0 and not nothing_runs:
                held += 1
                last, last_value, last_used, term(k, FATE, i).value = i, value, used, HELD
                for n in range(N_PAIR):
                    numbers[HELD_PAIRS + n] = numbers[PAIRS + n]
                for n in range(N_SHARE):
                    numbers[HELD_SHARES + n] = v[n]
                continue
            forced += 0 if value >= 0.0 else 1
        if last >= 0:
            _note_held(k, system, learned, count, last, last_value, last_used)
            last = -1
        rivals = _rivals(k, i, running, learned, others, cost)
        place_anywhere(k, i, running, learned, cost)
        note_start(_of(k, system, learned, i, others, rivals), count, 0, cost, value, used)
        term(k, FATE, i).value = STARTED
        answer_at(k, count).index, answer_at(k, count).accelerator = waiting_at(k, i).value, s
        count += 1
        idle -= 1
        nothing_runs = False
        lane_number(k, FREE_S, s).value, demand[s] = max(layer.estimate_s, 1e-300), layer.estimate_demand
        running = running_demand(demand)
        standing = lost_work(way, demand, bandwidth, rates)
        look_at_types(k)
    if last >= 0:
        _note_held(k, system, learned, count, last, last_value, last_used)
    return count, forced

"""The pass of one instant, as learning/policy/decide.py makes it: in order of score, start, hold or wait."""

from __future__ import annotations

import math

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import (
    Kernel,
    Record,
    answer_at,
    cost_at,
    lane_at,
    number_at,
    numbers_of,
    order_at,
    waiting_at,
)
from eunomia.inference.linear.columns import (
    BANDWIDTH,
    BY_SCORE,
    DEMAND,
    FREE_S,
    LANE_ROWS,
    LANES,
    LAYER_S,
    MARGIN,
    MOST,
    N_SHARE,
    RATES,
    ROW,
    SCALE_S,
    SHARES,
    lane_number,
    own,
    term,
)
from eunomia.inference.linear.features import (
    describe,
    describe_promises,
    describe_sizes,
    outside,
    sum_by_deadline,
    sum_by_work,
    survey,
    time_left,
)
from eunomia.inference.linear.keeping import keep_up
from eunomia.inference.linear.notes import start_and_note
from eunomia.inference.linear.placing import (
    look_at_lanes,
    look_at_types,
    margin_bound,
    place,
    start_margin,
)
from eunomia.inference.linear.ranking import rank, score_all, set_tiers, sum_margins
from eunomia.inference.policies.reasons import is_noting
from eunomia.inference.policies.sharing import describe_share, lost_work
from eunomia.learning.policy import weights as at
from eunomia.learning.policy.decide import TRIED, already_decided, remember, running_demand, weights_of
from eunomia.learning.policy.guards import is_strange


def decide_in_place(k, system):  # type: ignore[no-untyped-def]
    """Write (node, accelerator) of all that starts now into the kernel's answers; returns their number."""
    n = k.num_waiting
    if n == 0 or already_decided(n, system):
        return 0
    block = weights_of(system)
    block[at.COUNTERS + at.DECISIONS] += 1.0
    # Where no layer slows another there is nothing to save.
    number_at(k, BANDWIDTH).value = np.inf if block[at.APART] == 1.0 else system.bandwidth_bytes_s
    idle = look_at_lanes(k)
    observe(k, system, idle)
    learned = block[at.RESIDUAL] > 0.0 and not is_strange(outside(k), block, system)
    if not score_all(k, learned):
        block[at.COUNTERS + at.INVALID] += 1.0
        learned = False
        score_all(k, learned)
    block[at.COUNTERS + at.FALLBACK] += 0.0 if learned else min(block[at.RESIDUAL], 1.0)
    block[at.COUNTERS + at.PROMOTED] += set_tiers(k, system.now_s, block[at.STARVE])
    rank(k)
    if learned:
        sum_margins(k)
    if is_noting(system):
        count, forced = start_and_note(k, system, system.demand_bytes_s, idle, learned)
    else:
        count, forced = start_in_turn(k, system.demand_bytes_s, idle, learned)
    block[at.COUNTERS + at.STARTS] += count
    block[at.COUNTERS + at.FORCED] += forced
    block[at.COUNTERS + at.HOLDS] += 1.0 if count < min(idle, n) else 0.0
    remember(n, system, count)
    return count


@jitted
def observe(k: Kernel, system: Record, idle: int) -> None:
    """Bring all features up to date."""
    now_s, logs = system.now_s, own(k, at.LOGS) == 1.0
    keep_up(k, system, number_at(k, BANDWIDTH).value, logs)
    time_left(k, now_s)
    count, scale_s, layer_s = sum_by_deadline(k)
    number_at(k, SCALE_S).value, number_at(k, LAYER_S).value = scale_s, layer_s
    sum_by_work(k)
    describe(k, now_s)
    if logs:
        describe_sizes(k, math.log(scale_s))
    if own(k, at.PROMISES) == 1.0:
        describe_promises(k, now_s)
    survey(k, idle, count, system.demand_bytes_s)


@jitted
def start_in_turn(k: Kernel, running: float, idle: int, learned: bool) -> tuple[int, int]:
    """The pass over sub-jobs, by tier and score; returns how many start, and how many of them against their margin.

    One whose margin is below 0 for certain is passed by, and placed only if it matters how many were held.
    """
    lanes, row, bandwidth = k.num_lanes, k.num_lanes + k.num_types, number_at(k, BANDWIDTH).value
    way, gate, forced = int(own(k, at.WAY)), own(k, at.GATE), 0
    numbers = numbers_of(k, LANES + LANE_ROWS * row)
    demand = numbers[LANES + DEMAND * row : LANES + DEMAND * row + lanes]
    rates, v = (
        numbers[LANES + RATES * row : LANES + RATES * row + lanes + 1],
        numbers[SHARES : SHARES + N_SHARE],
    )
    order, count, held, passed, since, nothing_runs = BY_SCORE * k.node_capacity, 0, 0, 0, 0, idle == lanes
    standing = lost_work(way, demand, bandwidth, rates)
    most = margin_bound(k, running, standing)
    look_at_types(k)
    for i in range(k.num_waiting):
        if idle == 0 or held >= TRIED:
            break
        who = order_at(k, order + i).value
        if not nothing_runs:
            if learned and most + term(k, MOST, i).value < 0.0:
                break  # whatever is still to come would be held
            if learned and most + term(k, MARGIN, who).value < 0.0:
                passed += 1
                continue
            if not learned and running > gate * bandwidth:
                break
        if held + passed >= TRIED:
            held, passed = held + _held(k, since, i, running, most), 0
            since = i
            if held >= TRIED:
                break
        s = place(k, who, running, learned)
        if s < 0:
            continue
        cost = cost_at(k, int(term(k, ROW, who).value) * k.num_types + lane_at(k, s).type)
        if learned:
            describe_share(way, demand, standing, cost.estimate_demand, bandwidth, rates, v)
            if not start_margin(k, who, running) >= 0.0:
                if not nothing_runs:
                    held += 1
                    continue
                forced = 1
        if passed > 0 and held + passed + k.num_waiting - i > TRIED:
            held, passed = held + _held(k, since, i, running, most), 0
        since = i + 1
        answer_at(k, count).index, answer_at(k, count).accelerator = waiting_at(k, who).value, s
        count += 1
        idle -= 1
        nothing_runs = False
        lane_number(k, FREE_S, s).value, demand[s] = max(cost.estimate_s, 1e-300), cost.estimate_demand
        running = running_demand(demand)
        standing = lost_work(way, demand, bandwidth, rates)
        most = margin_bound(k, running, standing)
        look_at_types(k)
    return count, forced


@jitted
def _held(k: Kernel, since: int, until: int, running: float, most: float) -> int:
    """How many of those that were passed by have an idle accelerator: they were held."""
    order, held = BY_SCORE * k.node_capacity, 0
    for i in range(since, until):
        who = order_at(k, order + i).value
        if most + term(k, MARGIN, who).value < 0.0 and place(k, who, running, True) >= 0:
            held += 1
    return held

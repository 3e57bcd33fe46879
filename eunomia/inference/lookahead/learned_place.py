"""Where a learned policy puts a sub-job in a rollout, and what the start takes from what runs (learned.py)."""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import (
    Kernel,
    by_type_at,
    cost_at,
    facts_at,
    lane_at,
    queue_at,
    system_of,
    type_at,
)
from eunomia.inference.kernel.placement import refresh_type, refresh_types
from eunomia.inference.lookahead.learned_terms import (
    BANDWIDTH,
    INVERSE_B,
    N_SHARE,
    PLACE,
    PLACE_AT,
    SHARE_AT,
    START_AT,
    WAY,
)
from eunomia.inference.lookahead.memory import (
    Workspace,
    first_free_at,
    fixed_at,
    lane_demand_of,
    rates_of,
    standing_at,
    weight_at,
)
from eunomia.inference.policies.sharing import (
    OTHERS_LOSS,
    OWN_LOSS,
    PROPORTIONAL,
    STANDING_LOSS,
    describe_share,
    lost_work,
)
from eunomia.learning.observation import table as f
from eunomia.learning.observation.compiled import clip
from eunomia.learning.policy.decide import ANY_IDLE, EFT_CA


@jitted
def _of_type(k: Kernel, kind: int, node: int) -> int:
    """The idle accelerator of a type for a sub-job: where its request ran last, or that of least index."""
    s = facts_at(k, node).accelerator
    if s >= 0 and lane_at(k, s).node < 0 and lane_at(k, s).type == kind:
        if queue_at(k, s).last_request == facts_at(k, node).request:
            return s  # type: ignore[no-any-return]
    return type_at(k, kind).idle  # type: ignore[no-any-return]


@jitted
def _first_free(k: Kernel, kind: int) -> int:
    """The busy accelerator of a type that is free first, the least index of equals; -1 = the type has none."""
    chosen, least_s, first = -1, np.inf, type_at(k, kind).first
    for i in range(first, first + type_at(k, kind).lanes):
        s = by_type_at(k, i).value
        if queue_at(k, s).free_in_s < least_s:
            chosen, least_s = s, queue_at(k, s).free_in_s
    return chosen


@jitted
def _terms(
    ws: Workspace, first: int, later: float, over: float, after: float, miss: float, switch: float
) -> float:
    """Pair features times their weights, but for those that never change."""
    return (  # type: ignore[no-any-return]
        weight_at(ws, first + f.LATER).value * later
        + weight_at(ws, first + f.OVERFLOW).value * over
        + weight_at(ws, first + f.LAXITY_AFTER).value * after
        + weight_at(ws, first + f.WOULD_MISS).value * miss
        + weight_at(ws, first + f.SWITCH).value * switch
    )


@jitted
def look(ws: Workspace, k: Kernel, demand: float, started: int) -> None:
    """What placements and prices have in common until something starts.

    ``started``: the accelerator where something did, at this instant; -1 = nothing yet.
    """
    if started < 0:
        refresh_types(k)
    else:
        refresh_type(k, started)
    for kind in range(k.num_types):
        if started < 0 or lane_at(k, started).type == kind:
            first_free_at(ws, kind).value = -1 if type_at(k, kind).idle >= 0 else _first_free(k, kind)
    ws.slow = max(1.0, demand * weight_at(ws, INVERSE_B).value)
    bandwidth, way = weight_at(ws, BANDWIDTH).value, int(weight_at(ws, WAY).value)
    if way == PROPORTIONAL:
        ws.standing = k.num_running * (1.0 - (min(1.0, bandwidth / demand) if demand > 0.0 else 1.0))
        return
    lanes, rates = lane_demand_of(ws, k.num_lanes), rates_of(ws, k.num_lanes + 1)
    for s in range(k.num_lanes):
        lanes[s] = queue_at(k, s).demand_bytes_s
    ws.standing = lost_work(way, lanes, bandwidth, rates)


@jitted
def place(ws: Workspace, k: Kernel, node: int, demand: float) -> tuple[int, float]:
    """The accelerator of a sub-job, -1 = none or a busy one; and the pair's terms of the start margin."""
    mine, facts, types, slow = standing_at(ws, node), facts_at(k, node), k.num_types, ws.slow
    first, how, inverse_b = (
        facts.row * types,
        weight_at(ws, PLACE).value,
        weight_at(ws, INVERSE_B).value,
    )
    least_s, soonest_s = np.inf, np.inf
    for kind in range(types):
        c_s, record = cost_at(k, first + kind).estimate_s, type_at(k, kind)
        least_s = min(least_s, c_s)
        if record.lanes > 0:
            free_s = 0.0 if record.idle >= 0 else record.free_s
            soonest_s = min(soonest_s, (free_s + c_s) * slow)
    laxity_s, soon = mine.due_s - system_of(k).now_s - mine.path_s, 1.0 / soonest_s
    chosen, best, best_idle, fixed_margin, pair = -1, np.inf, False, 0.0, (0.0, 0.0, 0.0, 0.0, 0.0)
    for kind in range(types):
        record, cost, fixed = type_at(k, kind), cost_at(k, first + kind), fixed_at(ws, first + kind)
        idle = record.idle >= 0
        s = _of_type(k, kind, node) if idle else first_free_at(ws, kind).value
        if s < 0 or cost.estimate_s == np.inf or (how == ANY_IDLE and not idle):
            continue
        free_s, c_s, switch = 0.0 if idle else record.free_s, cost.estimate_s, 0.0
        if queue_at(k, s).last_request >= 0 and queue_at(k, s).last_request != facts.request:
            switch = 1.0
        finish_s, over = (free_s + c_s) * slow, (demand + cost.estimate_demand) * inverse_b
        value = finish_s
        if how == ANY_IDLE:
            value = c_s
        elif how == EFT_CA:
            value = free_s * slow + c_s * max(1.0, over)
        extra_s = finish_s - least_s
        later, over = min(4.0, finish_s * soon - 1.0), min(4.0, max(0.0, over - 1.0))
        after = 0.5 * clip((laxity_s - extra_s) * mine.inverse_s, -2.0, 3.0)
        miss = 1.0 if laxity_s < extra_s else 0.0
        value = value * soon - fixed.place - _terms(ws, PLACE_AT, later, over, after, miss, switch)
        if chosen >= 0 and (value > best or (value == best and (best_idle or not idle))):
            continue
        chosen, best, best_idle, fixed_margin = s, value, idle, fixed.start
        pair = (later, over, after, miss, switch)
    if not best_idle:
        return -1, 0.0
    later, over, after, miss, switch = pair
    return chosen, fixed_margin + _terms(ws, START_AT, later, over, after, miss, switch)


@jitted
def price(ws: Workspace, k: Kernel, demand: float, extra: float) -> float:
    """Share terms of the start margin: what the start takes from the speed of what runs."""
    bandwidth, way, standing = weight_at(ws, BANDWIDTH).value, int(weight_at(ws, WAY).value), ws.standing
    if way == PROPORTIONAL:
        then = demand + extra
        then = min(1.0, bandwidth / then) if then > 0.0 else 1.0
        others = min(4.0, max(-4.0, k.num_running * (1.0 - then) - standing))
        return (  # type: ignore[no-any-return]
            weight_at(ws, SHARE_AT + OWN_LOSS).value * (1.0 - then)
            + weight_at(ws, SHARE_AT + OTHERS_LOSS).value * others
            + weight_at(ws, SHARE_AT + STANDING_LOSS).value * min(4.0, standing)
        )
    lanes, scratch = lane_demand_of(ws, k.num_lanes), rates_of(ws, k.num_lanes + 1 + N_SHARE)
    v = scratch[k.num_lanes + 1 :]
    describe_share(way, lanes, standing, extra, bandwidth, scratch[: k.num_lanes + 1], v)
    total = 0.0
    for i in range(N_SHARE):
        total += weight_at(ws, SHARE_AT + i).value * v[i]
    return total

"""Placement rules: which accelerator a sub-job would be given, evaluated per accelerator type.

All instances of a type cost the same, so only the least idle instance and the busy one that frees
first can be chosen: O(types) instead of O(accelerators) per sub-job.
"""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

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
from eunomia.inference.kernel.noise import uniform
from eunomia.inference.kernel.setup import (
    EFT,
    EFT_CA,
    FIRST_IDLE,
    LEAST_LOADED,
    MASKED,
    PREF,
    RANDOM,
    ROUND_ROBIN,
)


@jitted
def time_left(k: Kernel, s: int) -> float:
    """Estimated isolated time until accelerator s is free; 0 when idle."""
    lane = lane_at(k, s)
    if lane.node < 0:
        return 0.0
    left_s = (lane.end_s - system_of(k).now_s) * lane.rate
    return max(0.0, lane.estimate_s - (lane.total_s - left_s))


@jitted
def refresh_types(k: Kernel) -> None:
    """Per type: least idle accelerator, or when the first is free. Each one's time left is kept, too."""
    k.loads_known = 1
    first = 0
    for kind in range(k.num_types):
        first = _look_at_type(k, kind, first)


@jitted
def refresh_type(k: Kernel, started: int) -> None:
    """The same after a start at this instant: only the type of that accelerator has changed."""
    k.loads_known = 1
    kind = lane_at(k, started).type
    _look_at_type(k, kind, type_at(k, kind).first)


@jitted
def _look_at_type(k: Kernel, kind: int, first: int) -> int:
    """Without branches: nobody can foresee which accelerators are idle. Returns where the next type begins."""
    now_s, least, free_s, mine = system_of(k).now_s, k.num_lanes, np.inf, type_at(k, kind)
    for i in range(first, first + mine.lanes):
        s = by_type_at(k, i).value
        lane = lane_at(k, s)
        idle, left_s = lane.node < 0, (lane.end_s - now_s) * lane.rate
        lane_s = max(0.0, lane.estimate_s - (lane.total_s - left_s))
        queue_at(k, s).free_in_s = 0.0 if idle else lane_s
        least = min(least, s if idle else k.num_lanes)
        free_s = min(free_s, lane_s)
    has_idle = least < k.num_lanes
    mine.idle, mine.start_s = least if has_idle else -1, 0.0 if has_idle else np.inf
    mine.free_s = np.inf if has_idle else free_s
    return first + mine.lanes


@jitted
def choose(k: Kernel, place: int, row: int) -> int:
    """The idle accelerator that the rule gives this row; -1 = hold."""
    if place == EFT or place == EFT_CA:
        return _earliest_finish(k, row, place == EFT_CA)
    if place == PREF:
        return _preferred(k, row)
    chosen, least = -1, np.inf  # any_idle: least c', then least index; first_idle: least index
    mask = k.idle_mask
    while mask != 0:
        s = trailing_zeros(mask)
        mask &= mask - 1
        value = cost_at(k, row * k.num_types + lane_at(k, s).type).estimate_s
        if value < least:
            chosen, least = s, value
            if place == FIRST_IDLE:
                return s
    for s in range(MASKED, k.num_lanes):
        value = cost_at(k, row * k.num_types + lane_at(k, s).type).estimate_s
        if lane_at(k, s).node < 0 and value < least:
            chosen, least = s, value
            if place == FIRST_IDLE:
                return s
    return chosen


@jitted
def _preferred(k: Kernel, row: int) -> int:
    """Idle accelerator of the type with least c'; hold while all of that type are busy."""
    best = 0
    for kind in range(1, k.num_types):
        if cost_at(k, row * k.num_types + kind).estimate_s < cost_at(k, row * k.num_types + best).estimate_s:
            best = kind
    for s in range(k.num_lanes):
        if lane_at(k, s).type == best and lane_at(k, s).node < 0:
            return s
    return -1


@jitted
def _earliest_finish(k: Kernel, row: int, aware: bool) -> int:
    """Accelerator of least estimated finish over all; hold if that one is busy."""
    demand, bandwidth = system_of(k).demand_bytes_s, system_of(k).bandwidth_bytes_s
    slow = max(1.0, demand / bandwidth)
    chosen, idle, least = -1, False, np.inf
    for kind in range(k.num_types):
        value = cost_at(k, row * k.num_types + kind).estimate_s
        if value == np.inf:
            continue
        s, is_idle = type_at(k, kind).idle, type_at(k, kind).idle >= 0
        free_s = 0.0 if is_idle else type_at(k, kind).free_s
        if aware:
            own = max(1.0, (demand + cost_at(k, row * k.num_types + kind).estimate_demand) / bandwidth)
            finish_s = free_s * slow + value * own
        else:
            finish_s = (free_s + value) * slow
        better = finish_s < least
        if finish_s == least and is_idle:
            better = not idle or s < chosen
        if better:
            chosen, idle, least = s, is_idle, finish_s
    return chosen if idle else -1


@jitted
def bind_target(k: Kernel, rule: int, node: int) -> int:
    """Queue that a sub-job enters when it becomes ready; -1 = none has room (throttled)."""
    facts = facts_at(k, node)
    lanes = k.num_lanes
    if rule == ROUND_ROBIN:
        first = system_of(k).binds % lanes
    elif rule == RANDOM:
        first = int(uniform(k.seed, facts.request, facts.layer, 3) * lanes)
    else:
        first = 0
    chosen, least = -1, np.inf
    for step in range(lanes):
        s = (first + step) % lanes
        if cost_at(k, facts.row * k.num_types + lane_at(k, s).type).estimate_s == np.inf:
            continue
        if rule == ROUND_ROBIN or rule == RANDOM:
            return s
        load = queue_at(k, s).queued + (1 if lane_at(k, s).node >= 0 else 0)
        if rule == LEAST_LOADED:
            load_s = queue_at(k, s).queued_s + time_left(k, s)
            if load_s < least:
                chosen, least = s, load_s
        elif load < k.throttle:
            return s
    return chosen


@jitted
def least_finish_queue(k: Kernel, row: int, queues: bool) -> int:
    """Periodic placement: least free + queued + c' (``queues``) or least c', then least index."""
    chosen, least = 0, np.inf
    for s in range(k.num_lanes):
        value = cost_at(k, row * k.num_types + lane_at(k, s).type).estimate_s
        if queues:
            value += time_left(k, s) + queue_at(k, s).queued_s
        if value < least:
            chosen, least = s, value
    return chosen

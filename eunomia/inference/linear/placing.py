"""Where one sub-job would run, and whether it may start now: the pair's and the platform's share of the decision."""

from __future__ import annotations

import math

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, cost_at, lane_at, number_at, queue_at
from eunomia.inference.kernel.placement import time_left
from eunomia.inference.linear.columns import (
    BANDWIDTH,
    DEMAND,
    FREE_S,
    LANE_ROWS,
    LANES,
    LAYER_S,
    N_GLOBAL,
    N_PAIR,
    N_SHARE,
    OVERALL,
    PAIR_BOUND,
    PAIRS,
    REQUEST,
    ROW,
    SEEN,
    SHARES,
    SPARE,
    TYPE_FREE_S,
    WORK_S,
    X,
    lane_number,
    own,
    term,
)
from eunomia.inference.policies.sharing import (
    CUT,
    EVEN,
    MAX_MIN,
    OTHERS_LOSS,
    OWN_LOSS,
    STANDING_LOSS,
    WEIGHTED,
)
from eunomia.learning.observation import table as f
from eunomia.learning.observation.compiled import TINY_S, clip
from eunomia.learning.policy import weights as at
from eunomia.learning.policy.decide import ANY_IDLE, EFT_CA

SAFE = 1e-9  # what rounding may add to a bound
NEVER = np.inf


@jitted
def look_at_lanes(k: Kernel) -> int:
    """Time left (0 = idle) and demand of all accelerators; returns how many are idle."""
    idle = 0
    for s in range(k.num_lanes):
        free_s, demand = 0.0, 0.0
        if lane_at(k, s).node < 0:
            idle += 1
        else:
            free_s, demand = max(time_left(k, s), 1e-300), queue_at(k, s).demand_bytes_s
        lane_number(k, FREE_S, s).value, lane_number(k, DEMAND, s).value = free_s, demand
    return idle


@jitted
def look_at_types(k: Kernel) -> None:
    """Per type: when its first accelerator is free; inf = there is none."""
    for kind in range(k.num_types):
        lane_number(k, TYPE_FREE_S, kind).value = NEVER
    for s in range(k.num_lanes):
        kind, free_s = lane_at(k, s).type, lane_number(k, FREE_S, s).value
        lane_number(k, TYPE_FREE_S, kind).value = min(lane_number(k, TYPE_FREE_S, kind).value, free_s)


@jitted
def _slower(k: Kernel, at_cost: int, c_s: float, least_s: float) -> float:
    """log(c / least c), kept per layer and type unless estimates are learned."""
    if c_s == least_s:
        return 0.0
    kept = number_at(k, LANES + LANE_ROWS * (k.num_lanes + k.num_types) + at_cost)
    if k.learn > 0.0 or kept.value != kept.value:
        kept.value = math.log(max(c_s, TINY_S) / max(least_s, TINY_S))
    return kept.value  # type: ignore[no-any-return]


@jitted
def place(k: Kernel, who: int, running: float, learned: bool) -> int:
    """The idle accelerator of the sub-job at a place; -1 = it waits for a busy one. Leaves its pair features."""
    first, any_idle = int(term(k, ROW, who).value) * k.num_types, own(k, at.PLACE) == ANY_IDLE
    least_s, soonest_s = _best_of_types(k, first, running)
    if not any_idle and _surely_waits(k, who, running, least_s, soonest_s, learned):
        return -1
    chosen, best = -1, 0.0
    for s in range(k.num_lanes):
        if (
            lane_number(k, FREE_S, s).value == 0.0
            and cost_at(k, first + lane_at(k, s).type).estimate_s < NEVER
        ):
            value = _cost(k, who, s, running, least_s, soonest_s, learned)
            if chosen < 0 or value < best:
                chosen, best = s, value
                for n in range(N_PAIR):
                    number_at(k, PAIRS + n).value = number_at(k, SEEN + n).value
    if chosen < 0:
        return -1
    for s in range(0 if any_idle else k.num_lanes):
        if (
            lane_number(k, FREE_S, s).value > 0.0
            and cost_at(k, first + lane_at(k, s).type).estimate_s < NEVER
        ):
            if _cost(k, who, s, running, least_s, soonest_s, learned) < best:
                return -1
    return chosen


@jitted
def _best_of_types(k: Kernel, first: int, running: float) -> tuple[float, float]:
    """(least isolated time, earliest finish) of a layer whose costs begin at ``first``."""
    slow, least_s, soonest_s = max(1.0, running / number_at(k, BANDWIDTH).value), NEVER, NEVER
    for kind in range(k.num_types):
        free_s = lane_number(k, TYPE_FREE_S, kind).value
        if free_s < NEVER:
            c_s = cost_at(k, first + kind).estimate_s
            least_s, soonest_s = min(least_s, c_s), min(soonest_s, (free_s + c_s) * slow)
    return least_s, soonest_s


@jitted
def place_anywhere(k: Kernel, who: int, running: float, learned: bool, cost: Floats) -> int:
    """The accelerator, busy or not; -1 = none. Fills what the placement minimises: inf = cannot be chosen."""
    first, any_idle = int(term(k, ROW, who).value) * k.num_types, own(k, at.PLACE) == ANY_IDLE
    least_s, soonest_s = _best_of_types(k, first, running)
    chosen, best, best_idle = -1, 0.0, False
    for s in range(k.num_lanes):
        idle, cost[s] = lane_number(k, FREE_S, s).value == 0.0, NEVER
        if cost_at(k, first + lane_at(k, s).type).estimate_s == NEVER or (any_idle and not idle):
            continue
        cost[s] = value = _cost(k, who, s, running, least_s, soonest_s, learned)
        if chosen < 0 or value < best or (value == best and idle and not best_idle):
            chosen, best, best_idle = s, value, idle
            for n in range(N_PAIR):
                number_at(k, PAIRS + n).value = number_at(k, SEEN + n).value
    return chosen


@jitted
def _surely_waits(
    k: Kernel, who: int, running: float, least_s: float, soonest_s: float, learned: bool
) -> bool:
    """Whether some busy accelerator is better than all idle ones, beyond what rounding may do: once per type."""
    first, aware = int(term(k, ROW, who).value) * k.num_types, own(k, at.PLACE) == EFT_CA
    inverse_b, soon, idle, busy = 1.0 / number_at(k, BANDWIDTH).value, 1.0 / soonest_s, NEVER, NEVER
    pace, laxity_s = (
        1.0 / (term(k, WORK_S, who).value + number_at(k, LAYER_S).value),
        term(k, SPARE, who).value,
    )
    slow, switch = max(1.0, running / number_at(k, BANDWIDTH).value), own(k, at.PAIR_AT + f.SWITCH)
    for kind in range(k.num_types):
        free_s, cost = lane_number(k, TYPE_FREE_S, kind).value, cost_at(k, first + kind)
        c_s = cost.estimate_s
        if free_s == NEVER or c_s == NEVER:
            continue
        finish_s, over = (free_s + c_s) * slow, (running + cost.estimate_demand) * inverse_b
        value, extra_s = (free_s * slow + c_s * max(1.0, over) if aware else finish_s), finish_s - least_s
        if learned:
            value = (
                value * soon
                - own(k, at.PAIR_AT + f.SLOWER) * _slower(k, first + kind, c_s, least_s)
                - own(k, at.PAIR_AT + f.LATER) * min(4.0, finish_s * soon - 1.0)
                - own(k, at.PAIR_AT + f.DEMAND) * min(4.0, cost.estimate_demand * inverse_b)
                - own(k, at.PAIR_AT + f.OVERFLOW) * min(4.0, max(0.0, over - 1.0))
                - own(k, at.PAIR_AT + f.LAXITY_AFTER) * 0.5 * clip((laxity_s - extra_s) * pace, -2.0, 3.0)
                - own(k, at.PAIR_AT + f.WOULD_MISS) * (1.0 if laxity_s < extra_s else 0.0)
            )
        if free_s == 0.0:
            idle = min(idle, value)
        else:
            busy = min(busy, value)
    if idle == NEVER:
        return True
    margin = SAFE * (abs(busy) + abs(idle)) + (SAFE + abs(switch) if learned else 0.0)
    return busy + margin < idle


@jitted
def _cost(
    k: Kernel,
    who: int,
    s: int,
    running: float,
    least_s: float,
    soonest_s: float,
    learned: bool,
) -> float:
    """What the placement minimises, for one accelerator that can run the sub-job. Leaves the pair's features."""
    bandwidth, how, at_cost = (
        number_at(k, BANDWIDTH).value,
        own(k, at.PLACE),
        int(term(k, ROW, who).value) * k.num_types,
    )
    at_cost += lane_at(k, s).type
    free_s, slow = lane_number(k, FREE_S, s).value, max(1.0, running / bandwidth)
    c_s, wanted = cost_at(k, at_cost).estimate_s, cost_at(k, at_cost).estimate_demand
    finish_s = value = (free_s + c_s) * slow
    if how == ANY_IDLE:
        value = c_s
    elif how == EFT_CA:
        value = free_s * slow + c_s * max(1.0, (running + wanted) / bandwidth)
    if not learned:
        return value  # type: ignore[no-any-return]
    extra_s, last, laxity_s = finish_s - least_s, queue_at(k, s).last_request, term(k, SPARE, who).value
    pace_s = term(k, WORK_S, who).value + number_at(k, LAYER_S).value
    value = value / soonest_s
    value -= _share(k, f.SLOWER, _slower(k, at_cost, c_s, least_s))
    value -= _share(k, f.LATER, min(4.0, finish_s / max(soonest_s, TINY_S) - 1.0))
    value -= _share(k, f.DEMAND, min(4.0, wanted / bandwidth))
    value -= _share(k, f.OVERFLOW, min(4.0, max(0.0, (running + wanted) / bandwidth - 1.0)))
    value -= _share(k, f.LAXITY_AFTER, 0.5 * clip((laxity_s - extra_s) / pace_s, -2.0, 3.0))
    value -= _share(k, f.WOULD_MISS, 1.0 if laxity_s < extra_s else 0.0)
    return value - _share(  # type: ignore[no-any-return]
        k, f.SWITCH, 1.0 if last >= 0 and last != term(k, REQUEST, who).value else 0.0
    )


@jitted
def _share(k: Kernel, feature: int, value: float) -> float:
    """A pair feature, noted and weighed."""
    number_at(k, SEEN + feature).value = value
    return own(k, at.PAIR_AT + feature) * value


@jitted
def start_margin(k: Kernel, who: int, running: float) -> float:
    """gate - D/B + start . w + share . v."""
    margin = own(k, at.GATE) - running / number_at(k, BANDWIDTH).value
    for n in range(N_PAIR):
        margin += own(k, at.START_AT + n) * number_at(k, PAIRS + n).value
    for n in range(N_GLOBAL):
        margin += own(k, at.START_AT + N_PAIR + n) * number_at(k, OVERALL + n).value
    for n in range(len(f.START_JOB)):
        margin += own(k, at.START_AT + N_PAIR + N_GLOBAL + n) * term(k, X + f.START_JOB[n], who).value
    for n in range(N_SHARE):
        margin += own(k, at.SHARE_AT + n) * number_at(k, SHARES + n).value
    return margin  # type: ignore[no-any-return]


@jitted
def margin_bound(k: Kernel, running: float, standing: float) -> float:
    """What no start margin exceeds now, but for what the sub-job itself adds."""
    way, share = int(own(k, at.WAY)), at.SHARE_AT
    bound = own(k, at.GATE) - running / number_at(k, BANDWIDTH).value + number_at(k, PAIR_BOUND).value + SAFE
    bound += max(0.0, own(k, share + OWN_LOSS))
    for n in range(N_GLOBAL):
        bound += own(k, at.START_AT + N_PAIR + n) * number_at(k, OVERALL + n).value
    others = own(k, share + OTHERS_LOSS)
    bound += 4.0 * others if others > 0.0 else -others * (4.0 if way == WEIGHTED else SAFE)
    bound += own(k, share + STANDING_LOSS) * min(4.0, standing)
    bound += own(k, share + EVEN) if way == MAX_MIN else 0.0
    return bound + (own(k, share + CUT) if way == WEIGHTED else 0.0)  # type: ignore[no-any-return]

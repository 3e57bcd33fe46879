"""How running layers share the memory bandwidth: progress rates from demands (docs/engine.md)."""

from __future__ import annotations

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, cost_at, lane_at, system_of

MODES = (
    "none",
    "proportional",
    "max_min",
    "weighted",
    "moca_literal",
    "roofline",
    "roofline_proportional",
    "roofline_static",
)
NONE, PROPORTIONAL, MAX_MIN, WEIGHTED, MOCA_LITERAL, ROOFLINE, ROOFLINE_PROPORTIONAL, ROOFLINE_STATIC = range(
    8
)


@jitted
def set_rates(k: Kernel) -> None:
    """Set the rate of every busy lane, and move its end where the rate has changed; D stands in ``demand_true``."""
    mode, bandwidth, now_s = k.contention, system_of(k).bandwidth_bytes_s, system_of(k).now_s
    demand = k.demand_true
    if mode == NONE or (demand <= bandwidth and mode != ROOFLINE_STATIC):
        _set_common_rate(k, 1.0, 1.0, now_s)
    elif mode == PROPORTIONAL:
        _set_common_rate(k, bandwidth / demand, demand * (1.0 / bandwidth), now_s)
    else:
        k.common_rate = 0.0
        _set_grants(k, mode, demand, bandwidth)
        for s in range(k.num_lanes):
            if lane_at(k, s).node >= 0:
                _move_end(k, s, _rate(k, mode, s), now_s)


@jitted
def _set_common_rate(k: Kernel, rate: float, slow: float, now_s: float) -> None:
    """All lanes progress at one rate; ``slow`` is its inverse, found without waiting for a division."""
    if rate == 1.0 and k.common_rate == 1.0:  # layers start at full speed, and all have stayed there
        return
    before = k.common_rate
    ratio = before * slow
    for s in range(k.num_lanes):
        lane = lane_at(k, s)
        if lane.rate == before and lane.node >= 0:
            lane.end_s = now_s + (lane.end_s - now_s) * ratio
            lane.rate = rate
        elif lane.node >= 0:
            lane.end_s = now_s + (lane.end_s - now_s) * (lane.rate * slow)
            lane.rate = rate
    k.common_rate = rate


@jitted
def _move_end(k: Kernel, s: int, rate: float, now_s: float) -> None:
    """The work that is left takes its time at the new rate."""
    lane = lane_at(k, s)
    lane.end_s = now_s + (lane.end_s - now_s) * (lane.rate / rate)
    lane.rate = rate


@jitted
def _rate(k: Kernel, mode: int, s: int) -> float:
    """Progress of lane s under its grant."""
    demand, grant = lane_at(k, s).demand, lane_at(k, s).grant
    if demand <= 0.0:
        return 1.0
    if mode <= MOCA_LITERAL:
        return min(1.0, grant / demand)
    row, kind = lane_at(k, s).row, lane_at(k, s).type
    cost = cost_at(k, row * k.num_types + kind)
    return min(1.0, cost.latency_s / max(cost.floor_s, cost.dram_bytes / grant))


@jitted
def _set_grants(k: Kernel, mode: int, demand: float, bandwidth: float) -> None:
    if mode == MAX_MIN or mode == ROOFLINE:
        _water_fill(k, bandwidth)
    elif mode == WEIGHTED or mode == MOCA_LITERAL:
        _urgency_cuts(k, mode, demand, bandwidth)
    elif mode == ROOFLINE_PROPORTIONAL:
        factor = min(1.0, bandwidth / demand) if demand > 0.0 else 1.0
        for s in range(k.num_lanes):
            lane_at(k, s).grant = lane_at(k, s).demand * factor
    else:  # ROOFLINE_STATIC
        for s in range(k.num_lanes):
            lane_at(k, s).grant = bandwidth / k.num_lanes


@jitted
def _water_fill(k: Kernel, bandwidth: float) -> None:
    """g_j = min(b_j, theta), sum g = min(B, D): satisfy the smallest demands, split the rest evenly."""
    left, open_lanes = bandwidth, 0
    for s in range(k.num_lanes):
        lane_at(k, s).grant = -1.0
        if lane_at(k, s).node >= 0:
            open_lanes += 1
    while open_lanes > 0:
        share = left / open_lanes
        satisfied = 0
        for s in range(k.num_lanes):
            if lane_at(k, s).node >= 0 and lane_at(k, s).grant < 0.0 and lane_at(k, s).demand <= share:
                lane_at(k, s).grant = lane_at(k, s).demand
                left -= lane_at(k, s).demand
                satisfied += 1
        if satisfied == 0:
            for s in range(k.num_lanes):
                if lane_at(k, s).node >= 0 and lane_at(k, s).grant < 0.0:
                    lane_at(k, s).grant = share
            return
        open_lanes -= satisfied


@jitted
def _urgency_cuts(k: Kernel, mode: int, demand: float, bandwidth: float) -> None:
    """MoCA's split (arXiv 2305.05843, as in its released code): urgent layers are cut less, none below a quarter."""
    total_weight, count = 0.0, 0
    for s in range(k.num_lanes):
        if lane_at(k, s).node >= 0 and lane_at(k, s).demand > 0.0:
            total_weight += lane_at(k, s).weight * lane_at(k, s).demand
            count += 1
    excess = demand - bandwidth
    if mode == WEIGHTED and count > 1:
        excess /= count - 1
    granted = 0.0
    for s in range(k.num_lanes):
        if lane_at(k, s).node >= 0 and lane_at(k, s).demand > 0.0:
            b = lane_at(k, s).demand
            others = total_weight - lane_at(k, s).weight * b
            cut = excess * others / total_weight if count > 1 else demand - bandwidth
            lane_at(k, s).grant = max(b - cut, 0.25 * b)
            granted += lane_at(k, s).grant
    if mode == WEIGHTED and granted > bandwidth:
        for s in range(k.num_lanes):
            if lane_at(k, s).node >= 0 and lane_at(k, s).demand > 0.0:
                lane_at(k, s).grant *= bandwidth / granted

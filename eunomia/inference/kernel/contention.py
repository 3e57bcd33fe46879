"""How running layers share the memory bandwidth: progress rates from demands (docs/engine.md).

The formulas stand in contract/contention, one file per model; what is compiled here is made from its table.
"""

from __future__ import annotations

from collections.abc import Callable

from eunomia.contract.contention import CONTENTION
from eunomia.contract.contention.model import Alike, Beside, Split
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, cost_at, lane_at, lanes_of, slowdowns_of, system_of

OneRate = Callable[[int, float, float], tuple[float, float]]
Grants = Callable[[int, Kernel, float, float], None]
Slowdown = Callable[[int, Kernel, int], float]
CODES = {name: code for code, name in enumerate(CONTENTION)}


def _one_rate(alike: dict[int, Alike]) -> OneRate:
    """(code, D, B) -> rate and its inverse, by the function of that code: a chain of comparisons."""

    def last(code: int, demand: float, bandwidth: float) -> tuple[float, float]:
        return 1.0, 1.0

    chain: OneRate = jitted(last)
    for mine, function in reversed(alike.items()):
        chain = _or_one_rate(mine, jitted(function), chain)
    return chain


def _or_one_rate(mine: int, function: Alike, others: OneRate) -> OneRate:
    def step(code: int, demand: float, bandwidth: float) -> tuple[float, float]:
        if code == mine:
            return function(demand, bandwidth)
        return others(code, demand, bandwidth)

    return jitted(step)


def _grants(split: dict[int, Split]) -> Grants:
    """(code, kernel, D, B): write the grants, by the function of that code."""

    def last(code: int, k: Kernel, demand: float, bandwidth: float) -> None:
        return

    chain: Grants = jitted(last)
    for mine, function in reversed(split.items()):
        chain = _or_grants(mine, jitted(function), chain)
    return chain


def _or_grants(mine: int, function: Split, others: Grants) -> Grants:
    def step(code: int, k: Kernel, demand: float, bandwidth: float) -> None:
        if code == mine:
            function(lanes_of(k, k.num_lanes), demand, bandwidth)
        else:
            others(code, k, demand, bandwidth)

    return jitted(step)


def _slowdown(beside: dict[int, Beside]) -> Slowdown:
    """(code, kernel, s) -> slowdown of lane s, by the function of that code."""

    def last(code: int, k: Kernel, s: int) -> float:
        return 1.0

    chain: Slowdown = jitted(last)
    for mine, function in reversed(beside.items()):
        chain = _or_slowdown(mine, jitted(function), chain)
    return chain


def _or_slowdown(mine: int, function: Beside, others: Slowdown) -> Slowdown:
    def step(code: int, k: Kernel, s: int) -> float:
        if code == mine:
            factors = slowdowns_of(k, k.slowdowns_items)
            return function(lanes_of(k, k.num_lanes), s, k.models_items, factors)
        return others(code, k, s)

    return jitted(step)


one_rate = _one_rate({CODES[name]: model.alike for name, model in CONTENTION.items() if model.alike})
write_grants = _grants({CODES[name]: model.split for name, model in CONTENTION.items() if model.split})
slowdown_of = _slowdown({CODES[name]: model.beside for name, model in CONTENTION.items() if model.beside})


@jitted
def set_rates(k: Kernel) -> None:
    """Set the rate of every busy lane, and move its end where the rate has changed; D stands in ``demand_true``."""
    bandwidth, now_s, demand = system_of(k).bandwidth_bytes_s, system_of(k).now_s, k.demand_true
    if demand <= bandwidth and k.free_below == 1:
        _set_common_rate(k, 1.0, 1.0, now_s)
    elif k.alike == 1:
        rate, slow = one_rate(k.contention, demand, bandwidth)
        _set_common_rate(k, rate, slow, now_s)
    elif k.alike == 2:
        k.common_rate = 0.0
        for s in range(k.num_lanes):
            if lane_at(k, s).node >= 0:
                _move_end(k, s, 1.0 / slowdown_of(k.contention, k, s), now_s)
    else:
        k.common_rate = 0.0
        write_grants(k.contention, k, demand, bandwidth)
        for s in range(k.num_lanes):
            if lane_at(k, s).node >= 0:
                _move_end(k, s, _rate(k, s), now_s)


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
def _rate(k: Kernel, s: int) -> float:
    """Progress of lane s under its grant."""
    demand, grant = lane_at(k, s).demand, lane_at(k, s).grant
    if demand <= 0.0:
        return 1.0
    if k.roofline == 0:
        return min(1.0, grant / demand)
    row, kind = lane_at(k, s).row, lane_at(k, s).type
    cost = cost_at(k, row * k.num_types + kind)
    return min(1.0, cost.latency_s / max(cost.floor_s, cost.dram_bytes / grant))

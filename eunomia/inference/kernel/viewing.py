"""What a policy sees: the waiting sub-jobs gathered into the View's arrays, and its answer applied."""

from __future__ import annotations

from eunomia.inference.kernel.dispatch import begin, bind, refresh_system
from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.indicators import show_indicator
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import WAITING
from eunomia.inference.kernel.memory import (
    Kernel,
    answer_at,
    answer_priority_at,
    call_linear,
    cost_at,
    facts_at,
    lane_at,
    node_at,
    queue_at,
    shown_at,
    shown_of,
    slot_at,
    system_of,
    view_demand_at,
    view_energy_at,
    view_latency_at,
    view_node_at,
    waiting_at,
)
from eunomia.inference.kernel.placement import time_left


@jitted
def show(k: Kernel, count: int, now_s: float) -> None:
    """Fill the view with the first ``count`` entries of ``view_nodes``."""
    refresh_system(k)
    for s in range(k.num_lanes):
        queue_at(k, s).free_in_s = time_left(k, s)
    shown = shown_of(k, count)
    for i in range(count):
        node = view_node_at(k, i).value
        shown[i] = facts_at(k, node)
        facts = shown_at(k, i)
        show_indicator(k, facts, now_s)
        facts.late = 1 if is_late(facts_at(k, node), now_s) else 0
        facts.bound = node_at(k, node).bound
        _show_costs(k, i, facts.row)


@jitted
def _show_costs(k: Kernel, i: int, row: int) -> None:
    for s in range(k.num_lanes):
        kind = lane_at(k, s).type
        view_latency_at(k, i * k.num_lanes + s).value = cost_at(k, row * k.num_types + kind).estimate_s
        view_demand_at(k, i * k.num_lanes + s).value = cost_at(k, row * k.num_types + kind).estimate_demand
        view_energy_at(k, i * k.num_lanes + s).value = cost_at(k, row * k.num_types + kind).energy_j


@jitted
def show_all(k: Kernel, now_s: float) -> int:
    """Show every waiting sub-job; returns their number."""
    count = k.num_waiting
    for i in range(count):
        view_node_at(k, i).value = waiting_at(k, i).value
    show(k, count, now_s)
    return count


@jitted
def start_answers(k: Kernel, count: int, shown: int, now_s: float) -> bool:
    """Start what the policy asked for; False (and ``fault``) at the first illegal answer."""
    for i in range(count):
        index, s = answer_at(k, i).index, answer_at(k, i).accelerator
        if not _legal(k, index, s, shown) or lane_at(k, s).node >= 0:
            k.fault = i
            return False
        begin(k, view_node_at(k, index).value, s, now_s)
    return True


@jitted
def start_linear(k: Kernel, now_s: float) -> None:
    """Ask a linear policy, which reads the kernel itself (inference/linear); its answers are nodes, and complete."""
    refresh_system(k)
    for i in range(call_linear(k, system_of(k))):
        begin(k, answer_at(k, i).index, answer_at(k, i).accelerator, now_s)


@jitted
def bind_answers(k: Kernel, count: int, shown: int) -> bool:
    """Queue what the policy asked for, higher priority first; False at the first illegal answer."""
    for i in range(count):
        index, s = answer_at(k, i).index, answer_at(k, i).accelerator
        if not _legal(k, index, s, shown) or node_at(k, view_node_at(k, index).value).bound >= 0:
            k.fault = i
            return False
        node = view_node_at(k, index).value
        slot = node_at(k, node).slot
        slot_at(k, slot).given_priority = answer_priority_at(k, i).value
        slot_at(k, slot).has_priority = 1
        node_at(k, node).key = -answer_priority_at(k, i).value
        bind(k, node, s)
    return True


@jitted
def _legal(k: Kernel, index: int, s: int, shown: int) -> bool:
    """The sub-job was shown and still waits; the accelerator exists and can run it."""
    if index < 0 or index >= shown or s < 0 or s >= k.num_lanes:
        return False
    if node_at(k, view_node_at(k, index).value).state != WAITING:
        return False
    return view_latency_at(k, index * k.num_lanes + s).value < float("inf")

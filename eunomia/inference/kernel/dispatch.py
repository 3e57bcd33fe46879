"""Compiled decisions: the greedy rule over heaps of waiting sub-jobs, and queues per accelerator."""

from __future__ import annotations

from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.heap import before
from eunomia.inference.kernel.holding import first_heap
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layers import start_layer
from eunomia.inference.kernel.memory import (
    Kernel,
    cost_at,
    decision_at,
    facts_at,
    free_in_at,
    lane_at,
    node_at,
    queue_at,
    system_of,
)
from eunomia.inference.kernel.placement import (
    bind_target,
    choose,
    refresh_type,
    refresh_types,
    time_left,
)
from eunomia.inference.kernel.ranking import head, insert, refresh_heads, remove_head, take_first
from eunomia.inference.kernel.setup import GREEDY, STEP


@jitted
def takes_precedence(k: Kernel, node: int, other: int, tiered: bool, now_s: float) -> bool:
    """Whether ``node`` goes before ``other``: on time, then key, then sequence."""
    if tiered:
        late, other_late = is_late(facts_at(k, node), now_s), is_late(facts_at(k, other), now_s)
        if late != other_late:
            return other_late
    return before(k, node, other)


@jitted
def refresh_system(k: Kernel) -> None:
    """Estimated demand of running layers, in the view of the policy."""
    if k.demand_wanted == 0 and k.mode == GREEDY:
        return
    demand = 0.0
    for s in range(k.num_lanes):
        if lane_at(k, s).node >= 0:
            demand += queue_at(k, s).demand_bytes_s
    system_of(k).demand_bytes_s = demand


@jitted
def begin(k: Kernel, node: int, s: int, now_s: float) -> None:
    """Start a sub-job by decision of the policy, and record the decision."""
    if k.record:
        row = decision_at(k, k.num_decisions)
        facts = facts_at(k, node)
        row.time_s, row.request, row.layer, row.accelerator = now_s, facts.request, facts.layer, s
        row.waiting, row.demand_bytes_s = k.num_waiting, system_of(k).demand_bytes_s
        first, known = k.num_decisions * k.num_lanes, k.loads_known == 1
        for other in range(k.num_lanes):
            free_s = queue_at(k, other).free_in_s if known else time_left(k, other)
            free_in_at(k, first + other).value = free_s
    k.loads_known = 0
    start_layer(k, node, s, now_s, k.num_decisions)
    k.num_decisions += 1
    refresh_system(k)


@jitted
def greedy_round(k: Kernel, now_s: float) -> None:
    """Start sub-jobs until nothing that waits would be given an idle accelerator, or the gate is shut."""
    system = system_of(k)
    tiered = k.tiered == 1
    refresh_system(k)
    at, s = -1, -1
    while k.num_waiting > 0 and k.num_running < k.num_lanes:
        if system.demand_bytes_s > k.gate * system.bandwidth_bytes_s:
            return
        look_at_types(k, s)
        if k.num_heaps == 1:  # every sub-job may go anywhere: the first one decides for all
            node = head(k, 0, tiered, now_s)
            s = choose(k, k.place, facts_at(k, node).row)
            if s < 0:
                return
            remove_head(k, 0, node)
        else:
            refresh_heads(k, tiered, now_s)
            at, s = first_heap(k, at)
            if s < 0:
                return
            node = take_first(k, at)
        begin(k, node, s, now_s)


@jitted
def look_at_types(k: Kernel, started: int) -> None:
    """What the placement rule reads of the accelerators; ``started``: one since it was read at this instant, or -1."""
    if k.types_wanted == 0:
        return
    if started >= 0:
        refresh_type(k, started)
    else:
        refresh_types(k)


@jitted
def queue_round(k: Kernel, now_s: float) -> None:
    """Every idle accelerator takes the head of its own queue."""
    tiered = k.tiered == 1
    lanes = k.num_lanes
    refresh_system(k)
    for s in range(lanes):
        if lane_at(k, s).node >= 0:
            continue
        node = head(k, s, tiered, now_s)
        if node >= 0:
            remove_head(k, s, node)
            begin(k, node, s, now_s)


@jitted
def pull_throttled(k: Kernel, now_s: float) -> None:
    """Sub-jobs that no queue had room for are bound, in order, as room appears."""
    tiered = k.tiered == 1
    lanes = k.num_lanes
    node = head(k, lanes, tiered, now_s)
    while node >= 0:
        s = bind_target(k, k.bind, node)
        if s < 0:
            return
        remove_head(k, lanes, node)
        bind(k, node, s)
        node = head(k, lanes, tiered, now_s)


@jitted
def bind(k: Kernel, node: int, s: int) -> None:
    """Put a waiting sub-job into the queue of accelerator s."""
    mine, queue = node_at(k, node), queue_at(k, s)
    cost = cost_at(k, facts_at(k, node).row * k.num_types + lane_at(k, s).type)
    mine.bound, mine.bound_s = s, cost.estimate_s
    queue.queued += 1
    queue.queued_s += mine.bound_s
    system_of(k).binds += 1
    if k.mode != STEP or k.period_s > 0.0:  # a stepped policy takes sub-jobs from the view, not from the heap
        insert(k, s, node)

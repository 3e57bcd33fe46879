"""Compiled decisions: the greedy rule over heaps of waiting sub-jobs, and queues per accelerator."""

from __future__ import annotations

from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.heap import before, pop, push
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layers import start_layer
from eunomia.inference.kernel.layout import DEAD
from eunomia.inference.kernel.memory import (
    Kernel,
    active_at,
    cost_at,
    decision_at,
    facts_at,
    free_in_at,
    heap_at,
    lane_at,
    node_at,
    queue_at,
    system_of,
)  # fmt: skip
from eunomia.inference.kernel.placement import bind_target, choose, refresh_types, time_left
from eunomia.inference.kernel.pools import release_node
from eunomia.inference.kernel.setup import GRACE_S, GREEDY, STEP


@jitted
def insert(k: Kernel, heap: int, node: int) -> None:
    """Put a waiting node into a heap, among the on-time ones."""
    record = heap_at(k, heap)
    record.on_time = push(k, record.on_time, node)
    if record.place < 0:
        record.place = k.num_active
        active_at(k, k.num_active).heap = heap
        active_at(k, k.num_active).stale = 1
        k.num_active += 1
    elif record.on_time == node:
        active_at(k, record.place).stale = 1


@jitted
def drop_dead(k: Kernel, heap: int, tier: int) -> int:
    """Root of a heap after removing nodes of dropped requests from its top."""
    record = heap_at(k, heap)
    root = record.late if tier == 1 else record.on_time
    while root >= 0 and node_at(k, root).state == DEAD:
        rest = pop(k, root)
        release_node(k, root)
        root = rest
    if tier == 1:
        record.late = root
    else:
        record.on_time = root
    return root


@jitted
def head(k: Kernel, heap: int, tiered: bool, now_s: float) -> int:
    """First node of a heap; -1 = empty. Late ones (if ``tiered``) come after all others."""
    node = drop_dead(k, heap, 0)
    while tiered and node >= 0 and is_late(facts_at(k, node), now_s):
        heap_at(k, heap).on_time = pop(k, node)
        heap_at(k, heap).late = push(k, heap_at(k, heap).late, node)
        node = drop_dead(k, heap, 0)
    if node >= 0 or not tiered:
        return node
    return drop_dead(k, heap, 1)


@jitted
def remove_head(k: Kernel, heap: int, node: int) -> None:
    """Take the node that ``head`` returned out of its heap."""
    record = heap_at(k, heap)
    if record.on_time == node:
        record.on_time = pop(k, node)
    else:
        record.late = pop(k, node)


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
        for other in range(k.num_lanes):
            free_in_at(k, k.num_decisions * k.num_lanes + other).value = time_left(k, other)
    start_layer(k, node, s, now_s, k.num_decisions)
    k.num_decisions += 1
    refresh_system(k)


@jitted
def rank_head(k: Kernel, i: int, tiered: bool, now_s: float) -> bool:
    """Copy what ranks the first node of active heap i; False = the heap is empty and no longer active."""
    entry = active_at(k, i)
    node = head(k, entry.heap, tiered, now_s)
    if node < 0:
        k.num_active -= 1
        heap_at(k, entry.heap).place = -1
        if i < k.num_active:
            last = active_at(k, k.num_active)
            entry.heap, entry.node, entry.stale, entry.late = last.heap, last.node, last.stale, last.late
            entry.key, entry.sequence, entry.due_s, entry.path_s = (
                last.key,
                last.sequence,
                last.due_s,
                last.path_s,
            )
            heap_at(k, entry.heap).place = i
        return False
    facts = facts_at(k, node)
    entry.node, entry.stale = node, 0
    entry.key, entry.sequence = node_at(k, node).key, node_at(k, node).sequence
    entry.due_s, entry.path_s = facts.deadline_s + GRACE_S, facts.path_best_s
    entry.late = 1 if tiered and is_late(facts, now_s) else 0
    return True


@jitted
def first_startable(k: Kernel, tiered: bool, now_s: float) -> int:
    """Active heap whose first node goes before all others that would be given an idle accelerator; -1 = none.

    The accelerator stands in ``chosen_lane``.
    """
    best = -1
    i = 0
    while i < k.num_active:
        entry = active_at(k, i)
        if entry.stale == 1 or (tiered and entry.late == 0 and entry.due_s < now_s + entry.path_s):
            if not rank_head(k, i, tiered, now_s):
                continue
        if best >= 0:
            other = active_at(k, best)
            if entry.late != other.late:
                first = entry.late < other.late
            elif entry.key != other.key:
                first = entry.key < other.key
            else:
                first = entry.sequence < other.sequence
            if not first:
                i += 1
                continue
        s = choose(k, k.place, facts_at(k, entry.node).row)
        if s >= 0:
            best = i
            k.chosen_lane = s
        i += 1
    return best


@jitted
def greedy_round(k: Kernel, now_s: float) -> None:
    """Start sub-jobs until nothing that waits would be given an idle accelerator, or the gate is shut."""
    system = system_of(k)
    tiered = k.tiered == 1
    refresh_system(k)
    if k.heads_stale == 1:
        for i in range(k.num_active):
            active_at(k, i).stale = 1
        k.heads_stale = 0
    while k.num_waiting > 0 and k.num_running < k.num_lanes:
        if system.demand_bytes_s > k.gate * system.bandwidth_bytes_s:
            return
        if k.types_wanted == 1:
            refresh_types(k)
        if k.num_heaps == 1:  # every sub-job may go anywhere: the first one decides for all
            heap, node = 0, head(k, 0, tiered, now_s)
            s = choose(k, k.place, facts_at(k, node).row)
            if s < 0:
                return
        else:
            best = first_startable(k, tiered, now_s)
            if best < 0:
                return
            entry = active_at(k, best)
            entry.stale = 1
            heap, node, s = entry.heap, entry.node, k.chosen_lane
        remove_head(k, heap, node)
        begin(k, node, s, now_s)


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

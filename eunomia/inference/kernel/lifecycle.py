"""From arrival to the end of a request: sub-jobs become ready, start, end, are dropped."""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.contention import MOCA_LITERAL, WEIGHTED
from eunomia.inference.kernel.heap import pop_timer, push_timer
from eunomia.inference.kernel.indicators import observe
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import DEAD, DROPPED, FREE, HIT, LATE, RUNNING, WAITING
from eunomia.inference.kernel.memory import (
    Kernel,
    Record,
    cost_at,
    facts_at,
    job_at,
    lane_at,
    model_at,
    node_at,
    pair_at,
    pending_at,
    queue_at,
    result_at,
    row_at,
    slot_at,
    subjob_at,
    successor_at,
    system_of,
    timer_at,
    waiting_at,
)  # fmt: skip
from eunomia.inference.kernel.noise import jitter
from eunomia.inference.kernel.setup import GRACE_S, MASKED


@jitted
def new_slot(k: Kernel) -> int:
    """Index of a free slot; the caller has made sure that there is one."""
    slot = k.free_slot
    if slot >= 0:
        k.free_slot = slot_at(k, slot).first_waiting
    else:
        slot = k.used_slots
        k.used_slots += 1
    return slot


@jitted
def release_slot(k: Kernel, slot: int) -> None:
    """Give a slot back; its generation marks old timers as stale."""
    slot_at(k, slot).generation += 1
    slot_at(k, slot).first_waiting = k.free_slot
    k.free_slot = slot


@jitted
def new_node(k: Kernel) -> int:
    """Index of a free node; the caller has made sure that there is one."""
    node = k.free_node
    if node >= 0:
        k.free_node = node_at(k, node).sibling
    else:
        node = k.used_nodes
        k.used_nodes += 1
    return node


@jitted
def release_node(k: Kernel, node: int) -> None:
    """Give a node back."""
    node_at(k, node).state = FREE
    node_at(k, node).sibling = k.free_node
    k.free_node = node


@jitted
def is_late(facts: Record, now_s: float) -> bool:
    """Hopeless: even alone and on the best accelerators the deadline will be missed."""
    return facts.deadline_s + GRACE_S < now_s + facts.path_best_s


@jitted
def open_slot(k: Kernel, request: int, now_s: float) -> int:
    """A request enters the system; returns its slot."""
    slot = new_slot(k)
    record = slot_at(k, slot)
    pair = job_at(k, request).pair
    model = pair_at(k, pair).model
    row0 = model_at(k, model).offset
    layers = model_at(k, model).layers
    record.request, record.model, record.pair, record.row0, record.layers = request, model, pair, row0, layers
    record.done, record.running, record.first_waiting, record.gone = 0, 0, -1, 0
    record.last_accelerator, record.has_priority = -1, 0
    record.arrival_s = now_s
    record.deadline_s = now_s + job_at(k, request).relative_deadline_s
    record.attained_s, record.last_run_s, record.running_s, record.start_s = 0.0, now_s, 0.0, np.nan
    record.work_s, record.stretch_s, record.switch_s, record.energy_j = 0.0, 0.0, 0.0, 0.0
    best, mean, data = 0.0, 0.0, 0.0
    for layer in range(layers):
        pending_at(k, slot * k.num_layers + layer).value = row_at(k, row0 + layer).indegree
        best += row_at(k, row0 + layer).best_s
        mean += row_at(k, row0 + layer).mean_s
        data += row_at(k, row0 + layer).row_bytes
    record.work_best_s, record.work_mean_s, record.bytes_left = best, mean, data
    result = result_at(k, request)
    result.arrival_s, result.deadline_s = now_s, record.deadline_s
    system_of(k).live += 1
    return slot


@jitted
def fill_request_facts(k: Kernel, node: int, slot: int) -> None:
    """What a policy may know about the request of a sub-job; stays the same from layer to layer."""
    record, facts = slot_at(k, slot), facts_at(k, node)
    job, pair, model = job_at(k, record.request), pair_at(k, record.pair), model_at(k, record.model)
    facts.request, facts.model, facts.pair = record.request, record.model, record.pair
    facts.tenant, facts.weight, facts.slo = pair.tenant, pair.weight, pair.slo_target
    facts.arrival_s, facts.deadline_s = record.arrival_s, record.deadline_s
    facts.iso_best_s, facts.iso_mean_s = model.iso_best_s, model.iso_mean_s
    facts.priority, facts.deferrable = job.priority, job.deferrable
    facts.layers_total = record.layers


@jitted
def fill_layer_facts(k: Kernel, node: int, slot: int, layer: int) -> None:
    """What a policy may know about a sub-job that becomes ready now."""
    if k.learn > 0.0:
        refresh_work(k, slot)
    record, facts, row = slot_at(k, slot), facts_at(k, node), row_at(k, slot_at(k, slot).row0 + layer)
    facts.layer, facts.row, facts.ready_s = layer, record.row0 + layer, system_of(k).now_s
    facts.work_best_s, facts.work_mean_s, facts.bytes_left = (
        record.work_best_s,
        record.work_mean_s,
        record.bytes_left,
    )
    facts.path_best_s, facts.path_mean_s = row.path_best_s, row.path_mean_s
    facts.attained_s, facts.last_run_s = record.attained_s, record.last_run_s
    facts.layers_done, facts.accelerator = record.done, record.last_accelerator
    facts.sequence = k.sequence


@jitted
def refresh_work(k: Kernel, slot: int) -> None:
    """Remaining work from current estimates, where these are learned online."""
    record = slot_at(k, slot)
    best, mean, data = 0.0, 0.0, 0.0
    for layer in range(record.layers):
        if pending_at(k, slot * k.num_layers + layer).value != -2:
            best += row_at(k, record.row0 + layer).best_s
            mean += row_at(k, record.row0 + layer).mean_s
            data += row_at(k, record.row0 + layer).row_bytes
    record.work_best_s, record.work_mean_s, record.bytes_left = best, mean, data


@jitted
def link_waiting(k: Kernel, node: int, slot: int) -> None:
    """Enter a node into the lists of waiting sub-jobs: its request's, and the dense one."""
    record, mine = slot_at(k, slot), node_at(k, node)
    mine.state, mine.slot = WAITING, slot
    mine.previous, mine.next = -1, record.first_waiting
    if record.first_waiting >= 0:
        node_at(k, record.first_waiting).previous = node
    record.first_waiting = node
    mine.place = k.num_waiting
    waiting_at(k, k.num_waiting).value = node
    k.num_waiting += 1


@jitted
def unlink_waiting(k: Kernel, node: int) -> None:
    """Take a node out of the lists of waiting sub-jobs and out of its accelerator's queue count."""
    mine = node_at(k, node)
    if mine.previous >= 0:
        node_at(k, mine.previous).next = mine.next
    else:
        slot_at(k, mine.slot).first_waiting = mine.next
    if mine.next >= 0:
        node_at(k, mine.next).previous = mine.previous
    k.num_waiting -= 1
    last = waiting_at(k, k.num_waiting).value
    waiting_at(k, mine.place).value = last
    node_at(k, last).place = mine.place
    if mine.bound >= 0:
        queue = queue_at(k, mine.bound)
        queue.queued -= 1
        queue.queued_s = queue.queued_s - mine.bound_s if queue.queued > 0 else 0.0
        mine.bound = -1


@jitted
def set_drop_timer(k: Kernel, node: int, slot: int, layer: int) -> None:
    """Remember when a waiting sub-job becomes hopeless."""
    record = slot_at(k, slot)
    due_s = record.deadline_s - facts_at(k, node).path_best_s + GRACE_S
    if due_s < np.inf:
        push_timer(k, False, k.num_timers, due_s, record.request, layer, slot, record.generation)
        k.num_timers += 1


@jitted
def start_layer(k: Kernel, node: int, s: int, now_s: float, decision: int) -> None:
    """Accelerator s begins a waiting sub-job."""
    system = system_of(k)
    lane, queue, facts = lane_at(k, s), queue_at(k, s), facts_at(k, node)
    unlink_waiting(k, node)
    slot = node_at(k, node).slot
    record = slot_at(k, slot)
    row, kind = facts.row, lane.type
    node_at(k, node).state = RUNNING
    switch_s = 0.0
    if k.switch_s > 0.0 or k.refill:
        elsewhere = record.last_accelerator >= 0 and record.last_accelerator != s
        if elsewhere or (queue.last_request >= 0 and queue.last_request != facts.request):
            switch_s = k.switch_s + (cost_at(k, row * k.num_types + kind).refill_s if k.refill else 0.0)
    charge_s = max(0.0, k.scheduler_free_s - now_s)
    work_s = cost_at(k, row * k.num_types + kind).latency_s
    if k.jitter > 0.0:
        work_s *= jitter(k.seed, facts.request, facts.layer, k.jitter)
    lane.node, lane.row, lane.start_s = node, row, now_s
    lane.work_s, lane.switch_s, lane.charge_s = work_s, switch_s, charge_s
    lane.total_s = work_s + switch_s + charge_s
    lane.end_s = now_s + lane.total_s
    lane.rate = 1.0
    lane.estimate_s = cost_at(k, row * k.num_types + kind).estimate_s + switch_s + charge_s
    lane.demand = cost_at(k, row * k.num_types + kind).demand_bytes_s
    k.demand_true += lane.demand
    k.idle_mask &= ~(1 << s) if s < MASKED else -1
    if k.contention == WEIGHTED or k.contention == MOCA_LITERAL:
        if k.learn > 0.0:
            refresh_work(k, slot)
        lane.weight = urgency(record.deadline_s, record.work_best_s, job_at(k, facts.request).priority, now_s)
    lane.decision = decision
    queue.request, queue.layer = facts.request, facts.layer
    queue.demand_bytes_s = cost_at(k, row * k.num_types + kind).estimate_demand
    if record.running == 0:
        record.running_since_s = now_s
    if record.start_s != record.start_s:  # nan: not started yet
        record.start_s = now_s
    record.running += 1
    k.num_running += 1
    system.starts += 1
    k.dirty = 1


@jitted
def urgency(deadline_s: float, work_s: float, priority: float, now_s: float) -> float:
    """MoCA's memory-access weight: (1 + priority)/4 + 10 remaining/slack."""
    weight = 0.25 * (1.0 + priority)
    if deadline_s < np.inf:
        weight += 10.0 * work_s / max(deadline_s - now_s, 1e-9)
    return weight


@jitted
def end_layer(k: Kernel, s: int, now_s: float) -> int:
    """Accelerator s has finished; returns the slot of its request."""
    lane, queue = lane_at(k, s), queue_at(k, s)
    node = lane.node
    slot = node_at(k, node).slot
    record = slot_at(k, slot)
    row, kind, layer = lane.row, lane.type, lane.row - record.row0
    elapsed_s = now_s - lane.start_s
    record.attained_s += elapsed_s
    record.work_s += lane.work_s + lane.charge_s
    record.stretch_s += max(0.0, elapsed_s - lane.total_s)
    record.switch_s += lane.switch_s
    record.energy_j += cost_at(k, row * k.num_types + kind).energy_j
    record.running -= 1
    if record.running == 0:
        record.running_s += now_s - record.running_since_s
    record.last_run_s = now_s
    record.last_accelerator = s
    record.done += 1
    record.work_best_s -= row_at(k, row).best_s
    record.work_mean_s -= row_at(k, row).mean_s
    record.bytes_left -= row_at(k, row).row_bytes
    pending_at(k, slot * k.num_layers + layer).value = -2
    if k.learn > 0.0:
        learn_latency(k, row, kind, elapsed_s - lane.switch_s - lane.charge_s, record.row0, record.layers)
    queue.last_request = queue.request
    queue.request, queue.layer = -1, -1
    queue.demand_bytes_s = 0.0
    queue.busy_s += elapsed_s
    lane.isolated_sum_s += lane.work_s
    if k.record:
        write_subjob(k, node, s, now_s)
    k.demand_true -= lane.demand
    k.idle_mask |= 1 << s if s < MASKED else 0
    lane.node, lane.end_s, lane.demand = -1, np.inf, 0.0
    k.num_running -= 1
    if k.num_running == 0:
        k.demand_true = 0.0  # sums drift
    k.events += 1
    k.dirty = 1
    return slot


@jitted
def write_subjob(k: Kernel, node: int, s: int, end_s: float) -> None:
    """Append one row to the record of executed layers."""
    lane, facts = lane_at(k, s), facts_at(k, node)
    row = subjob_at(k, k.num_subjobs)
    row.request, row.layer, row.accelerator = facts.request, facts.layer, s
    row.ready_s, row.start_s, row.end_s = facts.ready_s, lane.start_s, end_s
    row.work_s, row.switch_s = lane.work_s, lane.switch_s
    row.key, row.decision = node_at(k, node).key, lane.decision
    k.num_subjobs += 1


@jitted
def learn_latency(k: Kernel, row: int, kind: int, seen_s: float, row0: int, layers: int) -> None:
    """Running mean of layer times, and everything that follows from it for one model."""
    cost_at(k, row * k.num_types + kind).estimate_s += k.learn * (
        seen_s - cost_at(k, row * k.num_types + kind).estimate_s
    )
    best, best_kind, total, able = np.inf, 0, 0.0, 0
    for t in range(k.num_types):
        value = cost_at(k, row * k.num_types + t).estimate_s
        if value < np.inf:
            total += value
            able += 1
            cost_at(k, row * k.num_types + t).estimate_demand = (
                cost_at(k, row * k.num_types + t).dram_bytes / value
            )
        if value < best:
            best, best_kind = value, t
    row_at(k, row).best_s, row_at(k, row).mean_s = best, total / able
    row_at(k, row).row_bytes = cost_at(k, row * k.num_types + best_kind).dram_bytes
    for layer in range(layers - 1, -1, -1):
        g = row0 + layer
        longest_best, longest_mean = 0.0, 0.0
        for edge in range(row_at(k, g).successor_start, row_at(k, g).successor_end):
            after = row0 + successor_at(k, edge).value
            longest_best = max(longest_best, row_at(k, after).path_best_s)
            longest_mean = max(longest_mean, row_at(k, after).path_mean_s)
        row_at(k, g).path_best_s = row_at(k, g).best_s + longest_best
        row_at(k, g).path_mean_s = row_at(k, g).mean_s + longest_mean


@jitted
def close_request(k: Kernel, slot: int, outcome: int, now_s: float) -> None:
    """A request has finished or is dropped: result, indicator, closed-loop successor."""
    system, record = system_of(k), slot_at(k, slot)
    result = result_at(k, record.request)
    result.finish_s, result.outcome = now_s, outcome
    observe(k, record.pair, outcome, now_s - record.arrival_s, now_s, k.sli_ewma)
    system.live -= 1
    system.finished += 1
    following = job_at(k, record.request).next
    if following >= 0:
        push_timer(k, True, k.num_think, now_s + job_at(k, following).arrival_s, following, 0, 0, 0)
        k.num_think += 1


@jitted
def write_result(k: Kernel, slot: int) -> None:
    """Copy what a request has consumed into its result."""
    record = slot_at(k, slot)
    result = result_at(k, record.request)
    result.start_s, result.running_s, result.work_s = record.start_s, record.running_s, record.work_s
    result.stretch_s, result.switch_s, result.energy_j = record.stretch_s, record.switch_s, record.energy_j


@jitted
def finish_request(k: Kernel, slot: int, now_s: float) -> None:
    """The last layer of a request has ended."""
    outcome = HIT if now_s <= slot_at(k, slot).deadline_s + GRACE_S else LATE
    write_result(k, slot)
    close_request(k, slot, outcome, now_s)
    release_slot(k, slot)


@jitted
def drop_request(k: Kernel, slot: int, now_s: float) -> None:
    """Give a request up: waiting sub-jobs vanish, running layers run on and are discarded."""
    record = slot_at(k, slot)
    while record.first_waiting >= 0:
        node = record.first_waiting
        unlink_waiting(k, node)
        node_at(k, node).state = DEAD
    record.gone = 1
    k.heads_stale = 1
    write_result(k, slot)
    close_request(k, slot, DROPPED, now_s)
    if record.running == 0:
        release_slot(k, slot)


@jitted
def prune_timers(k: Kernel) -> None:
    """Forget timers of sub-jobs that no longer wait, so that they cause no event."""
    while k.num_timers > 0:
        timer = timer_at(k, 0)
        slot = slot_at(k, timer.slot)
        current = timer.generation == slot.generation and slot.gone == 0
        if current and (k.drop_expired == 1 or is_waiting(k, timer.slot, timer.layer)):
            return
        pop_timer(k, False, k.num_timers)
        k.num_timers -= 1


@jitted
def fire_drop_timers(k: Kernel, until_s: float, now_s: float) -> None:
    """Drop every request whose time is up."""
    prune_timers(k)
    while k.num_timers > 0 and timer_at(k, 0).time_s <= until_s:
        drop_request(k, timer_at(k, 0).slot, now_s)
        prune_timers(k)


@jitted
def is_waiting(k: Kernel, slot: int, layer: int) -> bool:
    """Whether a layer of a request is ready and not started."""
    node = slot_at(k, slot).first_waiting
    while node >= 0:
        if facts_at(k, node).layer == layer:
            return True
        node = node_at(k, node).next
    return False

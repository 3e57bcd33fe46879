"""A layer starts on an accelerator and ends there: costs, accounts, records, learning."""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.facts import refresh_work
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import RUNNING
from eunomia.inference.kernel.memory import (
    Kernel,
    Record,
    cost_at,
    draw_at,
    facts_at,
    job_at,
    lane_at,
    node_at,
    pending_at,
    queue_at,
    row_at,
    slot_at,
    subjob_at,
    successor_at,
    system_of,
    type_at,
)
from eunomia.inference.kernel.noise import FACTOR, MOVE, SWITCH, jitter, uniform
from eunomia.inference.kernel.pools import unlink_waiting
from eunomia.inference.kernel.setup import MASKED


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
    known_s = drawn_s = 0.0  # of switching: its mean, and what lot adds to it
    if k.switches:
        elsewhere = record.last_accelerator >= 0 and record.last_accelerator != s
        if elsewhere or (queue.last_request >= 0 and queue.last_request != facts.request):
            at = type_at(k, kind)
            known_s = cost_at(k, row * k.num_types + kind).switch_s
            drawn_s = drawn(k, at.switch_at, at.switch_draws, facts, SWITCH)
        if elsewhere:
            at = type_at(k, lane_at(k, record.last_accelerator).type)
            known_s += at.move_s
            drawn_s += drawn(k, at.move_at, at.move_draws, facts, MOVE)
    switch_s = known_s + drawn_s
    charge_s = max(0.0, k.scheduler_free_s - now_s)
    work_s = cost_at(k, row * k.num_types + kind).latency_s
    if k.jitters:
        at = type_at(k, kind)
        work_s *= jitter(k.seed, facts.request, facts.layer, at.jitter)
        if at.factor_draws > 0:
            work_s *= drawn(k, at.factor_at, at.factor_draws, facts, FACTOR)
    lane.node, lane.row, lane.model, lane.start_s = node, row, record.model, now_s
    lane.work_s, lane.switch_s, lane.charge_s = work_s, switch_s, charge_s
    lane.total_s = work_s + switch_s + charge_s
    lane.end_s = now_s + lane.total_s
    lane.rate = 1.0
    lane.estimate_s = cost_at(k, row * k.num_types + kind).estimate_s + known_s + charge_s
    lane.demand = cost_at(k, row * k.num_types + kind).demand_bytes_s
    k.demand_true += lane.demand
    k.idle_mask &= ~(1 << s) if s < MASKED else -1
    if k.weighs == 1:
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
def drawn(k: Kernel, first: int, draws: int, facts: Record, stream: int) -> float:
    """One of so many numbers of equal chance, for one execution of one layer; 0 where there are none."""
    if draws == 0:
        return 0.0
    chance = uniform(k.seed, facts.request, facts.layer, stream)
    return draw_at(k, first + int(chance * draws)).value


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

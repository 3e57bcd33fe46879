"""The short way through the event loop: a layer ends and the same request goes on, on the same accelerator.

On a saturated platform this is what happens nearly always under a static order. While it does, nobody
else is concerned: no list, no heap and no pool changes. ``sprint`` does such events one after the other
with the clock, the demand and the ends of all lanes at hand, and stops before the first that is anything
else; the event loop then goes on from a state that is, bit for bit, the one it would have reached itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eunomia.inference.kernel.contention import one_rate, set_rates
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import (
    Kernel,
    cost_at,
    end_at,
    facts_at,
    heap_at,
    job_at,
    lane_at,
    node_at,
    pending_at,
    queue_at,
    row_at,
    slot_at,
    system_of,
    think_at,
    timer_at,
)
from eunomia.inference.kernel.setup import GRACE_S, INSTANTS_BETWEEN_PAUSES

Key = Callable[[Any, Any], float]


@jitted
def undisturbed_until(k: Kernel) -> float:
    """Time of the next event that is not the end of a layer."""
    time_s = k.horizon_s
    if k.next_open < k.num_open:
        time_s = min(time_s, job_at(k, k.next_open).arrival_s)
    if k.num_think > 0:
        time_s = min(time_s, think_at(k, 0).time_s)
    if k.num_timers > 0:
        time_s = min(time_s, timer_at(k, 0).time_s)
    return time_s


@jitted
def sprint(k: Kernel, key: Key) -> None:
    """Do as many of these events as come."""
    lanes = k.num_lanes
    if k.num_running < lanes or k.num_heaps != 1:
        return
    if k.dirty == 1:
        set_rates(k)
        k.dirty = 0
    system = system_of(k)
    types, layers, tiered, free_below = k.num_types, k.num_layers, k.tiered == 1, k.free_below == 1
    now_s, bandwidth, demand, common = system.now_s, system.bandwidth_bytes_s, k.demand_true, k.common_rate
    sharing = k.contention
    saturated_s, moved = k.saturated_s, k.bytes_moved
    limit_s = undisturbed_until(k)
    root = heap_at(k, 0).on_time
    root_key = node_at(k, root).key if root >= 0 else np.inf
    for s in range(lanes):
        end_at(k, s).value = lane_at(k, s).end_s
    sequence = k.sequence
    stop = sequence + INSTANTS_BETWEEN_PAUSES - 1 - k.instants % INSTANTS_BETWEEN_PAUSES
    while sequence < stop:
        time_s, second_s, s = end_at(k, 0).value, np.inf, 0
        for other in range(1, lanes):
            end_s = end_at(k, other).value
            earlier = end_s < time_s
            later_s = time_s if earlier else end_s
            second_s = later_s if later_s < second_s else second_s
            time_s = end_s if earlier else time_s
            s = other if earlier else s
        time_s = max(time_s, now_s)
        until_s = time_s + 1e-12 * max(1.0, time_s)
        lane = lane_at(k, s)
        node, row, kind = lane.node, lane.row, lane.type
        slot = node_at(k, node).slot
        record, past = slot_at(k, slot), row_at(k, row)
        after = past.follower
        if second_s <= until_s or limit_s <= until_s or after < 0 or record.gone == 1:
            break
        facts, here, layer = facts_at(k, node), row_at(k, after), after - record.row0
        elapsed_s, work_s = time_s - lane.start_s, lane.work_s
        work_best_s, work_mean_s = record.work_best_s - past.best_s, record.work_mean_s - past.mean_s
        bytes_left, attained_s, done = (
            record.bytes_left - past.row_bytes,
            record.attained_s + elapsed_s,
            record.done + 1,
        )
        facts.layer, facts.row, facts.ready_s, facts.sequence = layer, after, time_s, sequence
        facts.work_best_s, facts.work_mean_s, facts.bytes_left = work_best_s, work_mean_s, bytes_left
        facts.path_best_s, facts.path_mean_s = here.path_best_s, here.path_mean_s
        facts.attained_s, facts.last_run_s = attained_s, time_s
        facts.layers_done, facts.accelerator = done, s
        system.now_s = time_s
        rank = key(facts, system)
        if root >= 0 and not rank < root_key:
            break
        if tiered and facts.deadline_s + GRACE_S < time_s + here.path_best_s:
            break
        dt = time_s - now_s
        now_s = time_s
        if demand > bandwidth:
            saturated_s += dt
            moved += dt * bandwidth
        else:
            moved += dt * demand
        # the layer ends
        record.attained_s, record.done = attained_s, done
        record.work_best_s, record.work_mean_s, record.bytes_left = work_best_s, work_mean_s, bytes_left
        record.work_s += work_s
        record.stretch_s += max(0.0, elapsed_s - lane.total_s)
        record.energy_j += cost_at(k, row * types + kind).energy_j
        if record.running == 1:
            record.running_s += now_s - record.running_since_s
            record.running_since_s = now_s
        record.last_run_s, record.last_accelerator = now_s, s
        pending_at(k, slot * layers + row - record.row0).value = -2
        pending_at(k, slot * layers + layer).value = -1
        node_at(k, node).key, node_at(k, node).sequence = rank, sequence
        queue, cost = queue_at(k, s), cost_at(k, after * types + kind)
        queue.busy_s += elapsed_s
        queue.last_request, queue.layer = queue.request, layer
        queue.demand_bytes_s = cost.estimate_demand
        lane.isolated_sum_s += work_s
        demand = demand - lane.demand if lanes > 1 else 0.0
        # the next one starts
        sequence += 1
        system.starts += 1
        lane.row, lane.start_s, lane.work_s, lane.total_s = after, now_s, cost.latency_s, cost.latency_s
        lane.estimate_s, lane.demand, lane.decision = cost.estimate_s, cost.demand_bytes_s, k.num_decisions
        k.num_decisions += 1
        demand += cost.demand_bytes_s
        end_s = now_s + cost.latency_s
        end_at(k, s).value = end_s
        rate, slow = 1.0, 1.0
        if demand > bandwidth or not free_below:
            rate, slow = one_rate(sharing, demand, bandwidth)
        if common != 1.0 or rate != 1.0:
            ratio = common * slow
            for other in range(lanes):
                end_at(k, other).value = now_s + (end_at(k, other).value - now_s) * ratio
            end_at(k, s).value = now_s + (end_s - now_s) * slow
            common = rate
    done = sequence - k.sequence
    k.sequence = sequence
    k.events += done
    k.instants += done
    k.rounds += done
    system.now_s, k.demand_true, k.common_rate = now_s, demand, common
    k.saturated_s, k.bytes_moved = saturated_s, moved
    for s in range(lanes):
        lane_at(k, s).end_s, lane_at(k, s).rate = end_at(k, s).value, common

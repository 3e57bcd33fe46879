"""What a rollout starts from: the live requests that can still be on time, as the scheduler believes them to be.

Only the live part of the engine's state is copied, packed into the first slots and nodes of a second KERNEL:
requests without hope are left out (their running layers stay, and are discarded at their end), so are
arrivals to come. Running layers have the estimated time left, layers to come their estimated times.
"""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import RUNNING
from eunomia.inference.kernel.memory import (
    Kernel,
    copy_accelerators,
    copy_facts,
    copy_lanes,
    copy_nodes,
    copy_pending,
    copy_scalars,
    copy_slots,
    copy_system,
    copy_waiting,
    cost_at,
    facts_at,
    lane_at,
    node_at,
    pair_at,
    queue_at,
    slot_at,
    system_of,
    waiting_at,
)
from eunomia.inference.kernel.placement import time_left
from eunomia.inference.kernel.pools import link_waiting
from eunomia.inference.lookahead.memory import Workspace, live_of, pair_state_at, snapshot_of, trial_of


@jitted
def take_snapshot(ws: Workspace) -> None:
    """Fill the snapshot from the live engine; ``ws.known`` requests are in it."""
    live, k = live_of(ws), snapshot_of(ws)
    _copy_settings(ws, live, k)
    _copy_running(ws, live, k)
    ws.snapshots += 1
    ws.hopeless, ws.hopeless_iso_s, ws.hopeless_layer_s = 0, 0.0, 0.0
    for i in range(live.num_waiting):
        _copy_waiting(ws, live, k, waiting_at(live, i).value)
    ws.known = 0
    for slot in range(k.used_slots):
        if slot_at(k, slot).gone == 0:
            ws.known += 1
    if ws.learning == 1:
        _copy_beliefs(ws, live, k)
    for pair in range(live.num_pairs):
        pair_state_at(ws, pair).good = pair_at(live, pair).good
        pair_state_at(ws, pair).counted = pair_at(live, pair).count


@jitted
def _copy_settings(ws: Workspace, live: Kernel, k: Kernel) -> None:
    """The clock and the accelerators; an empty system."""
    k.used_slots, k.used_nodes, k.free_slot, k.free_node = 0, 0, -1, -1
    k.num_waiting, k.num_fresh, k.num_running, k.num_timers = 0, 0, 0, 0
    k.sequence, k.idle_mask = live.sequence, live.idle_mask
    k.demand_true, k.common_rate, k.dirty = 0.0, 1.0, 1
    k.num_subjobs, k.num_decisions, k.events = 0, 0, 0
    source, target = system_of(live), system_of(k)
    target.now_s, target.live, target.finished = source.now_s, source.live, source.finished
    target.bandwidth_bytes_s, target.seed, target.late_last = (
        source.bandwidth_bytes_s,
        source.seed,
        source.late_last,
    )
    for s in range(k.num_lanes):
        a, b = queue_at(live, s), queue_at(k, s)
        b.request, b.layer, b.last_request, b.busy_s = a.request, a.layer, a.last_request, a.busy_s
        b.demand_bytes_s = a.demand_bytes_s


@jitted
def _slot_of(live: Kernel, k: Kernel, slot: int) -> int:
    """The snapshot's slot for a live one; -1 = it has none yet."""
    request = slot_at(live, slot).request
    for other in range(k.used_slots):
        if slot_at(k, other).request == request:
            return other
    return -1


@jitted
def _copy_slot(live: Kernel, k: Kernel, slot: int) -> int:
    """A new slot of the snapshot for a live one; companion.py has made room for all that are ever copied."""
    mine: int = k.used_slots
    k.used_slots += 1
    copy_slots(live, slot, k, mine, 1)
    copy_pending(live, slot * live.num_layers, k, mine * k.num_layers, live.num_layers)
    slot_at(k, mine).first_waiting = -1
    return mine


@jitted
def _node_for(live: Kernel, k: Kernel, node: int, slot: int) -> int:
    """A node of the snapshot with the facts of a live one."""
    mine: int = k.used_nodes
    k.used_nodes += 1
    copy_facts(live, node, k, mine, 1)
    node_at(k, mine).sequence, node_at(k, mine).slot = node_at(live, node).sequence, slot
    node_at(k, mine).bound = -1
    facts = facts_at(k, mine)
    gap = pair_at(live, facts.pair)
    facts.sli, facts.gap, facts.sli_count = gap.sli, gap.gap, gap.count
    return mine


@jitted
def _copy_running(ws: Workspace, live: Kernel, k: Kernel) -> None:
    """Running layers, as long as they are believed to run."""
    now_s = system_of(live).now_s
    for s in range(live.num_lanes):
        a, b = lane_at(live, s), lane_at(k, s)
        b.node, b.end_s, b.demand, b.rate, b.type = -1, np.inf, 0.0, 1.0, a.type
        if a.node < 0:
            continue
        theirs = node_at(live, a.node).slot
        slot = _slot_of(live, k, theirs)
        if slot < 0:
            slot = _copy_slot(live, k, theirs)
        b.node = _node_for(live, k, a.node, slot)
        node_at(k, b.node).state = RUNNING
        left_s = time_left(live, s)
        b.row, b.start_s, b.switch_s, b.charge_s, b.weight = (
            a.row,
            a.start_s,
            a.switch_s,
            a.charge_s,
            a.weight,
        )
        b.work_s, b.estimate_s, b.total_s = a.estimate_s, a.estimate_s, a.estimate_s
        b.end_s = now_s + left_s
        b.demand = queue_at(live, s).demand_bytes_s
        k.demand_true += b.demand
        k.num_running += 1


@jitted
def _copy_waiting(ws: Workspace, live: Kernel, k: Kernel, node: int) -> None:
    """A waiting sub-job of a request that can still be on time, while the snapshot takes in requests."""
    theirs = node_at(live, node).slot
    slot = _slot_of(live, k, theirs)
    if _is_hopeless(live, theirs):
        if slot >= 0:
            slot_at(k, slot).gone = 1  # what runs of it runs on and is discarded
        if slot_at(live, theirs).first_waiting == node:
            facts = facts_at(live, node)
            ws.hopeless += 1
            ws.hopeless_iso_s += facts.iso_best_s
            ws.hopeless_layer_s += facts.iso_best_s / facts.layers_total
        return
    if slot < 0:
        if k.used_slots >= ws.most_known:
            return
        slot = _copy_slot(live, k, theirs)
    if slot_at(k, slot).gone == 0:
        link_waiting(k, _node_for(live, k, node, slot), slot)


@jitted
def _is_hopeless(live: Kernel, slot: int) -> bool:
    """Whether some waiting sub-job of a request is too late: then so is the request, whatever its other branches."""
    now_s, node = system_of(live).now_s, slot_at(live, slot).first_waiting
    while node >= 0:
        if is_late(facts_at(live, node), now_s):
            return True
        node = node_at(live, node).next
    return False


@jitted
def _copy_beliefs(ws: Workspace, live: Kernel, k: Kernel) -> None:
    """Estimates as they are now become the times of the rollouts."""
    for i in range(ws.num_rows * live.num_types):
        cost_at(k, i).latency_s = cost_at(k, i).estimate_s = cost_at(live, i).estimate_s
        cost_at(k, i).demand_bytes_s = cost_at(k, i).estimate_demand = cost_at(live, i).estimate_demand


@jitted
def restore(ws: Workspace) -> None:
    """Set the trial state to the snapshot."""
    source, k = snapshot_of(ws), trial_of(ws)
    copy_scalars(source, k)
    copy_slots(source, 0, k, 0, source.used_slots)
    copy_pending(source, 0, k, 0, source.used_slots * source.num_layers)
    copy_nodes(source, 0, k, 0, source.used_nodes)
    copy_facts(source, 0, k, 0, source.used_nodes)
    copy_waiting(source, 0, k, 0, source.num_waiting)
    copy_lanes(source, 0, k, 0, source.num_lanes)
    copy_accelerators(source, 0, k, 0, source.num_lanes)
    copy_system(source, 0, k, 0, 1)

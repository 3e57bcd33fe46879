"""One rollout: a plan followed from the snapshot to the horizon, with the engine's own physics.

Ends, starts, contention and switching are the functions of the event loop; what a rollout leaves out is what it
has no use for: records, indicators, timers. A request that becomes hopeless is given up at once, whatever
the engine's ``late`` says: it cannot become a hit.
"""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.contention import set_rates
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layers import end_layer, start_layer
from eunomia.inference.kernel.lifecycle import open_slot
from eunomia.inference.kernel.loop import has_room, make_ready
from eunomia.inference.kernel.memory import (
    Kernel,
    Record,
    facts_at,
    job_at,
    lane_at,
    node_at,
    pending_at,
    queue_at,
    row_at,
    slot_at,
    successor_at,
    system_of,
    waiting_at,
)
from eunomia.inference.kernel.placement import choose, refresh_types
from eunomia.inference.kernel.pools import release_node, release_slot, unlink_waiting
from eunomia.inference.kernel.setup import EFT, EFT_CA, GRACE_S
from eunomia.inference.lookahead.agenda import (
    enter_fresh,
    find_hopeless,
    open_agenda,
    strike,
    strike_node,
    watch_fresh,
)
from eunomia.inference.lookahead.bound import begin_bound, move_bound, pay, settle_bound
from eunomia.inference.lookahead.memory import (
    Workspace,
    call_learner,
    entry_at,
    pair_state_at,
    planned_at,
    rule_at,
    snapshot_of,
    trial_of,
)
from eunomia.inference.lookahead.snapshot import restore

ROLLOUT = 16  # what starting a rollout costs, in simulated layer ends
UNLIMITED = 1 << 60


@jitted
def roll_out(ws: Workspace, rule: int, future: int) -> bool:
    """Follow ``rule`` and the planned levels through one sampled future; False = cut off as no better.

    Tallies hits and misses per pair; ``ws.loss`` goes on counting from where it stands.
    """
    restore(ws)
    k = trial_of(ws)
    ws.used += ROLLOUT
    begin_bound(ws)
    cost = rule_at(ws, rule).cost
    ws.most_ends = (ws.limit - ws.used) // cost if ws.limit > 0 else UNLIMITED
    k.next_open = ws.num_requests + future * ws.future_capacity
    k.num_open = k.next_open + (ws.future_count if ws.futures > 0 else 0)
    better = _follow(ws, k, rule, ws.until_s)
    if better:
        _settle(ws, k)
        better = ws.loss < ws.allowed
    ws.used += k.events * cost
    return better


@jitted
def pass_time(ws: Workspace, rule: int, until_s: float) -> None:
    """Move the snapshot forward: what will have happened under the plan in force when the next one is ready."""
    k = snapshot_of(ws)
    k.next_open = k.num_open = 0
    ws.allowed, ws.most_ends = np.inf, UNLIMITED
    begin_bound(ws)
    _follow(ws, k, rule, until_s)
    system_of(k).now_s = max(until_s, system_of(k).now_s)
    ws.used += k.events * rule_at(ws, rule).cost
    k.events = 0
    if ws.bounded == 1:
        move_bound(ws)


@jitted
def _follow(ws: Workspace, k: Kernel, rule: int, until_s: float) -> bool:
    """Go from event to event until ``until_s`` or the end; False = cut off."""
    held, order, learned = ws.hold == 1, rule_at(ws, rule).order, rule_at(ws, rule).learned == 1
    if learned:
        ws.entries, ws.late_s, ws.opened = 0, -np.inf, 0
    else:
        open_agenda(ws, k, order)
    while ws.loss + ws.rest < ws.allowed and k.events < ws.most_ends:
        if not held and learned:
            _drop_hopeless(ws, k)
            call_learner(ws, k)
        elif not held:
            _start_layers(ws, k, rule)
        held = False
        if not _next_instant(ws, k, until_s):
            return True
        if learned:
            watch_fresh(ws, k)
        else:
            enter_fresh(ws, k, order)
    return False


@jitted
def _next_instant(ws: Workspace, k: Kernel, latest_s: float) -> bool:
    """Go to the next end or arrival; False = the horizon is reached, or nothing is left."""
    if k.dirty == 1:
        set_rates(k)
        k.dirty = 0
    time_s = np.inf
    for s in range(k.num_lanes):
        time_s = min(time_s, lane_at(k, s).end_s)
    if k.next_open < k.num_open:
        time_s = min(time_s, job_at(k, k.next_open).arrival_s)
    if time_s == np.inf or time_s > latest_s or not has_room(k):
        return False
    system = system_of(k)
    system.now_s = max(time_s, system.now_s)
    until_s = time_s + 1e-12 * max(1.0, time_s)
    for s in range(k.num_lanes):
        if lane_at(k, s).end_s <= until_s:
            _end(ws, k, s)
    while k.next_open < k.num_open and job_at(k, k.next_open).arrival_s <= until_s and has_room(k):
        _admit(k, k.next_open)
        k.next_open += 1
    return True


@jitted
def _end(ws: Workspace, k: Kernel, s: int) -> None:
    """One layer ends; what follows it becomes ready, or its request is finished."""
    node, row = lane_at(k, s).node, lane_at(k, s).row
    slot = end_layer(k, s, system_of(k).now_s)
    record = slot_at(k, slot)
    if record.gone == 1:
        if record.running == 0:
            release_slot(k, slot)
    elif record.done < record.layers:
        for edge in range(row_at(k, row).successor_start, row_at(k, row).successor_end):
            after = successor_at(k, edge).value
            left = pending_at(k, slot * k.num_layers + after)
            left.value -= 1
            if left.value == 0:
                make_ready(k, slot, after, node)
                node = -1
    else:
        _count(ws, slot, record, system_of(k).now_s <= record.deadline_s + GRACE_S)
        record.gone = 1
        release_slot(k, slot)
    if node >= 0:
        release_node(k, node)


@jitted
def _admit(k: Kernel, request: int) -> None:
    """A sampled request arrives."""
    slot = open_slot(k, request, job_at(k, request).arrival_s)
    record = slot_at(k, slot)
    for layer in range(record.layers):
        if row_at(k, record.row0 + layer).indegree == 0:
            make_ready(k, slot, layer, -1)


@jitted
def _count(ws: Workspace, slot: int, record: Record, hit: bool) -> None:
    """Tally the outcome of the request in a slot."""
    settle_bound(ws, slot)
    if hit:
        pair_state_at(ws, record.pair).hits += 1
    else:
        pair_state_at(ws, record.pair).misses += 1
        planned_at(ws, record.request).lost_now = 1
        ws.misses += 1
        ws.loss += 1.0


@jitted
def _give_up(ws: Workspace, k: Kernel, slot: int) -> None:
    """A request is lost: nothing more of it starts."""
    record = slot_at(k, slot)
    while record.first_waiting >= 0:
        node = record.first_waiting
        strike_node(ws, node)
        unlink_waiting(k, node)
        release_node(k, node)
    record.gone = 1
    _count(ws, slot, record, False)
    if record.running == 0:
        release_slot(k, slot)


@jitted
def _drop_hopeless(ws: Workspace, k: Kernel) -> None:
    node = find_hopeless(ws, k)
    while node >= 0:
        _give_up(ws, k, node_at(k, node).slot)
        node = find_hopeless(ws, k)


@jitted
def _start_layers(ws: Workspace, k: Kernel, rule: int) -> None:
    """Decisions of one instant: the planned levels, then the rule's order; its placement and gate."""
    chosen, system = rule_at(ws, rule), system_of(k)
    _drop_hopeless(ws, k)
    if ws.dynamic == 1:
        open_agenda(ws, k, chosen.order)
    while k.num_waiting > 0 and k.num_running < k.num_lanes:
        demand = 0.0
        for s in range(k.num_lanes):
            demand += queue_at(k, s).demand_bytes_s  # 0 of idle ones
        system.demand_bytes_s = demand
        if demand > chosen.gate * system.bandwidth_bytes_s:
            return
        if chosen.place == EFT or chosen.place == EFT_CA:
            refresh_types(k)
        if not _start_first(ws, k, chosen.place):
            return


@jitted
def _start_first(ws: Workspace, k: Kernel, place: int) -> bool:
    """Start the first sub-job, in order, that is given an idle accelerator; False = none is."""
    for i in range(ws.entries):
        node = entry_at(ws, i).node
        s = choose(k, place, facts_at(k, node).row)
        if s >= 0:
            strike(ws, i)
            start_layer(k, node, s, system_of(k).now_s, 0)
            pay(ws, k, s)
            return True
    return False


@jitted
def _settle(ws: Workspace, k: Kernel) -> None:
    """Requests still alive at the horizon: hits if they can still be on time by the best case."""
    _drop_hopeless(ws, k)
    for i in range(k.num_waiting):
        slot = node_at(k, waiting_at(k, i).value).slot
        record = slot_at(k, slot)
        if record.gone == 0:
            record.gone = 1
            _count(ws, slot, record, True)
    for s in range(k.num_lanes):
        node = lane_at(k, s).node
        if node >= 0:
            slot = node_at(k, node).slot
            record = slot_at(k, slot)
            if record.gone == 0:
                record.gone = 1
                _count(ws, slot, record, record.deadline_s + GRACE_S >= system_of(k).now_s)

"""The event loop: next event, advance, ends, arrivals, drops, decisions. Order: docs/engine.md.

The loop is the same for every kind of policy. What differs, where a sub-job goes when it becomes
ready and how decisions are made, is passed in as two compiled functions (modes.py), so that a run
compiles only what it uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eunomia.inference.kernel.contention import set_rates
from eunomia.inference.kernel.facts import fill_layer_facts, fill_request_facts
from eunomia.inference.kernel.heap import pop_timer, push_timer
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layers import end_layer
from eunomia.inference.kernel.lifecycle import (
    finish_request,
    fire_drop_timers,
    open_slot,
    prune_timers,
    set_drop_timer,
    write_result,
)
from eunomia.inference.kernel.memory import (
    Kernel,
    fresh_at,
    job_at,
    lane_at,
    node_at,
    pending_at,
    row_at,
    slot_at,
    successor_at,
    system_of,
    think_at,
    timer_at,
)
from eunomia.inference.kernel.pools import link_waiting, new_node, release_node, release_slot
from eunomia.inference.kernel.setup import DROP_LATE, GRACE_S, INSTANTS_BETWEEN_PAUSES

DONE, GROW, ASK, ASK_TICK, FAULT, STALLED, PAUSE, GO_ON = range(8)  # why the kernel returns
ADVANCE, ADMIT, BEFORE_TICK, TICK, DECIDING = range(5)  # phases of one instant

Key = Callable[[Any, Any], float]


@jitted
def next_event_s(k: Kernel) -> float:
    """Time of the earliest end, arrival, drop timer or useful tick; inf = nothing will happen."""
    time_s = np.inf
    for s in range(k.num_lanes):
        if lane_at(k, s).end_s < time_s:  # idle lanes end at infinity
            time_s = lane_at(k, s).end_s
    if k.next_open < k.num_open:
        time_s = min(time_s, job_at(k, k.next_open).arrival_s)
    if k.num_think > 0:
        time_s = min(time_s, think_at(k, 0).time_s)
    if k.num_timers > 0:
        time_s = min(time_s, timer_at(k, 0).time_s)
    if k.period_s > 0.0 and k.num_waiting > 0:
        time_s = min(time_s, k.next_tick * k.period_s)
    return max(time_s, system_of(k).now_s)


@jitted
def advance(k: Kernel, time_s: float) -> None:
    """Move the clock; ends of running layers are known, only the bandwidth account grows."""
    system = system_of(k)
    dt = time_s - system.now_s
    if k.demand_true > system.bandwidth_bytes_s:
        k.saturated_s += dt
        k.bytes_moved += dt * system.bandwidth_bytes_s
    else:
        k.bytes_moved += dt * k.demand_true
    system.now_s = time_s


@jitted
def make_ready(k: Kernel, slot: int, layer: int, used: int) -> None:
    """A layer has no unfinished predecessor left: it waits from now on.

    ``used``: a node in which an earlier layer of the same request ran, to be used again; -1 = none.
    """
    node = used
    if used < 0:
        node = new_node(k)
        fill_request_facts(k, node, slot)
    fill_layer_facts(k, node, slot, layer)
    pending_at(k, slot * k.num_layers + layer).value = -1
    node_at(k, node).sequence = k.sequence
    node_at(k, node).bound = -1
    k.sequence += 1
    link_waiting(k, node, slot)
    if k.late == DROP_LATE and k.drop_expired == 0:
        set_drop_timer(k, node, slot, layer)
    fresh_at(k, k.num_fresh).value = node
    k.num_fresh += 1


@jitted
def process_ends(k: Kernel, until_s: float) -> None:
    """End every layer that is due, in order of accelerator index."""
    now_s = system_of(k).now_s
    for s in range(k.num_lanes):
        if lane_at(k, s).end_s > until_s:
            continue
        node = lane_at(k, s).node
        row = lane_at(k, s).row
        slot = end_layer(k, s, now_s)
        record = slot_at(k, slot)
        if record.gone == 0 and record.done < record.layers:
            for edge in range(row_at(k, row).successor_start, row_at(k, row).successor_end):
                after = successor_at(k, edge).value
                left = pending_at(k, slot * k.num_layers + after)
                left.value -= 1
                if left.value == 0:
                    make_ready(k, slot, after, node)
                    node = -1
        elif record.gone == 0:
            finish_request(k, slot, now_s)
        elif record.running == 0:
            write_result(k, slot)
            release_slot(k, slot)
        if node >= 0:
            release_node(k, node)


@jitted
def admit_due(k: Kernel, until_s: float) -> bool:
    """Admit every request that is due, in order of request index; False = no room, grow first."""
    while True:
        request, by_clock = -1, False
        if k.next_open < k.num_open and job_at(k, k.next_open).arrival_s <= until_s:
            request, by_clock = k.next_open, True
        elif k.num_think > 0 and think_at(k, 0).time_s <= until_s:
            request = think_at(k, 0).request
        if request < 0:
            return True
        if not has_room(k):
            return False
        if by_clock:
            k.next_open += 1
        else:
            pop_timer(k, True, k.num_think)
            k.num_think -= 1
        admit(k, request)


@jitted
def admit(k: Kernel, request: int) -> None:
    """One request enters; its first layers become ready."""
    slot = open_slot(k, request, system_of(k).now_s)
    record = slot_at(k, slot)
    if k.late == DROP_LATE and k.drop_expired and record.deadline_s < np.inf:
        due_s = record.deadline_s + GRACE_S
        push_timer(k, False, k.num_timers, due_s, request, 0, slot, record.generation)
        k.num_timers += 1
    for layer in range(record.layers):
        if row_at(k, record.row0 + layer).indegree == 0:
            make_ready(k, slot, layer, -1)


@jitted
def has_room(k: Kernel) -> bool:
    """Whether one more event fits into slots, nodes and timers."""
    return (
        k.used_slots < k.slot_capacity
        and k.used_nodes + k.headroom <= k.node_capacity
        and k.num_timers + k.headroom < k.node_capacity
    )


@jitted
def begin_round(k: Kernel) -> None:
    """Count and charge a decision round, once per instant."""
    if k.asked == 0:
        k.asked = 1
        k.rounds += 1
        if k.decision_s > 0.0:
            k.scheduler_free_s = max(system_of(k).now_s, k.scheduler_free_s) + k.decision_s


@jitted
def can_decide(k: Kernel) -> bool:
    """Whether something waits while something is idle."""
    return k.num_waiting > 0 and k.num_running < k.num_lanes


@jitted
def next_instant(k: Kernel) -> int:
    """Go to the next event and end the layers that are due."""
    if k.dirty == 1:
        set_rates(k)
        k.dirty = 0
    if not has_room(k):
        return GROW
    if k.num_running == 0 and k.next_open >= k.num_open and k.num_think == 0 and k.num_waiting == 0:
        return DONE
    k.instants += 1
    if k.instants % INSTANTS_BETWEEN_PAUSES == 0:  # let Python see a Ctrl-C
        return PAUSE
    prune_timers(k)
    time_s = next_event_s(k)
    if time_s > k.horizon_s:
        advance(k, max(k.horizon_s, system_of(k).now_s))
        return DONE
    if time_s == np.inf:
        return STALLED
    advance(k, time_s)
    process_ends(k, time_s + 1e-12 * max(1.0, time_s))
    k.asked = 0
    k.phase = ADMIT
    return GO_ON


def make_run(
    enqueue: Callable[..., None],
    decide_now: Callable[..., int],
    resume: Callable[..., int],
    hurry: Callable[..., None],
) -> Callable[..., Any]:
    """The loop for one kind of policy, not yet compiled.

    ``enqueue(k, key)`` puts the sub-jobs that have just become ready where they wait;
    ``decide_now(k, key, decide, until_s)`` makes the decisions of one instant; ``resume(k, answers)``
    applies what a stepped policy answered; both return a status. ``hurry(k, key)`` may do events that
    concern one request alone at once.
    """

    def run(kernel, key, decide, answers):  # type: ignore[no-untyped-def]
        """Run until the policy must be asked, room is short or nothing is left to do; returns why.

        ``answers`` >= 0 resumes after ASK or ASK_TICK with that many rows of ``answer`` filled in.
        """
        k = kernel[0]
        if answers >= 0:
            status = resume(k, answers)
            if status != GO_ON:
                return status
        while True:
            if k.phase == ADVANCE:
                hurry(k, key)
                status = next_instant(k)
                if status != GO_ON:
                    return status
                enqueue(k, key)
            until_s = system_of(k).now_s + 1e-12 * max(1.0, system_of(k).now_s)
            while k.phase == ADMIT:
                complete = admit_due(k, until_s)
                enqueue(k, key)
                if not complete:
                    return GROW
                fire_drop_timers(k, until_s, system_of(k).now_s)
                if k.num_think == 0 or think_at(k, 0).time_s > until_s:  # a drop may send the next request
                    k.phase = BEFORE_TICK
            status = decide_now(k, key, decide, until_s)
            if status != GO_ON:
                return status
            k.phase = ADVANCE

    return run

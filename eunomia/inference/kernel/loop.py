"""The event loop: next event, advance, ends, arrivals, drops, tick, decisions. Order: docs/engine.md."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import carray, njit, types

from eunomia.inference.kernel.contention import set_rates
from eunomia.inference.kernel.dispatch import (
    begin,
    bind,
    greedy_round,
    insert,
    pull_throttled,
    queue_round,
    refresh_system,
)  # fmt: skip
from eunomia.inference.kernel.greedy import greedy_choice
from eunomia.inference.kernel.heap import pop_timer, push_timer
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.lifecycle import (
    end_layer,
    fill_facts,
    finish_request,
    fire_drop_timers,
    link_waiting,
    new_node,
    open_slot,
    prune_timers,
    release_slot,
    set_drop_timer,
    write_result,
)  # fmt: skip
from eunomia.inference.kernel.memory import (
    KERNEL_TYPE,
    Kernel,
    facts_at,
    job_at,
    lane_at,
    node_at,
    pending_at,
    pointer,
    row_at,
    shown_at,
    slot_at,
    successor_at,
    system_of,
    think_at,
    timer_at,
    view_node_at,
)  # fmt: skip
from eunomia.inference.kernel.period import collect, patch_other, plan_greedy
from eunomia.inference.kernel.placement import bind_target, least_finish_queue
from eunomia.inference.kernel.setup import (
    DECIDE,
    DROP_LATE,
    DYNAMIC,
    GRACE_S,
    GREEDY,
    NO_BIND,
    QUEUES,
    STEP,
    THROTTLED,
)  # fmt: skip
from eunomia.inference.kernel.signatures import DECIDE_TYPE, KEY_TYPE
from eunomia.inference.kernel.viewing import bind_answers, show, show_all, start_answers
from eunomia.inference.view import ACCELERATOR, READY

DONE, GROW, FLUSH, ASK, ASK_TICK, FAULT, STALLED, GO_ON = range(8)  # why the kernel returns
ADVANCE, ADMIT, TICK, DECIDING = range(4)  # phases of one instant


@jitted
def next_event_s(k: Kernel) -> float:
    """Time of the earliest end, arrival, drop timer or useful tick; inf = nothing will happen."""
    now_s = system_of(k).now_s
    time_s = np.inf
    if k.num_running > 0:
        for s in range(k.num_lanes):
            lane = lane_at(k, s)
            if lane.node >= 0:
                time_s = min(time_s, lane.remaining_s / lane.rate)
        time_s = now_s + max(time_s, 0.0)
    if k.next_open < k.num_open:
        time_s = min(time_s, job_at(k, k.next_open).arrival_s)
    if k.num_think > 0:
        time_s = min(time_s, think_at(k, 0).time_s)
    if k.num_timers > 0:
        time_s = min(time_s, timer_at(k, 0).time_s)
    if k.period_s > 0.0 and k.num_waiting > 0:
        time_s = min(time_s, k.next_tick * k.period_s)
    return max(time_s, now_s)


@jitted
def advance(k: Kernel, time_s: float) -> None:
    """Let every running layer progress until ``time_s``."""
    system = system_of(k)
    dt = time_s - system.now_s
    if k.num_running > 0 and dt > 0.0:
        for s in range(k.num_lanes):
            if lane_at(k, s).node >= 0:
                lane_at(k, s).remaining_s -= dt * lane_at(k, s).rate
        if k.demand_true > system.bandwidth_bytes_s:
            k.saturated_s += dt
            k.bytes_moved += dt * system.bandwidth_bytes_s
        else:
            k.bytes_moved += dt * k.demand_true
    system.now_s = time_s


@jitted
def make_ready(k: Kernel, key: Callable[..., float], slot: int, layer: int) -> None:
    """A layer has no unfinished predecessor left: it waits from now on."""
    now_s = system_of(k).now_s
    node = new_node(k)
    fill_facts(k, node, slot, layer, now_s)
    pending_at(k, slot * k.num_layers + layer).value = -1
    node_at(k, node).sequence = k.sequence
    node_at(k, node).bound = -1
    k.sequence += 1
    link_waiting(k, node, slot)
    if k.late == DROP_LATE and not k.drop_expired:
        set_drop_timer(k, node, slot, layer)
    if k.period_s > 0.0:
        _ready_in_period(k, key, node)
    elif k.mode == GREEDY:
        node_at(k, node).key = key(facts_at(k, node), system_of(k))
        insert(k, row_at(k, facts_at(k, node).row).heap, node)
    elif k.bind != NO_BIND:
        node_at(k, node).key = key(facts_at(k, node), system_of(k))
        target = bind_target(k, k.bind, node)
        if target >= 0:
            bind(k, node, target)
        else:
            insert(k, k.num_lanes, node)
    else:
        node_at(k, node).key = np.nan


@jitted
def _ready_in_period(k: Kernel, key: Callable[..., float], node: int) -> None:
    if not k.patch:
        node_at(k, node).key = np.nan
    elif k.mode <= DYNAMIC:
        node_at(k, node).key = key(facts_at(k, node), system_of(k))
        bind(k, node, least_finish_queue(k, facts_at(k, node).row, True))
    else:
        patch_other(k, node)


@jitted
def process_ends(k: Kernel, key: Callable[..., float], slack_s: float) -> None:
    """End every layer that is due, in order of accelerator index."""
    now_s = system_of(k).now_s
    for s in range(k.num_lanes):
        lane = lane_at(k, s)
        if lane.node < 0 or lane.remaining_s > slack_s * lane.rate:
            continue
        layer = facts_at(k, lane.node).layer
        slot = end_layer(k, s, now_s)
        record = slot_at(k, slot)
        if record.gone == 1:
            if record.running == 0:
                write_result(k, slot)
                release_slot(k, slot)
        elif record.done == record.layers:
            finish_request(k, slot, now_s)
        else:
            row = record.row0 + layer
            for edge in range(row_at(k, row).successor_start, row_at(k, row).successor_end):
                after = successor_at(k, edge).value
                pending_at(k, slot * k.num_layers + after).value -= 1
                if pending_at(k, slot * k.num_layers + after).value == 0:
                    make_ready(k, key, slot, after)


@jitted
def admit_due(k: Kernel, key: Callable[..., float], until_s: float) -> bool:
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
        admit(k, key, request)


@jitted
def admit_and_drop(k: Kernel, key: Callable[..., float], until_s: float) -> bool:
    """Arrivals and drops until neither is due: a drop may send a closed-loop request at once."""
    while True:
        if not admit_due(k, key, until_s):
            return False
        fire_drop_timers(k, until_s, system_of(k).now_s)
        if k.num_think == 0 or think_at(k, 0).time_s > until_s:
            return True


@jitted
def admit(k: Kernel, key: Callable[..., float], request: int) -> None:
    """One request enters; its first layers become ready."""
    slot = open_slot(k, request, system_of(k).now_s)
    record = slot_at(k, slot)
    if k.late == DROP_LATE and k.drop_expired and record.deadline_s < np.inf:
        due_s = record.deadline_s + GRACE_S
        push_timer(k, False, k.num_timers, due_s, request, 0, slot, record.generation)
        k.num_timers += 1
    for layer in range(record.layers):
        if row_at(k, record.row0 + layer).indegree == 0:
            make_ready(k, key, slot, layer)


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
def tick_is_due(k: Kernel, until_s: float) -> bool:
    """Whether a period boundary falls on this instant and something waits; skips boundaries that passed."""
    period_s = k.period_s
    if period_s == 0.0:
        return False
    now_s = system_of(k).now_s
    first = int(np.ceil((now_s - (until_s - now_s)) / period_s))
    k.next_tick = max(k.next_tick, first)
    if k.next_tick * period_s <= until_s:
        k.next_tick += 1
        return k.num_waiting > 0
    return False


@jitted
def can_decide(k: Kernel) -> bool:
    """Whether something waits while something is idle."""
    return k.num_waiting > 0 and k.num_running < k.num_lanes


@jitted
def call_policy(k: Kernel, decide: Callable[..., int], shown: int) -> int:
    """Ask a compiled policy; returns the number of answers."""
    shape = (shown, k.num_lanes)
    return decide(
        carray(pointer(k.view_ready), shown, READY), carray(pointer(k.view_latency), shape, np.float64),
        carray(pointer(k.view_demand), shape, np.float64), carray(pointer(k.view_energy), shape, np.float64),
        carray(pointer(k.accelerators), k.num_lanes, ACCELERATOR), system_of(k),
        carray(pointer(k.answer), (k.node_capacity, 2), np.int64),
        carray(pointer(k.answer_priority), k.node_capacity, np.float64),
    )  # fmt: skip


@jitted
def dynamic_round(k: Kernel, key: Callable[..., float]) -> None:
    """The greedy rule with keys computed at every decision, one start at a time."""
    now_s = system_of(k).now_s
    while can_decide(k):
        shown = show_all(k, now_s)
        shape = (shown, k.num_lanes)
        index, s = greedy_choice(
            key, carray(pointer(k.view_ready), shown, READY),
            carray(pointer(k.view_latency), shape, np.float64), carray(pointer(k.view_demand), shape, np.float64),
            carray(pointer(k.accelerators), k.num_lanes, ACCELERATOR), system_of(k),
            k.place, k.feasible == 1, k.gate,
        )  # fmt: skip
        if index < 0:
            return
        node = view_node_at(k, index).value
        node_at(k, node).key = key(shown_at(k, index), system_of(k))
        begin(k, node, s, now_s)


@jitted
def decide_round(k: Kernel, decide: Callable[..., int]) -> bool:
    """Ask a compiled policy until it has nothing to add; False at an illegal answer."""
    while can_decide(k):
        shown = show_all(k, system_of(k).now_s)
        k.shown = shown
        answers = call_policy(k, decide, shown)
        if answers == 0:
            return True
        if not start_answers(k, answers, shown, system_of(k).now_s):
            return False
    return True


@jitted
def resume(k: Kernel, answers: int) -> int:
    """Apply what a stepped policy answered."""
    now_s = system_of(k).now_s
    if k.phase == TICK:
        k.phase = DECIDING
        return GO_ON if bind_answers(k, answers, k.shown) else FAULT
    if not start_answers(k, answers, k.shown, now_s):
        return FAULT
    if answers > 0 and can_decide(k):
        k.shown = show_all(k, now_s)
        return ASK
    k.phase = ADVANCE
    return GO_ON


@jitted
def next_instant(k: Kernel, key: Callable[..., float]) -> int:
    """Go to the next event and end the layers that are due."""
    if k.dirty == 1:
        k.demand_true = set_rates(k)
        k.dirty = 0
    if k.num_subjobs + k.num_lanes > k.buffer_rows or k.decision_row + k.num_lanes > k.buffer_rows:
        return FLUSH
    if not has_room(k):
        return GROW
    if k.num_running == 0 and k.next_open >= k.num_open and k.num_think == 0 and k.num_waiting == 0:
        return DONE
    prune_timers(k)
    time_s = next_event_s(k)
    if time_s == np.inf:
        return STALLED
    if time_s > k.horizon_s:
        advance(k, max(k.horizon_s, system_of(k).now_s))
        return DONE
    advance(k, time_s)
    process_ends(k, key, 1e-12 * max(1.0, time_s))
    k.asked = 0
    k.phase = ADMIT
    return GO_ON


@jitted
def tick(k: Kernel, key: Callable[..., float], decide: Callable[..., int]) -> int:
    """A period boundary: queue the most urgent waiting sub-jobs anew."""
    begin_round(k)
    refresh_system(k)
    count = collect(k)
    if k.mode <= DYNAMIC:
        plan_greedy(k, key, count, system_of(k).now_s)
        return GO_ON
    show(k, count, system_of(k).now_s)
    k.shown = count
    if k.mode == STEP:
        k.phase = TICK
        return ASK_TICK
    return GO_ON if bind_answers(k, call_policy(k, decide, count), count) else FAULT


@jitted
def decisions(k: Kernel, key: Callable[..., float], decide: Callable[..., int]) -> int:
    """Something waits and something is idle: start what the policy wants."""
    now_s = system_of(k).now_s
    if k.period_s > 0.0:
        queue_round(k, now_s)
        return GO_ON
    begin_round(k)
    if k.bind == THROTTLED:
        pull_throttled(k, now_s)
    if k.mode == GREEDY:
        greedy_round(k, now_s)
    elif k.mode == QUEUES:
        queue_round(k, now_s)
    elif k.mode == DYNAMIC:
        dynamic_round(k, key)
    elif k.mode == DECIDE:
        return GO_ON if decide_round(k, decide) else FAULT
    else:
        k.shown = show_all(k, now_s)
        return ASK
    return GO_ON


def _source_stamp() -> int:
    """Hash of all kernel sources: part of the cache key, so that no stale machine code is ever loaded."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*here.glob("*.py"), here.parent / "view.py", here.parent / "problem.py"]):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "little")


def _make_run(stamp: int) -> Callable[..., Any]:
    def run(kernel, key, decide, answers):  # type: ignore[no-untyped-def]
        """Run until the policy must be asked, a buffer is full or nothing is left to do; returns why.

        ``answers`` >= 0 resumes after ASK or ASK_TICK with that many rows of ``answer`` filled in.
        """
        k = kernel[0]
        if stamp < 0:  # never; binds the stamp into the cache key
            return STALLED
        if answers >= 0:
            status = resume(k, answers)
            if status != GO_ON:
                return status
        while True:
            if k.phase == ADVANCE:
                status = next_instant(k, key)
                if status != GO_ON:
                    return status
            until_s = system_of(k).now_s + 1e-12 * max(1.0, system_of(k).now_s)
            if k.phase == ADMIT:
                if not admit_and_drop(k, key, until_s):
                    return GROW
                k.phase = DECIDING
                if tick_is_due(k, until_s):
                    status = tick(k, key, decide)
                    if status != GO_ON:
                        return status
            if can_decide(k):
                status = decisions(k, key, decide)
                if status != GO_ON:
                    return status
            k.phase = ADVANCE

    return run


@lru_cache(maxsize=1)
def compiled_run() -> Any:
    """The compiled loop ``run(kernel, key, decide, answers) -> status``; loaded from numba's cache if there."""
    signature = types.int64(types.Array(KERNEL_TYPE, 1, "C"), KEY_TYPE, DECIDE_TYPE, types.int64)
    return njit(signature, cache=True, error_model="numpy")(_make_run(_source_stamp()))

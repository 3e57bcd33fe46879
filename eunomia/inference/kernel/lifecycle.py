"""From arrival to the end of a request: it enters, finishes or is dropped."""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.heap import pop_timer, push_timer
from eunomia.inference.kernel.indicators import observe
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import DEAD, DROPPED, HIT, LATE
from eunomia.inference.kernel.memory import (
    Kernel,
    expect,
    facts_at,
    job_at,
    model_at,
    node_at,
    pending_at,
    result_at,
    row_at,
    slot_at,
    system_of,
    timer_at,
)
from eunomia.inference.kernel.pools import is_waiting, new_slot, release_slot, unlink_waiting
from eunomia.inference.kernel.setup import GRACE_S


@jitted
def open_slot(k: Kernel, request: int, now_s: float) -> int:
    """A request enters the system; returns its slot."""
    slot = new_slot(k)
    record = slot_at(k, slot)
    pair, model = job_at(k, request).pair, job_at(k, request).model
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
    following = job_at(k, request).next
    if (
        following >= 0
    ):  # it comes when this one is done; its place in these long arrays was not touched for long
        expect(job_at(k, following))
        expect(result_at(k, following))
    system_of(k).live += 1
    return slot


@jitted
def set_drop_timer(k: Kernel, node: int, slot: int, layer: int) -> None:
    """Remember when a waiting sub-job becomes hopeless."""
    record = slot_at(k, slot)
    due_s = record.deadline_s - facts_at(k, node).path_best_s + GRACE_S
    if due_s < np.inf:
        push_timer(k, False, k.num_timers, due_s, record.request, layer, slot, record.generation)
        k.num_timers += 1


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

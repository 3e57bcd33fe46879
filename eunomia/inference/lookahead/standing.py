"""A plan that stands and is corrected slice by slice, by a planner that works beside the running system.

The planner is one server with a core of its own; decisions never wait for it. A slice takes a snapshot, and
advances it under the plan in force to the end of the slice. It continues the moves where the last slice
stopped; its result is in force from its end on. Requests that arrive meanwhile are served by the plan in
force, at normal level, and met by the next slice. When a whole round of moves has helped nothing, the planner
rests until something arrives. A slice is charged ``snapshot_s + used * unit_s``, ``used`` = simulated layer
ends.
"""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, lane_at, slot_at, system_of
from eunomia.inference.lookahead.bound import promises
from eunomia.inference.lookahead.deliberate import evaluate, note_lost, prepare, spent
from eunomia.inference.lookahead.memory import (
    FIRST,
    LAST,
    NORMAL,
    Workspace,
    left_at,
    level_at,
    planned_at,
    rule_at,
    snapshot_of,
)
from eunomia.inference.lookahead.objective import HITS
from eunomia.inference.lookahead.rollout import pass_time

LONGEST = 1e15  # more simulated layer ends than any slice
TIED = 1e-9  # plans whose values differ by less are equal
USUAL = 0.2  # weight of the newest slice in the means that the next is planned by


@jitted
def correct_plan(ws: Workspace) -> None:
    """One slice: ``planned_rule`` and the planned levels, better than those in force or equal."""
    ws.used, ws.limit = 0, ws.budget
    ws.deliberations += 1
    prepare(ws)
    _keep_levels(ws)
    ws.planned_rule = ws.rule
    extended = _set_length(ws)
    before = ws.used
    best = evaluate(ws, ws.rule, -np.inf)
    note_lost(ws)
    ws.usual_rollout = _mean(ws.usual_rollout, ws.used - before)
    if ws.misses == 0 and ws.objective == HITS:
        ws.moves_left = 0
    else:
        if ws.base_due == 1:
            best = _try_base(ws, best)
        ws.base_due = 0
        _try_moves(ws, best)
    ws.layer_ends += ws.used
    ws.most = max(ws.most, ws.used)
    if not extended:
        ws.usual_slice = _mean(ws.usual_slice, ws.used)


@jitted
def _set_length(ws: Workspace) -> bool:
    """Move the snapshot to the end of a usual slice and set the slice's limit; True = nothing ends before it is over.

    A slice is as long as some rollouts of the plan in force; longer, up to the budget, if no layer ends meanwhile.
    """
    k = snapshot_of(ws)
    from_s = system_of(k).now_s + ws.snapshot_s
    pass_time(ws, ws.rule, from_s + ws.usual_slice * ws.unit_s)
    length = ws.slice_rollouts * ws.usual_rollout
    free = 0.0
    if ws.used == 0:
        free = (next_end_s(k) - from_s) / ws.unit_s
    if length > 0.0 and max(length, free) < LONGEST:
        longest = max(1, int(max(length, free)))
        ws.limit = min(ws.budget, longest) if ws.budget > 0 else longest
    return free > length  # type: ignore[no-any-return]


@jitted
def next_end_s(k: Kernel) -> float:
    """When the next running layer ends, by the rates of now; inf = none runs."""
    end_s = np.inf
    for s in range(k.num_lanes):
        end_s = min(end_s, lane_at(k, s).end_s)
    return end_s


@jitted
def _mean(before: float, newest: float) -> float:
    return newest if before == 0.0 else before + USUAL * (newest - before)


@jitted
def meet_arrivals(ws: Workspace) -> None:
    """There is something new: the base gets another chance, and so do all moves if the last round was complete."""
    if ws.moves_left == 0:
        forget_tries(ws)
    ws.moves_left = ws.base_due = 1


@jitted
def forget_tries(ws: Workspace) -> None:
    """A new round of moves."""
    ws.improved = 0
    for rule in range(ws.num_rules):
        rule_at(ws, rule).tried = 0
    for request in range(ws.num_requests):
        planned_at(ws, request).tried = 0


@jitted
def _keep_levels(ws: Workspace) -> bool:
    """The levels in force become the planned ones; returns whether any is not normal."""
    k, touched = snapshot_of(ws), False
    for slot in range(k.used_slots):
        request = slot_at(k, slot).request
        planned_at(ws, request).value = level_at(ws, request).value
        touched = touched or level_at(ws, request).value != NORMAL
    return touched


@jitted
def _try_base(ws: Workspace, best: float) -> float:
    """Back to the base rule without levels, unless the plan in force is better."""
    if not _keep_levels(ws) and ws.rule == 0:
        return best
    k = snapshot_of(ws)
    for slot in range(k.used_slots):
        planned_at(ws, slot_at(k, slot).request).value = NORMAL
    value = evaluate(ws, 0, best - TIED)
    if value >= best:
        ws.planned_rule = 0
        note_lost(ws)
        return value
    _keep_levels(ws)
    return best


@jitted
def _try_moves(ws: Workspace, best: float) -> None:
    """Go on with the round; begin another if it is complete and has helped."""
    while not spent(ws):
        if ws.singles == 1:
            best = _try_level(ws, best, 0, 1, LAST)
            best = _try_level(ws, best, 1, 1, FIRST)
        best = _try_rules(ws, best)
        if ws.singles == 1:
            best = _try_level(ws, best, 2, 0, LAST)
            best = _try_level(ws, best, 3, 0, NORMAL)
        if spent(ws):
            return
        if ws.improved == 0:
            ws.moves_left = 0
            return
        forget_tries(ws)


@jitted
def _try_rules(ws: Workspace, best: float) -> float:
    """The rules that this round has not tried, with the planned levels."""
    for rule in range(ws.num_rules):
        if rule == ws.planned_rule or rule_at(ws, rule).tried == 1 or spent(ws):
            continue
        value = evaluate(ws, rule, best + ws.margin)
        if value > best + ws.margin:
            best, ws.planned_rule = value, rule
            _note_change(ws)
        if not spent(ws):  # otherwise it may have been cut off
            rule_at(ws, rule).tried = 1
    return best


@jitted
def _try_level(ws: Workspace, best: float, move: int, lost: int, level: int) -> float:
    """One kind of move: each request that is (not) lost to a level, if this round has not tried it."""
    k = snapshot_of(ws)
    while not spent(ws):
        slot = _next(ws, move, lost, level)
        if slot < 0:
            return best
        plan = planned_at(ws, slot_at(k, slot).request)
        before, plan.value = plan.value, level
        value = evaluate(ws, ws.planned_rule, best + ws.margin)
        if value > best + ws.margin:
            best = value
            _note_change(ws)
        else:
            plan.value = before
        if not spent(ws):
            plan.tried |= 1 << move
    return best


@jitted
def _next(ws: Workspace, move: int, lost: int, level: int) -> int:
    """The slot of the request to move next: last goes the one with most work left, first and back that with least."""
    k, chosen, most_s = snapshot_of(ws), -1, 0.0
    for slot in range(k.used_slots):
        plan = planned_at(ws, slot_at(k, slot).request)
        untried = (plan.tried >> move) & 1 == 0
        if not untried or slot_at(k, slot).gone == 1 or plan.lost != lost or plan.value == level:
            continue
        left_s = left_at(ws, slot).known if level == LAST else -left_at(ws, slot).known
        if (chosen < 0 or left_s > most_s) and promises(ws, slot, level):
            chosen, most_s = slot, left_s
    return chosen


@jitted
def _note_change(ws: Workspace) -> None:
    ws.changes += 1
    ws.improved = 1
    note_lost(ws)

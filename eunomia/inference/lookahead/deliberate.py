"""Making a plan: which rule to follow, and which requests to put first or to give up, tried out by rollouts.

A plan is a rule of the portfolio and a level per request (first, normal, last). Deliberation starts from the
first rule without levels, the base, and compares it with the plan in force. Then it tries the other rules,
then moves one request at a time. It keeps each change that promises more, until nothing helps or the budget
is spent. It is anytime: whatever it has by then is the plan.
"""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import slot_at, system_of
from eunomia.inference.lookahead.bound import find_least, measure_left, note_wasted, promises, set_bound
from eunomia.inference.lookahead.futures import draw_futures
from eunomia.inference.lookahead.memory import (
    FIRST,
    LAST,
    NORMAL,
    Workspace,
    level_at,
    planned_at,
    snapshot_of,
)
from eunomia.inference.lookahead.objective import HITS, clear_tally, worth
from eunomia.inference.lookahead.price import set_price
from eunomia.inference.lookahead.rollout import roll_out
from eunomia.inference.lookahead.snapshot import take_snapshot


@jitted
def evaluate(ws: Workspace, rule: int, to_beat: float) -> float:
    """Value of the planned levels under a rule, summed over the sampled futures; -inf = cut off."""
    clear_tally(ws)
    k = snapshot_of(ws)
    for slot in range(k.used_slots):
        planned_at(ws, slot_at(k, slot).request).lost_now = 0
    ws.allowed = np.inf
    if ws.objective == HITS:
        ws.allowed = -to_beat
        if ws.left_loss >= ws.allowed:
            return -np.inf
    ws.rollouts += 1
    for future in range(max(1, ws.futures)):
        if not roll_out(ws, rule, future):
            return -np.inf
    return worth(ws)


@jitted
def spent(ws: Workspace) -> bool:
    """Whether the budget of this deliberation is used up."""
    return ws.limit > 0 and ws.used >= ws.limit  # type: ignore[no-any-return]


@jitted
def prepare(ws: Workspace) -> None:
    """Snapshot, horizon and futures."""
    take_snapshot(ws)
    k = snapshot_of(ws)
    if ws.snapshots == 1 or ws.learning == 1:
        find_least(ws)
    measure_left(ws)
    from_s, last_s = system_of(k).now_s, 0.0
    for slot in range(k.used_slots):
        deadline_s = slot_at(k, slot).deadline_s
        if slot_at(k, slot).gone == 0 and deadline_s < np.inf:
            last_s = max(last_s, deadline_s)
    ws.until_s = from_s + ws.horizon_s
    if last_s > from_s:
        ws.until_s = min(ws.until_s, last_s)
    set_price(ws)
    set_bound(ws)
    if ws.futures > 0:
        draw_futures(ws)


@jitted
def deliberate(ws: Workspace) -> None:
    """Make a new plan: ``planned_rule`` and the planned levels."""
    ws.used, ws.limit = 0, ws.budget
    ws.deliberations += 1
    prepare(ws)
    k = snapshot_of(ws)
    touched = False
    for slot in range(k.used_slots):
        request = slot_at(k, slot).request
        planned_at(ws, request).value = NORMAL
        touched = touched or level_at(ws, request).value != NORMAL
    best_rule, best = 0, evaluate(ws, 0, -np.inf)
    note_lost(ws)
    if ws.misses > 0 or ws.objective != HITS:
        if touched or ws.rule != 0:
            best_rule, best = _try_plan_in_force(ws, best)
        best_rule, best = _try_rules(ws, best_rule, best)
        if ws.singles == 1:
            _try_requests(ws, best_rule, best)
    ws.planned_rule = best_rule
    ws.layer_ends += ws.used
    ws.most = max(ws.most, ws.used)


@jitted
def _try_plan_in_force(ws: Workspace, best: float) -> tuple[int, float]:
    """Keep to the plan in force if it promises more than the base."""
    k = snapshot_of(ws)
    for slot in range(k.used_slots):
        request = slot_at(k, slot).request
        planned_at(ws, request).value = level_at(ws, request).value
    value = evaluate(ws, ws.rule, best + ws.margin)
    if value > best + ws.margin:
        note_lost(ws)
        return ws.rule, value
    for slot in range(k.used_slots):
        planned_at(ws, slot_at(k, slot).request).value = NORMAL
    return 0, best


@jitted
def _try_rules(ws: Workspace, best_rule: int, best: float) -> tuple[int, float]:
    """The other rules, with the planned levels."""
    current = best_rule
    for rule in range(ws.num_rules):
        if rule == current or spent(ws):
            continue
        value = evaluate(ws, rule, best + ws.margin)
        if value > best + ws.margin:
            best_rule, best = rule, value
            ws.changes += 1
            note_lost(ws)
    return best_rule, best


@jitted
def note_lost(ws: Workspace) -> None:
    """Remember which requests the plan that was just rolled out loses."""
    k = snapshot_of(ws)
    for slot in range(k.used_slots):
        level = planned_at(ws, slot_at(k, slot).request)
        level.lost = level.lost_now
    note_wasted(ws)


@jitted
def _try_requests(ws: Workspace, rule: int, best: float) -> float:
    """Move one request at a time, and keep what helps, until a whole round of moves helps nothing.

    Most promising first: give up at once what is lost anyway; save what is lost; give up others.
    """
    improved = True
    while improved and not spent(ws):
        before = best
        best = _try_moves(ws, rule, best, 1, LAST)
        best = _try_moves(ws, rule, best, 1, FIRST)
        best = _try_moves(ws, rule, best, 0, LAST)
        best = _try_moves(ws, rule, best, 0, NORMAL)
        improved = best > before
    return best


@jitted
def _try_moves(ws: Workspace, rule: int, best: float, lost: int, level: int) -> float:
    """Move each request that is (not) lost to one level."""
    k = snapshot_of(ws)
    for slot in range(k.used_slots):
        plan = planned_at(ws, slot_at(k, slot).request)
        before = plan.value
        if slot_at(k, slot).gone == 1 or plan.lost != lost or before == level or spent(ws):
            continue
        if not promises(ws, slot, level):
            continue
        plan.value = level
        value = evaluate(ws, rule, best + ws.margin)
        if value > best + ws.margin:
            best = value
            ws.changes += 1
            note_lost(ws)
        else:
            plan.value = before
    return best

"""The decision itself: follow the plan in force; have it made anew or corrected when something has arrived."""

from __future__ import annotations

from eunomia.contract.rows import Ready, Rows, System
from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.greedy import place_over_view
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import facts_at, lane_at
from eunomia.inference.lookahead.deliberate import deliberate
from eunomia.inference.lookahead.futures import count_arrivals
from eunomia.inference.lookahead.keys import order_key
from eunomia.inference.lookahead.memory import (
    BLOCK,
    NORMAL,
    Workspace,
    level_at,
    live_of,
    planned_at,
    rule_at,
    workspace_of,
)
from eunomia.inference.lookahead.standing import correct_plan, meet_arrivals


@jitted
def refresh_plan(ws: Workspace, system: System) -> None:
    """Put what the planner has finished in force, and give it work if requests have arrived or moves are left."""
    now_s, arrived = system.now_s, system.live + system.finished
    if ws.busy == 1:
        if now_s < ws.effective_s:
            return
        _install(ws)
    if arrived != ws.seen:
        ws.seen = arrived
        count_arrivals(ws)
        meet_arrivals(ws)
    if ws.moves_left == 0:
        return
    if ws.charged == 0:
        deliberate(ws)
        ws.moves_left = 0
        _install(ws)
    else:
        correct_plan(ws)
        ws.busy, ws.effective_s = 1, now_s + ws.snapshot_s + ws.used * ws.unit_s


@jitted
def _install(ws: Workspace) -> None:
    ws.busy, ws.rule = 0, ws.planned_rule
    for request in range(ws.num_requests):
        level_at(ws, request).value = planned_at(ws, request).value


@jitted
def refuses(ws: Workspace, ready: Rows[Ready]) -> bool:
    """Whether hopeless requests are to wait: where they are refused, as long as another can still be on time."""
    if ws.refuse == 0:
        return False
    for i in range(len(ready)):
        if ready[i].late == 0:
            return True
    live = live_of(ws)
    for s in range(live.num_lanes):
        if lane_at(live, s).node >= 0 and not is_late(
            facts_at(live, lane_at(live, s).node), lane_at(live, s).start_s
        ):
            return True
    return False


def choose_by_plan(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """The first sub-job of the plan that is given an idle accelerator; without an engine, the base rule's."""
    if len(ready) == 0:
        return 0
    planned, refused = system.block_bytes[BLOCK] > 0, False  # an engine is behind the View
    order, place = int(system.parameters[0]), int(system.parameters[1])
    feasible, gate = system.parameters[2] == 1.0, system.parameters[3]
    if planned:
        ws = workspace_of(system)
        refresh_plan(ws, system)
        rule = rule_at(ws, ws.rule)
        order, place, feasible, gate = rule.order, rule.place, rule.feasible == 1, rule.gate
        refused = refuses(ws, ready)
    if system.demand_bytes_s > gate * system.bandwidth_bytes_s:
        return 0
    tiered = feasible or system.late_last == 1
    best, best_s, best_late, best_level, best_key = -1, -1, 0, 0, 0.0
    for i in range(len(ready)):
        if refused and ready[i].late == 1:
            continue
        late = ready[i].late if tiered else 0
        level = level_at(workspace_of(system), ready[i].request).value if planned else NORMAL
        key = order_key(order, ready[i], system)
        if best >= 0:
            if late != best_late:
                if late > best_late:
                    continue
            elif level != best_level:
                if level > best_level:
                    continue
            elif key > best_key or (key == best_key and ready[i].sequence > ready[best].sequence):
                continue
        s = place_over_view(i, latency_s, demand, accelerators, system, place)
        if s >= 0:
            best, best_s, best_late, best_level, best_key = i, s, late, level, key
    if best < 0:
        return 0
    answer[0, 0], answer[0, 1] = best, best_s
    return 1

"""Rollouts that follow a learned policy (learning/policy/decide.py), at a few times the cost of a rule's.

At every instant of a rollout the policy's score(j) and start(j, s) are needed for all that waits. They are kept in
three parts, by what they read:

* what stays while a sub-job waits is computed once, as it becomes ready;
* the terms that time moves at the same speed for all (time left, laxity, age, rest) are one number per sub-job, as of
  time 0; only differences matter for the order. Mean isolated time divides them anew at every instant;
* ratios to the time left, and to what lies ahead, are computed for what has just become ready, and after every
  second layer end for one other, in turn.

A sub-job that was held is tried again on its next turn, or once as much demand has gone as its margin was short of.
Accelerators of one type are looked at together, and busy ones where none of their type is idle. Indicators of promises stay as they are in the snapshot.

Does badly with dozens of waiting sub-jobs: most ratios are then some layer ends old. Networks and trees are not
followed at all.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layers import start_layer
from eunomia.inference.kernel.layout import WAITING
from eunomia.inference.kernel.memory import (
    Kernel,
    cost_at,
    facts_at,
    fresh_at,
    lane_at,
    model_at,
    node_at,
    queue_at,
    slot_at,
    system_of,
    type_at,
    waiting_at,
)
from eunomia.inference.kernel.placement import refresh_types
from eunomia.inference.lookahead.agenda import goes_before, move
from eunomia.inference.lookahead.memory import (
    Workspace,
    ahead_at,
    asked_at,
    entry_at,
    fixed_at,
    lane_demand_of,
    planned_at,
    rates_of,
    standing_at,
    weight_at,
)
from eunomia.inference.lookahead.rollout import share_s
from eunomia.learning.observation import table as f
from eunomia.learning.observation.compiled import TINY_S, clip, promise
from eunomia.learning.observation.sharing import CUT, EVEN, OTHERS_LOSS, OWN_LOSS, PROPORTIONAL, STANDING_LOSS
from eunomia.learning.observation.sharing import describe_share, lost_work
from eunomia.learning.policy.decide import ANY_IDLE, EFT_CA, TRIED

RELIEF = 1.3  # of the start margin, per share of B that is free again

# Places in the weights that rollouts read.
N_JOB, N_PAIR, N_GLOBAL, N_SHARE = len(f.JOB), len(f.PAIR), len(f.GLOBAL), len(f.SHARE)
SCORE_AT, MARGIN_AT = 0, N_JOB  # of job features, in the score and in the start margin
GLOBAL_AT = MARGIN_AT + N_JOB
PLACE_AT = GLOBAL_AT + N_GLOBAL  # of pair features, in the placement and in the start margin
START_AT = PLACE_AT + N_PAIR
SHARE_AT = START_AT + N_PAIR
GATE = SHARE_AT + N_SHARE
PLACE, WAY, PROMISES, BANDWIDTH = GATE + 1, GATE + 2, GATE + 3, GATE + 4
SIZE = BANDWIDTH + 1


@jitted
def _score(ws: Workspace, feature: int) -> float:
    return weight_at(ws, SCORE_AT + feature).value  # type: ignore[no-any-return]


@jitted
def _margin(ws: Workspace, feature: int) -> float:
    return weight_at(ws, MARGIN_AT + feature).value  # type: ignore[no-any-return]


@jitted
def _ask(ws: Workspace, k: Kernel, node: int, slot: int) -> None:
    """Terms of a request that no rollout from this snapshot changes."""
    asked, facts = asked_at(ws, slot), facts_at(k, node)
    asked.request, asked.snapshot = facts.request, ws.snapshots
    iso_s = max(facts.iso_best_s, TINY_S)
    tightness = clip(math.log(max(facts.deadline_s - facts.arrival_s, TINY_S) / iso_s), -2.0, 4.0)
    asked.score, asked.margin = _score(ws, f.TIGHTNESS) * tightness, 0.0
    if weight_at(ws, PROMISES).value == 0.0:
        return
    x = np.empty(N_JOB)
    x[f.WHOLE] = clip(math.log(iso_s / ws.scale_s), -4.0, 4.0)
    x[f.SIZE] = clip(math.log(max(facts.work_best_s, TINY_S) / ws.scale_s), -4.0, 4.0)
    promise(facts, x, ws.scale_s)
    for feature in range(f.GAP, N_JOB):
        asked.score += _score(ws, feature) * x[feature]
        asked.margin += _margin(ws, feature) * x[feature]


@jitted
def _enter(ws: Workspace, k: Kernel, node: int) -> None:
    """A sub-job waits from now on: terms that stay while it does."""
    facts, mine, slot, now_s = facts_at(k, node), standing_at(ws, node), node_at(k, node).slot, system_of(k).now_s
    asked = asked_at(ws, slot)
    if asked.request != facts.request or asked.snapshot != ws.snapshots:
        _ask(ws, k, node, slot)
    bandwidth, iso_s = weight_at(ws, BANDWIDTH).value, max(facts.iso_best_s, TINY_S)
    due_s, work_s = min(facts.deadline_s, now_s + f.FAR * iso_s), max(facts.work_best_s, TINY_S)
    bytes_s, ahead = facts.bytes_left / bandwidth, ahead_at(ws, facts.row)
    mine.due_s, mine.path_s, mine.work_s, mine.bytes_s = due_s, facts.path_best_s, work_s, bytes_s
    mine.iso_s, mine.layer_s, mine.last_s = iso_s, iso_s / facts.layers_total, facts.last_run_s
    mine.log_work, mine.log_cost = ahead.log_work, ahead.log_cost
    mine.linear_s = (
        _score(ws, f.TIME_LEFT) * due_s + _score(ws, f.LAXITY) * (due_s - facts.path_best_s)
        + _score(ws, f.WORK) * work_s + _score(ws, f.BYTES) * bytes_s
        - _score(ws, f.AGE) * facts.arrival_s - _score(ws, f.RESTED) * facts.last_run_s
    )  # fmt: skip
    started = 1.0 if facts.attained_s > 0.0 else 0.0
    mine.fixed = asked.score + ahead.score + _score(ws, f.STARTED) * started
    mine.fixed_margin = asked.margin + ahead.margin
    mine.level, mine.held, mine.crowded = planned_at(ws, facts.request).value, 0, 0
    mine.counts = 1 if slot_at(k, slot).first_waiting == node else 0  # the latest sub-job stands for the request
    if node_at(k, node).next >= 0:
        standing_at(ws, node_at(k, node).next).counts = 0


@jitted
def _survey(ws: Workspace, k: Kernel, idle: int, share: float) -> None:
    """Means over what waits, and the terms of the start margin that depend on them alone."""
    iso_s, layer_s, work_s, bytes_s, slack_s, crowded, count = 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0
    for i in range(k.num_waiting):
        mine = standing_at(ws, waiting_at(k, i).value)
        if mine.counts == 1:
            count += 1
            iso_s, layer_s = iso_s + mine.iso_s, layer_s + mine.layer_s
            work_s, bytes_s = work_s + mine.work_s, bytes_s + mine.bytes_s
            slack_s += mine.due_s - mine.path_s
            crowded += mine.crowded
    part, lanes, now_s = 1.0 / max(1, count), float(k.num_lanes), system_of(k).now_s
    all_waiting = count + ws.hopeless
    mean = 1.0 / max(1, all_waiting)
    ws.scale_s = max((iso_s + ws.hopeless_iso_s) * mean, TINY_S)
    ws.layer_s = max((layer_s + ws.hopeless_layer_s) * mean, TINY_S)
    ws.log_scale = math.log(ws.scale_s)
    inverse = 1.0 / ws.scale_s
    ws.overall = (
        weight_at(ws, GATE).value
        + weight_at(ws, GLOBAL_AT + f.DEMAND_SHARE).value * min(4.0, share)
        + weight_at(ws, GLOBAL_AT + f.IDLE).value * (idle / lanes)
        + weight_at(ws, GLOBAL_AT + f.WAITING).value * min(8.0, all_waiting / lanes)
        + weight_at(ws, GLOBAL_AT + f.BACKLOG).value * min(16.0, work_s / lanes * inverse)
        + weight_at(ws, GLOBAL_AT + f.BYTES_BACKLOG).value * min(16.0, bytes_s * inverse)
        + weight_at(ws, GLOBAL_AT + f.HOPELESS_SHARE).value * (ws.hopeless * mean)
        + weight_at(ws, GLOBAL_AT + f.MEAN_LAXITY).value * clip((slack_s * part - now_s) * inverse, 0.0, 8.0)
        + weight_at(ws, GLOBAL_AT + f.CROWDED).value * (crowded * part)
    )  # fmt: skip


@jitted
def _renew(ws: Workspace, k: Kernel, node: int) -> None:
    """Ratios to the time left, and to what lies ahead: the terms of one sub-job that time changes."""
    mine, now_s, layer_s = standing_at(ws, node), system_of(k).now_s, ws.layer_s
    due_s, own_s = mine.due_s, mine.work_s
    edf_s, edf_bytes_s, sjf_s, sjf_bytes_s = 0.0, 0.0, 0.0, 0.0
    for i in range(k.num_waiting):
        other = standing_at(ws, waiting_at(k, i).value)
        if other.counts == 1:
            work_s, bytes_s = other.work_s, other.bytes_s
            edf_s += work_s if other.due_s < due_s else 0.0
            edf_bytes_s += bytes_s if other.due_s < due_s else 0.0
            sjf_s += work_s if work_s < own_s else 0.0
            sjf_bytes_s += bytes_s if work_s < own_s else 0.0
    left_s = due_s - now_s
    laxity_s = left_s - mine.path_s
    inverse_s, urgent = 1.0 / (own_s + layer_s), 1.0 / max(laxity_s, 0.5 * layer_s)
    part = urgent / k.num_lanes
    edf, sjf = min(3.0, edf_s * part), min(3.0, sjf_s * part)
    edf_bytes, sjf_bytes = min(3.0, edf_bytes_s * urgent), min(3.0, sjf_bytes_s * urgent)
    laxity = 0.5 * clip(laxity_s * inverse_s, -2.0, 3.0)
    time = 0.25 * clip(left_s / (mine.path_s + layer_s), 0.0, 8.0)
    size = clip(mine.log_work - ws.log_scale, -4.0, 4.0)
    rested = (now_s - mine.last_s) / ws.scale_s
    mine.score = (
        mine.fixed + _score(ws, f.LAXITY_RATIO) * laxity + _score(ws, f.TIME_RATIO) * time
        + _score(ws, f.NEAR) * clip(left_s / (120.0 * layer_s), -2.0, 4.0)
        + _score(ws, f.SJF_PRESSURE) * sjf + _score(ws, f.EDF_PRESSURE) * edf
        + _score(ws, f.SJF_BYTES_PRESSURE) * sjf_bytes + _score(ws, f.EDF_BYTES_PRESSURE) * edf_bytes
        + _score(ws, f.SIZE) * size + _score(ws, f.COST) * clip(mine.log_cost - ws.log_scale, -4.0, 4.0)
        + _score(ws, f.RESTED) * (min(4.0, rested) - rested)
    )  # fmt: skip
    mine.margin = (
        mine.fixed_margin + _margin(ws, f.LAXITY_RATIO) * laxity + _margin(ws, f.TIME_RATIO) * time
        + _margin(ws, f.EDF_PRESSURE) * edf + _margin(ws, f.SJF_PRESSURE) * sjf
        + _margin(ws, f.EDF_BYTES_PRESSURE) * edf_bytes + _margin(ws, f.SIZE) * size
    )  # fmt: skip
    mine.inverse_s, mine.held = inverse_s, 0
    mine.crowded = 1 if max(edf, edf_bytes) > 1.0 else 0


@jitted
def _candidates(ws: Workspace, k: Kernel, share: float) -> int:
    """Enter into the agenda what may start now; returns how many are certain to be held again."""
    ws.entries, held, inverse = 0, 0, 1.0 / ws.scale_s
    for i in range(k.num_waiting):
        node = waiting_at(k, i).value
        mine = standing_at(ws, node)
        if mine.held == 1 and k.num_running > 0:
            if mine.held_margin + RELIEF * max(0.0, mine.held_share - share) < 0.0:
                held += 1
                continue
        entry = entry_at(ws, ws.entries)
        entry.level, entry.key, entry.node = mine.level, -(mine.linear_s * inverse + mine.score), node
        entry.sequence = node_at(k, node).sequence
        ws.entries += 1
    return held


@jitted
def _first(ws: Workspace) -> int:
    """Take the first sub-job out of the agenda; -1 = none is left."""
    if ws.entries == 0:
        return -1
    first = 0
    for i in range(1, ws.entries):
        entry = entry_at(ws, i)
        if goes_before(entry.level, entry.key, entry.sequence, entry_at(ws, first)):
            first = i
    node = entry_at(ws, first).node
    ws.entries -= 1
    move(ws, ws.entries, first)
    return node  # type: ignore[no-any-return]


@jitted
def _of_type(k: Kernel, kind: int, node: int) -> int:
    """The idle accelerator of a type for a sub-job: where its request ran last, or that of least index."""
    s = facts_at(k, node).accelerator
    if s >= 0 and lane_at(k, s).node < 0 and lane_at(k, s).type == kind:
        if queue_at(k, s).last_request == facts_at(k, node).request:
            return s  # type: ignore[no-any-return]
    return type_at(k, kind).idle  # type: ignore[no-any-return]


@jitted
def _place(ws: Workspace, k: Kernel, node: int, demand: float) -> tuple[int, float]:
    """The accelerator of a sub-job, -1 = none or a busy one; and the pair's terms of the start margin."""
    mine, facts, types, bandwidth = standing_at(ws, node), facts_at(k, node), k.num_types, weight_at(ws, BANDWIDTH).value
    first, place, inverse_b = facts.row * types, weight_at(ws, PLACE).value, 1.0 / bandwidth
    slow, least_s, soonest_s = max(1.0, demand * inverse_b), np.inf, np.inf
    for kind in range(types):
        c_s, record = cost_at(k, first + kind).estimate_s, type_at(k, kind)
        least_s = min(least_s, c_s)
        if record.idle >= 0 or record.busy >= 0:
            free_s = 0.0 if record.idle >= 0 else record.free_s
            soonest_s = min(soonest_s, (free_s + c_s) * slow)
    laxity_s, soon = mine.due_s - system_of(k).now_s - mine.path_s, 1.0 / soonest_s
    chosen, best, best_idle, margin = -1, np.inf, False, 0.0
    for kind in range(types):
        record, cost, fixed = type_at(k, kind), cost_at(k, first + kind), fixed_at(ws, first + kind)
        idle = record.idle >= 0
        s = _of_type(k, kind, node) if idle else record.busy
        if s < 0 or cost.estimate_s == np.inf or (place == ANY_IDLE and not idle):
            continue
        free_s, c_s, switch = 0.0 if idle else record.free_s, cost.estimate_s, 0.0
        if queue_at(k, s).last_request >= 0 and queue_at(k, s).last_request != facts.request:
            switch = 1.0
        finish_s, over = (free_s + c_s) * slow, (demand + cost.estimate_demand) * inverse_b
        value = finish_s
        if place == ANY_IDLE:
            value = c_s
        elif place == EFT_CA:
            value = free_s * slow + c_s * max(1.0, over)
        extra_s = finish_s - least_s
        later, over = min(4.0, finish_s * soon - 1.0), min(4.0, max(0.0, over - 1.0))
        after = 0.5 * clip((laxity_s - extra_s) * mine.inverse_s, -2.0, 3.0)
        miss = 1.0 if laxity_s < extra_s else 0.0
        value = value * soon - (
            fixed.place + weight_at(ws, PLACE_AT + f.LATER).value * later
            + weight_at(ws, PLACE_AT + f.OVERFLOW).value * over
            + weight_at(ws, PLACE_AT + f.LAXITY_AFTER).value * after
            + weight_at(ws, PLACE_AT + f.WOULD_MISS).value * miss
            + weight_at(ws, PLACE_AT + f.SWITCH).value * switch
        )  # fmt: skip
        if chosen >= 0 and (value > best or (value == best and (best_idle or not idle))):
            continue
        chosen, best, best_idle = s, value, idle
        margin = (
            fixed.start + weight_at(ws, START_AT + f.LATER).value * later
            + weight_at(ws, START_AT + f.OVERFLOW).value * over
            + weight_at(ws, START_AT + f.LAXITY_AFTER).value * after
            + weight_at(ws, START_AT + f.WOULD_MISS).value * miss
            + weight_at(ws, START_AT + f.SWITCH).value * switch
        )  # fmt: skip
    return chosen if best_idle else -1, margin


@jitted
def _price(ws: Workspace, k: Kernel, demand: float, extra: float) -> float:
    """Share terms of the start margin: what the start takes from the speed of what runs."""
    bandwidth, way = weight_at(ws, BANDWIDTH).value, int(weight_at(ws, WAY).value)
    if way == PROPORTIONAL:
        now, then = min(1.0, bandwidth / demand) if demand > 0.0 else 1.0, demand + extra
        then = min(1.0, bandwidth / then) if then > 0.0 else 1.0
        standing = k.num_running * (1.0 - now)
        others = min(4.0, max(-4.0, k.num_running * (1.0 - then) - standing))
        return (  # type: ignore[no-any-return]
            weight_at(ws, SHARE_AT + OWN_LOSS).value * (1.0 - then)
            + weight_at(ws, SHARE_AT + OTHERS_LOSS).value * others
            + weight_at(ws, SHARE_AT + STANDING_LOSS).value * min(4.0, standing)
        )
    lanes, rates, v = lane_demand_of(ws, k.num_lanes), rates_of(ws, k.num_lanes + 1), np.empty(N_SHARE)
    for s in range(k.num_lanes):
        lanes[s] = queue_at(k, s).demand_bytes_s
    describe_share(way, lanes, lost_work(way, lanes, bandwidth, rates), extra, bandwidth, rates, v)
    total = 0.0
    for i in range(N_SHARE):
        total += weight_at(ws, SHARE_AT + i).value * v[i]
    return total


@jitted
def _demand(k: Kernel) -> float:
    """D of what is believed to run."""
    total = 0.0
    for s in range(k.num_lanes):
        total += queue_at(k, s).demand_bytes_s  # 0 of idle ones
    return total


@jitted
def _look(ws: Workspace, k: Kernel) -> None:
    """Enter what has just become ready, and bring up to date what is due."""
    if ws.opened == 0:
        ws.opened, ws.turn = 1, 0
        ws.scale_s = model_at(k, slot_at(k, node_at(k, waiting_at(k, 0).value).slot).model).iso_best_s
        for i in range(k.num_waiting):
            _enter(ws, k, waiting_at(k, i).value)
        _survey(ws, k, 0, 0.0)
        for i in range(k.num_waiting):
            _renew(ws, k, waiting_at(k, i).value)
    for i in range(k.num_fresh):
        if node_at(k, fresh_at(k, i).value).state == WAITING:  # not given up at once
            _enter(ws, k, fresh_at(k, i).value)


def follow_learned(ws, k):  # type: ignore[no-untyped-def]
    """Decisions of one instant of a rollout, after hopeless requests were given up; returns the number of starts."""
    if k.num_waiting == 0:
        k.num_fresh = 0  # given up at once
        return 0
    _look(ws, k)
    idle, now_s, bandwidth = k.num_lanes - k.num_running, system_of(k).now_s, weight_at(ws, BANDWIDTH).value
    demand, starts = _demand(k), 0
    _survey(ws, k, idle, demand / bandwidth)
    for i in range(k.num_fresh):
        if node_at(k, fresh_at(k, i).value).state == WAITING:
            _renew(ws, k, fresh_at(k, i).value)
    k.num_fresh = 0
    if k.events & 1 == 0:
        ws.turn = ws.turn + 1 if ws.turn + 1 < k.num_waiting else 0
        _renew(ws, k, waiting_at(k, ws.turn).value)
    held, stale = _candidates(ws, k, demand / bandwidth), True
    while idle > 0 and held < TRIED:
        node = _first(ws)
        if node < 0:
            break
        if stale:
            refresh_types(k)
            stale = False
        s, margin = _place(ws, k, node, demand)
        if s < 0:
            continue
        mine, share = standing_at(ws, node), demand / bandwidth
        extra = cost_at(k, facts_at(k, node).row * k.num_types + lane_at(k, s).type).estimate_demand
        margin += ws.overall - share + mine.margin + _price(ws, k, demand, extra)
        if not margin >= 0.0 and k.num_running > 0:
            mine.held, mine.held_margin, mine.held_share = 1, margin, share
            held += 1
            continue
        start_layer(k, node, s, now_s, 0)
        following = slot_at(k, node_at(k, node).slot).first_waiting
        if following >= 0:
            standing_at(ws, following).counts = 1
        if ws.price_per_s > 0.0:
            ws.loss += ws.price_per_s * share_s(k, s)
        starts += 1
        idle -= 1
        demand += extra
        stale = True
    ws.entries = 0
    return starts

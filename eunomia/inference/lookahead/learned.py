"""Rollouts that follow a learned policy (learning/policy/decide.py), at a few times the cost of a rule's.

At every instant of a rollout the policy's score(j) and start(j, s) are needed for all that waits. They are kept in
three parts, by what they read:

* what stays while a sub-job waits is computed once, as it becomes ready;
* the terms that time moves at the same speed for all (time left, laxity, age, rest) are one number per sub-job, as of
  time 0; only differences matter for the order. Mean isolated time divides them anew at every instant;
* ratios to the time left, and to what lies ahead, are computed for what has just become ready. After every second
  layer end one other sub-job has its turn.

A sub-job that was held is tried again on its next turn, or once as much demand has gone as its margin was short of.
Accelerators of one type are looked at together, and busy ones where none of their type is idle. Indicators of
promises stay as they are in the snapshot.

Does badly with dozens of waiting sub-jobs: most ratios are then some layer ends old. Networks and trees are not
followed at all.
"""

from __future__ import annotations

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
    waiting_at,
)
from eunomia.inference.lookahead.agenda import move
from eunomia.inference.lookahead.bound import pay
from eunomia.inference.lookahead.learned_place import look, place, price
from eunomia.inference.lookahead.learned_terms import BANDWIDTH, enter, renew, survey
from eunomia.inference.lookahead.memory import Workspace, entry_at, standing_at, weight_at
from eunomia.learning.policy.decide import TRIED

RELIEF = 1.3  # of the start margin, per share of B that is free again


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
        entry.sequence = mine.sequence
        ws.entries += 1
    return held


@jitted
def _first(ws: Workspace) -> int:
    """Take the first sub-job out of the agenda; -1 = none is left. Without branches: nobody can foresee the order."""
    if ws.entries == 0:
        return -1
    best, first = entry_at(ws, 0), 0
    level, key, sequence = best.level, best.key, best.sequence
    for i in range(1, ws.entries):
        entry = entry_at(ws, i)
        before = (entry.key < key) | ((entry.key == key) & (entry.sequence < sequence))
        before = (entry.level < level) | ((entry.level == level) & before)
        first, level = i if before else first, entry.level if before else level
        key, sequence = entry.key if before else key, entry.sequence if before else sequence
    node = entry_at(ws, first).node
    ws.entries -= 1
    move(ws, ws.entries, first)
    return node  # type: ignore[no-any-return]


@jitted
def running_demand(k: Kernel) -> float:
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
            enter(ws, k, waiting_at(k, i).value)
        survey(ws, k, 0, 0.0)
        for i in range(k.num_waiting):
            renew(ws, k, waiting_at(k, i).value)
    for i in range(k.num_fresh):
        if node_at(k, fresh_at(k, i).value).state == WAITING:  # not given up at once
            enter(ws, k, fresh_at(k, i).value)


def follow_learned(ws, k):  # type: ignore[no-untyped-def]
    """Decisions of one instant of a rollout, after hopeless requests were given up; returns the number of starts."""
    if k.num_waiting == 0:
        k.num_fresh = 0  # given up at once
        return 0
    _look(ws, k)
    idle, now_s, bandwidth = k.num_lanes - k.num_running, system_of(k).now_s, weight_at(ws, BANDWIDTH).value
    demand, starts, started = running_demand(k), 0, -1
    survey(ws, k, idle, demand / bandwidth)
    for i in range(k.num_fresh):
        if node_at(k, fresh_at(k, i).value).state == WAITING:
            renew(ws, k, fresh_at(k, i).value)
    k.num_fresh = 0
    if k.events & 1 == 0:
        ws.turn = ws.turn + 1 if ws.turn + 1 < k.num_waiting else 0
        renew(ws, k, waiting_at(k, ws.turn).value)
    held, stale = _candidates(ws, k, demand / bandwidth), True
    while idle > 0 and held < TRIED:
        node = _first(ws)
        if node < 0:
            break
        if stale:
            look(ws, k, demand, started)
            stale = False
        s, margin = place(ws, k, node, demand)
        if s < 0:
            continue
        mine, share = standing_at(ws, node), demand / bandwidth
        extra = cost_at(k, facts_at(k, node).row * k.num_types + lane_at(k, s).type).estimate_demand
        margin += ws.overall - share + mine.margin + price(ws, k, demand, extra)
        if not margin >= 0.0 and k.num_running > 0:
            mine.held, mine.held_margin, mine.held_share = 1, margin, share
            held += 1
            continue
        start_layer(k, node, s, now_s, 0)
        following = slot_at(k, node_at(k, node).slot).first_waiting
        if following >= 0:
            standing_at(ws, following).counts = 1
        pay(ws, k, s)
        starts += 1
        idle -= 1
        demand += extra
        started, stale = s, True
    ws.entries = 0
    return starts

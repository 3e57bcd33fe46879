"""What a learned policy thinks of waiting sub-jobs in a rollout, in parts by what they read (learned.py)."""

from __future__ import annotations

import math

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, facts_at, node_at, slot_at, system_of, waiting_at
from eunomia.inference.lookahead.memory import (
    Workspace,
    ahead_at,
    asked_at,
    planned_at,
    standing_at,
    weight_at,
)
from eunomia.learning.observation import table as f
from eunomia.learning.observation.compiled import TINY_S, clip, promise

# Places in the weights that rollouts read.
N_JOB, N_PAIR, N_GLOBAL, N_SHARE = len(f.JOB), len(f.PAIR), len(f.GLOBAL), len(f.SHARE)
SCORE_AT, MARGIN_AT = 0, N_JOB  # of job features, in the score and in the start margin
GLOBAL_AT = MARGIN_AT + N_JOB
PLACE_AT = GLOBAL_AT + N_GLOBAL  # of pair features, in the placement and in the start margin
START_AT = PLACE_AT + N_PAIR
SHARE_AT = START_AT + N_PAIR
GATE = SHARE_AT + N_SHARE
PLACE, WAY, PROMISES, BANDWIDTH, INVERSE_B = GATE + 1, GATE + 2, GATE + 3, GATE + 4, GATE + 5
SIZE = INVERSE_B + 1


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
def enter(ws: Workspace, k: Kernel, node: int) -> None:
    """A sub-job waits from now on: terms that stay while it does."""
    facts, mine, slot = facts_at(k, node), standing_at(ws, node), node_at(k, node).slot
    now_s = system_of(k).now_s
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
        _score(ws, f.TIME_LEFT) * due_s
        + _score(ws, f.LAXITY) * (due_s - facts.path_best_s)
        + _score(ws, f.WORK) * work_s
        + _score(ws, f.BYTES) * bytes_s
        - _score(ws, f.AGE) * facts.arrival_s
        - _score(ws, f.RESTED) * facts.last_run_s
    )
    started = 1.0 if facts.attained_s > 0.0 else 0.0
    mine.fixed = asked.score + ahead.score + _score(ws, f.STARTED) * started
    mine.fixed_margin = asked.margin + ahead.margin
    mine.level, mine.held, mine.crowded = planned_at(ws, facts.request).value, 0, 0
    mine.sequence = node_at(k, node).sequence
    mine.counts = (
        1 if slot_at(k, slot).first_waiting == node else 0
    )  # the latest sub-job stands for the request
    if node_at(k, node).next >= 0:
        standing_at(ws, node_at(k, node).next).counts = 0


@jitted
def survey(ws: Workspace, k: Kernel, idle: int, share: float) -> None:
    """Means over what waits, and the terms of the start margin that depend on them alone."""
    iso_s, layer_s, work_s, bytes_s, slack_s, crowded, count = 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0
    for i in range(k.num_waiting):
        mine = standing_at(ws, waiting_at(k, i).value)
        counts = mine.counts == 1  # sums without branches: nobody can foresee it
        count += 1 if counts else 0
        iso_s += mine.iso_s if counts else 0.0
        layer_s += mine.layer_s if counts else 0.0
        work_s += mine.work_s if counts else 0.0
        bytes_s += mine.bytes_s if counts else 0.0
        slack_s += mine.due_s - mine.path_s if counts else 0.0
        crowded += mine.crowded if counts else 0
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
    )


@jitted
def renew(ws: Workspace, k: Kernel, node: int) -> None:
    """Ratios to the time left, and to what lies ahead: the terms of one sub-job that time changes."""
    mine, now_s, layer_s = standing_at(ws, node), system_of(k).now_s, ws.layer_s
    due_s, own_s = mine.due_s, mine.work_s
    edf_s, edf_bytes_s, sjf_s, sjf_bytes_s = 0.0, 0.0, 0.0, 0.0
    for i in range(k.num_waiting):
        other = standing_at(ws, waiting_at(k, i).value)
        work_s, bytes_s, counts = other.work_s, other.bytes_s, other.counts == 1
        sooner, shorter = counts & (other.due_s < due_s), counts & (work_s < own_s)
        edf_s += work_s if sooner else 0.0
        edf_bytes_s += bytes_s if sooner else 0.0
        sjf_s += work_s if shorter else 0.0
        sjf_bytes_s += bytes_s if shorter else 0.0
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
        mine.fixed
        + _score(ws, f.LAXITY_RATIO) * laxity
        + _score(ws, f.TIME_RATIO) * time
        + _score(ws, f.NEAR) * clip(left_s / (120.0 * layer_s), -2.0, 4.0)
        + _score(ws, f.SJF_PRESSURE) * sjf
        + _score(ws, f.EDF_PRESSURE) * edf
        + _score(ws, f.SJF_BYTES_PRESSURE) * sjf_bytes
        + _score(ws, f.EDF_BYTES_PRESSURE) * edf_bytes
        + _score(ws, f.SIZE) * size
        + _score(ws, f.COST) * clip(mine.log_cost - ws.log_scale, -4.0, 4.0)
        + _score(ws, f.RESTED) * (min(4.0, rested) - rested)
    )
    mine.margin = (
        mine.fixed_margin
        + _margin(ws, f.LAXITY_RATIO) * laxity
        + _margin(ws, f.TIME_RATIO) * time
        + _margin(ws, f.EDF_PRESSURE) * edf
        + _margin(ws, f.SJF_PRESSURE) * sjf
        + _margin(ws, f.EDF_BYTES_PRESSURE) * edf_bytes
        + _margin(ws, f.SIZE) * size
    )
    mine.inverse_s, mine.held = inverse_s, 0
    mine.crowded = 1 if max(edf, edf_bytes) > 1.0 else 0

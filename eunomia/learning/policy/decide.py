"""The compiled decision of learned policies and of rules: score all, then place and start in turn, or hold.

One pass per instant. Sub-jobs are taken in order of (promoted, hopeless, score, sequence). Each is given the
accelerator of its highest ``place``; if that one is busy, the sub-job waits for it; if its start margin is negative,
it is held. At most TRIED sub-jobs are held in one pass, which bounds the time of a decision. When nothing runs,
the first sub-job starts whatever the margin: a platform never stands still while work waits.

Guards, counted in the block: scores that are not numbers, and states unlike those of training for long
(policy/guards.py), are answered by the heuristic that the policy began with; requests older than the starvation
bound go first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eunomia.contract.view import SYSTEM
from eunomia.core.addresses import block_of, in_use, lent
from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.inference.policies.reasons import KEPT, in_a_row, is_noting, note_hold, note_start, who_waits
from eunomia.inference.policies.sharing import describe_share, lost_work
from eunomia.learning.observation.compiled import observe
from eunomia.learning.observation.pairs import Offer, describe_pair, finish_times, switches
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, SHARE, START_JOB, SWITCH
from eunomia.learning.policy import weights as at
from eunomia.learning.policy.guards import ALARMED, is_strange, note_ranges, outside
from eunomia.learning.policy.network import evaluate
from eunomia.learning.policy.trees import ORDER_TREE, PLACE_TREE, START_TREE, ask_tree

TRIED = 16
N_JOB, N_PAIR, N_GLOBAL, N_SHARE = len(JOB), len(PAIR), len(GLOBAL), len(SHARE)
ANY_IDLE, EFT, EFT_CA = range(len(at.PLACES))
weights_of = block_of(SYSTEM, 0, np.float64)  # the policy's numbers, as weights.py lays them out
NOW, STARTED, LEFT, FINISHED = range(4)  # places in system.memory: the last instant that was decided
FIRST, USUAL, LAST = -1, 0, 1  # tiers
CLOSED = 1 << 30  # what stands in this tier does not start


class Scene(NamedTuple):
    """What one decision is about: the View's arrays, the features of all that waits, and the policy's block.

    Taking an array out of it counts a reference, so that what runs once per sub-job takes arrays instead.
    """

    ready: Record
    latency_s: Floats
    demand: Floats
    accelerators: Record
    system: Record
    block: Floats
    jobs: Floats  # (n, JOB)
    overall: Floats  # (GLOBAL,)
    layer_s: float


@jitted
def already_decided(waiting: int, system: Record) -> bool:
    """Whether the engine calls again at an instant to which the answer was complete."""
    memory = system.memory
    return (  # type: ignore[no-any-return]
        memory[NOW] == system.now_s
        and memory[STARTED] == system.starts
        and memory[LEFT] == waiting
        and memory[FINISHED] == system.finished
    )


@jitted
def remember(waiting: int, system: Record, count: int) -> None:
    """Note the state in which this answer leaves the platform, for ``already_decided``."""
    memory = system.memory
    memory[NOW], memory[STARTED] = system.now_s, system.starts + count
    memory[LEFT], memory[FINISHED] = waiting - count, system.finished


@jitted
def survey_lanes(accelerators: Record, free_s: Floats, demand: Floats) -> int:
    """Fill time left (0 = idle) and demand of all accelerators; returns how many are idle."""
    idle = 0
    for s in range(len(accelerators)):
        free_s[s], demand[s], busy = 0.0, 0.0, accelerators[s].request >= 0
        if busy:
            free_s[s], demand[s] = max(accelerators[s].free_in_s, 1e-300), accelerators[s].demand_bytes_s
        idle += 0 if busy else 1
    return idle


@jitted
def score_all(
    jobs: Floats, overall: Floats, block: Floats, learned: bool, score: Floats, margin: Floats
) -> bool:
    """Scores and the network's share of start margins; False if some score is not a number."""
    kind = int(block[at.KIND])
    score[:], margin[:] = 0.0, 0.0
    for f in range(N_JOB):
        weight = block[at.BASE + f] + block[at.JOB_AT + f] if learned else block[at.BASE + f]
        if weight != 0.0:
            for i in range(len(jobs)):
                score[i] += weight * jobs[i, f]
    if learned and kind == at.TREES:
        for i in range(len(jobs)):
            score[i] += ask_tree(block, ORDER_TREE, jobs[i], jobs[i], overall, jobs[i])
    elif learned and kind > 0:
        evaluate(jobs, overall, block, kind, int(block[at.UNITS]), score, margin)
    total = 0.0
    for i in range(len(jobs)):
        total += score[i] + margin[i]
    return np.isfinite(total)  # type: ignore[no-any-return]


@jitted
def set_tiers(ready: Record, block: Floats, system: Record, tier: Ints) -> None:
    """Starving requests first, hopeless ones last."""
    for i in range(len(ready)):
        tier[i] = LAST if ready[i].late == 1 else USUAL
        if system.now_s - ready[i].arrival_s > block[at.STARVE] * ready[i].iso_best_s:
            tier[i] = FIRST
            block[at.COUNTERS + at.PROMOTED] += 1.0


@jitted
def next_job(ready: Record, tier: Ints, score: Floats, open_: Flags) -> int:
    """The sub-job to try next, which is open no longer; -1 = none is left."""
    best = -1
    for i in range(len(ready)):
        if not open_[i]:
            continue
        if best >= 0:
            if tier[i] != tier[best]:
                if tier[i] > tier[best]:
                    continue
            elif score[i] < score[best] or (
                score[i] == score[best] and ready[i].sequence > ready[best].sequence
            ):
                continue
        best = i
    return best


@jitted
def place_job(
    job: Record, latency_s: Floats, demand: Floats, x: Floats, overall: Floats, free_s: Floats, running: float,
    layer_s: float, accelerators: Record, system: Record, block: Floats, learned: bool, finish_s: Floats,
    seen: Floats, y: Floats,
) -> int:  # fmt: skip
    """The accelerator for one sub-job, busy or not; -1 = none. Leaves pair features in ``y``, costs in ``finish_s``."""
    bandwidth = system.bandwidth_bytes_s
    slow = max(1.0, running / bandwidth)
    least_s, soonest_s = finish_times(latency_s, free_s, slow, finish_s)
    chosen, best, best_idle, c_s, free, wanted, shared = -1, 0.0, False, -1.0, 0.0, 0.0, 0.0
    for s in range(len(free_s)):
        idle = free_s[s] == 0.0
        if latency_s[s] == np.inf or (block[at.PLACE] == ANY_IDLE and not idle):
            finish_s[s] = np.inf
            continue
        if latency_s[s] != c_s or free_s[s] != free or demand[s] != wanted:  # unlike the one before
            c_s, free, wanted, shared = latency_s[s], free_s[s], demand[s], finish_s[s]
            if block[at.PLACE] == ANY_IDLE:
                shared = c_s
            elif block[at.PLACE] == EFT_CA:
                shared = free * slow + c_s * max(1.0, (running + wanted) / bandwidth)
            if learned:
                offer = Offer(c_s, finish_s[s], least_s, soonest_s, wanted, running, layer_s)
                describe_pair(job, offer, -1, system, seen)
                shared = shared / soonest_s
                for f in range(SWITCH):
                    shared -= block[at.PAIR_AT + f] * seen[f]
        value = shared
        if learned:
            seen[SWITCH] = switches(job, accelerators[s].last_request)
            value -= block[at.PAIR_AT + SWITCH] * seen[SWITCH]
            if block[at.KIND] == at.TREES:
                value -= ask_tree(block, PLACE_TREE, x, seen, overall, seen)
        finish_s[s] = value
        if chosen < 0 or value < best or (value == best and idle and not best_idle):
            chosen, best, best_idle = s, value, idle
            for f in range(N_PAIR):
                y[f] = seen[f]
    return chosen


@jitted
def start_margin(
    running: float, bandwidth: float, x: Floats, y: Floats, v: Floats, overall: Floats, block: Floats
) -> float:
    """gate - D/B + start . w + share . v; the globals' share of idle and D are those at the beginning of the pass."""
    margin = block[at.GATE] - running / bandwidth
    if block[at.KIND] == at.TREES:
        return margin + ask_tree(block, START_TREE, x, y, overall, v)  # type: ignore[no-any-return]
    place = at.START_AT
    for f in range(N_PAIR):
        margin += block[place + f] * y[f]
    place += N_PAIR
    for f in range(N_GLOBAL):
        margin += block[place + f] * overall[f]
    place += N_GLOBAL
    for f in range(len(START_JOB)):
        margin += block[place + f] * x[START_JOB[f]]
    for f in range(N_SHARE):
        margin += block[at.SHARE_AT + f] * v[f]
    return margin  # type: ignore[no-any-return]


@jitted
def running_demand(lane_demand: Floats) -> float:
    """D: demand of all accelerators, in bytes per second."""
    total = 0.0
    for s in range(len(lane_demand)):
        total += lane_demand[s]
    return total


@jitted
def _start_in_turn(
    scene: Scene, learned: bool, tier: Ints, score: Floats, margin: Floats, answer: Ints
) -> int:
    """The pass over sub-jobs, by tier and score; returns the number of answers."""
    ready, latency_s, demand, accelerators, system, block, jobs, overall, layer_s = scene
    lanes = len(accelerators)
    flags, rows = np.empty(len(tier), np.bool_), np.zeros((7, max(lanes + 1, N_PAIR, N_SHARE)))
    open_, y, v, seen = lent(flags), lent(rows[0, :N_PAIR]), lent(rows[1, :N_SHARE]), lent(rows[2, :N_PAIR])
    free_s, lane_demand = lent(rows[3, :lanes]), lent(rows[4, :lanes])
    finish_s, rates = lent(rows[5, :lanes]), lent(rows[6, : lanes + 1])
    for i in range(len(tier)):  # whole arrays would take seconds to compile
        open_[i] = tier[i] < CLOSED
    idle = survey_lanes(accelerators, free_s, lane_demand)
    running, count, held, nothing_runs = system.demand_bytes_s, 0, 0, idle == lanes
    counters, bandwidth, way = block[at.COUNTERS :], system.bandwidth_bytes_s, int(block[at.WAY])
    standing = lost_work(way, lane_demand, bandwidth, rates)
    corrects, noting = learned and block[at.RESIDUAL] != at.ORDER_ALONE, is_noting(system)
    if noting:
        by = 0 if learned else 1 if block[at.RESIDUAL] == 0.0 else 2 if system.memory[ALARMED] == 1.0 else 3
        waiting = who_waits(ready, jobs, score, tier, system, block[at.BASE : at.PAIR_AT], by)
    while idle > 0 and held < TRIED:
        i, value = next_job(ready, tier, score, open_), block[at.GATE] - running / bandwidth
        if i >= 0 and not corrects and not nothing_runs and running > block[at.GATE] * bandwidth:
            if noting:
                note_hold(waiting, count, i, value, running / bandwidth, overall[:0], overall[:0])
            break
        if i < 0:
            break
        open_[i] = False
        s = place_job(
            ready[i], latency_s[i], demand[i], jobs[i], overall, free_s, running, layer_s, accelerators, system,
            block, corrects, finish_s, seen, y,
        )  # fmt: skip
        if noting:
            waiting.fate[i], waiting.wanted[i] = KEPT, s
        if s < 0 or free_s[s] > 0.0:
            continue
        if corrects:
            describe_share(way, lane_demand, standing, demand[i, s], bandwidth, rates, v)
            value = margin[i] + start_margin(running, bandwidth, jobs[i], y, v, overall, block)
            if not value >= 0.0 and not nothing_runs:
                held += 1
                if noting:
                    asked = in_a_row(y, overall, jobs[i], START_JOB, v)
                    weights = block[at.START_AT : at.LOW]
                    note_hold(waiting, count, i, value, running / bandwidth, weights, asked)
                continue
            if not value >= 0.0:
                counters[at.FORCED] += 1.0
        if noting:
            note_start(waiting, count, i, finish_s, value, running / bandwidth)
        answer[count, 0], answer[count, 1] = i, s
        count += 1
        idle -= 1
        nothing_runs = False
        free_s[s], lane_demand[s] = max(latency_s[i, s], 1e-300), demand[i, s]
        running = running_demand(lane_demand)
        standing = lost_work(way, lane_demand, bandwidth, rates)
    counters[at.STARTS] += count
    counters[at.HOLDS] += 1.0 if idle > 0 and count < len(tier) else 0.0
    in_use(flags)
    in_use(rows)
    return count


def decide(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """The policy, as the kernel calls it."""
    if len(ready) == 0 or already_decided(len(ready), system):
        return 0
    tier = np.empty(len(ready), np.int64)
    set_tiers(ready, weights_of(system), system, tier)
    return decide_in_tiers(ready, latency_s, demand, accelerators, system, tier, answer)


@jitted
def decide_in_tiers(
    ready: Record, latency_s: Floats, demand: Floats, accelerators: Record, system: Record, tier: Ints,
    answer: Ints,
) -> int:  # fmt: skip
    """One pass: lower tiers go first whatever their score. There must be something ready."""
    n = len(ready)
    block, bandwidth = weights_of(system), system.bandwidth_bytes_s
    if block[at.APART] == 1.0:
        system.bandwidth_bytes_s = np.inf  # no layer slows another: there is nothing to save
    counters = block[at.COUNTERS :]
    counters[at.DECISIONS] += 1.0
    table, row = np.zeros((n, N_JOB)), np.empty(2 * n + N_GLOBAL)
    jobs, score, margin, overall = lent(table), lent(row[:n]), lent(row[n : 2 * n]), lent(row[2 * n :])
    logs, promises = block[at.LOGS] == 1.0, block[at.PROMISES] == 1.0
    layer_s = observe(ready, accelerators, system, jobs, overall, logs, promises)
    scene = Scene(ready, latency_s, demand, accelerators, system, block, jobs, overall, layer_s)
    learned = block[at.RESIDUAL] > 0.0 and not is_strange(outside(jobs, block), block, system)
    if block[at.COLLECT] == 1.0:
        note_ranges(jobs, block)
    if not score_all(jobs, overall, block, learned, score, margin):
        counters[at.INVALID] += 1.0
        learned = False
        score_all(jobs, overall, block, learned, score, margin)
    counters[at.FALLBACK] += 0.0 if learned else min(block[at.RESIDUAL], 1.0)
    count = _start_in_turn(scene, learned, tier, score, margin, answer)
    remember(n, system, count)
    system.bandwidth_bytes_s = bandwidth
    in_use(table)
    in_use(row)
    return count

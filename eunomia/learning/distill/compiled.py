"""The compiled decision of a set of rules; ``plain`` is the reference form.

The block is that of a linear policy with nothing learned (weights.py), whose tail holds the three trees: head of
three offsets, then nodes. Tiers, starvation bound, the alarm and counts are those of the learned policy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.learning.distill.inputs import GLOBAL_AT as Z_AT
from eunomia.learning.distill.inputs import PAIR_AT as Y_AT
from eunomia.learning.distill.inputs import SHARE_AT as V_AT
from eunomia.learning.distill.tree import COLUMNS
from eunomia.learning.observation.compiled import observe
from eunomia.learning.observation.pairs import describe_pair, finish_times
from eunomia.learning.observation.sharing import describe_share, lost_work
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, SHARE
from eunomia.learning.policy.decide import (
    ANY_IDLE,
    EFT_CA,
    TRIED,
    already_decided,
    next_job,
    remember,
    running_demand,
    score_all,
    set_tiers,
    weights_of,
)
from eunomia.learning.policy.guards import is_strange, note_ranges
from eunomia.learning.policy.weights import (
    COLLECT,
    COUNTERS,
    DECISIONS,
    FORCED,
    GATE,
    HOLDS,
    NETWORK,
    PLACE,
    STARTS,
    WAY,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

N_JOB, N_PAIR, N_GLOBAL, N_SHARE = len(JOB), len(PAIR), len(GLOBAL), len(SHARE)
ORDER_TREE, PLACE_TREE, START_TREE = NETWORK, NETWORK + 1, NETWORK + 2  # where the offsets of the trees stand


@jitted
def ask_tree(block: Floats, root: Any, x: Floats, y: Floats, z: Floats, v: Floats) -> float:
    """Value of the tree whose offset stands at ``root``, for features of a sub-job, a pair, the platform, a start."""
    at = np.int64(block[root])
    place = at
    while block[place] >= 0.0:
        f = np.int64(block[place])
        if f < Y_AT:
            value = x[f]
        elif f < Z_AT:
            value = y[f - Y_AT]
        elif f < V_AT:
            value = z[f - Z_AT]
        else:
            value = v[f - V_AT]
        place = place + COLUMNS if value <= block[place + 1] else at + COLUMNS * np.int64(block[place + 2])
    return block[place + 3]  # type: ignore[no-any-return]


@jitted
def _best_lane(
    job: Record,
    x: Floats,
    z: Floats,
    latency_s: Floats,
    demand: Floats,
    free_s: Floats,
    running: float,
    layer_s: float,
    accelerators: Record,
    system: Record,
    block: Floats,
    ruled: bool,
    finish_s: Floats,
    y: Floats,
    chosen_y: Floats,
) -> int:
    """The accelerator for one sub-job, busy or not; -1 = none. Leaves its pair features in ``chosen_y``."""
    bandwidth = system.bandwidth_bytes_s
    slow = max(1.0, running / bandwidth)
    least_s, soonest_s = finish_times(latency_s, free_s, slow, finish_s)
    chosen, best, best_idle = -1, 0.0, False
    for s in range(len(free_s)):
        idle = free_s[s] == 0.0
        if latency_s[s] == np.inf or (block[PLACE] == ANY_IDLE and not idle):
            continue
        value = finish_s[s]
        if block[PLACE] == ANY_IDLE:
            value = latency_s[s]
        elif block[PLACE] == EFT_CA:
            value = free_s[s] * slow + latency_s[s] * max(1.0, (running + demand[s]) / bandwidth)
        if ruled:
            describe_pair(
                job, latency_s[s], finish_s[s], least_s, soonest_s, demand[s], running, layer_s,
                accelerators[s].last_request, system, y,
            )  # fmt: skip
            value = value / soonest_s - ask_tree(block, PLACE_TREE, x, y, z, y)
        if chosen < 0 or value < best or (value == best and idle and not best_idle):
            chosen, best, best_idle = s, value, idle
            chosen_y[:] = y
    return chosen


@jitted
def _start_by_rules(
    ready: Record,
    latency_s: Floats,
    demand: Floats,
    accelerators: Record,
    system: Record,
    block: Floats,
    ruled: bool,
    jobs: Floats,
    overall: Floats,
    layer_s: float,
    score: Floats,
    answer: Ints,
) -> int:
    """The pass over sub-jobs; returns the number of answers."""
    n, lanes = len(ready), len(accelerators)
    tier, open_ = np.empty(n, np.int64), np.ones(n, np.bool_)
    free_s, lane_demand, finish_s = np.empty(lanes), np.zeros(lanes), np.empty(lanes)
    y, chosen_y, idle = np.zeros(N_PAIR), np.zeros(N_PAIR), 0
    for s in range(lanes):
        free_s[s] = 0.0
        if accelerators[s].request >= 0:
            free_s[s] = max(accelerators[s].free_in_s, 1e-300)  # 0 means idle here
            lane_demand[s] = accelerators[s].demand_bytes_s
        else:
            idle += 1
    set_tiers(ready, block, system, tier)
    running, count, held, nothing_runs = system.demand_bytes_s, 0, 0, idle == lanes
    counters, bandwidth, way = block[COUNTERS:], system.bandwidth_bytes_s, int(block[WAY])
    v, scratch = np.empty(N_SHARE), np.empty(lanes + 1)
    while idle > 0 and held < TRIED:
        i = next_job(ready, tier, score, open_)
        if i < 0:
            break
        open_[i] = False
        s = _best_lane(
            ready[i], jobs[i], overall, latency_s[i], demand[i], free_s, running, layer_s, accelerators, system,
            block, ruled, finish_s, y, chosen_y,
        )  # fmt: skip
        if s < 0 or free_s[s] > 0.0:
            continue
        margin = block[GATE] - running / bandwidth
        if ruled:
            standing = lost_work(way, lane_demand, bandwidth, scratch)
            describe_share(way, lane_demand, standing, demand[i, s], bandwidth, scratch, v)
            margin += ask_tree(block, START_TREE, jobs[i], chosen_y, overall, v)
        if not margin >= 0.0 and not nothing_runs:
            held += 1
            counters[HOLDS] += 1.0
            continue
        if not margin >= 0.0:
            counters[FORCED] += 1.0
        answer[count, 0], answer[count, 1] = i, s
        count += 1
        idle -= 1
        nothing_runs = False
        free_s[s], lane_demand[s] = max(latency_s[i, s], 1e-300), demand[i, s]
        running = running_demand(lane_demand)
    counters[STARTS] += count
    return count


def decide(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """The rules, as the kernel calls them."""
    n = len(ready)
    if n == 0 or already_decided(ready, system):
        return 0
    block = weights_of(system)
    block[COUNTERS + DECISIONS] += 1.0
    jobs, overall = np.empty((n, N_JOB)), np.empty(N_GLOBAL)
    score, unused = np.empty(n), np.empty(n)
    layer_s = observe(ready, accelerators, system, jobs, overall)
    ruled = not is_strange(jobs, block, system)
    if block[COLLECT] == 1.0:
        note_ranges(jobs, block)
    score_all(jobs, overall, block, False, score, unused)
    if ruled:
        for i in range(n):
            score[i] += ask_tree(block, ORDER_TREE, jobs[i], unused, overall, unused)
    count = _start_by_rules(
        ready, latency_s, demand, accelerators, system, block, ruled, jobs, overall, layer_s, score, answer
    )
    remember(ready, system, count)
    return count

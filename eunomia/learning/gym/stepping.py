"""Many episodes stepped in one compiled call: apply answers, run on to the next decision, observe, tally."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.inference.kernel import memory
from eunomia.inference.kernel.jit import compile_cached, jitted
from eunomia.inference.kernel.layout import DROPPED, HIT, UNFINISHED
from eunomia.inference.kernel.loop import ASK
from eunomia.inference.kernel.memory import KERNEL_TYPE, Record
from eunomia.inference.kernel.signatures import DECIDE_TYPE, KEY_TYPE
from eunomia.learning import rewards
from eunomia.learning.observation.compiled import observe
from eunomia.learning.observation.groups import by_deadline
from eunomia.learning.observation.pairs import Offer, describe_pair, finish_times
from eunomia.learning.observation.table import CROWDED, JOB, LAXITY_RATIO

Marks = npt.NDArray[np.uint8]

N_JOB = len(JOB)
CHARGED, COUNTED = 1, 2  # marks of a request: its miss was charged; its outcome is known


class Shown(NamedTuple):
    """What E episodes show: the N most urgent waiting sub-jobs, padded, on S accelerators."""

    rows: Ints  # (E, N) places in the view; -1 = padding
    jobs: Floats  # (E, N, JOB)
    pairs: Floats  # (E, N, S, PAIR)
    overall: Floats  # (E, GLOBAL)
    finish_s: Floats  # (E, N, S) estimates; inf where it cannot run
    can: Flags  # (E, N, S)
    idle: Flags  # (E, S)


class Answers(NamedTuple):
    """What E episodes are answered, and where that took them."""

    starts: Ints  # (E, S, 2) row shown, accelerator
    counts: Ints  # (E,) starts; -1 = begin or go on; less = leave alone
    status: Ints  # (E,) as the event loop returns it


class Score(NamedTuple):
    """What was earned in E episodes."""

    marks: Marks  # (E, most requests)
    requests: Ints  # (E,)
    tally: Floats  # (E, TALLY)


@jitted
def _charge(k: Record, request: int, marks: Marks, tally: Floats) -> None:
    """One inevitable miss, weighted by what its pair lacks now."""
    if marks[request] & CHARGED:
        return
    marks[request] |= CHARGED
    tally[rewards.MISSES] += 1.0
    tally[rewards.SHORT_MISSES] += max(0.0, memory.pair_at(k, memory.job_at(k, request).pair).gap)


@jitted
def _count_outcomes(k: Record, requests: int, marks: Marks, tally: Floats) -> None:
    """Requests that have left since the last call."""
    for r in range(requests):
        result = memory.result_at(k, r)
        if result.outcome == UNFINISHED or marks[r] & COUNTED:
            continue
        marks[r] |= COUNTED
        if result.outcome == HIT:
            tally[rewards.HITS] += 1.0
        else:
            _charge(k, r, marks, tally)
        if result.outcome != DROPPED:
            iso_s = memory.model_at(k, memory.pair_at(k, memory.job_at(k, r).pair).model).iso_best_s
            tally[rewards.SLOWDOWN] += (result.finish_s - result.arrival_s) / iso_s


@jitted
def _judge_tenants(k: Record, requests: int, marks: Marks, tally: Floats) -> None:
    """Share of pairs at target, and spread of the tenants' hit rates, over the outcomes so far."""
    met, promised, tenants = 0, 0, 0
    for p in range(k.num_pairs):
        tenants = max(tenants, memory.pair_at(k, p).tenant + 1)
        if memory.pair_at(k, p).slo_kind >= 0 and memory.pair_at(k, p).count > 0:
            promised += 1
            met += 1 if memory.pair_at(k, p).gap <= 1e-12 else 0
    tally[rewards.ATTAINMENT] = met / promised if promised > 0 else 0.0
    hits, count = np.zeros(tenants), np.zeros(tenants)
    for r in range(requests):
        if marks[r] & COUNTED:
            tenant = memory.pair_at(k, memory.job_at(k, r).pair).tenant
            count[tenant] += 1.0
            hits[tenant] += 1.0 if memory.result_at(k, r).outcome == HIT else 0.0
    total, squares, known = 0.0, 0.0, 0
    for u in range(tenants):
        if count[u] > 0.0:
            share = hits[u] / count[u]
            total, squares, known = total + share, squares + share * share, known + 1
    tally[rewards.SPREAD] = math.sqrt(max(0.0, squares / known - (total / known) ** 2)) if known > 0 else 0.0


@jitted
def _observe(k: Record, e: int, to: Shown) -> None:
    """Show the most urgent waiting sub-jobs of episode ``e``."""
    shown, lanes = k.shown, k.num_lanes
    ready, system = memory.shown_of(k, shown), memory.system_of(k)
    accelerators = memory.accelerators_of(k, lanes)
    whole, order = np.empty((shown, N_JOB)), np.empty(shown, np.int64)
    layer_s = observe(ready, accelerators, system, whole, to.overall[e], True, True)
    by_deadline(ready, order)
    free_s, latency_s = np.empty(lanes), np.empty(lanes)
    for s in range(lanes):
        free_s[s], to.idle[e, s] = accelerators[s].free_in_s, accelerators[s].request < 0
    slow = max(1.0, system.demand_bytes_s / system.bandwidth_bytes_s)
    to.rows[e], to.jobs[e], to.pairs[e], to.can[e], to.finish_s[e] = -1, 0.0, 0.0, False, np.inf
    for n in range(min(to.rows.shape[1], shown)):
        i, finish_s = order[n], to.finish_s[e, n]
        to.rows[e, n], to.jobs[e, n] = i, whole[i]
        for s in range(lanes):
            latency_s[s] = memory.view_latency_at(k, i * lanes + s).value
        least_s, soonest_s = finish_times(latency_s, free_s, slow, finish_s)
        for s in range(lanes):
            if latency_s[s] < np.inf:
                to.can[e, n, s] = True
                demand, running = memory.view_demand_at(k, i * lanes + s).value, system.demand_bytes_s
                offer = Offer(latency_s[s], finish_s[s], least_s, soonest_s, demand, running, layer_s)
                last = accelerators[s].last_request
                describe_pair(memory.shown_at(k, i), offer, last, system, to.pairs[e, n, s])


@jitted
def _tally_view(k: Record, marks: Marks, jobs: Floats, overall: Floats, tally: Floats) -> None:
    """Hopeless ones are charged; levels that rewards compare."""
    for i in range(k.shown):
        if memory.shown_at(k, i).late == 1:
            _charge(k, memory.shown_at(k, i).request, marks, tally)
    total, count = 0.0, 0
    for n in range(min(len(jobs), k.shown)):
        total, count = total + jobs[n, LAXITY_RATIO], count + 1
    tally[rewards.LAXITY_RATIO] = total / count
    tally[rewards.CROWDED] = overall[CROWDED]


def _step(
    kernels: Record, run: Callable[..., int], key: Callable[..., float], decide: Callable[..., int],
    answers: Answers, shown: Shown, score: Score,
) -> None:  # fmt: skip
    """Take every episode whose count is at least -1 to its next decision."""
    starts, counts, status = answers
    for e in range(len(kernels)):
        if counts[e] < -1:
            continue
        k, tally, excess = kernels[e], score.tally[e], 0.0
        before_s, bandwidth = memory.system_of(k).now_s, memory.system_of(k).bandwidth_bytes_s
        for n in range(counts[e]):
            i = starts[e, n, 0]
            answer = memory.answer_at(k, n)
            answer.index = shown.rows[e, i] if 0 <= i < shown.rows.shape[1] else -1  # the engine refuses -1
            answer.accelerator = starts[e, n, 1]
        if counts[e] >= 0:
            excess = max(0.0, memory.system_of(k).demand_bytes_s / bandwidth - 1.0)
        status[e] = run(kernels[e : e + 1], key, decide, counts[e])
        tally[rewards.OVERLOAD] += excess * (memory.system_of(k).now_s - before_s)
        _count_outcomes(k, score.requests[e], score.marks[e], tally)
        _judge_tenants(k, score.requests[e], score.marks[e], tally)
        if status[e] == ASK:
            _observe(k, e, shown)
            _tally_view(k, score.marks[e], shown.jobs[e], shown.overall[e], tally)
        else:
            tally[rewards.LAXITY_RATIO], tally[rewards.CROWDED] = 0.0, 0.0


@cache
def compiled_step() -> Callable[..., None]:
    """``_step`` as machine code."""
    kernels = types.Array(KERNEL_TYPE, 1, "C")
    run = types.FunctionType(types.int64(kernels, KEY_TYPE, DECIDE_TYPE, types.int64))
    kinds = types.int64, types.float64, types.boolean, types.uint8
    whole, real, flag, mark = ([types.Array(kind, axes, "C") for axes in range(5)] for kind in kinds)
    shown = types.NamedTuple((whole[2], real[3], real[4], real[2], real[3], flag[3], flag[2]), Shown)
    answers = types.NamedTuple((whole[3], whole[1], whole[1]), Answers)
    score = types.NamedTuple((mark[2], whole[1], real[2]), Score)
    signature = types.void(kernels, run, KEY_TYPE, DECIDE_TYPE, answers, shown, score)
    folders = ("inference/kernel", "inference/policies", "learning", "learning/observation", "learning/gym")
    step: Callable[..., None] = compile_cached(_step, signature, "gym-step", *folders)
    return step

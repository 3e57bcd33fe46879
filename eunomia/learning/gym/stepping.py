"""Many episodes stepped in one compiled call: apply answers, run on to the next decision, observe, tally."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from eunomia.inference.kernel import modes
from eunomia.inference.kernel.jit import compile_cached, jitted
from eunomia.inference.kernel.layout import DROPPED, HIT, UNFINISHED
from eunomia.inference.kernel.loop import ASK
from eunomia.inference.kernel.memory import (
    KERNEL_TYPE,
    Record,
    accelerators_of,
    answer_at,
    job_at,
    model_at,
    pair_at,
    result_at,
    shown_at,
    shown_of,
    system_of,
    view_demand_at,
    view_latency_at,
)
from eunomia.inference.kernel.signatures import DECIDE_TYPE, KEY_TYPE
from eunomia.learning.observation.compiled import CROWDED as Z_CROWDED
from eunomia.learning.observation.compiled import LAXITY_RATIO as X_LAXITY_RATIO
from eunomia.learning.observation.compiled import observe
from eunomia.learning.observation.groups import by_deadline
from eunomia.learning.observation.pairs import describe_pair, finish_times
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR
from eunomia.learning.rewards import (
    ATTAINMENT,
    CROWDED,
    HITS,
    LAXITY_RATIO,
    MISSES,
    OVERLOAD,
    SHORT_MISSES,
    SLOWDOWN,
    SPREAD,
)

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

N_JOB, N_PAIR, N_GLOBAL = len(JOB), len(PAIR), len(GLOBAL)
CHARGED, COUNTED = 1, 2  # marks of a request: its miss was charged; its outcome is known


@jitted
def _charge(k: Record, request: int, marks: npt.NDArray[np.uint8], tally: Floats) -> None:
    """One inevitable miss, weighted by what its pair lacks now."""
    if marks[request] & CHARGED:
        return
    marks[request] |= CHARGED
    tally[MISSES] += 1.0
    tally[SHORT_MISSES] += max(0.0, pair_at(k, job_at(k, request).pair).gap)


@jitted
def _count_outcomes(k: Record, requests: int, marks: npt.NDArray[np.uint8], tally: Floats) -> None:
    """Requests that have left since the last call."""
    for r in range(requests):
        result = result_at(k, r)
        if result.outcome == UNFINISHED or marks[r] & COUNTED:
            continue
        marks[r] |= COUNTED
        if result.outcome == HIT:
            tally[HITS] += 1.0
        else:
            _charge(k, r, marks, tally)
        if result.outcome != DROPPED:
            iso_s = model_at(k, pair_at(k, job_at(k, r).pair).model).iso_best_s
            tally[SLOWDOWN] += (result.finish_s - result.arrival_s) / iso_s


@jitted
def _judge_tenants(k: Record, requests: int, marks: npt.NDArray[np.uint8], tally: Floats) -> None:
    """Share of pairs at target, and spread of the tenants' hit rates, over the outcomes so far."""
    met, promised, tenants = 0, 0, 0
    for p in range(k.num_pairs):
        tenants = max(tenants, pair_at(k, p).tenant + 1)
        if pair_at(k, p).slo_kind >= 0 and pair_at(k, p).count > 0:
            promised += 1
            met += 1 if pair_at(k, p).gap <= 1e-12 else 0
    tally[ATTAINMENT] = met / promised if promised > 0 else 0.0
    hits, count = np.zeros(tenants), np.zeros(tenants)
    for r in range(requests):
        if marks[r] & COUNTED:
            tenant = pair_at(k, job_at(k, r).pair).tenant
            count[tenant] += 1.0
            hits[tenant] += 1.0 if result_at(k, r).outcome == HIT else 0.0
    total, squares, known = 0.0, 0.0, 0
    for u in range(tenants):
        if count[u] > 0.0:
            share = hits[u] / count[u]
            total, squares, known = total + share, squares + share * share, known + 1
    tally[SPREAD] = math.sqrt(max(0.0, squares / known - (total / known) ** 2)) if known > 0 else 0.0


@jitted
def _observe(
    k: Record,
    rows: Floats,
    jobs: Floats,
    pairs: Floats,
    overall: Floats,
    finish_s: Floats,
    can: Flags,
    idle: Flags,
) -> None:
    """Padded features of the most urgent waiting sub-jobs; ``rows``: their places in the view, -1 = padding."""
    shown, lanes, most = k.shown, k.num_lanes, len(rows)
    ready, accelerators = shown_of(k, shown), accelerators_of(k, lanes)
    system = system_of(k)
    whole, order = np.empty((shown, N_JOB)), np.empty(shown, np.int64)
    layer_s = observe(ready, accelerators, system, whole, overall)
    by_deadline(ready, order)
    free_s, latency_s = np.empty(lanes), np.empty(lanes)
    for s in range(lanes):
        free_s[s], idle[s] = accelerators[s].free_in_s, accelerators[s].request < 0
    slow = max(1.0, system.demand_bytes_s / system.bandwidth_bytes_s)
    rows[:], jobs[:], pairs[:], can[:], finish_s[:] = -1, 0.0, 0.0, False, np.inf
    for n in range(min(most, shown)):
        i = order[n]
        rows[n], jobs[n] = i, whole[i]
        for s in range(lanes):
            latency_s[s] = view_latency_at(k, i * lanes + s).value
        least_s, soonest_s = finish_times(latency_s, free_s, slow, finish_s[n])
        for s in range(lanes):
            if latency_s[s] < np.inf:
                can[n, s] = True
                describe_pair(
                    shown_at(k, i), latency_s[s], finish_s[n, s], least_s, soonest_s,
                    view_demand_at(k, i * lanes + s).value, system.demand_bytes_s, layer_s,
                    accelerators[s].last_request, system, pairs[n, s],
                )  # fmt: skip


@jitted
def _tally_view(
    k: Record, marks: npt.NDArray[np.uint8], jobs: Floats, overall: Floats, tally: Floats
) -> None:
    """Hopeless ones are charged; levels that rewards compare."""
    for i in range(k.shown):
        if shown_at(k, i).late == 1:
            _charge(k, shown_at(k, i).request, marks, tally)
    total, count = 0.0, 0
    for n in range(min(len(jobs), k.shown)):
        total, count = total + jobs[n, X_LAXITY_RATIO], count + 1
    tally[LAXITY_RATIO] = total / count
    tally[CROWDED] = overall[Z_CROWDED]


def _step(kernels, run, key, decide, starts, counts, status, rows, jobs, pairs, overall, finish_s, can, idle, marks,  # type: ignore[no-untyped-def]
          requests, tally):  # fmt: skip
    """Step every episode whose ``counts`` is >= -1: -1 begins or goes on, >= 0 answers with that many ``starts``."""
    for e in range(len(kernels)):
        if counts[e] < -1:
            continue
        k = kernels[e]
        before_s, excess = system_of(k).now_s, 0.0
        bandwidth = system_of(k).bandwidth_bytes_s
        for n in range(counts[e]):
            i = starts[e, n, 0]
            answer_at(k, n).index = rows[e, i] if 0 <= i < rows.shape[1] else -1  # -1: the engine refuses it
            answer_at(k, n).accelerator = starts[e, n, 1]
        if counts[e] >= 0:
            excess = max(0.0, system_of(k).demand_bytes_s / bandwidth - 1.0)
        status[e] = run(kernels[e : e + 1], key, decide, counts[e])
        tally[e, OVERLOAD] += excess * (system_of(k).now_s - before_s)
        _count_outcomes(k, requests[e], marks[e], tally[e])
        _judge_tenants(k, requests[e], marks[e], tally[e])
        if status[e] == ASK:
            _observe(k, rows[e], jobs[e], pairs[e], overall[e], finish_s[e], can[e], idle[e])
            _tally_view(k, marks[e], jobs[e], overall[e], tally[e])
        else:
            tally[e, LAXITY_RATIO], tally[e, CROWDED] = 0.0, 0.0


@cache
def compiled_step() -> Any:
    """``_step`` as machine code."""
    kernels = types.Array(KERNEL_TYPE, 1, "C")
    run = types.FunctionType(types.int64(kernels, KEY_TYPE, DECIDE_TYPE, types.int64))

    def array(kind: Any, dimensions: int) -> Any:
        return types.Array(kind, dimensions, "C")

    whole, real, flag = types.int64, types.float64, types.boolean
    signature = types.void(
        kernels, run, KEY_TYPE, DECIDE_TYPE, array(whole, 3), array(whole, 1), array(whole, 1), array(whole, 2),
        array(real, 3), array(real, 4), array(real, 2), array(real, 3), array(flag, 3), array(flag, 2),
        array(types.uint8, 2), array(whole, 1), array(real, 2),
    )  # fmt: skip
    folders = ("inference/kernel", "inference/policies", "learning", "learning/observation", "learning/gym")
    return compile_cached(_step, signature, "gym-step", *folders)


def compiled_views() -> Any:
    """The event loop that asks at every decision."""
    return modes.compiled_run(modes.VIEWS)

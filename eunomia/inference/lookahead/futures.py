"""Sampled arrivals: what a scheduler may expect from the rates that it has seen; or, for searches, the true ones."""

from __future__ import annotations

import math

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, job_at, pair_at, system_of
from eunomia.inference.kernel.noise import uniform
from eunomia.inference.lookahead.memory import Workspace, live_of, pair_state_at, snapshot_of

_STREAM = 1 << 20  # apart from the engine's streams of random numbers


@jitted
def count_arrivals(ws: Workspace) -> None:
    """Learn rates and relative deadlines from requests that have arrived since the last look."""
    live = live_of(ws)
    while ws.seen_open < live.next_open:
        job = job_at(live, ws.seen_open)
        state = pair_state_at(ws, job.pair)
        state.arrived += 1
        state.relative_deadline_s = job.relative_deadline_s
        ws.seen_open += 1


@jitted
def draw_futures(ws: Workspace) -> None:
    """Poisson arrivals until the horizon, at the mean rates so far; a fresh draw for every deliberation."""
    k, now_s = snapshot_of(ws), system_of(live_of(ws)).now_s
    seed = system_of(k).seed
    ws.drawn += 1
    ws.future_count = 0
    if ws.foresee == 1:
        ws.future_count = _foresee(ws, k)
        return
    if ws.seen_open == 0 or now_s <= 0.0:
        return
    gap_s = now_s / ws.seen_open
    longest = 0
    for future in range(ws.futures):
        time_s, base, count = now_s, ws.num_requests + future * ws.future_capacity, 0
        while count < ws.future_capacity:
            time_s -= gap_s * math.log(uniform(seed, ws.drawn, count, _STREAM + 2 * future))
            if time_s > ws.until_s:
                break
            share = uniform(seed, ws.drawn, count, _STREAM + 2 * future + 1) * ws.seen_open
            pair = 0
            while pair < ws.num_pairs - 1 and share >= pair_state_at(ws, pair).arrived:
                share -= pair_state_at(ws, pair).arrived
                pair += 1
            job = job_at(k, base + count)
            job.pair, job.model, job.arrival_s = pair, pair_at(k, pair).model, time_s
            job.relative_deadline_s = pair_state_at(ws, pair).relative_deadline_s
            count += 1
        longest = max(longest, count)
        for rest in range(count, ws.future_capacity):
            job_at(k, base + rest).arrival_s = math.inf
    ws.future_count = longest


@jitted
def _foresee(ws: Workspace, k: Kernel) -> int:
    """The arrivals to come until the horizon, as they will be."""
    live, count = live_of(ws), 0
    while count < ws.future_capacity and live.next_open + count < live.num_open:
        coming = job_at(live, live.next_open + count)
        if coming.arrival_s > ws.until_s:
            break
        job = job_at(k, ws.num_requests + count)
        job.pair, job.model, job.arrival_s = coming.pair, coming.model, coming.arrival_s
        job.relative_deadline_s = coming.relative_deadline_s
        count += 1
    return count

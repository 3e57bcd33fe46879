"""On which idle device a request begins, where its neighbours count: the least predicted degradation."""

from __future__ import annotations

import math

from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.neighbours import Neighbours
from eunomia.serving.dispatch.state import State


def best_device(state: State, job: Job, device: int) -> int:
    """The idle device on which a request that begins costs least, itself and those that run; else the policy's choice.

    Cost [s] = its time there under the predicted slowdown + what the others' remaining blocks lose by it. Among equals
    the policy's device.
    """
    near = state.neighbours
    if near is None or not near.places or job.block > 0:
        return device
    others = [
        (other, lane.job.network.name, _left_s(state, other))
        for other, lane in enumerate(state.lanes)
        if lane.job is not None
    ]
    idle = [other for other, lane in enumerate(state.lanes) if lane.job is None and lane.alive]
    if not others or len(idle) < 2:
        return device
    costs = {other: _cost_s(state, near, job, other, others) for other in idle}
    best = min(idle, key=lambda other: (costs[other], other != device, other))
    return best if costs[best] < costs.get(device, math.inf) else device


def _cost_s(
    state: State, near: Neighbours, job: Job, device: int, others: list[tuple[int, str, float]]
) -> float:
    rows = slice(job.cost_row, job.cost_row + job.network.blocks)
    own_s = float(state.costs.latency_s[rows, device].sum()) * job.rows
    cost_s = own_s * near.slowdown(job.network.name, device, [(o, name) for o, name, _ in others])
    for other, name, left_s in others:
        company = [(o, n) for o, n, _ in others if o != other]
        before = near.slowdown(name, other, company)
        after = near.slowdown(name, other, [*company, (device, job.network.name)])
        cost_s += left_s * (after / before - 1.0)
    return cost_s


def _left_s(state: State, device: int) -> float:
    """Of what runs on a device, by estimate."""
    lane = state.lanes[device]
    job = lane.job
    assert job is not None
    done_s = state.clock.now_s() - lane.start_s
    rows = slice(job.cost_row + lane.first, job.cost_row + job.network.blocks)
    return max(0.0, float(state.costs.latency_s[rows, device].sum()) * job.rows - done_s)

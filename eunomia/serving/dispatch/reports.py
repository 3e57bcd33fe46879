"""What devices report: a run ended, failed, never started, or its device died. None of these decides anything yet."""

from __future__ import annotations

import math

from eunomia.contract.traits import CHARGE_RUN
from eunomia.serving.dispatch import look_ahead, runs
from eunomia.serving.dispatch.jobs import NOWHERE, SEVERAL, Job
from eunomia.serving.dispatch.lanes import Lane
from eunomia.serving.dispatch.overheads import (
    AGAIN,
    AHEAD,
    ASKED,
    FIRST,
    HEARD,
    HOLD_S,
    LONGEST_MOVE_S,
    MOVED,
    lost_s,
)
from eunomia.serving.dispatch.state import State


def done(
    state: State,
    device: int,
    next_block: int,
    follows: Job | None,
    span_s: tuple[float, float] | None,
    work_s: float | None,
) -> Job:
    """A run has ended, or has stopped before ``next_block``; returns its job. See ``Dispatcher.done``."""
    lane = state.lanes[device]
    job = lane.job
    assert job is not None
    began_s, ended_s = span_s or (lane.start_s, state.clock.now_s())
    if lane.first == 0 and not job.through:
        for member in (job, *job.together):
            member.start_s = began_s
    took_s = ended_s - began_s
    look_ahead.went_on(state, lane, next_block)
    if not len(state.waiting) and lane.next is None and not state.steady:
        look_ahead.catch_up(state, device, next_block - 1)
    _learn_delays(state, device, began_s, ended_s, 0.0 if work_s is None else took_s - work_s)
    lane.free_s, lane.heard_s, lane.last_request = ended_s, state.clock.now_s(), job.number
    for member in (job, *job.together):
        member.ended_s, member.heard_s = ended_s, lane.heard_s
    lane.busy_s += took_s
    if state.harvest is not None:
        state.harvest.ran(state.agreements[job.pair].tenant, took_s, state.clock.now_s())
    preempted, lane_first = next_block < lane.last, lane.first
    lane.clear()
    job.block, job.device = next_block, device
    job.attained_s += took_s
    if work_s is not None:
        job.work_s += work_s
        known = state.costs.evident(job.cost_row)  # else it is an estimate, which says nothing of the machine
        usual_s = state.costs.expected_s(job.cost_row, lane_first, next_block, device) * job.rows
        job.expected_s += usual_s if known else -math.inf
        job.worked_on = device if job.worked_on in (NOWHERE, device) else SEVERAL
        for member in (job, *job.together) if job.together else ():
            member.worked_on = SEVERAL
    if next_block < job.network.blocks:
        if preempted:
            state.preemptions += 1
            job.preemptions += 1
        state.wait(job)
    _follow(state, device, follows, ended_s)
    return job


def _learn_delays(state: State, device: int, began_s: float, ended_s: float, beside_s: float) -> None:
    """What was lost before this run's blocks, ``beside_s`` among them and behind them; and until it was heard of."""
    lane = state.lanes[device]
    job = lane.job
    assert job is not None
    holder = state.overheads[job.device] if lane.first > 0 and job.device not in (device, -1) else None
    waited, resumed = lane.free_s >= job.arrival_s, lane.last_request == job.number
    could_s = max(lane.free_s, job.ended_s)
    if waited and not resumed:
        state.overheads[device].turned(lost_s(could_s, began_s, beside_s), holder)
    kind = _found(lane, waited, resumed, moved=holder is not None)
    if kind != AHEAD:  # from its order on, and what the decision took; but not from when it was meant to wait
        decided_s = lane.start_s - max(lane.heard_s, job.heard_s)
        could_s = lane.start_s - (decided_s if waited and 0.0 < decided_s <= HOLD_S else 0.0)
    lost = lost_s(could_s, began_s, beside_s)
    delays = (state.overheads[device] if holder is None else holder).delays[kind]
    if lost <= LONGEST_MOVE_S:
        delays.put(lost)
    job.lost_s, job.usual_s, job.runs = job.lost_s + lost, job.usual_s + delays.mean, job.runs + 1
    state.overheads[device].delays[HEARD].put(max(0.0, state.clock.now_s() - ended_s))


def _found(lane: Lane, waited: bool, resumed: bool, *, moved: bool) -> str:
    """What a run found (``overheads.DELAYS``)."""
    if moved:
        return MOVED
    if not waited:
        return FIRST
    return AGAIN if resumed else AHEAD if lane.followed else ASKED


def failed(
    state: State, device: int, follows: Job | None, *, sent: bool, span_s: tuple[float, float] | None
) -> Job:
    """The network of what ran has failed; returns its job, which waits no more. Its tenant pays for the time.

    Not ``sent``: the device waited for tensors of another one, and nobody is charged.
    """
    lane = state.lanes[device]
    job = lane.job
    assert job is not None
    if sent:
        took_s = _spent(state, lane, job, span_s)
        job.attained_s += took_s
        if state.harvest is not None:
            state.harvest.ran(state.agreements[job.pair].tenant, took_s, state.clock.now_s())
    lane.clear()
    _follow(state, device, follows, state.clock.now_s())
    return job


def unstarted(state: State, device: int, follows: Job | None = None) -> None:
    """A device has not started the job that the dispatcher believed to run: the job waits again."""
    lane = state.lanes[device]
    job = lane.job
    assert job is not None
    lane.clear()
    members = (job, *job.together) if job.block == 0 else (job,)
    if job.block == 0:
        job.together, job.start_s = [], job.start_s if job.through else math.nan
        state.classify(job)
    for member in members:
        if member.cancelled:
            state.executor.dropped(member, "cancelled")
        else:
            state.wait(member)
    _follow(state, device, follows, state.clock.now_s())


def released(state: State, device: int, job: Job) -> None:
    """A device has not started a revoked job: it waits like any other."""
    lane = state.lanes[device]
    if lane.revoked is not None and lane.revoked.job is job:
        lane.revoked = None
        look_ahead.free(state, job)


def lost(state: State, device: int, *, sent: bool = True, blame: bool = True) -> Job | None:
    """A device has died; returns the job that it was running, which pays for its time. Its queued jobs wait again.

    ``sent``: see ``failed``. Without ``blame`` its machine went away, and nobody is charged.
    """
    lane = state.lanes[device]
    job, lane.alive = lane.job, False
    if job is not None and sent:
        took_s = _spent(state, lane, job)
        job.attained_s += took_s if blame else 0.0
    lane.clear()
    queued = [claim.job for claim in (lane.next, lane.revoked) if claim is not None]
    lane.next = lane.revoked = None
    for other in queued:
        look_ahead.free(state, other)
    state.costs.lost(device)
    return job


def _spent(state: State, lane: Lane, job: Job, span_s: tuple[float, float] | None = None) -> float:
    """A run without a result kept its device busy all the same: policies see it, and charge for it. How long."""
    began_s, ended_s = span_s or (lane.start_s, state.clock.now_s())
    took_s = max(0.0, ended_s - began_s)
    lane.busy_s += took_s
    lane.last_request = job.number
    return took_s


def _follow(state: State, device: int, job: Job | None, at_s: float) -> None:
    """A device has gone on with its queued job: the policy's notes about that job count from now on."""
    claim = None if job is None else runs.follow(state, job, device, at_s)
    if claim is not None:
        lane, charge = state.lanes[device], CHARGE_RUN.of(state.policy)
        if charge is not None and claim.generation == state.generation and claim.after is not claim.before:
            more_s = lane.busy_s - claim.busy_s
            charge(state.memory, len(state.lanes), device, lane.last_request, more_s)
        look_ahead.note(state, claim)

"""While a device is busy: would the policy go on with what runs there, and which job is next?"""

from __future__ import annotations

import numpy as np

from eunomia.serving.dispatch import runs
from eunomia.serving.dispatch.jobs import NOWHERE, RUNNING, Job
from eunomia.serving.dispatch.lanes import NEVER, Claim, Lane
from eunomia.serving.dispatch.state import State

SURELY = 1.1  # estimates of two devices differ by noise, too


def look_at(state: State, device: int) -> float | None:
    """Check the policy's choice at the next boundary of what runs; returns when to check again.

    Checks once for each boundary; of a run in one piece, the first and the last. While nothing else waits and no faster
    device idles, at most behind the last one, for the policy's notes: ``decide`` has the executor look again once it
    does. None when nothing is left to check: no boundary, or only arrivals change this policy's choice.
    """
    lane, now_s = state.lanes[device], state.clock.now_s()
    if lane.job is None or state.steady:
        return None
    boundary = lane.boundary(now_s, cut=True)
    lane.alone = not (len(state.waiting) or lane.next is not None or may_leave(state, device))
    if not lane.alone:
        if boundary != lane.looked:
            lane.looked, lane.asked_stop = boundary, NEVER
            reconsider(state, device)
    elif (
        boundary >= lane.last
    ):  # now, while nobody waits for it: at the end of the run there is an answer to send
        catch_up(state, device, lane.last - 1)
    if lane.stopping or boundary >= lane.last:
        return None
    if lane.alone:
        return None if state.told_later else lane.last_boundary_s(now_s)
    return lane.look_s(now_s)


def may_leave(state: State, device: int) -> bool:
    """Whether what runs there would gain by going on on another device, which idles."""
    if state.lanes[device].job is None or state.lanes[device].stopping or not state.idle:
        return False
    return any(
        other.job is None and other.alive and gains(state, device, to) for to, other in enumerate(state.lanes)
    )


def gains(state: State, device: int, to: int) -> bool:
    """Whether the rest of what runs surely takes less time on another device, the change of device included."""
    lane, job = state.lanes[device], state.lanes[device].job
    assert job is not None
    boundary = lane.boundary(state.clock.now_s(), cut=True)
    rest = slice(job.cost_row + boundary, job.cost_row + job.network.blocks)
    here_s, there_s = state.costs.latency_s[rest][:, [device, to]].sum(axis=0) * job.rows
    return bool(there_s * SURELY + state.overheads[device].leaving_s(state.overheads[to]) < here_s)


def reconsider(state: State, device: int) -> None:
    """Stop what runs at the next boundary if the policy would prefer another job there, or this one elsewhere.

    The policy decides as if that time had come, the device were idle, and the running job waited for its next block.
    Near the end of a run, or when it is about to stop, the device gets its next order.
    """
    lane, now_s = state.lanes[device], state.clock.now_s()
    boundary = lane.boundary(now_s, cut=True)
    went_on(state, lane, boundary)
    if not lane.stopping and boundary < lane.last and lane.asked_stop != state.news:
        lane.asked_stop, lane.goes_on = state.news, None
        other = choice(state, device, boundary, lane.boundary_s(now_s, cut=True))
        if other is not None and other.elsewhere != NEVER:
            if not lane.uncut and gains(state, device, other.elsewhere):
                lane.stopping = True
                state.executor.stop(device)
                return
        elif other is not None and other.job is not lane.job:
            state.calm.disturbed(now_s)
            if not lane.uncut:
                lane.stopping = True
                state.executor.stop(device)
                promise(state, device, other)
                return
        elif other is not None:
            lane.goes_on = boundary, other
    near = lane.stopping or lane.end_s(now_s) - now_s <= state.options.ahead_s
    if state.options.ahead_s > 0.0 and near and lane.asked_next != state.news:
        lane.asked_next = state.news
        end_s = lane.boundary_s(now_s) if lane.stopping else lane.end_s(now_s)
        block = boundary if lane.stopping else lane.last
        promise(state, device, choice(state, device, block, end_s))


def went_on(state: State, lane: Lane, block: int) -> None:
    """Count what the policy noted when it let a run pass a boundary that now lies behind it.

    Not so where something else has been noted since: the run would have gone on in any case.
    """
    if lane.goes_on is not None and block > lane.goes_on[0]:
        claim, lane.goes_on = lane.goes_on[1], None
        if claim.before.tobytes() == state.memory.tobytes():
            note(state, claim)


def catch_up(state: State, device: int, passed: int) -> None:
    """Count what the policy would have noted at a boundary now behind the run; not checked while none waited.

    A policy that noted nothing at a start notes nothing here.
    """
    lane = state.lanes[device]
    noted = state.owed or any(state.memory.tolist())
    if lane.first < passed and lane.looked < passed and not lane.stopping and noted:
        lane.looked = passed
        if len(state.lanes) == 1:
            state.owe(passed, state.clock.now_s())
            return
        claim = choice(state, device, passed, state.clock.now_s())
        if claim is not None and claim.job is lane.job and claim.elsewhere == NEVER:
            note(state, claim)


def note(state: State, claim: Claim) -> None:
    """Keep what the policy noted when it made this choice, if the same policy still serves."""
    if claim.generation != state.generation:
        return
    if claim.before.tobytes() == state.memory.tobytes():
        state.memory[:] = claim.after
    else:  # something else has been started meanwhile
        change = claim.after - claim.before
        state.memory += np.where(np.isfinite(change), change, 0.0)


def choice(state: State, device: int, block: int, at_s: float) -> Claim | None:
    """The job that the policy would start there if the running job waited for ``block``; its notes are not kept yet.

    The supposition is laid into the live tables, where a view costs no copy, and taken back whatever the policy does.
    """
    lane, job = state.lanes[device], state.lanes[device].job
    assert job is not None
    before, attained_s, took_s = job.block, job.attained_s, at_s - lane.start_s
    rows = job.through, job.batch, job.later
    busy_s, last_request = lane.busy_s, lane.last_request
    if lane.next is not None:
        show(state, lane.next.job)
    try:
        lane.job, lane.busy_s, lane.last_request = None, busy_s + took_s, job.number
        job.block, job.attained_s = block, attained_s + took_s
        if block < job.network.blocks:
            state.wait(job, device, news=False)
            if block < lane.last:
                state.waiting.put_first(job)  # of two that are equally urgent, the one that runs goes on
        elif job.later:
            job.go_on()
            state.wait(job, NOWHERE, news=False)
        return _first_for(state, device, at_s, job)
    finally:
        state.withdraw(job)
        lane.job, lane.busy_s, lane.last_request = job, busy_s, last_request
        job.block, job.attained_s, job.state = before, attained_s, RUNNING
        job.through, job.batch, job.later = rows
        if lane.next is not None:
            hide(state, lane.next.job)


def _first_for(state: State, device: int, at_s: float, runs_there: Job) -> Claim | None:
    """The first job that the policy starts on this device at that time; or what runs there, if elsewhere."""
    busy_s = state.lanes[device].busy_s
    if lone := runs.lone(state):
        memory = state.memory.copy()
        return Claim(lone, memory, memory, state.generation, state.news, busy_s)
    if not len(state.waiting):
        return None
    view = state.view(at_s)
    started = [(a.accelerator, state.waiting.numbered(a.request)) for a in state.policy(view)]
    found = next((job for to, job in started if to == device), None)
    elsewhere = next((to for to, job in started if job is runs_there and to != device), NEVER)
    if found is None and elsewhere == NEVER:
        return None
    after, job = np.array(view.system["memory"]), found or runs_there
    elsewhere = elsewhere if found is None else NEVER
    return Claim(job, state.memory.copy(), after, state.generation, state.news, busy_s, elsewhere)


def promise(state: State, device: int, claim: Claim | None) -> None:
    """Make this job the device's next one, in place of another if need be; one order is revoked at a time."""
    lane = state.lanes[device]
    if state.options.ahead_s <= 0.0 or lane.revoked is not None:
        return
    if claim is not None and (claim.job is lane.job or not _here(claim.job, device)):
        claim = None
    if claim is not None and lane.next is not None and claim.job in lane.next.job.together:
        claim = None  # it may run in that batch yet: the device must first report that it does not
    if lane.next is not None:
        if claim is not None and claim.job is lane.next.job:
            lane.next = claim
            return
        lane.revoked, lane.next = lane.next, None
        state.executor.revoke(device)
    if claim is None:
        return
    lane.next = claim
    runs.gather(state, claim.job)
    runs.choose_whole(state, claim.job, device)
    hide(state, claim.job)
    last = runs.lease(state, claim.job, device, 0.0)[0]
    state.executor.queue(device, claim.job, claim.job.block, last)


def _here(job: Job, device: int) -> bool:
    """Whether a device can start a job without fetching its tensors first."""
    return job.block == 0 or job.device == device


def hide(state: State, job: Job) -> None:
    """Offer a job and its batch to no other device."""
    for member in (job, *job.together):
        state.waiting.hide(member)


def show(state: State, job: Job) -> None:
    """Offer a job and its batch again."""
    for member in (job, *job.together):
        if member.row >= 0:
            state.waiting.show(member)


def free(state: State, job: Job) -> None:
    """Release a job that no device is going to run now: it waits, or leaves if its client has gone meanwhile."""
    members = [job, *job.together]
    show(state, job)
    if job.block == 0 and job.together:
        job.together = []
        state.classify(job)
    for member in members:
        if member.cancelled and member.row >= 0:
            state.withdraw(member)
            state.executor.dropped(member, "cancelled")
    state.news += 1

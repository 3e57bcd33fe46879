"""What begins on a device: which blocks, in one piece or in several, and which requests share the batch."""

from __future__ import annotations

import math
from itertools import accumulate

from eunomia.contract.traits import STARTS_ALONE, WORK_CONSERVING
from eunomia.serving.dispatch.jobs import RUNNING, Job
from eunomia.serving.dispatch.lanes import NEVER, Claim
from eunomia.serving.dispatch.notes import MOST
from eunomia.serving.dispatch.state import State


def lone(state: State) -> Job | None:
    """The only request on the only device, when the policy never leaves a device idle: no decision is needed."""
    one = len(state.lanes) == 1 and len(state.waiting) == 1
    if not one or not WORK_CONSERVING.of(state.policy):
        return None
    job = state.waiting.first()
    return job if _can_start(state, job) else None


def start_alone(state: State, job: Job) -> bool:
    """Start an arrival before it waits and before the policy is asked, where both could change nothing; whether it did.

    So it is on the only device, idle, while nobody waits, under a policy that would start it. Its notes of
    it are taken later (``notes.py``).
    """
    lane, policy = state.lanes[0], state.policy
    if len(state.lanes) > 1 or lane.job is not None or not lane.alive or len(state.waiting):
        return False
    if lane.revoked is not None or state.options.late == "drop" or not _can_start(state, job):
        return False
    asked = not WORK_CONSERVING.of(policy)
    if asked and not STARTS_ALONE.of(policy):
        return False
    state.news += 1
    lane.alone = state.told_later
    start(state, job, 0)
    if asked:
        state.owe(lane.first, lane.start_s)
        state.tell(MOST)
    return True


def _can_start(state: State, job: Job) -> bool:
    return bool(state.costs.latency_s[job.cost_row + job.block, 0] < math.inf)


def start(state: State, job: Job, device: int) -> None:
    """Run a job on an idle device, at once."""
    gather(state, job)
    choose_whole(state, job, device)
    begin(state, job, device, state.clock.now_s())
    lane = state.lanes[device]
    state.executor.run(device, job, lane.first, lane.last)


def begin(state: State, job: Job, device: int, now_s: float) -> None:
    """Note that a job and its batch run on this device from now on."""
    lane = state.lanes[device]
    for member in (job, *job.together):
        state.withdraw(member)
        member.state = RUNNING
        if job.block == 0 and not job.through:
            member.start_s = now_s
    lane.job, lane.first, lane.start_s, lane.stopping, lane.followed = job, job.block, now_s, False, False
    lane.last, lane.due_s = lease(state, job, device, now_s)
    lane.asked_stop = state.news
    state.began(job, now_s)


def follow(state: State, job: Job, device: int, at_s: float) -> Claim | None:
    """Note that a device has gone on with its queued job; returns the claim under which the job was queued."""
    lane = state.lanes[device]
    wanted = lane.next is not None and lane.next.job is job
    if wanted:
        claim, lane.next = lane.next, None
    else:  # the order was revoked too late
        claim, lane.revoked = lane.revoked, None
    begin(state, job, device, at_s)
    lane.followed = True
    # The policy chose before the latest arrivals: its choice is checked again at the first boundary.
    lane.asked_stop = claim.news if wanted and claim is not None else NEVER
    return claim


def choose_whole(state: State, job: Job, device: int) -> None:
    """Decide whether a run that is about to start has no boundaries."""
    job.whole = False
    if job.block == 0 and job.network.whole:
        times_s = state.costs.latency_s[job.cost_row : job.cost_row + job.network.blocks, device]
        run_s = sum(times_s.tolist()) * job.rows  # of few numbers quicker than NumPy, whose code is cold here
        job.whole = state.calm.allows(job.deadline_s - job.arrival_s, run_s, state.clock.now_s())


def lease(state: State, job: Job, device: int, now_s: float) -> tuple[int, list[float]]:
    """The block after the lease, at least one block on; and when each block of the lease will end."""
    network = job.network
    rows = slice(job.cost_row + job.block, job.cost_row + network.blocks)
    due_s = [t * job.rows for t in state.costs.latency_s[rows, device].tolist()]
    due_s = list(accumulate(due_s, initial=now_s))[1:]
    count = len(due_s) if job.whole else max(1, sum(t <= now_s + state.options.lease_s for t in due_s))
    return job.block + count, due_s[:count]


def gather(state: State, job: Job) -> None:
    """Add the waiting requests that may share the batch, in order of deadline."""
    if state.options.max_batch <= 1 or job.group is None or job.block > 0 or job.together:
        return
    if job.network.index in state.costs.apart or not job.even:
        return
    peers = [j for j in state.waiting.jobs() if _may_join(j, job) and state.waiting.shown(j)]
    room = _most_rows(state, job) - job.batch if peers else 0
    for peer in sorted(peers, key=lambda j: (j.deadline_s, j.number)):
        if peer.batch <= room:
            job.together.append(peer)
            room -= peer.batch
    if job.together:
        state.classify(job)


def _most_rows(state: State, job: Job) -> int:
    """Of a batch: no block may keep others waiting for longer than one of a single request may."""
    rows, patience_s, costs = state.options.max_batch, state.patience_s(job), state.costs
    if patience_s == math.inf:
        return rows
    if not costs.evident(job.cost_row):
        return 0
    while rows > job.batch:
        row = costs.row_of(job.network, rows, job.sizes, job.pair)
        if costs.longest_s(job.network, row) * rows <= patience_s:
            break
        rows //= 2
    return rows


def _may_join(peer: Job, job: Job) -> bool:
    alike = peer.network is job.network and peer.group == job.group and peer.pair == job.pair
    return alike and peer.even and peer.block == 0 and peer is not job

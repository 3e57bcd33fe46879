"""What begins on a device: which blocks, in one piece or in several, and who shares the batch."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

from eunomia.serving.dispatch.jobs import RUNNING, Job
from eunomia.serving.dispatch.lanes import NEVER

if TYPE_CHECKING:
    from eunomia.serving.dispatch.dispatcher import Dispatcher


class Runs:
    """Starts jobs, and takes note of those that a device has gone on with."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def lone(self) -> Job | None:
        """The only request, when there is one device and the policy never leaves it idle: it need not be asked."""
        dispatcher = self._dispatcher
        one = len(dispatcher.lanes) == 1 and len(dispatcher.waiting) == 1
        if not one or not getattr(dispatcher.policy, "work_conserving", False):
            return None
        job = dispatcher.waiting.first()
        return job if dispatcher.costs.latency_s[job.network.first_row + job.block, 0] < math.inf else None

    def start(self, job: Job, device: int) -> None:
        """On an idle device, at once."""
        dispatcher = self._dispatcher
        self.gather(job)
        self.choose_whole(job, device)
        self._begin(job, device, dispatcher.clock.now_s())
        lane = dispatcher.lanes[device]
        dispatcher.executor.run(device, job, lane.first, lane.last)

    def follow(self, device: int, job: Job, at_s: float) -> None:
        """A device has gone on with what was queued for it."""
        dispatcher = self._dispatcher
        lane = dispatcher.lanes[device]
        wanted = lane.next is not None and lane.next.job is job
        if wanted:
            claim, lane.next = lane.next, None
        else:  # it was taken back too late
            claim, lane.revoked = lane.revoked, None
        if claim is not None:
            dispatcher.ahead.note(claim)
        self._begin(
            job, device, at_s
        )  # chosen before what has come since: is it to go on at its first boundary?
        lane.asked_stop = claim.news if wanted and claim is not None else NEVER

    def _begin(self, job: Job, device: int, now_s: float) -> None:
        dispatcher = self._dispatcher
        lane = dispatcher.lanes[device]
        for member in (job, *job.together):
            dispatcher.withdraw(member)
            member.state = RUNNING
            if job.block == 0:
                member.start_s = now_s
        lane.job, lane.first, lane.start_s, lane.stopping = job, job.block, now_s, False
        lane.last, lane.due_s = self.lease(job, device, now_s)
        lane.asked_stop = dispatcher.news
        dispatcher.began(job, now_s)

    def choose_whole(self, job: Job, device: int) -> None:
        """Whether a run that is about to be told has no boundaries."""
        dispatcher = self._dispatcher
        network = job.network
        run_s = float(dispatcher.costs.latency_s[dispatcher.costs.rows(network), device].sum()) * job.rows
        job.whole = (
            job.block == 0
            and network.whole
            and dispatcher.calm.allows(job.deadline_s - job.arrival_s, run_s, dispatcher.clock.now_s())
        )

    def lease(self, job: Job, device: int, now_s: float) -> tuple[int, list[float]]:
        """As many blocks as fit into a lease, at least one; and when each will end."""
        dispatcher = self._dispatcher
        network = job.network
        rows = slice(network.first_row + job.block, network.first_row + network.blocks)
        due_s = [t * job.rows for t in dispatcher.costs.latency_s[rows, device].tolist()]
        due_s = list(accumulate(due_s, initial=now_s))[1:]
        count = (
            len(due_s) if job.whole else max(1, sum(t <= now_s + dispatcher.options.lease_s for t in due_s))
        )
        return job.block + count, due_s[:count]

    def gather(self, job: Job) -> None:
        """Waiting requests that may share the batch, in order of deadline."""
        dispatcher = self._dispatcher
        if dispatcher.options.max_batch <= 1 or job.group is None or job.block > 0 or job.together:
            return
        room, waiting = dispatcher.options.max_batch - job.batch, dispatcher.waiting
        peers = [
            j for j in waiting.jobs()
            if j.group == job.group and j.block == 0 and j.pair == job.pair and j is not job and waiting.shown(j)
        ]  # fmt: skip
        for peer in sorted(peers, key=lambda j: (j.deadline_s, j.number)):
            if peer.batch <= room:
                job.together.append(peer)
                room -= peer.batch

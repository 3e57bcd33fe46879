"""While a device is busy: would the policy go on with what runs there, and who is next?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eunomia.serving.dispatch.jobs import RUNNING, Job
from eunomia.serving.dispatch.lanes import NEVER, Claim, Lane

if TYPE_CHECKING:
    from eunomia.serving.dispatch.dispatcher import Dispatcher


class LookAhead:
    """Asks the policy about a time that has not come yet, and keeps its promises to devices."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def look_at(self, device: int) -> float | None:
        """Would the policy still go on with what runs there at its next boundary? Returns when to ask next.

        Asks once for each boundary, and not while nobody else waits. None when there is nothing to ask any more: it
        has no boundary left, or only arrivals change this policy's mind.
        """
        dispatcher = self._dispatcher
        lane, now_s = dispatcher.lanes[device], dispatcher.clock.now_s()
        if lane.job is None or dispatcher.steady:
            return None
        boundary = lane.boundary(now_s, cut=True)
        if boundary != lane.looked and (len(dispatcher.waiting) or lane.next is not None):
            lane.looked, lane.asked_stop = boundary, NEVER
            self.reconsider(device, lane)
        if lane.stopping or boundary >= lane.last:
            return None
        return lane.boundary_s(now_s, cut=True)

    def reconsider(self, device: int, lane: Lane) -> None:
        """Would the policy, at the next boundary, go on with what runs? If not, stop it there.

        Asked as if it were that time already, the device idle, and its job waiting for its next block. Near its end,
        or when it is about to stop, the device is told what to do next.
        """
        now_s = self._dispatcher.clock.now_s()
        boundary = lane.boundary(now_s, cut=True)
        self.went_on(lane, boundary)
        if not lane.stopping and boundary < lane.last and lane.asked_stop != self._dispatcher.news:
            lane.asked_stop, lane.goes_on = self._dispatcher.news, None
            other = self._asked(device, lane, boundary, lane.boundary_s(now_s, cut=True))
            if other is not None and other.job is not lane.job:
                self._dispatcher.calm.disturbed(now_s)
                if not lane.uncut:
                    lane.stopping = True
                    self._dispatcher.executor.stop(device)
                    self._promise(device, lane, other)
                    return
            elif other is not None:
                lane.goes_on = boundary, other
        near = lane.stopping or lane.end_s(now_s) - now_s <= self._dispatcher.options.ahead_s
        if self._dispatcher.options.ahead_s > 0.0 and near and lane.asked_next != self._dispatcher.news:
            lane.asked_next = self._dispatcher.news
            end_s = lane.boundary_s(now_s) if lane.stopping else lane.end_s(now_s)
            block = boundary if lane.stopping else lane.last
            self._promise(device, lane, self._asked(device, lane, block, end_s))

    def went_on(self, lane: Lane, block: int) -> None:
        """A run has come so far: what the policy noted when it let it pass a boundary on the way counts.

        Unless something else has been noted since: the run would have gone on in any case.
        """
        if lane.goes_on is not None and block > lane.goes_on[0]:
            claim, lane.goes_on = lane.goes_on[1], None
            if claim.before.tobytes() == self._dispatcher.memory.tobytes():
                self.note(claim)

    def catch_up(self, device: int, lane: Lane, passed: int) -> None:
        """What the policy would have noted at a boundary now behind the run, where nobody asked: nobody else waited."""
        notes = self._dispatcher.memory.any()  # who noted nothing at a start notes nothing here
        if notes and lane.first < passed and lane.looked < passed and not lane.stopping:
            lane.looked = passed
            claim = self._asked(device, lane, passed, self._dispatcher.clock.now_s())
            if claim is not None and claim.job is lane.job:
                self.note(claim)

    def note(self, claim: Claim) -> None:
        """What the policy noted when it chose this now counts, if it is the policy still."""
        if claim.generation != self._dispatcher.generation:
            return
        if claim.before.tobytes() == self._dispatcher.memory.tobytes():
            self._dispatcher.memory[:] = claim.after
        else:  # something else has been started meanwhile
            change = claim.after - claim.before
            self._dispatcher.memory += np.where(np.isfinite(change), change, 0.0)

    def _asked(self, device: int, lane: Lane, block: int, at_s: float) -> Claim | None:
        """Whom the policy would start there, if what runs waited for ``block``; what it notes is not kept yet."""
        job = lane.job
        assert job is not None
        if lane.next is not None:
            self._show(lane.next.job)
        before, attained_s, took_s = job.block, job.attained_s, at_s - lane.start_s
        lane.job, lane.busy_s, last_request, lane.last_request = (
            None,
            lane.busy_s + took_s,
            lane.last_request,
            job.number,
        )
        job.block, job.attained_s = block, attained_s + took_s
        if block < job.network.blocks:
            self._dispatcher.wait(job, device, news=False)
            if block < lane.last:
                self._dispatcher.waiting.put_first(
                    job
                )  # of two that are equally urgent, the one that runs goes on
        chosen = None
        if lone := self._dispatcher.runs.lone():
            memory = self._dispatcher.memory.copy()
            chosen = Claim(lone, memory, memory, self._dispatcher.generation, self._dispatcher.news)
        elif len(self._dispatcher.waiting):
            view = self._dispatcher.view(at_s)
            found = [a for a in self._dispatcher.policy(view) if a.accelerator == device]
            if found:
                memory = np.array(view.system["memory"])
                chosen = Claim(
                    self._dispatcher.waiting.numbered(found[0].request),
                    self._dispatcher.memory.copy(),
                    memory,
                    self._dispatcher.generation,
                    self._dispatcher.news,
                )
        if job.row >= 0:
            self._dispatcher.waiting.remove(job)
        lane.job, lane.busy_s, lane.last_request = job, lane.busy_s - took_s, last_request
        job.block, job.attained_s, job.state = before, attained_s, RUNNING
        if lane.next is not None:
            self._hide(lane.next.job)
        return chosen

    def _promise(self, device: int, lane: Lane, claim: Claim | None) -> None:
        """Make this job the device's next one, in place of another if need be; one order is taken back at a time."""
        if self._dispatcher.options.ahead_s <= 0.0 or lane.revoked is not None:
            return
        if claim is not None and (claim.job is lane.job or not self._here(claim.job, device)):
            claim = None
        if claim is not None and lane.next is not None and claim.job in lane.next.job.together:
            claim = None  # it may run in that batch yet: first the device must say that it does not
        if lane.next is not None:
            if claim is not None and claim.job is lane.next.job:
                lane.next = claim
                return
            lane.revoked, lane.next = lane.next, None
            self._dispatcher.executor.revoke(device)
        if claim is None:
            return
        lane.next = claim
        runs = self._dispatcher.runs
        runs.gather(claim.job)
        runs.choose_whole(claim.job, device)
        self._hide(claim.job)
        self._dispatcher.executor.queue(
            device, claim.job, claim.job.block, runs.lease(claim.job, device, 0.0)[0]
        )

    @staticmethod
    def _here(job: Job, device: int) -> bool:
        """Whether a device can start a job without its tensors being fetched first."""
        return job.block == 0 or job.device == device

    def _hide(self, job: Job) -> None:
        for member in (job, *job.together):
            self._dispatcher.waiting.hide(member)

    def _show(self, job: Job) -> None:
        for member in (job, *job.together):
            if member.row >= 0:
                self._dispatcher.waiting.show(member)

    def free(self, job: Job) -> None:
        """Nobody is going to run it now: it waits, or leaves if its client has gone away meanwhile."""
        members = [job, *job.together]
        self._show(job)
        if job.block == 0:
            job.together = []
        for member in members:
            if member.cancelled and member.row >= 0:
                self._dispatcher.withdraw(member)
                self._dispatcher.executor.dropped(member, "cancelled")
        self._dispatcher.news += 1

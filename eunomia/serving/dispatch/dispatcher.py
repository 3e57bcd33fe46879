"""The dispatcher: shows the simulator's View on a real clock, and carries out what the policy answers.

It does no input or output: an ``Executor`` passes orders to devices, time comes from a ``Clock``. So the same code
serves live requests, and a recorded trace in a test. What it remembers is ``state``; ``runs``, ``look_ahead`` and
``reports`` are functions over that state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from eunomia.contract.traits import WAKE_S
from eunomia.core.arrays import Floats
from eunomia.serving.dispatch import look_ahead, reports, runs
from eunomia.serving.dispatch.indicators import Indicator, Past
from eunomia.serving.dispatch.jobs import GONE, NOWHERE, Job
from eunomia.serving.dispatch.lanes import NEVER
from eunomia.serving.dispatch.placing import best_device
from eunomia.serving.dispatch.state import State
from eunomia.workload.tenant import Agreement

EARLY_SHARE = 0.5  # of the time until its deadline: a client that gives up before says nothing of the service


class Dispatcher(State):
    """Waiting jobs, devices, indicators, and the policy between them."""

    # --- promises and requests -----------------------------------------------------------------------

    def add_pair(self, agreement: Agreement, past: Sequence[Past] = ()) -> int:
        """Add a tenant-model pair, with what was promised and what the ledger has of it; returns its number."""
        self.know(agreement.tenant)
        self.agreements.append(agreement)
        indicator = Indicator(agreement.slo)
        indicator.recall(past)
        self.table.add(indicator)
        return len(self.agreements) - 1

    def know(self, tenant: str) -> int:
        """The number of a tenant, who may be new."""
        number = self.tenants.setdefault(tenant, len(self.tenants))
        self.views.know(len(self.tenants))
        return number

    def begun_s(self) -> Floats:
        """(tenants,): what is left of requests that have begun, those that run in full since this run began [s]."""
        left_s = self.waiting.begun_s(len(self.tenants))
        for lane in self.lanes:
            if lane.job is not None:
                tenant = self.tenants[self.agreements[lane.job.pair].tenant]
                left_s[tenant] += self.rest_s(lane.job)
        return left_s

    def last_run_s(self, now_s: float) -> float:
        """How long what was started last has run: so long the policy has started nothing [s]."""
        lane = max(self.lanes, key=lambda lane: lane.start_s)
        return max((lane.free_s if lane.job is None else now_s) - lane.start_s, 0.0)

    def change_pair(self, pair: int, agreement: Agreement) -> None:
        """Promise something else to a pair: it holds for requests that begin to wait from now on."""
        if agreement.slo != self.agreements[pair].slo:
            self.table.replace(pair, Indicator(agreement.slo))
        self.agreements[pair] = agreement

    def arrive(self, job: Job) -> None:
        """An accepted request waits, and the policy decides; one that is alone starts if nothing is to be decided."""
        self._expect(job)
        if runs.start_alone(self, job):
            job.reach_s = self.clock.now_s() - job.accepted_s
            return
        self._enter(job)
        self.decide()

    def enter(self, job: Job) -> None:
        """An accepted request waits; the caller makes sure that ``decide`` runs soon."""
        self._expect(job)
        self._enter(job)

    def _expect(self, job: Job) -> None:
        self.classify(job)
        self.calm.arrived(job.deadline_s - job.accepted_s, self.rest_s(job), self.clock.now_s())

    def _enter(self, job: Job) -> None:
        if not len(self.waiting) and not self.steady:
            for device, lane in enumerate(self.lanes):
                if lane.job is not None and lane.next is None:
                    look_ahead.catch_up(self, device, lane.boundary(self.clock.now_s(), cut=True) - 1)
        self.wait(job)
        self.unheard.append(job)

    def leave(
        self, job: Job, *, dropped: bool = False, by_client: bool = False, of_input: bool = False
    ) -> bool:
        """A request has its answer; returns whether it met its deadline. Its indicator moves.

        Not so for one that its client gave up before half of its time was over, while it could still be met: no promise
        was broken. Later it was the server that kept the client waiting. Nor for one on whose input the network failed.
        """
        now_s = self.clock.now_s()
        hit = not dropped and now_s <= job.deadline_s
        job.state = GONE
        self.finished += 1
        if not dropped:
            job.answer_s = max(0.0, now_s - job.ended_s)
        early = now_s - job.arrival_s < EARLY_SHARE * (job.deadline_s - job.arrival_s)
        given_up = by_client and early and now_s + self.rest_s(job) <= job.deadline_s
        if not (given_up or of_input):
            self.indicators[job.pair].observe(now_s, now_s - job.arrival_s, hit=hit, dropped=dropped)
            self.table.changed(job.pair)
        return hit

    def missed(self, pair: int) -> None:
        """A request that was refused could have met its deadline."""
        self.indicators[pair].observe(self.clock.now_s(), math.inf, hit=False, dropped=True)
        self.table.changed(pair)

    def wait_again(self, job: Job) -> None:
        """A job whose run was lost starts again from its first block, or its next rows wait."""
        job.block, job.device = 0, -1
        if not job.through:  # else what its first rows took counts
            job.work_s, job.expected_s, job.lost_s, job.usual_s, job.runs = 0.0, 0.0, 0.0, 0.0, 0
            job.worked_on = NOWHERE
        self.classify(job)
        self.wait(job)

    def run_again(self, job: Job) -> None:
        """Each request of a batch by itself."""
        members, job.together = [job, *job.together], []
        for member in members:
            member.group = None
            self.wait_again(member)

    def run_others(self, job: Job) -> None:
        """Those of its batch begin anew without it: it leaves between two blocks."""
        members, job.together = job.together, []
        for member in members:
            if member.cancelled:
                self.executor.dropped(member, "cancelled")
            else:
                self.wait_again(member)

    # --- what devices report -------------------------------------------------------------------------

    def done(
        self,
        device: int,
        next_block: int,
        follows: Job | None = None,
        span_s: tuple[float, float] | None = None,
        work_s: float | None = None,
    ) -> Job:
        """A run has ended, or has stopped at a boundary; returns its job. Decides nothing yet.

        ``follows``: the queued job that the device has gone on with. ``span_s``: when the run began and ended by the
        device's own watch, which knows better than the times at which its messages are read; ``work_s``: how much of
        that its blocks took.
        """
        return reports.done(self, device, next_block, follows, span_s, work_s)

    def failed(
        self,
        device: int,
        follows: Job | None = None,
        *,
        sent: bool = True,
        span_s: tuple[float, float] | None = None,
    ) -> Job:
        """The network of what ran has failed; returns its job, which waits no more. ``sent``: the device knew of it."""
        return reports.failed(self, device, follows, sent=sent, span_s=span_s)

    def unstarted(self, device: int, follows: Job | None = None) -> None:
        """A device has not started the job that was believed to run: the job waits again."""
        reports.unstarted(self, device, follows)

    def released(self, device: int, job: Job) -> None:
        """A device has not started a revoked job: it waits like any other."""
        reports.released(self, device, job)

    def lost(self, device: int, *, sent: bool = True, blame: bool = True) -> Job | None:
        """A device has died; returns the job that it was running. Its queued jobs wait again."""
        return reports.lost(self, device, sent=sent, blame=blame)

    # --- decisions -----------------------------------------------------------------------------------

    def decide(self) -> None:
        """Drop late requests, start what the policy chooses, and stop runs that it would no longer choose."""
        if len(self.lanes) == 1 and not (self.unheard or len(self.waiting) or self.lanes[0].next):
            return
        heard, self.unheard = self.unheard, []
        self._drop_overdue()
        self._fill_idle()
        for device, lane in enumerate(self.lanes):
            leaves = look_ahead.may_leave(self, device)
            if leaves:  # that a device idles is no news otherwise
                lane.asked_stop = NEVER
            if lane.job is not None and (len(self.waiting) or lane.next is not None or leaves):
                look_ahead.reconsider(self, device)
                if lane.alone and not lane.stopping:
                    lane.alone = False
                    self.executor.look(device)
        now_s = self.clock.now_s()
        for job in heard:
            job.reach_s = now_s - job.accepted_s

    def look_again(self) -> None:
        """Decide anew because time has passed."""
        self.news += 1
        self.decide()

    def look_at(self, device: int) -> float | None:
        """Check the policy's choice at the next boundary on this device; returns when to check again, None = never."""
        return look_ahead.look_at(self, device)

    def _fill_idle(self) -> None:
        """Run the policy for as long as a device is idle, a job waits, and the policy starts something."""
        while len(self.waiting) and self.idle:
            if lone := runs.lone(self):
                runs.start(self, lone, 0)
                return
            view = self.view(self.clock.now_s())
            answer = self.policy(view)
            self.memory[:] = view.system["memory"]
            if not answer:
                if (wake_s := WAKE_S.of(self.policy)) < math.inf:
                    self.executor.wake(wake_s)
                return
            for job, device in [(self.waiting.numbered(a.request), a.accelerator) for a in answer]:
                if job.row >= 0:  # else it runs in the batch of one before
                    runs.start(self, job, best_device(self, job, device) if len(answer) == 1 else device)

    def _drop_overdue(self) -> None:
        now_s = self.clock.now_s()
        for job in self.waiting.overdue(now_s):
            self.waiting.remove(job)
            self.executor.dropped(job, "expired" if job.hard_timeout_s < now_s else "hopeless")

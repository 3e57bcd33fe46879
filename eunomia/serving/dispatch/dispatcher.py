"""The dispatcher: shows the simulator's View on a real clock, and carries out what the policy answers.

It does no input or output: devices are told through an ``Executor``, time comes from a ``Clock``. So the
same code serves live requests, and a recorded trace in a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from eunomia.contract.view import Assign, View
from eunomia.serving.dispatch.calm import Calm
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.indicators import Indicator
from eunomia.serving.dispatch.jobs import GONE, WAITING, Job
from eunomia.serving.dispatch.lanes import Lane
from eunomia.serving.dispatch.look_ahead import LookAhead
from eunomia.serving.dispatch.options import DispatchOptions, Executor
from eunomia.serving.dispatch.overheads import Overheads
from eunomia.serving.dispatch.runs import Runs
from eunomia.serving.dispatch.views import IndicatorTable, Views, facts_of
from eunomia.serving.dispatch.waiting import WaitingTable
from eunomia.workload.tenant import Agreement

EARLY_SHARE = (
    0.5  # of the time until its deadline: who is given up by its client before says nothing of the service
)


class Dispatcher:
    """Waiting jobs, devices, indicators, and the policy between them."""

    def __init__(
        self, clock: Clock, executor: Executor, costs: CostBook, devices: int,
        policy: Callable[[View], Sequence[Assign]], options: DispatchOptions,
    ) -> None:  # fmt: skip
        self.clock, self.executor, self.costs, self.options = clock, executor, costs, options
        self.policy = policy
        self.lanes = [Lane() for _ in range(devices)]
        self.waiting = WaitingTable()
        self.calm = Calm(options.calm_s, options.lease_s)
        self.agreements: list[Agreement] = []
        self.tenants: dict[str, int] = {}
        self.rounds = self.starts = self.finished = self.preemptions = 0
        self.overheads = Overheads()
        self._table = IndicatorTable()
        self._views = Views(
            self.waiting,
            costs,
            self.lanes,
            options.bandwidth_bytes_s,
            options.late == "last",
            options.starve_s,
        )
        self.memory = np.zeros(64)  # what the policy has noted down
        self.runs, self.ahead = Runs(self), LookAhead(self)
        self.generation = 0
        self.news = 0  # counts what may change the policy's mind
        self.unheard: list[Job] = []  # have come since the policy was last asked

    @property
    def indicators(self) -> Sequence[Indicator]:
        """Of every pair, in their order."""
        return self._table.indicators

    # --- what the server tells -----------------------------------------------------------------------

    def add_pair(self, agreement: Agreement) -> int:
        """A (tenant, network) pair, with what was promised; returns its number."""
        self.tenants.setdefault(agreement.tenant, len(self.tenants))
        self._views.know(len(self.tenants))
        self.agreements.append(agreement)
        self._table.add(Indicator(agreement.slo))
        return len(self.agreements) - 1

    def change_pair(self, pair: int, agreement: Agreement) -> None:
        """Something else was promised to a pair: it holds for requests that begin to wait from now on."""
        if agreement.slo != self.agreements[pair].slo:
            self._table.replace(pair, Indicator(agreement.slo))
        self.agreements[pair] = agreement

    def arrive(self, job: Job) -> None:
        """An accepted request: it waits, and the policy is asked."""
        self.enter(job)
        self.decide()

    def enter(self, job: Job) -> None:
        """An accepted request waits; whoever calls this sees to it that ``decide`` is called soon."""
        own_s = self.costs.rest_s(job.network)[0][0] * job.batch
        self.calm.arrived(job.deadline_s - job.arrival_s, own_s, self.clock.now_s())
        if not len(self.waiting) and not self.steady:
            for device, lane in enumerate(self.lanes):
                if lane.job is not None and lane.next is None:
                    self.ahead.catch_up(device, lane, lane.boundary(self.clock.now_s(), cut=True) - 1)
        self.wait(job)
        self.unheard.append(job)

    def done(
        self, device: int, next_block: int, follows: Job | None = None,
        span_s: tuple[float, float] | None = None, work_s: float | None = None,
    ) -> Job:  # fmt: skip
        """A device reports: its run has ended, or has stopped at a boundary. Returns its job; decides nothing yet.

        ``follows``: the queued job that the device has gone on with. ``span_s``: when the run began and ended by the
        device's own watch, which knows better than the times at which its messages are read; ``work_s``: how much of
        that its blocks took.
        """
        lane = self.lanes[device]
        job = lane.job
        assert job is not None
        began_s, ended_s = span_s or (lane.start_s, self.clock.now_s())
        if lane.first == 0:
            for member in (job, *job.together):
                member.start_s = began_s
        took_s = ended_s - began_s
        self.ahead.went_on(lane, next_block)
        if not len(self.waiting) and lane.next is None and not self.steady:
            self.ahead.catch_up(device, lane, next_block - 1)
        if (
            lane.free_s >= job.arrival_s and lane.last_request != job.number
        ):  # else it had to be reached, or goes on
            beside_s = 0.0 if work_s is None else took_s - work_s
            self.overheads.turned(max(lane.free_s, job.ended_s), began_s, beside_s)
        lane.free_s = ended_s
        for member in (job, *job.together):
            member.ended_s = ended_s
        lane.busy_s += took_s
        preempted = next_block < lane.last
        lane.last_request = job.number
        lane.clear()
        job.block, job.device = next_block, device
        job.attained_s += took_s
        if next_block < job.network.blocks:
            if preempted:
                self.preemptions += 1
                job.preemptions += 1
            self.wait(job)
        if follows is not None:
            self.runs.follow(device, follows, ended_s)
        return job

    def failed(self, device: int, follows: Job | None = None) -> Job:
        """The network of what ran has failed; returns its job, which waits no more."""
        lane = self.lanes[device]
        job = lane.job
        assert job is not None
        lane.clear()
        if follows is not None:
            self.runs.follow(device, follows, self.clock.now_s())
        return job

    def unstarted(self, device: int, follows: Job | None = None) -> None:
        """A device has not started what was thought to run: it waits again."""
        lane = self.lanes[device]
        job = lane.job
        assert job is not None
        lane.clear()
        members = (job, *job.together) if job.block == 0 else (job,)
        if job.block == 0:
            job.together, job.start_s = [], math.nan
        for member in members:
            if member.cancelled:
                self.executor.dropped(member, "cancelled")
            else:
                self.wait(member)
        if follows is not None:
            self.runs.follow(device, follows, self.clock.now_s())

    def released(self, device: int, job: Job) -> None:
        """A device has not started a revoked job: it waits like any other."""
        lane = self.lanes[device]
        if lane.revoked is not None and lane.revoked.job is job:
            lane.revoked = None
            self.ahead.free(job)

    def leave(self, job: Job, *, dropped: bool = False, by_client: bool = False) -> bool:
        """A request has its answer; returns whether it met its deadline. Its indicator moves.

        Not so for one that its client gave up before half of its time was over, while it could still be met: no promise
        was broken. Later it was the server that kept the client waiting.
        """
        now_s = self.clock.now_s()
        hit = not dropped and now_s <= job.deadline_s
        job.state = GONE
        self.finished += 1
        if not dropped:
            job.answer_s = max(0.0, now_s - job.ended_s)
        early = now_s - job.arrival_s < EARLY_SHARE * (job.deadline_s - job.arrival_s)
        if not (by_client and early and now_s + self.rest_s(job) <= job.deadline_s):
            self.indicators[job.pair].observe(now_s, now_s - job.arrival_s, hit=hit, dropped=dropped)
            self._table.changed(job.pair)
        return hit

    def rest_s(self, job: Job) -> float:
        """Its remaining blocks on the best device of each, for all rows of its input."""
        return self.costs.rest_s(job.network)[0][job.block] * job.rows

    def withdraw(self, job: Job) -> None:
        """A job that waits shall not run any more (cancelled, or its device is lost)."""
        if job.row >= 0:
            self.waiting.remove(job)

    def lost(self, device: int) -> Job | None:
        """A device has died; returns the job that it was running. What was queued there waits again."""
        lane = self.lanes[device]
        job, lane.alive = lane.job, False
        lane.clear()
        queued = [lane.next.job] if lane.next is not None else []
        queued += [lane.revoked.job] if lane.revoked is not None else []
        lane.next = lane.revoked = None
        for other in queued:
            self.ahead.free(other)
        self.costs.lost(device)
        return job

    def wait_again(self, job: Job) -> None:
        """A job whose run was lost starts again from its first block."""
        job.block, job.device = 0, -1
        self.wait(job)

    @property
    def steady(self) -> bool:
        """Whether only arrivals change the policy's mind about what runs; with several devices none says so.

        What turns late while it runs, or starves, is noticed at the next ``look_again``.
        """
        return len(self.lanes) == 1 and getattr(self.policy, "steady", False)

    def look_again(self) -> None:
        """Time has passed, and a policy may think otherwise by now."""
        self.news += 1
        self.decide()

    # --- decisions -----------------------------------------------------------------------------------

    def decide(self) -> None:
        """Drop what must go, start what the policy wants, and stop runs that it would no longer choose."""
        heard, self.unheard = self.unheard, []
        self._drop_overdue()
        self._fill_idle()
        for device, lane in enumerate(self.lanes):
            if lane.job is not None and (len(self.waiting) or lane.next is not None):
                self.ahead.reconsider(device, lane)
        now_s = self.clock.now_s()
        for job in heard:
            job.reach_s = now_s - job.arrival_s

    @property
    def idle(self) -> bool:
        """Whether a device that lives has nothing to do."""
        return any(lane.job is None and lane.alive for lane in self.lanes)

    def _fill_idle(self) -> None:
        """Ask the policy for as long as a device is idle, somebody waits, and it starts something."""
        while len(self.waiting) and self.idle:
            if lone := self.runs.lone():
                self.runs.start(lone, 0)
                return
            view = self.view(self.clock.now_s())
            answer = self.policy(view)
            self.memory[:] = view.system["memory"]
            if not answer:
                return
            for job, device in [(self.waiting.numbered(a.request), a.accelerator) for a in answer]:
                if job.row >= 0:  # else it runs in the batch of one before
                    self.runs.start(job, device)

    def _drop_overdue(self) -> None:
        now_s = self.clock.now_s()
        for job in self.waiting.overdue(now_s):
            self.waiting.remove(job)
            self.executor.dropped(job, "expired" if job.hard_timeout_s < now_s else "hopeless")

    def began(self, job: Job, now_s: float) -> None:
        """A run of it has begun."""
        self.starts += 1
        self._views.served(self.tenants[self.agreements[job.pair].tenant], now_s)

    # --- the view ------------------------------------------------------------------------------------

    def wait(self, job: Job, device: int | None = None, *, news: bool = True) -> None:
        """A job may be offered from now on. ``device``: where its tensors are, if not where it says."""
        agreement, now_s = self.agreements[job.pair], self.clock.now_s()
        where = job.device if device is None else device
        job.state = WAITING
        facts = facts_of(job, agreement, self.tenants[agreement.tenant], self.costs, now_s, where)
        due_s = job.hard_timeout_s
        if self.options.late == "drop":  # no later than the last moment at which it could make it
            due_s = min(due_s, job.deadline_s - self.rest_s(job))
        self.waiting.add(job, facts, due_s)
        self.news += news

    def view(self, at_s: float) -> View:
        """What the policy sees if asked at that time."""
        self.rounds += 1
        generation = getattr(self.policy, "generation", 0)
        if generation != self.generation:  # another policy: what the old one had noted is nothing to it
            self.generation, self.memory = generation, np.zeros(64)
        return self._views.view(at_s, self._table, self.memory, self.starts, self.finished)

"""The dispatcher: shows the simulator's View on a real clock, and carries out what the policy answers.

It does no input or output: devices are told through an ``Executor``, time comes from a ``Clock``. So the
same code serves live requests, and a recorded trace in a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from eunomia.inference.view import ACCELERATOR, SYSTEM, Assign, View
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.indicators import Indicator
from eunomia.serving.dispatch.jobs import GONE, RUNNING, WAITING, Job, WaitingTable
from eunomia.workload.tenant import Agreement


class Executor(Protocol):
    """Whoever owns the devices."""

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        """Start blocks ``first`` .. ``last - 1``; ``Dispatcher.done`` is called when they end or stop early."""

    def stop(self, device: int) -> None:
        """Stop at the next block boundary, if the device has not passed its last one."""

    def dropped(self, job: Job, why: str) -> None:
        """The job will not run: ``expired``, ``hopeless`` or ``cancelled``; it needs its answer."""


@dataclass
class Lane:
    """One device as the dispatcher sees it."""

    job: Job | None = None
    first: int = 0
    last: int = 0
    start_s: float = 0.0
    stopping: bool = False
    last_request: int = -1
    busy_s: float = 0.0
    alive: bool = True


@dataclass(frozen=True)
class DispatchOptions:
    """``lease_s``: the longest run without asking the policy again (0 = one block at a time).
    ``late``: what happens to waiting requests that can no longer meet their deadline: ``last`` or ``drop``.
    ``max_batch``: requests that may run together. ``bandwidth_bytes_s``: of the machine, for gated rules.
    """  # noqa: D205

    lease_s: float = 0.05
    late: str = "last"
    max_batch: int = 1
    bandwidth_bytes_s: float = math.inf


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
        self.agreements: list[Agreement] = []
        self.indicators: list[Indicator] = []
        self.tenants: dict[str, int] = {}
        self.rounds = self.starts = self.finished = self.preemptions = 0
        self.block_s = 0.0  # sum over all blocks that ran
        self._memory = np.zeros(64)

    # --- what the server tells -----------------------------------------------------------------------

    def add_pair(self, agreement: Agreement) -> int:
        """A (tenant, network) pair, with what was promised; returns its number."""
        self.tenants.setdefault(agreement.tenant, len(self.tenants))
        self.agreements.append(agreement)
        self.indicators.append(Indicator(agreement.slo))
        return len(self.agreements) - 1

    def arrive(self, job: Job) -> None:
        """An accepted request: it waits, and the policy is asked."""
        self._wait(job)
        self.decide()

    def done(self, device: int, next_block: int, seconds: Sequence[float]) -> Job:
        """A device reports: its run has ended, or has stopped at a boundary. Returns its job; decides nothing yet."""
        lane, now_s = self.lanes[device], self.clock.now_s()
        job = lane.job
        assert job is not None
        self.costs.learn(
            job.network, device, lane.first, list(seconds), job.batch + sum(j.batch for j in job.together)
        )
        self.block_s += sum(seconds)
        took_s = now_s - lane.start_s
        lane.busy_s += took_s
        lane.job, lane.stopping, lane.last_request = None, False, job.number
        job.block, job.device = next_block, device
        job.attained_s += took_s
        if next_block < job.network.blocks:
            if next_block < lane.last:
                self.preemptions += 1
                job.preemptions += 1
            self._wait(job)
        return job

    def leave(self, job: Job, *, dropped: bool = False) -> bool:
        """A request has its answer; returns whether it met its deadline. Its indicator moves."""
        now_s = self.clock.now_s()
        hit = not dropped and now_s <= job.deadline_s
        job.state = GONE
        self.finished += 1
        self.indicators[job.pair].observe(now_s, now_s - job.arrival_s, hit=hit, dropped=dropped)
        return hit

    def withdraw(self, job: Job) -> None:
        """A job that waits shall not run any more (cancelled, or its device is lost)."""
        if job.row >= 0:
            self.waiting.remove(job)

    def lost(self, device: int) -> Job | None:
        """A device has died; returns the job that it was running."""
        lane = self.lanes[device]
        job, lane.job, lane.alive, lane.stopping = lane.job, None, False, False
        self.costs.lost(device)
        return job

    def wait_again(self, job: Job) -> None:
        """A job whose run was lost starts again from its first block."""
        job.block, job.device = 0, -1
        self._wait(job)

    # --- decisions -----------------------------------------------------------------------------------

    def decide(self) -> None:
        """Drop what must go, start what the policy wants, and stop runs that it would no longer choose."""
        self._drop_expired()
        while len(self.waiting) and any(lane.job is None and lane.alive for lane in self.lanes):
            view, rows = self._view()
            self.rounds += 1
            answer = self.policy(view)
            self._memory[:] = view.system["memory"]
            if not answer:
                break
            chosen = [(self._job_of(view, rows, assign), assign.accelerator) for assign in answer]
            for job, device in chosen:
                self._start(job, device)
        if len(self.waiting):
            self._reconsider()

    def _start(self, job: Job, device: int) -> None:
        lane, now_s = self.lanes[device], self.clock.now_s()
        self.waiting.remove(job)
        if job.block == 0:
            job.start_s = now_s
            self._gather(job)
        job.state = RUNNING
        last = self._lease_end(job, device)
        lane.job, lane.first, lane.last, lane.start_s = job, job.block, last, now_s
        lane.stopping = False
        self.starts += 1
        self.executor.run(device, job, job.block, last)

    def _lease_end(self, job: Job, device: int) -> int:
        """As many blocks as fit into a lease, at least one."""
        rows = self.costs.rows(job.network)
        ends = np.cumsum(self.costs.latency_s[rows, device][job.block :]) * job.batch
        return job.block + max(1, int(np.searchsorted(ends, self.options.lease_s, side="right")))

    def _gather(self, job: Job) -> None:
        """Waiting requests that may share the batch, in order of deadline."""
        if self.options.max_batch <= 1 or job.group is None:
            return
        room = self.options.max_batch - job.batch
        peers = [
            j for j in self.waiting.jobs() if j.group == job.group and j.block == 0 and j.pair == job.pair
        ]
        for peer in sorted(peers, key=lambda j: (j.deadline_s, j.number)):
            if peer.batch <= room:
                self.waiting.remove(peer)
                peer.state, peer.start_s = RUNNING, job.start_s
                job.together.append(peer)
                room -= peer.batch

    def _reconsider(self) -> None:
        """Would the policy, at the next boundary, go on with what runs? If not, stop it there.

        Asked as if the device were idle and its job waited for its next block; what the policy then notes in its
        memory is not kept.
        """
        for device, lane in enumerate(self.lanes):
            job = lane.job
            if job is None or lane.stopping:
                continue
            boundary = self._next_boundary(lane, device)
            if boundary >= lane.last:
                continue
            lane.job = None
            block, job.block = job.block, boundary
            self._wait(job, device)
            self.waiting.put_first(job)  # of two that are equally urgent, the one that runs goes on
            view, rows = self._view()
            self.rounds += 1
            others = [self._job_of(view, rows, a) for a in self.policy(view) if a.accelerator == device]
            self.waiting.remove(job)
            job.block, job.state, lane.job = block, RUNNING, job
            if others and others[0] is not job:
                lane.stopping = True
                self.executor.stop(device)

    def _next_boundary(self, lane: Lane, device: int) -> int:
        """The block before which the device will next look at its flag, by estimate."""
        assert lane.job is not None
        rows = self.costs.rows(lane.job.network)
        ends = np.cumsum(self.costs.latency_s[rows, device][lane.first : lane.last]) * lane.job.batch
        passed = int(np.searchsorted(ends, self.clock.now_s() - lane.start_s, side="right"))
        return min(lane.first + passed + 1, lane.last)

    def _drop_expired(self) -> None:
        if not len(self.waiting):
            return
        now_s = self.clock.now_s()
        rows = self.waiting.rows()
        records = self.waiting.records[rows]
        expired = self.waiting.hard_timeout_s[rows] < now_s
        late = records["deadline_s"] < now_s + records["path_best_s"]
        gone = expired | late if self.options.late == "drop" else expired
        for n in np.flatnonzero(gone):
            job = self.waiting.job(int(rows[n]))
            self.waiting.remove(job)
            self.executor.dropped(job, "expired" if expired[n] else "hopeless")

    # --- the view ------------------------------------------------------------------------------------

    def _wait(self, job: Job, device: int | None = None) -> None:
        agreement, now_s = self.agreements[job.pair], self.clock.now_s()
        best, mean = self.costs.rest_s(job.network)
        n, row = job.block, job.network.first_row + job.block
        job.state = WAITING
        self.waiting.add(
            job, request=job.number, layer=n, row=row, model=job.network.index,
            tenant=self.tenants[agreement.tenant], pair=job.pair, arrival_s=job.arrival_s, deadline_s=job.deadline_s,
            ready_s=now_s, work_best_s=best[n], work_mean_s=mean[n], path_best_s=best[n], path_mean_s=mean[n],
            iso_best_s=best[0], iso_mean_s=mean[0], bytes_left=0.0, attained_s=job.attained_s,
            last_run_s=now_s if n else job.arrival_s, priority=agreement.priority * job.urgency,
            weight=agreement.weight, slo=agreement.slo.target if agreement.slo else math.nan, layers_done=n,
            layers_total=job.network.blocks, deferrable=0, bound=-1,
            accelerator=job.device if device is None else device,
        )  # fmt: skip

    def _view(self) -> tuple[View, npt.NDArray[np.int64]]:
        rows = self.waiting.rows()
        ready = self.waiting.records[rows]
        now_s = self.clock.now_s()
        sli = np.array([i.sli for i in self.indicators])
        gap = np.array([i.gap for i in self.indicators])
        count = np.array([i.count for i in self.indicators])
        pair = ready["pair"]
        ready["sli"], ready["gap"], ready["sli_count"] = sli[pair], gap[pair], count[pair]
        ready["late"] = ready["deadline_s"] < now_s + ready["path_best_s"]
        latency_s = self.costs.latency_s[ready["row"]]
        zeros = np.zeros_like(latency_s)
        view = View(self._system(now_s), ready, self._accelerators(now_s), latency_s, zeros, zeros)
        for array in (view.ready, view.accelerators, view.latency_s, view.demand_bytes_s):
            array.flags.writeable = False
        return view, rows

    def _accelerators(self, now_s: float) -> npt.NDArray[Any]:
        table = np.zeros(len(self.lanes), ACCELERATOR)
        for device, lane in enumerate(self.lanes):
            job, record = lane.job, table[device]
            record["type"], record["last_request"], record["busy_s"] = device, lane.last_request, lane.busy_s
            record["request"] = -1 if job is None and lane.alive else (job.number if job else 0)
            if job is not None:
                boundary = self._next_boundary(lane, device)
                rows = self.costs.rows(job.network)
                due_s = (
                    lane.start_s + self.costs.latency_s[rows, device][lane.first : boundary].sum() * job.batch
                )
                record["layer"], record["free_in_s"] = boundary - 1, max(due_s - now_s, 1e-6)
        return table

    def _system(self, now_s: float) -> Any:
        system = np.zeros(1, SYSTEM)
        record = system[0]
        record["now_s"], record["bandwidth_bytes_s"] = now_s, self.options.bandwidth_bytes_s
        record["starts"], record["finished"] = self.starts, self.finished
        record["live"] = len(self.waiting) + sum(lane.job is not None for lane in self.lanes)
        record["late_last"] = self.options.late == "last"
        record["memory"] = self._memory
        return record

    def _job_of(self, view: View, rows: npt.NDArray[np.int64], assign: Assign) -> Job:
        index = np.flatnonzero(
            (view.ready["request"] == assign.request) & (view.ready["layer"] == assign.layer)
        )[0]
        return self.waiting.job(int(rows[index]))

"""All that the dispatcher remembers: one value, over which the functions of this package work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eunomia.contract.traits import GENERATION, STEADY
from eunomia.contract.view import Assign, View
from eunomia.serving.dispatch.calm import Calm
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.harvest import Harvest
from eunomia.serving.dispatch.indicators import Indicator
from eunomia.serving.dispatch.jobs import WAITING, Job
from eunomia.serving.dispatch.lanes import Lane
from eunomia.serving.dispatch.later import Later
from eunomia.serving.dispatch.neighbours import Neighbours
from eunomia.serving.dispatch.notes import code_of, emptied, tell
from eunomia.serving.dispatch.options import DispatchOptions, Executor
from eunomia.serving.dispatch.overheads import Overheads
from eunomia.serving.dispatch.views import Facts, IndicatorTable, Owed, Views, facts_of
from eunomia.serving.dispatch.waiting import WaitingTable
from eunomia.workload.tenant import Agreement

Policy = Callable[[View], Sequence[Assign]]


@dataclass(eq=False)
class State:
    """Waiting jobs, devices, promises, indicators, and what the policy has noted.

    ``news`` counts the events that may change the policy's choice; ``unheard`` holds the jobs that arrived since its
    last decision; ``later`` what was measured and is not learned yet; ``neighbours`` what devices do to each other, if
    somebody wants to know; ``harvest`` who takes what others leave. ``memory`` (64,) is the policy's own; a policy of
    another ``generation`` starts from zeros; ``owed``: what it has not been told yet. ``elsewhere`` moves it by what
    other replicas have served. ``patience_s``: for how long others can wait for a block of a batch with such a request.
    """

    clock: Clock
    executor: Executor
    costs: CostBook
    devices: int
    policy: Policy
    options: DispatchOptions
    lanes: list[Lane] = field(init=False)
    waiting: WaitingTable = field(default_factory=WaitingTable)
    calm: Calm = field(init=False)
    agreements: list[Agreement] = field(default_factory=list)
    tenants: dict[str, int] = field(default_factory=dict)
    overheads: list[Overheads] = field(init=False)
    later: Later = field(default_factory=Later)
    neighbours: Neighbours | None = None
    harvest: Harvest | None = None
    table: IndicatorTable = field(default_factory=IndicatorTable)
    views: Views = field(init=False)
    memory: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(64))
    generation: int = 0
    owed: list[Owed] = field(default_factory=list)
    news: int = 0
    unheard: list[Job] = field(default_factory=list)
    rounds: int = 0
    starts: int = 0
    finished: int = 0
    preemptions: int = 0
    elsewhere: Callable[[], None] | None = None
    patience_s: Callable[[Job], float] = lambda job: math.inf

    def __post_init__(self) -> None:
        self.lanes = [Lane() for _ in range(self.devices)]
        self.overheads = [Overheads() for _ in range(self.devices)]
        self.calm = Calm(self.options.calm_s, self.options.lease_s)
        self.views = Views(self.waiting, self.costs, self.lanes, self.options)

    @property
    def indicators(self) -> Sequence[Indicator]:
        """The indicator of every pair, in their order."""
        return self.table.indicators

    @property
    def idle(self) -> bool:
        """Whether a live device has nothing to do."""
        return any(lane.job is None and lane.alive for lane in self.lanes)

    @property
    def steady(self) -> bool:
        """Whether only arrivals change the policy's choice among what runs; False with several devices.

        Jobs that turn late while they run, or starve, are noticed at the next ``look_again``.
        """
        return len(self.lanes) == 1 and STEADY.of(self.policy)

    def rest_s(self, job: Job) -> float:
        """Its remaining blocks on the best device of each, for all rows of its input."""
        rest_s = self.costs.rest_s(job.network, job.cost_row)[0]
        now_s = rest_s[job.block] * job.rows
        return now_s + rest_s[0] * job.later if job.later else now_s

    def classify(self, job: Job) -> None:
        """Find the block times of its shape, with the rows of its batch."""
        job.cost_row = self.costs.row_of(job.network, job.rows, job.sizes, job.pair)

    def wait(self, job: Job, device: int | None = None, *, news: bool = True) -> None:
        """Offer a job from now on. ``device``: where its tensors are, if not where the job says."""
        job.state = WAITING
        self.waiting.add(job, *self._offer(job, job.device if device is None else device))
        self.news += news

    def _offer(self, job: Job, device: int) -> tuple[Facts, float]:
        """What policies see of a waiting job, and when it is given up."""
        agreement, now_s = self.agreements[job.pair], self.clock.now_s()
        due_s = job.hard_timeout_s
        if self.options.late == "drop" and self.sure(
            job
        ):  # the last moment at which it could meet its deadline
            due_s = min(due_s, job.deadline_s - self.rest_s(job))
        return facts_of(job, agreement, self.tenants[agreement.tenant], self.costs, now_s, device), due_s

    def learnt(self, cost_row: int) -> None:
        """Show those that wait with an input of this class at what it was found to take."""
        for job in self.waiting.jobs():
            if job.cost_row == cost_row:
                self.waiting.revise(job, *self._offer(job, job.device))
        self.news += 1

    def sure(self, job: Job) -> bool:
        """Whether it may be given up by what its shape takes: somebody has measured that, and nobody doubts it."""
        return not job.probe and self.costs.evident(job.cost_row)

    def withdraw(self, job: Job) -> None:
        """Remove a waiting job: it was cancelled, or its device is lost."""
        if job.row >= 0:
            self.waiting.remove(job)

    def began(self, job: Job, now_s: float) -> None:
        """Count a run that has begun."""
        self.starts += 1
        self.views.served(self.tenants[self.agreements[job.pair].tenant], now_s)

    @property
    def told_later(self) -> bool:
        """Whether runs beside which nobody waits need not be shown to the policy at once: it notes several together."""
        return len(self.lanes) == 1 and code_of(self.policy) is not None

    def owe(self, block: int, at_s: float) -> None:
        """What runs on the only device begins, or goes on with, this block at that time, as nobody else waits."""
        self._renew()
        lane, job = self.lanes[0], self.lanes[0].job
        assert job is not None
        took_s, now, tenant = (
            at_s - lane.start_s,
            (job.block, job.attained_s),
            self.agreements[job.pair].tenant,
        )
        job.block, job.attained_s = block, job.attained_s + took_s
        facts = facts_of(job, self.agreements[job.pair], self.tenants[tenant], self.costs, at_s, 0)
        job.block, job.attained_s = now
        latency_s = float(self.costs.latency_s[job.cost_row + block, 0]) * job.rows
        busy_s = lane.busy_s + took_s
        self.owed.append(Owed(facts, at_s, latency_s, job.number, busy_s, self.starts, self.finished))
        if not self.told_later:
            self.tell()

    def _renew(self) -> None:
        """Notes of another policy, and what is owed to it, mean nothing to this one."""
        if (generation := GENERATION.of(self.policy)) != self.generation:
            self.generation, self.memory, self.owed = generation, np.zeros(64), []
            emptied(self.policy)

    def tell(self, least: int = 1) -> None:
        """Let the policy note what is owed to it, if so many are."""
        if len(self.owed) >= least:
            owed, self.owed = self.owed, []
            tell(self.policy, self.memory, *self.views.of_owed(owed, self.table))

    def view(self, at_s: float) -> View:
        """What the policy sees when it decides at that time."""
        self.rounds += 1
        self._renew()
        self.tell()
        if self.elsewhere is not None:
            self.elsewhere()
        return self.views.view(at_s, self.table, self.memory, self.starts, self.finished)

"""The table of waiting requests and what a View shows of it, against slow and obvious twins."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eunomia.contract.view import READY
from eunomia.serving.dispatch.costs import Network
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.offer import compile_offer
from eunomia.serving.dispatch.waiting import WaitingTable

NETWORK = Network(0, "net", 0, 1)
NOTHING = tuple(0 for _ in READY.names or ())


@dataclass
class Twin:
    """Lists in order of arrival."""

    jobs: list[Job] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    due_s: dict[int, float] = field(default_factory=dict)
    ahead: Job | None = None

    @property
    def offered(self) -> list[Job]:
        """Who may be offered, in order."""
        shown = [job for job in self.jobs if job.number not in self.hidden]
        return sorted(shown, key=lambda job: job is not self.ahead)


class Table(RuleBasedStateMachine):
    """Any order of calls; small, so that it closes ranks and grows often."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.twin = WaitingTable(capacity=4), Twin()

    @rule(due_s=st.floats(0.0, 10.0) | st.just(math.inf))
    def add(self, due_s: float) -> None:
        job = Job(0, NETWORK, 0.0)
        self.table.add(job, (job.number, *NOTHING[1:]), due_s)
        self.twin.jobs.append(job)
        self.twin.due_s[job.number] = due_s

    def some(self, data: Any) -> Job:
        job: Job = data.draw(st.sampled_from(self.twin.jobs))
        return job

    @precondition(lambda self: self.twin.jobs)
    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        job = self.some(data)
        self.table.remove(job)
        self.twin.jobs.remove(job)
        self.twin.hidden.discard(job.number)
        if self.twin.ahead is job:
            self.twin.ahead = None
        assert job.row == -1

    @precondition(lambda self: self.twin.jobs)
    @rule(data=st.data(), hide=st.booleans())
    def promise(self, data: Any, hide: bool) -> None:
        job = self.some(data)
        (self.table.hide if hide else self.table.show)(job)
        (self.twin.hidden.add if hide else self.twin.hidden.discard)(job.number)

    @precondition(lambda self: self.twin.jobs and self.twin.ahead is None)
    @rule(data=st.data())
    def put_first(self, data: Any) -> None:
        job = self.some(data)
        self.table.put_first(job)
        self.twin.ahead = job

    @rule(now_s=st.floats(0.0, 10.0))
    def overdue(self, now_s: float) -> None:
        late = [
            j
            for j in self.twin.jobs
            if j.number not in self.twin.hidden and self.twin.due_s[j.number] < now_s
        ]
        assert self.table.overdue(now_s) == late

    @invariant()
    def equal(self) -> None:
        offered = self.twin.offered
        assert len(self.table) == len(offered)
        assert [self.table.job(row) for row in self.table.rows().tolist()] == offered
        assert self.table.records["request"][self.table.rows()].tolist() == [job.number for job in offered]
        order = self.table.records["sequence"][self.table.rows()].tolist()
        assert order == sorted(set(order)), "a policy that settles ties by it keeps this order"
        assert self.table.jobs() == self.twin.jobs
        assert all(self.table.numbered(job.number) is job for job in self.twin.jobs)
        assert not offered or self.table.first() is offered[0]
        assert [self.table.shown(job) for job in self.twin.jobs] == [job in offered for job in self.twin.jobs]


TestTable = pytest.mark.filterwarnings("ignore")(Table.TestCase)
Table.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_long_queue_closes_ranks_and_does_not_grow_for_what_has_left() -> None:
    table = WaitingTable(capacity=8)
    queue = [Job(0, NETWORK, 0.0) for _ in range(6)]
    for job in queue:
        table.add(job, NOTHING)
    for _ in range(1000):
        table.remove(queue.pop(0))
        queue.append(Job(0, NETWORK, 0.0))
        table.add(queue[-1], NOTHING)
    assert [table.job(row) for row in table.rows().tolist()] == queue
    assert len(table.records) <= 16


@st.composite
def queues(draw: st.DrawFn) -> tuple[Any, ...]:
    """Waiting rows of some tenants, a table of block times, indicators, and the past of each tenant."""
    n, tenants, devices = draw(st.integers(1, 12)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    records = np.zeros(n, READY)
    records["tenant"] = records["pair"] = rng.integers(0, tenants, n)
    records["row"] = rng.integers(0, 5, n)
    records["arrival_s"], records["deadline_s"] = rng.integers(0, 5, n), rng.integers(3, 9, n)
    records["path_best_s"] = rng.random(n)
    offered = rng.random(n) < 0.8
    ahead = int(rng.choice(np.flatnonzero(offered))) if offered.any() and rng.random() < 0.5 else -1
    indicators = rng.random((3, tenants)) * 9
    counts = rng.integers(1, 4, n)
    return records, counts, offered, ahead, indicators, rng.random((5, devices)), rng.random(tenants) * 5


@settings(max_examples=200, deadline=None)
@given(queues(), st.floats(0.0, 10.0), st.sampled_from([0.0, 1.0, 3.0, math.inf]))
def test_rows_of_a_view_are_those_of_the_slow_twin(
    case: tuple[Any, ...], now_s: float, starve_s: float
) -> None:
    records, counts, offered, ahead, indicators, latency_s, served_s = case
    rows = [row for row in range(len(records)) if offered[row]]
    rows.sort(key=lambda row: row != ahead)
    wanted = records[rows].copy()
    for one in wanted:
        one["sli"], one["gap"], one["sli_count"] = indicators[:, one["pair"]]
        one["late"] = one["deadline_s"] < now_s + one["path_best_s"]
    for tenant in range(len(served_s)):
        mine = [n for n in range(len(wanted)) if wanted["late"][n] and wanted["tenant"][n] == tenant]
        if mine and now_s - max(served_s[tenant], min(wanted["arrival_s"][n] for n in mine)) > starve_s:
            wanted["late"][min(mine, key=lambda n: wanted["deadline_s"][n])] = 0
    ready, block_s = np.empty(len(rows), READY), np.empty((len(rows), latency_s.shape[1]))
    compile_offer()(
        records,
        counts,
        offered,
        len(records),
        ahead,
        indicators,
        latency_s,
        now_s,
        served_s,
        starve_s,
        ready,
        block_s,
    )
    assert ready.tolist() == wanted.tolist()
    assert np.array_equal(block_s, latency_s[wanted["row"]] * counts[rows][:, None])

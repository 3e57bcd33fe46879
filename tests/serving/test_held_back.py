"""Requests that were let in before it was known that their size is too long, and have not begun, wait for that."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import Cancelled, TooLong
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.grants import Grant, StaticDirectory
from eunomia.serving.tenants.held_back import HeldBack
from eunomia.serving.tenants.holding import Holding
from eunomia.serving.tenants.unsized import Unsized
from tests.patience import until_async
from tests.serving.test_two_devices import TWO, Bench

GOLD = Grant("gold")


class Class(Bench):
    """Inputs of one size: as many as there are devices run, and others wait. ``known``: what it waits for."""

    def __init__(self, folder: Path, waiting: int) -> None:
        super().__init__(folder)
        state, directory = self.pool.dispatcher, StaticDirectory([GOLD])
        self.holding = Holding(state, directory, math.inf)
        self.holding.explore = self.explore
        self.known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        unproven = self.holding.unproven
        unsized = Unsized(state.clock, Bodies(2**20), self.pool.unsized, self.follow, unproven)
        HeldBack(self.pool, self.holding, directory, unsized)
        self.jobs = [self.sent() for _ in range(len(TWO) + waiting)]

    def sent(self) -> Job:
        job = self.job()
        job.sizes = (100,)
        self.pool.dispatcher.classify(job)
        assert self.holding.check(GOLD, job) is None
        self.pool.enter(job)
        return job

    def explore(self, tenant: str, job: Job, bound_s: float) -> Any:
        return self.known if not self.known.done() else True

    def follow(self, job: Job) -> None:
        """Nothing has come of it."""

    async def first_has_run(self) -> None:
        """Each of its blocks took ten seconds, and may take four times as long as in the trial."""
        self.holding.most_s, (row,) = 0.01, {job.cost_row for job in self.jobs}
        self.pool.dispatcher.decide()
        self.pool.costs.learn(self.network, 0, 0, [10.0] * 3, 1, row)
        self.pool.execution.lessons.on_learnt(row)
        await asyncio.sleep(0)


def test_it_waits_once_the_first_has_run_and_is_refused_where_that_is_in_vain(tmp_path: Path) -> None:
    """Its device had it ended: 413, and its tenant had to pause."""

    async def main() -> None:
        bench = Class(tmp_path, 2)
        await bench.first_has_run()
        gone, late = bench.jobs[2:]
        assert bench.pool.unsized == {gone, late} and not bench.pool.dispatcher.waiting.jobs()
        bench.pool.cancel(gone)
        with pytest.raises(Cancelled):
            gone.payload.answer.result()
        bench.known.set_result(None)
        await until_async(late.payload.answer.done)
        with pytest.raises(TooLong, match="without a pause"):
            late.payload.answer.result()
        assert not bench.pool.unsized and not any(job.payload.over for job in bench.jobs[:2])
        assert bench.pool.dispatcher.indicators[bench.pair].count == 0, "no promise was broken"

    asyncio.run(main())


def test_it_runs_on_what_came_of_its_network(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Class(tmp_path, 1)
        await bench.first_has_run()
        late, bench.holding.most_s = bench.jobs[2], math.inf  # the blocks are short now
        bench.known.set_result(None)
        await until_async(lambda: not bench.pool.unsized)
        assert late in bench.pool.dispatcher.waiting.jobs() and not late.payload.over

    asyncio.run(main())


def test_what_runs_already_is_not_ended_for_what_its_like_has_just_shown(tmp_path: Path) -> None:
    """A device begins the next order before it is known what the last one took."""

    async def main() -> None:
        bench = Class(tmp_path, 0)
        watching, (first, next_) = bench.pool.watching, bench.jobs
        await bench.first_has_run()
        watching.patience_s = lambda job: 0.01
        first.unsure = False
        runs = [queue[0] for queue in bench.pool.execution.queues]
        seen = {run.job: watching._first(bench.pool.devices[n], run, 0.0) for n, run in enumerate(runs)}
        assert seen[first].held_s < math.inf and seen[next_].held_s == math.inf

    asyncio.run(main())


def test_what_is_written_up_meanwhile_is_written_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were refused in its midst had it done twice, and the next piece not at all."""
    monkeypatch.setattr("eunomia.serving.dispatch.later.MOST", 1)

    async def main() -> None:
        bench, done = Class(tmp_path, 4), list[str]()
        later, (row,) = bench.pool.dispatcher.later, {job.cost_row for job in bench.jobs}
        bench.pool.dispatcher.decide()
        bench.holding.most_s = 0.01
        bench.known.set_result(None)
        bench.pool.answers.on_retired = lambda job, outcome: later.add(lambda: done.append(outcome))

        def learn() -> None:
            bench.pool.costs.learn(bench.network, 0, 0, [10.0] * 3, 1, row)
            bench.pool.execution.lessons.on_learnt(row)
            done.append("learnt")

        later.add(learn)
        later.add(lambda: done.append("next"))
        later.settle()
        await until_async(lambda: len(done) == 6)
        assert sorted(done) == ["learnt", "next", *["too_long"] * 4]

    asyncio.run(main())

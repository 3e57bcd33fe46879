"""Who is to blame when a device dies: not an innocent beside the cause, nor anybody when it was killed from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.devices import loading
from eunomia.serving.devices import process as processes
from eunomia.serving.devices.memory import out_of_memory_kills
from eunomia.serving.devices.places import PLACES
from eunomia.serving.devices.process import DeviceProcess
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.models.entry import Entry
from eunomia.serving.models.repository import Repository
from eunomia.serving.protocol.errors import Expired, InputFailed, Refused, TooLong, Unavailable
from eunomia.serving.tenants.vain import FEW, Vain
from tests import children
from tests.patience import PATIENCE_S, pauses, until, until_async
from tests.serving.test_two_devices import Bench

KILL = "import os, signal, sys; os.kill(os.getpid(), int(sys.argv[1]))"


class Deaths(Bench):
    """Device 0 runs requests and dies; nothing is started again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clock: Any = self.pool.dispatcher.clock
        self.pool.recovery._spawn = lambda work: work.close()  # type: ignore[assignment, return-value]
        self.pool.dispatcher.lanes[1].alive = False

    def ends(self) -> None:
        """What runs there is to end, and goes on for 2 s."""
        dispatcher, queue = self.pool.dispatcher, self.pool.execution.queues[0]
        dispatcher.lanes[0].alive = True
        self.pool.costs.measured(self.network, 0, [1.0, 1.0, 1.0])
        dispatcher.decide()
        queue[0].ended = True
        self.clock.time_s += 2.0
        self.pool._on_death(0)

    def dies(self, *, blameless: bool = False) -> list[Job]:
        """What ran there, when it does."""
        lane, queue = self.pool.dispatcher.lanes[0], self.pool.execution.queues[0]
        lane.alive = True
        self.pool.costs.measured(self.network, 0, [1.0, 1.0, 1.0])
        self.pool.dispatcher.decide()
        ran = [queue[0].job, *queue[0].job.together]
        self.pool.devices[0].blameless = blameless
        self.pool._on_death(0)
        return ran


def enter(bench: Bench, count: int, most: int) -> list[Job]:
    """Requests that may share a batch of so many."""
    object.__setattr__(bench.pool.dispatcher.options, "max_batch", most)
    bench.pool.dispatcher.lanes[0].alive = False
    jobs = [bench.job() for _ in range(count)]
    for job in jobs:
        job.group = "like"
        bench.pool.dispatcher.arrive(job)
    return jobs


def in_loop(work: Callable[[], None]) -> None:
    async def main() -> None:
        work()

    asyncio.run(main())


def test_all_in_a_batch_are_suspects_and_each_runs_again_alone(tmp_path: Path) -> None:
    def work() -> None:
        bench = Deaths(tmp_path)
        jobs = enter(bench, 3, 3)
        assert bench.dies() == jobs
        assert not any(job.payload.over or job.felled for job in jobs)
        (poison,) = bench.dies()
        assert poison.felled and poison.crashed and poison.payload.over
        with pytest.raises(
            InputFailed, match="took its device down with this input, twice: do not send it again"
        ):
            poison.payload.answer.result()
        assert bench.pool.dispatcher.indicators[bench.pair].count == 0, "no promise was broken"
        rest = [job for job in jobs if job is not poison]
        assert not any(job.payload.over or job.felled for job in rest)
        assert len(bench.dies()) == 1, "no batch of suspects"

    in_loop(work)


def test_suspects_that_leave_are_counted_and_their_like_is_given_up(tmp_path: Path) -> None:
    def work() -> None:
        bench = Deaths(tmp_path)
        jobs, died = enter(bench, FEW + 2, 1), Vain(bench.clock).died
        bench.pool.of_death = lambda job: Refused("it pauses") if died("bronze", job) else None
        for job in jobs[: FEW - 1]:
            assert bench.dies() == [job] and not job.payload.over
            bench.pool.dispatcher.withdraw(job)
            bench.pool.answers.fail(job, Expired("its timeout passed"))
        bench.dies()
        assert all(job.payload.over for job in jobs), "those that never ran, too"

    in_loop(work)


def test_a_kill_from_outside_marks_nobody(tmp_path: Path) -> None:
    def work() -> None:
        bench = Deaths(tmp_path)
        (job,) = enter(bench, 1, 1)
        for _ in range(3):
            assert bench.dies(blameless=True) == [job]
        assert (job.retries, job.felled, job.attained_s, job.payload.over) == (0, False, 0.0, False)
        assert bench.dies() == [job] and not job.payload.over, "its first crash"
        assert bench.dies() == [job] and job.felled

    in_loop(work)


@pytest.mark.parametrize("count", [1, 2])
def test_who_went_on_when_it_was_to_end_was_too_long_and_is_not_tried_again(
    count: int, tmp_path: Path
) -> None:
    """Not that it took its device down: the server did. Of a batch, each runs again alone first."""

    def work() -> None:
        bench = Deaths(tmp_path)
        jobs, outcomes = enter(bench, count, count), list[str]()
        bench.pool.answers.on_retired = lambda job, outcome: outcomes.append(outcome)
        for n in range(2 * count - 1):
            assert len(outcomes) == max(0, n - 1)
            bench.ends()
        assert outcomes == ["too_long"] * count
        for job in jobs:
            assert job.felled and not job.crashed
            with pytest.raises(
                TooLong, match="network 'net' was ended after 2000 ms: this input holds its device"
            ):
                job.payload.answer.result()
        assert bench.pool.dispatcher.indicators[bench.pair].count == 0

    in_loop(work)


def test_a_far_device_that_is_killed_twice_for_a_run_answers_as_a_local_one(tmp_path: Path) -> None:
    """It was 500, as if the input had crashed it; the server had ended it by the clock."""

    def work() -> None:
        bench = Deaths(tmp_path)
        far, queue = bench.pool.devices[0], bench.pool.execution.queues[0]
        far.place, far.kill = PLACES["ray"], lambda: bench.pool._on_death(0)  # type: ignore[method-assign]
        (job,) = enter(bench, 1, 1)
        for death in (1, 2):
            bench.pool.dispatcher.lanes[0].alive = True
            bench.pool.costs.measured(bench.network, 0, [1.0, 1.0, 1.0])
            bench.pool.dispatcher.decide()
            bench.pool.watching.look(bench.clock.time_s)
            assert bench.pool.deaths == death - 1
            bench.clock.time_s = queue[0].limit_s + 1.0
            bench.pool.watching.look(bench.clock.time_s)
            assert bench.pool.deaths == death and job.payload.over == (death == 2)
        assert job.felled and not job.crashed
        with pytest.raises(TooLong, match="this input holds its device for too long") as error:
            job.payload.answer.result()
        assert error.value.http == 413

    in_loop(work)


@pytest.mark.parametrize("beside", ["a run", "a trial of sizes", "nothing"])
def test_what_runs_beside_a_load_may_be_the_cause(beside: str, tmp_path: Path) -> None:
    async def main() -> None:
        bench = Deaths(tmp_path)
        loads = bench.pool.loading
        load = asyncio.ensure_future(
            loads._load_on(bench.pool.devices[0], {"kind": "load", "model": "net#1"})
        )
        await pauses(1)
        if beside == "a run":
            enter(bench, 1, 1)
            bench.dies()
        else:
            if beside == "a trial of sizes":
                bench.pool.ladder._open[0] = 7
            bench.pool._on_death(0)
        with pytest.raises(ModelError, match="did not load"):
            await load
        assert loads._felled[0, "net#1"] == (beside == "nothing")

    asyncio.run(main())


class Returns(Bench):
    """Device 0 dies and is there again at once; the other has gone for good."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        pool, device = self.pool, self.pool.devices[0]

        async def start() -> None:
            device._process = Mock(ready=True)

        device.start = start  # type: ignore[method-assign]
        pool.recovery._whole[1] = pool.dispatcher.lanes[1].alive = False
        pool.costs.lost(1)
        pool._on_death(0)

    async def answers_load(self, **facts: Any) -> None:
        """To the load that it is told of next."""
        await until_async(lambda: "load" in self.kinds(0))
        self.told.clear()
        self.pool._on_message(0, {"model": "net#1", **facts})


def test_nobody_waits_for_a_network_that_no_device_has_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, its requests were accepted, and waited without end."""

    async def main() -> None:
        bench = Returns(tmp_path)
        pool, seen = bench.pool, list[tuple[str, str]]()
        pool.loading.on_away = lambda name, why: seen.append((name, why))
        early = bench.job()
        pool.enter(early)
        monkeypatch.setattr(loading, "AGAIN_S", 0.0)
        await bench.answers_load(kind="refused", why="net.onnx is gone")
        with pytest.raises(Unavailable, match="model 'net' is not ready: no device has it: net.onnx is gone"):
            await asyncio.wait_for(early.payload.answer, PATIENCE_S)
        assert seen == [("net", "no device has it: net.onnx is gone")]
        with pytest.raises(Unavailable, match="net.onnx is gone"):
            pool.enter(bench.job())
        await bench.answers_load(kind="loaded", block_s=[1.0, 1.0, 1.0])
        await until_async(lambda: len(seen) == 2)
        pool.enter(bench.job())
        assert seen[1] == ("net", "") and bench.kinds(0) == ["run"]

    asyncio.run(main())


def test_a_device_that_dies_while_it_loads_is_not_started_twice(tmp_path: Path) -> None:
    """As it was on Python 3.11, the earlier restart went on, and after two minutes it killed a healthy device."""

    async def main() -> None:
        bench = Returns(tmp_path)
        await until_async(lambda: "load" in bench.kinds(0))
        first = bench.pool.recovery._restarts[0]
        bench.pool._on_death(0)
        bench.told.clear()  # the load that is answered is the second
        await asyncio.wait([first])
        assert first.cancelled()
        await bench.answers_load(kind="loaded", block_s=[1.0, 1.0, 1.0])
        await until_async(lambda: bench.pool.recovery.whole(0))
        assert not bench.pool.loading._waiting

    asyncio.run(main())


def test_nor_for_one_that_was_replaced(tmp_path: Path) -> None:
    """The devices load what is in service."""

    async def main() -> None:
        bench = Returns(tmp_path)
        pool, late = bench.pool, bench.job()
        pool.enter(late)
        pool.unload("net")
        with pytest.raises(Unavailable, match="no device has it: the devices that had it died"):
            await asyncio.wait_for(late.payload.answer, PATIENCE_S)
        await until_async(lambda: not pool.loading._labels)
        assert not pool.loading.away

    asyncio.run(main())


def test_the_entry_of_such_a_network_says_so_until_one_has_it_again() -> None:
    entries = [Entry("net", Path("net"), state="READY", ports={"inputs": [], "outputs": []})]
    repository = Repository(None, entries=entries)  # type: ignore[arg-type]
    repository.away("net", "no device has it: gone")
    with pytest.raises(Unavailable, match="model 'net' is not ready: no device has it: gone"):
        repository.ports("net")
    assert not repository.entries(ready_only=True)
    repository.away("net", "")
    repository.away("unknown", "")
    assert repository.ports("net") is entries[0].ports


@pytest.mark.parametrize(
    ("sent", "starved", "blameless"),
    [
        (signal.SIGKILL, 0, True),
        (signal.SIGTERM, 0, True),
        (signal.SIGKILL, 1, False),
        (signal.SIGKILL, None, False),
        (signal.SIGTERM, None, True),
        (signal.SIGSEGV, 0, False),
    ],
)
def test_the_signal_says_whether_it_came_from_outside(
    monkeypatch: pytest.MonkeyPatch, sent: int, starved: int | None, blameless: bool
) -> None:
    """A kill where the kernel has ended something for want of memory may be for what ran."""
    monkeypatch.setattr(processes, "out_of_memory_kills", lambda: starved)

    async def main() -> bool:
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        buried = DeviceProcess("d", "", Mock(), lambda process, outside: ended.set_result(outside))
        with children.started(children.python("-S", "-c", KILL, int(sent))) as process:
            buried._process, buried._starved = process, 0
            buried.bury(1000)
            return await ended

    assert asyncio.run(main()) is blameless


def test_what_is_killed_has_ended_when_its_code_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is given back later: with much of it that takes tens of milliseconds, on its core."""

    async def main() -> list[bool]:
        told = list[bool]()
        killed = DeviceProcess("d", "", Mock(), lambda process, outside: told.append(outside))
        monkeypatch.setattr(processes, "_exits", lambda pid: pid == killed.pid)
        with children.started(children.python("-S", "-c", "input()"), stdin=subprocess.PIPE) as process:
            killed._process = process
            killed.kill()
            assert told == [False]
            killed.kill()
            killed.bury(1000)
            await until_async(lambda: process.poll() is not None)
            await pauses(2)
        return told

    assert asyncio.run(main()) == [False], "once"


def test_the_clock_of_another_process_counts_all_that_it_runs() -> None:
    with children.started(children.python("-c", "while True: pass")) as process:
        busy = DeviceProcess("d", "", Mock(), Mock())
        busy._process = process
        before_s = busy.all_used_s
        until(lambda: busy.all_used_s > before_s + 0.05)
        busy._process = Mock(pid=2**22 + 1)
        assert busy.all_used_s == 0.0


def test_a_process_exits_when_all_its_threads_do() -> None:
    assert not processes._exits(os.getpid()) and not processes._exits(2**30)


def test_the_kernel_counts_its_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "nr_free 3\noom_kill 12\nother 4\n"
    monkeypatch.setattr(Path, "read_text", lambda path: text)
    assert out_of_memory_kills() == 12

    def missing(path: Any) -> str:
        raise FileNotFoundError(os.fspath(path))

    monkeypatch.setattr(Path, "read_text", missing)
    assert out_of_memory_kills() is None

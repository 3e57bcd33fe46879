"""Runs of a network that has just ended a device wait until another process stands by."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from eunomia.serving.devices.climbs import end
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.unguarded import MOST_S, Unguarded
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import TooLong, Unavailable
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.grants import Grant, Promise, StaticDirectory
from eunomia.serving.tenants.held_back import HeldBack
from eunomia.serving.tenants.holding import Holding
from eunomia.serving.tenants.unsized import Later, Unsized, Wait
from tests.patience import until_async
from tests.serving.test_recovery import Deaths, enter


def job(pair: int = 0) -> Job:
    return Job(pair, CostBook(1).add("n", 1), 0.0)


def device(*, stands_by: bool, spare: bool = True, alive: bool = True) -> Any:
    place = Mock(spare="a module" if spare else "")
    return SimpleNamespace(
        index=0, spec=DeviceSpec("a", spare=spare), place=place, alive=alive, stands_by=stands_by
    )


def test_they_wait_until_every_device_has_another_process_or_for_so_long() -> None:
    async def main() -> None:
        one, two, clock = device(stands_by=False), device(stands_by=True), ManualClock()
        found = Unguarded([one, two, device(stands_by=False, spare=False)], clock)
        assert found.wanted(job()) is None
        for ends in ("stands by", "time"):
            one.stands_by = False
            found.felled(job())
            known = found.wanted(job())
            assert known is not None and found.wanted(job()) is known and not known.done()
            assert found.wanted(job(pair=1)) is None, "another tenant's, or another network"
            if ends == "time":
                clock.time_s += MOST_S
            else:
                one.stands_by = True
            assert found.wanted(job()) is None
            one.stands_by = False
            assert found.wanted(job()) is None, "until the next death"
        one.stands_by = two.stands_by = True
        found.felled(job())
        one.alive = False  # what stands by takes its place, and then nothing does
        assert found.wanted(job()) is not None

    asyncio.run(main())


def test_nobody_waits_where_no_process_is_to_stand_by() -> None:
    found = Unguarded([device(stands_by=False, spare=False)], ManualClock())
    found.felled(job())
    assert found.wanted(job()) is None


def test_those_that_wait_for_a_device_are_held_back_when_it_dies(tmp_path: Path) -> None:
    """The next one of them ended the device again before another process was ready, and it was away for seconds."""

    async def main() -> None:
        bench = Deaths(tmp_path)
        pool, grant = bench.pool, Grant("gold")
        others = Grant("silver", promises={"*": Promise(0.05)})
        holding = Holding(pool.dispatcher, StaticDirectory([grant, others]))
        holding.unguarded = pool.unguarded.wanted
        unsized = Unsized(bench.clock, Bodies(2**20), pool.unsized, lambda job: None, holding.unproven)
        HeldBack(pool, holding, StaticDirectory([grant]), unsized)
        jobs = enter(bench, 3, 1)
        pool.unguarded._devices = [device(stands_by=False)]
        bench.ends()
        with pytest.raises(TooLong):
            jobs[0].payload.answer.result()
        await until_async(lambda: pool.unsized == {*jobs[1:]})
        assert not len(pool.dispatcher.waiting)
        pool.unguarded._devices = [device(stands_by=True)]
        end(pool.unguarded._known)
        await until_async(lambda: not pool.unsized)
        assert pool.dispatcher.waiting.jobs() == jobs[1:] or pool.execution.queues[0]

    asyncio.run(main())


def test_whose_deadline_passes_meanwhile_hears_for_what_it_waited() -> None:
    async def main() -> None:
        unproven = Mock()
        unsized = Unsized(ManualClock(), Bodies(2**20), set(), lambda job: None, unproven)
        unsized.unguarded = lambda job: True
        waits = job()
        waits.deadline_s = 0.0
        later = Later("gold", waits, 0, lambda: Wait(asyncio.Future()), lambda error: None)
        with pytest.raises(
            Unavailable, match="^'n' has ended a device, and no other process stands by yet: the dead"
        ):
            await unsized.answer(later, later.enter())
        assert not unproven.note.called, "no promise was broken by a wrong guess"

    asyncio.run(main())

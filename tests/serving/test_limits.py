"""What a tenant may hold of the memory that all share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eunomia.serving.devices.arena import Arena, ArenaFull
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.protocol.errors import Refused
from eunomia.serving.protocol.infer import InferRequest, InputTensor
from eunomia.serving.server import Server
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.grants import Grant
from eunomia.serving.tenants.limits import Limits
from eunomia.serving.tenants.slots import Slots
from eunomia.serving.visit import Caller
from tests.serving.live import SIDE, SILVER, options


def flood(limits: Limits, name: str, free: list[int], size: int = 1) -> int:
    """Requests of ``size`` until the tenant is refused; how many got in."""
    grant, count = Grant(name), 0
    while True:
        limits.enter(grant)
        try:
            limits.hold(grant, size, free[0])
        except Refused as error:
            assert "none may hold more than is left for the others" in str(error)
            limits.exit(grant)
            return count
        free[0] -= size
        count += 1


def test_one_that_floods_gets_half_two_a_third_each_and_others_still_get_in() -> None:
    limits, free = Limits(ManualClock()), [900]
    assert flood(limits, "a", free) == 450
    assert flood(limits, "b", free) == 225
    gold = Grant("gold")
    limits.enter(gold)
    limits.hold(gold, 100, free[0])
    together, free = Limits(ManualClock()), [900]
    for n in range(1000):
        grant = Grant("ab"[n % 2])
        together.enter(grant)
        try:
            together.hold(grant, 1, free[0])
            free[0] -= 1
        except Refused:
            break
    assert free[0] == pytest.approx(300, abs=1)


def refusals(others: int) -> list[str]:
    """What gold is told where others hold so much more."""
    limits, bodies, slots, gold = (
        Limits(ManualClock()),
        Bodies(1000),
        Slots(99 - others, "streams"),
        Grant("gold"),
    )
    arena = Arena.create(2**23)
    bodies.take("silver", 100 + others)
    arena.allocate(2**22 + others * 4096)
    limits.enter(gold)
    limits.hold(gold, 10, 1000)
    bodies.take("gold", 400)
    slots.held["gold"] = 100
    ways: list[Callable[[], object]] = [
        lambda: limits.hold(gold, 900, 900 - others),
        lambda: bodies.take("gold", 600),
        slots.now("gold").__enter__,
        lambda: arena.allocate(2**22),
    ]
    said = list[str]()
    for way in ways:
        with pytest.raises((Refused, ArenaFull)) as caught:
            way()
        said.append(str(caught.value))
    arena.close()
    return said


def test_a_refusal_does_not_say_how_much_others_hold() -> None:
    """As it was, each said how much was free: the sum of the others', to the byte."""
    said = list[str]()
    for others in (0, 64):
        said += refusals(others)
    assert said[:4] == said[4:]


def test_what_is_let_go_may_be_held_again() -> None:
    limits, grant = Limits(ManualClock()), Grant("a")
    limits.enter(grant)
    limits.hold(grant, 60, 100)
    with pytest.raises(Refused):
        limits.hold(grant, 60, 40)
    limits.let_go(grant, 60)
    limits.hold(grant, 60, 100)


def test_who_asks_again_when_told_gets_in_though_others_admit_for_the_same_rate() -> None:
    for elsewhere, wait_s in ((0.0, 0.1), (5.0, 0.2), (10.0, 10.0), (50.0, 10.0)):
        clock, grant = ManualClock(), Grant("a", rate_per_s=10.0, burst=1.0)
        limits = Limits(clock)
        limits.elsewhere = {"a": elsewhere}
        limits.enter(grant)
        with pytest.raises(Refused) as told:
            limits.enter(grant)
        assert told.value.retry_after_s == pytest.approx(wait_s)


def test_who_cancels_has_room_again_when_the_work_is_cancelled_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, limits were given back at once and the cancelling put off: twice as many as allowed waited."""
    x = np.ones((1, 3, SIDE, SIDE), np.float32)

    async def main() -> None:
        async with Server(options(tmp_path)) as server:
            service = server.service
            (port,) = service.repository.ports("small")["inputs"]
            request = InferRequest(
                "small", "", "", (InputTensor(port["name"], "FP32", x.shape, x),), (), False, {}
            )
            caller = Caller(key=SILVER)
            asked = [asyncio.ensure_future(service.infer(request, caller)) for _ in range(2)]
            while service.limits.active("silver") < 2:
                await asyncio.sleep(0)
            for what in ("over", "full"):
                monkeypatch.setattr(Rota, what, property(lambda self: True))
            for _ in range(40):  # these stand before it
                service.rota.join("silver", lambda: None)
            for one in asked:
                one.cancel()
            for _ in range(20):  # so long nothing is cancelled
                await asyncio.sleep(0)
                with pytest.raises(Refused, match="2 requests in the server"):
                    await service.infer(request, caller)
            for _ in range(60):
                await asyncio.sleep(0)
            assert not service.limits.active("silver")
            await service.infer(request, caller)

    asyncio.run(main())

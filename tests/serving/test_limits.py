"""What a tenant may hold of the memory that all share."""

from __future__ import annotations

import pytest

from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.protocol.errors import Refused
from eunomia.serving.tenants.grants import Grant
from eunomia.serving.tenants.limits import Limits


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

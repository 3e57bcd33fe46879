"""OSDEC: windows, overload and optimum by hand; every policy below the offline optimum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.environments.deferrable import (
    DeferrableJob,
    Rolling,
    Scored,
    day,
    first_fit,
    largest_first,
    latest_start_first,
    offline_optimum,
    run_deferrable,
)
from eunomia.cluster.environments.deferrable_fit import START, fit, reward
from eunomia.core.errors import ConfigError

POLICIES = (first_fit, latest_start_first, largest_first, Scored(START), Rolling())


def _flat(devices: int, slots: int) -> np.ndarray:
    return np.full(slots, devices, np.int64)


def test_first_fit_by_hand() -> None:
    """2 devices, 4 slots. A (1 x 4, may wait) starts at 0, so B (2 x 2, window [0, 1]) is lost; knowing B, A would lose
    nothing by yielding only if it could still run: it cannot, so the best is max(4, 4) + 0."""
    jobs = [DeferrableJob("a", 1, 4, 0, 0), DeferrableJob("b", 2, 2, 0, 1)]
    result = run_deferrable(jobs, _flat(2, 4), _flat(2, 4), first_fit)
    assert result.start.tolist() == [0, -1] and result.served == 0.5 and result.overload == 0.0


def test_waiting_pays() -> None:
    """A (1 x 2, window [0, 2]) before B (2 x 2, window [0, 0]): first fit serves A only, latest start first both."""
    jobs = [DeferrableJob("a", 1, 2, 0, 2), DeferrableJob("b", 2, 2, 0, 0)]
    cap = _flat(2, 4)
    assert run_deferrable(jobs, cap, cap, first_fit).start.tolist() == [0, -1]
    best = run_deferrable(jobs, cap, cap, latest_start_first)
    assert best.start.tolist() == [2, 0] and best.served == 1.0 and best.wait_slots == 1.0
    assert best.utilisation == 6 / 8
    assert offline_optimum(jobs, cap).start.tolist() == [2, 0]


def test_a_rolling_plan_that_knows_all_is_optimal() -> None:
    jobs = [DeferrableJob("a", 1, 2, 0, 2), DeferrableJob("b", 2, 2, 1, 1)]
    cap = _flat(2, 4)
    assert run_deferrable(jobs, cap, cap, first_fit).served == 1 / 3
    assert run_deferrable(jobs, cap, cap, Rolling()).served == offline_optimum(jobs, cap).served == 2 / 3


def test_overload_when_the_forecast_was_wrong() -> None:
    """1 x 3 is started on a forecast of 1, 1, 1; nothing is left over in the last slot: 1 of 3 device-slots."""
    result = run_deferrable([DeferrableJob("a", 1, 3, 0, 0)], np.array([1, 1, 0]), _flat(1, 3), first_fit)
    assert result.overload == pytest.approx(1 / 3) and result.utilisation == 1.0


def test_the_future_is_not_known() -> None:
    """What is left over later does not reach the policy, the forecast does."""
    seen = []

    def spy(view):  # type: ignore[no-untyped-def]
        seen.append(view.free.tolist())
        return []

    run_deferrable([DeferrableJob("a", 1, 1, 0, 1)], np.array([3, 0]), np.array([1, 2]), spy)
    assert seen == [[3, 2], [0]]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_optimum_against_every_start(seed: int) -> None:
    """Four jobs, six slots: no combination of starts within the windows serves more."""
    rng = np.random.default_rng(seed)
    cap = rng.integers(0, 4, 6)
    jobs = []
    for i in range(4):
        slots, earliest = int(rng.integers(1, 4)), int(rng.integers(0, 4))
        jobs.append(
            DeferrableJob(
                str(i), int(rng.integers(1, 3)), slots, earliest, earliest + int(rng.integers(0, 3))
            )
        )
    best = 0.0
    for starts in itertools.product(
        *([-1, *range(j.earliest, min(j.latest, 6 - j.slots) + 1)] for j in jobs)
    ):
        used, served = np.zeros(6, int), 0
        for job, s in zip(jobs, starts, strict=True):
            if s >= 0:
                used[s : s + job.slots] += job.devices
                served += job.devices * job.slots
        if (used <= cap).all():
            best = max(best, served)
    asked = sum(j.devices * j.slots for j in jobs)
    optimum = offline_optimum(jobs, cap, wait_cost=1e-6)
    assert optimum.served * asked == pytest.approx(best)
    for policy in POLICIES:  # with the truth as forecast
        result = run_deferrable(jobs, cap, cap, policy)
        assert result.served * asked <= best + 1e-9 and result.overload == 0.0
        for job, s in zip(jobs, result.start, strict=True):
            assert s == -1 or job.earliest <= s <= job.latest


def test_a_fit_that_does_not_win_is_not_used() -> None:
    train, validate = (
        [day(s, slots=24, devices=4) for s in range(2)],
        [day(s, slots=24, devices=4) for s in (7, 8)],
    )
    made = fit(train, validate, evaluations=12)
    assert made == fit(train, validate, evaluations=12)  # seeded
    assert made.policy is (made.learned if made.kept else first_fit)
    assert made.heuristic == pytest.approx(np.mean([reward(case, first_fit) for case in validate]))


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match="in this order"):
        DeferrableJob("a", 1, 1, 3, 2)
    with pytest.raises(ConfigError, match="0 devices"):
        DeferrableJob("a", 0, 1, 0, 0)
    with pytest.raises(ConfigError, match="3 slots are left over, 2 are forecast"):
        run_deferrable([], _flat(1, 3), _flat(1, 2), first_fit)
    with pytest.raises(ConfigError, match="same name"):
        run_deferrable([DeferrableJob("a", 1, 1, 0, 0)] * 2, _flat(1, 3), _flat(1, 3), first_fit)

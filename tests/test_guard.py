"""Whatever a policy does, its guard gives a legal schedule and says how often it stepped in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eunomia.contract.guard import Guarded, illegal
from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.olympian import olympian
from eunomia.inference.simulate import simulate_problem
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.dispatch.warm import small_view
from eunomia.workload.tenant import Agreement
from tests.learning.deployment import episode
from tests.serving.test_dispatcher import Pipelined

# Requests 7 and 8 are ready with their layers 2 and 0. Device 0 is idle, device 1 runs request 0, device 2 runs
# request 5, device 3 is idle and cannot run request 7.
VIEW: Any = SimpleNamespace(
    ready=np.array([(7, 2), (8, 0)], [("request", int), ("layer", int)]),
    accelerators=np.array([(-1,), (0,), (5,), (-1,)], [("request", int)]),
    latency_s=np.array([[1.0, 1.0, 1.0, np.inf], [1.0, 1.0, 1.0, 1.0]]),
)


@pytest.mark.parametrize("answer, fault", [
    ([], ""), ([Assign(7, 2, 0)], ""), ([Assign(8, 0, 0)], ""), ([Assign(8, 0, 3), Assign(7, 2, 0)], ""),
    ([(7, 2, 0)], "tuple instead of Assign"),
    ([Assign(9, 0, 0)], "block 0 of request 9 is not ready"), ([Assign(7, 0, 0)], "block 0 of request 7 is not ready"),
    ([Assign(7, 2, 0), Assign(7, 2, 3)], "block 2 of request 7 is not ready"),
    ([Assign(8, 0, 1)], "device 1 is not idle"), ([Assign(8, 0, 2)], "device 2 is not idle"),
    ([Assign(8, 0, -1)], "device -1 is not idle"), ([Assign(8, 0, 4)], "device 4 is not idle"),
    ([Assign(7, 2, 0), Assign(8, 0, 0)], "device 0 is not idle"),
    ([Assign(7, 2, 3)], "device 3 cannot run block 2 of request 7"),
])  # fmt: skip
def test_each_illegal_answer_by_name(answer: list[Any], fault: str) -> None:
    assert illegal(VIEW, answer) == fault


E = episode(0, requests=20)
FALLBACK = load_policy("edf+f+eft")


@cache
def expected() -> np.ndarray:
    """The fallback alone: found when it is asked for, because whoever collects tests would compile the engine."""
    return simulate_problem(E.problem, FALLBACK, E.options).results["finish_s"]


def raises(view: View) -> list[Assign]:
    raise ValueError("no idea")


BAD: dict[str, Callable[[View], Any]] = {
    "raised": raises,
    "illegal": lambda view: [view.assign(0, 99)],
    "illegal twice": lambda view: [view.assign(0, int(view.idle[0]))] * 2,
    "illegal type": lambda view: [(0, 1)],
    "illegal text": lambda view: "start something",
    "illegal job": lambda view: [Assign(10_000, 0, int(view.idle[0]))],
    "illegal number": lambda view: [view.assign(0, int(view.idle[0]), float("nan"))],
}


@pytest.mark.parametrize("what", BAD)
def test_bad_answers_become_the_fallbacks(what: str) -> None:
    guard = Guarded(BAD[what], FALLBACK)
    found = simulate_problem(E.problem, guard, E.options).results["finish_s"]
    assert np.array_equal(found, expected(), equal_nan=True)
    assert list(guard.counts) == [what.split()[0]] and guard.counts[what.split()[0]] > 20


def first_idle(view: View) -> list[Assign]:
    can = np.isfinite(view.latency_s[0, view.idle[0]])
    return [view.assign(0, int(view.idle[0]))] if can else []


def test_good_answers_pass() -> None:
    guard = Guarded(first_idle, raises)
    assert guard.name == "guarded first_idle"
    simulate_problem(E.problem, guard, E.options)
    assert not guard.counts


def test_holding_for_ever_is_overruled() -> None:
    guard = Guarded(lambda view: [], FALLBACK, strict=True)
    results = simulate_problem(E.problem, guard, E.options).results
    assert np.isfinite(results["finish_s"]).all() and guard.counts["held"] > 0
    assert set(guard.counts) == {"held"}, "it did nothing illegal"


@pytest.mark.parametrize("wake_s, relieved", [(math.inf, 1), (7.0, 0)])
def test_a_policy_that_starts_nobody_is_relieved_on_a_server(wake_s: float, relieved: int) -> None:
    def holds(view: View) -> list[Assign]:
        return []

    holds.wake_s = wake_s  # type: ignore[attr-defined]  # when it wants to be asked again
    now_s = [0.0]
    guard = Guarded(holds, first_idle, rest_s=5.0, clock=lambda: now_s[0])
    for now_s[0], answers in ((0.0, 0), (4.9, 0), (5.1, relieved), (5.2, relieved)):
        assert len(guard(small_view())) == answers
    assert guard.counts["held"] == 2 * relieved and guard.counts["illegal"] == 0
    guard.replace(holds)
    now_s[0] = 5.3
    assert guard(small_view()) == [], "another policy has its own time"


def test_slow_answers_are_replaced_and_the_policy_rests() -> None:
    ticks = itertools.count(step=1.0)  # every look at the clock takes a second
    asked: list[float] = []

    def slow(view: View) -> list[Assign]:
        asked.append(view.now_s)
        return first_idle(view)

    guard = Guarded(slow, FALLBACK, 0.5, patience=2, rest_s=5.0, strict=True, clock=lambda: next(ticks))
    found = simulate_problem(E.problem, guard, E.options).results["finish_s"]
    assert np.array_equal(found, expected(), equal_nan=True)
    assert guard.counts["slow"] == len(asked) // 2 > 5
    assert guard.counts["resting"] == pytest.approx(2 * len(asked), abs=5)


@pytest.mark.parametrize("every_s, rests", [(0.5, True), (5.0, False)])
def test_a_policy_that_plans_for_long_now_and_then_rests_if_that_is_often(
    every_s: float, rests: bool
) -> None:
    now_s, plan = [0.0], [True]

    def plans(view: View) -> list[Assign]:
        now_s[0] += 0.3 if plan[0] else 0.001
        return first_idle(view)

    guard = Guarded(plans, FALLBACK, limit_s=0.02, patience=10, clock=lambda: now_s[0])
    for _ in range(8):
        for plan[0] in (True, False, False):  # never two slow answers in a row
            guard(small_view())
        now_s[0] += every_s
    assert (guard.counts["slow"] > 0) == rests


def test_a_run_begins_with_nothing_counted() -> None:
    guard = Guarded(raises, FALLBACK)
    simulate_problem(E.problem, guard, E.options)
    once = dict(guard.counts)
    simulate_problem(E.problem, guard, E.options)
    assert guard.counts == once


def test_limits_that_cannot_be_are_refused() -> None:
    for limits in ({"limit_s": float("nan")}, {"patience": 0}, {"rest_s": -1.0}):
        with pytest.raises(ConfigError, match="guard with limit_s"):
            Guarded(raises, FALLBACK, **limits)  # type: ignore[arg-type]


class Charges:
    """A policy of one's own whose notes about a run fail, and that says no legal time to be asked again."""

    wake_s: object = None

    def __call__(self, view: View) -> list[Assign]:
        return first_idle(view)

    def charge_run(self, *about: object) -> None:
        raise KeyError(about[-1])

    charge_elsewhere = charge_run


@pytest.mark.parametrize("trait", ["charge_run", "charge_elsewhere"])
def test_what_is_charged_raises_nothing(trait: str) -> None:
    guard = Guarded(Charges(), FALLBACK)
    getattr(guard, trait)(np.zeros(64), 1, 0, 7, 0.5)
    assert guard.counts == {"raised": 1} and getattr(Guarded(raises, FALLBACK), trait) is None


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        (None, 1),
        ("soon", 1),
        ([1.0, 2.0], 1),
        pytest.param(10**400, 1, id="huge"),
        (0.25, 0),
        (np.float32(0.25), 0),
    ],
)
def test_only_a_number_says_when_to_ask_again(told: object, counts: int) -> None:
    policy = Charges()
    policy.wake_s = told
    guard = Guarded(policy, FALLBACK)
    assert guard.wake_s == (math.inf if counts else 0.25) and guard.counts["raised"] == counts


def test_a_run_ends_well_though_its_charge_fails() -> None:
    """As it was, the exception crossed the report of the device, and the client had no answer."""
    options = DispatchOptions(lease_s=0.0, ahead_s=0.003)
    guard = Guarded(replace(olympian(), charge_run=Charges().charge_run), FALLBACK, math.inf)
    replay = Pipelined(guard, np.full((2, 1), 0.002), [1, 1], options)
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play([(0.0, n % 2, math.inf, n % 2) for n in range(20)])
    assert replay.dispatcher.finished == 20 and guard.counts["raised"] > 5

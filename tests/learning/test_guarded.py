"""Whatever a policy does, the guard gives a legal schedule and says how often it stepped in."""

import itertools

import numpy as np
import pytest

from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.guard import FALLBACK, Guarded
from tests.learning.deployment import episode

E = episode(0, requests=20)
EXPECTED = simulate_problem(E.problem, FALLBACK, E.options).results["finish_s"]


def raises(view: View) -> list[Assign]:
    raise ValueError("no idea")


BAD = {
    "raised": raises,
    "invalid": lambda view: [view.assign(0, 99)],
    "invalid twice": lambda view: [view.assign(0, int(view.idle[0]))] * 2,
    "invalid type": lambda view: [(0, 1)],
    "invalid text": lambda view: "start something",
    "invalid job": lambda view: [Assign(10_000, 0, int(view.idle[0]))],
    "invalid number": lambda view: [view.assign(0, int(view.idle[0]), float("nan"))],
}


@pytest.mark.parametrize("what", BAD)
def test_bad_answers_become_the_fallbacks(what: str) -> None:
    guard = Guarded(BAD[what])
    found = simulate_problem(E.problem, guard, E.options).results["finish_s"]
    assert np.array_equal(found, EXPECTED, equal_nan=True)
    kind = what.split()[0]
    assert guard.counts[kind] == guard.counts["fallback"] == guard.counts["decisions"] > 0


def test_good_answers_pass() -> None:
    guard = Guarded(
        lambda view: (
            [view.assign(0, int(view.idle[0]))] if np.isfinite(view.latency_s[0, view.idle[0]]) else []
        )
    )
    simulate_problem(E.problem, guard, E.options)
    assert guard.counts["fallback"] == 0 < guard.counts["decisions"]


def test_holding_for_ever_is_overruled() -> None:
    guard = Guarded(lambda view: [])
    results = simulate_problem(E.problem, guard, E.options).results
    assert np.isfinite(results["finish_s"]).all() and guard.counts["invalid"] > 0


def test_slow_answers_are_replaced_and_the_policy_rests() -> None:
    ticks = itertools.count(step=1.0)  # every look at the clock takes a second
    guard = Guarded(
        lambda view: [view.assign(0, 99)], limit_s=0.5, patience=2, rest=5, clock=lambda: next(ticks)
    )
    simulate_problem(E.problem, guard, E.options)
    counts = guard.counts
    assert (
        counts["invalid"] == 0
        and counts["slow"] + counts["rested"] == counts["decisions"] == counts["fallback"]
    )
    assert counts["rested"] == pytest.approx(2.5 * counts["slow"], abs=5)


def test_limits_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="limit_s 0.0"):
        Guarded(raises, limit_s=0.0)

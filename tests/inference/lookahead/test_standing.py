"""Charged planning: a plan helps only after the time that it took, and thinking goes on while layers run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.lookahead.companion import Companion
from eunomia.inference.lookahead.policy import lookahead
from eunomia.inference.options import EngineOptions
from eunomia.inference.outcome import Outcome
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.simulate import Engine, simulate_problem
from tests.inference.lookahead.test_lookahead import crowd, same
from tests.metrics.tiny import tiny

OPTIONS = EngineOptions(late="drop")


def hits(outcome: Outcome) -> list[int]:
    return np.flatnonzero(outcome.results["outcome"] == HIT).tolist()


# One accelerator. Request 0 has two layers of 1 s and must go on without a break (due at 2). While it runs, a long
# one arrives (3 s, due at 5) and two short ones (1 s, due at 5.5 and 5.6). EDF serves the long one at 2, and both short
# ones are late; giving it up saves both.
def busy(arrival_s: float) -> Problem:
    case = tiny(
        [[[1.0], [1.0]], [[3.0]], [[1.0]]],
        [(0, 0.0, 2.0), (1, arrival_s, 5.0 - arrival_s), (2, arrival_s, 5.5 - arrival_s),
         (2, arrival_s, 5.6 - arrival_s)],
        [0],
    )  # fmt: skip
    return build_problem(case.request_table, case.table, case.platform, OPTIONS)


def charged(**more: Any) -> Any:
    return lookahead(base="edf+f", portfolio="none", charge=True, **more)


def test_thinking_overlaps_with_running_layers() -> None:
    # The planner meets the three at 1 s, when the second layer starts, and has a second to think.
    assert hits(simulate_problem(busy(0.5), "edf+f", OPTIONS)) == [0, 1]
    assert hits(simulate_problem(busy(0.5), charged(), OPTIONS)) == [0, 2, 3]


def test_a_plan_helps_only_after_the_time_that_it_took() -> None:
    # The planner meets them at 2 s, when the choice is to be made: the base decides at once, and nothing waits.
    outcome = simulate_problem(busy(1.5), charged(), OPTIONS)
    assert hits(outcome) == [0, 1]
    assert outcome.subjobs["start_s"][2] == pytest.approx(2.0)
    free = lookahead(base="edf+f", portfolio="none")
    assert hits(simulate_problem(busy(1.5), free, OPTIONS)) == [0, 2, 3]


@pytest.mark.parametrize(("ends_per_us", "served"), [(8.0, [0, 2, 3]), (1e-5, [0, 1])])
def test_a_slow_planner_is_too_late(ends_per_us: float, served: list[int]) -> None:
    # 0.1 s for a simulated layer end: a slice of some thirty ends is not over when the choice is to be made.
    policy = charged(budget_us=0.0, ends_per_us=ends_per_us)
    assert hits(simulate_problem(busy(0.5), policy, OPTIONS)) == served


def run(problem: Problem, policy: Any, options: EngineOptions) -> Companion:
    engine = Engine(problem, policy.rules, options, None, policy.decide)
    engine.state["system"]["parameters"][0, :4] = policy.parameters
    companion = engine.companion = policy.attach(engine)
    assert not engine.advance()
    return companion  # type: ignore[no-any-return]


def test_slices_keep_the_budget_and_the_search_goes_on() -> None:
    # A time unit of the crowd is a second: slices take no time to speak of, so that short ones lose nothing.
    problem, options = crowd()
    short = run(problem, charged(slice_rollouts=2.0), options)
    budget = run(
        problem, charged(budget_us=30.0, ends_per_us=8.0), options
    )  # 160 ends and the 10 us of the snapshot
    one_rollout_begun, ends_of_one_instant = 16, 4
    assert budget.count("most") <= 160 + one_rollout_begun + ends_of_one_instant
    arrivals = len(problem.jobs.pair)
    assert short.count("deliberations") > arrivals / 2  # slices beyond the first after an arrival
    base = len(hits(simulate_problem(problem, "edf+f", options)))
    assert len(hits(simulate_problem(problem, charged(slice_rollouts=2.0), options))) > base


@settings(max_examples=20, deadline=None)
@given(st.floats(0.5, 8.0), st.sampled_from((0.0, 20.0, 500.0)), st.integers(0, 1))
def test_equal_runs_are_equal(slice_rollouts: float, budget_us: float, futures: int) -> None:
    problem, options = crowd()
    policy = charged(slice_rollouts=slice_rollouts, budget_us=budget_us, futures=futures)
    one, two = (simulate_problem(problem, policy, options) for _ in "ab")
    same(one, two)


def test_a_slice_of_nothing_is_refused() -> None:
    with pytest.raises(PolicyError, match="slice_rollouts is 0"):
        charged(slice_rollouts=0.0)

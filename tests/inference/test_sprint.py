"""The short way through the event loop leaves every bit as the long way would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import synthetic
from eunomia.inference import reference
from eunomia.inference.kernel import modes, setup
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.reference import Rule
from eunomia.inference.reference.rules import STATIC
from eunomia.inference.simulate import simulate_problem
from tests.inference.agreement import compare_outcomes, compiled
from tests.inference.strategies import Case, cases


@pytest.fixture(autouse=True, scope="module")
def _however_short() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "WORTH_A_SPRINT", 0)
        yield


LEAN = EngineOptions(late="run", record="requests")


def lean(case: Case, late: str) -> Case:
    """The same problem without what rules the short way out."""
    drawn = case.options
    options = EngineOptions(
        contention=drawn.contention if drawn.contention == "none" else "proportional", late=late,
        drop_when="expired", estimator=Estimator(drawn.estimator.mode.replace("ewma", "exact")),
        sli_ewma=drawn.sli_ewma, horizon_s=drawn.horizon_s, seed=drawn.seed, record="requests",
    )  # fmt: skip
    return replace(case, options=options)


def both_ways(problem: Problem, policy: Any, options: EngineOptions) -> tuple[Outcome, Outcome]:
    """The run with and without the short way."""
    assert modes.kind_of(problem, policy.rules, options) == modes.SPRINT
    short = simulate_problem(problem, policy, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modes, "kind_of", lambda *_: modes.HEAPS)
        return short, simulate_problem(problem, policy, options)


def assert_same_bits(short: Outcome, long: Outcome) -> None:
    """Every result, sum and counter is equal, not only close."""
    assert short.results.tobytes() == long.results.tobytes()
    assert short.busy_s.tobytes() == long.busy_s.tobytes()
    assert short.lanes.tobytes() == long.lanes.tobytes()
    for name in ("end_s", "events", "rounds", "saturated_s", "bytes_moved"):
        assert getattr(short, name) == getattr(long, name), name


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    cases(periodic=False), st.sampled_from(STATIC), st.sampled_from(["any_idle", "first_idle"]),
    st.booleans(), st.sampled_from(["run", "last", "drop"]),
)  # fmt: skip
def test_random_problems(case: Case, order: str, place: str, feasible: bool, late: str) -> None:
    case, rule = lean(case, late), Rule(order=order, place=place, feasible=feasible)
    short, long = both_ways(case.problem(), compiled(rule), case.options)
    assert_same_bits(short, long)
    compare_outcomes(reference.simulate(case.problem(), rule, case.options), short)


@pytest.mark.parametrize("feasible", [False, True])
@pytest.mark.parametrize("order", ["edf", "llf", "shuffled"])
def test_a_saturated_platform(order: str, feasible: bool) -> None:
    table = synthetic.cost_table(synthetic.networks(branching=False))
    problem = build_problem(synthetic.closed_loop(table, 1_000), table, synthetic.Platform(), LEAN)
    assert_same_bits(*both_ways(problem, Greedy(order, feasible=feasible), LEAN))


def test_open_arrivals_around_saturation() -> None:
    table = synthetic.cost_table(synthetic.networks(branching=False))
    problem = build_problem(synthetic.poisson(table, 2_000, 2_000.0), table, synthetic.Platform(), LEAN)
    short, long = both_ways(problem, Greedy("edf"), LEAN)
    assert_same_bits(short, long)
    assert 0.1 < short.saturated_s / short.end_s < 1.0


def test_the_loop_still_pauses() -> None:
    """More events than fit between two chances to interrupt."""
    table = synthetic.cost_table(synthetic.networks(branching=False))
    problem = build_problem(synthetic.closed_loop(table, 50_000), table, synthetic.Platform(), LEAN)
    short, long = both_ways(problem, Greedy("edf"), LEAN)
    assert short.events > 1 << 20
    assert_same_bits(short, long)


def test_one_accelerator_and_branches_that_run_side_by_side() -> None:
    table = synthetic.cost_table(synthetic.networks(branching=True))
    for lanes in (1, 3):
        platform = replace(synthetic.Platform(), type_of=np.arange(lanes))
        problem = build_problem(synthetic.closed_loop(table, 300), table, platform, LEAN)
        assert_same_bits(*both_ways(problem, Greedy("edf"), LEAN))

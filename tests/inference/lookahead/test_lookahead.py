"""Lookahead: better than its base where that can be worked out by hand, equal to it where it must be, never illegal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.lookahead.policy import lookahead
from eunomia.inference.lookahead.values import candidate_values
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies import load_policy
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.simulate import Engine, simulate_problem
from tests.inference.strategies import Case, cases
from tests.metrics.tiny import Tiny, tiny

RULES = ("edf+f", "edf+f+eft+g0.9", "sjf+f+pref", "llf+f+g0.8", "fcfs+f+first_idle", "edf_bytes+f+eft_ca")


def problem_of(case: Tiny | Case, options: EngineOptions) -> Problem:
    requests = case.request_table if isinstance(case, Tiny) else case.requests
    return build_problem(requests, case.table, case.platform, options)


def hits(outcome: Outcome) -> int:
    return int((outcome.results["outcome"] == HIT).sum())


def same(one: Outcome, two: Outcome) -> None:
    for fact in ("request", "layer", "accelerator", "start_s", "end_s"):
        np.testing.assert_array_equal(one.subjobs[fact], two.subjobs[fact], err_msg=fact)
    np.testing.assert_array_equal(one.results["outcome"], two.results["outcome"])


# A long request (3 s, due at 3) and two short ones (1 s, due at 3.5 and 3.6) on one accelerator. EDF serves the
# long one, and both short ones are late at 4 s: 1 hit. Giving the long one up: 2 hits.
def dilemma() -> Tiny:
    return tiny([[[3.0]], [[1.0]]], [(0, 0.0, 3.0), (1, 0.0, 3.5), (1, 0.0, 3.6)], [0])


def test_gives_up_the_request_that_costs_two_others() -> None:
    options = EngineOptions()
    problem = problem_of(dilemma(), options)
    assert hits(simulate_problem(problem, "edf+f", options)) == 1
    assert hits(simulate_problem(problem, "lookahead(base=edf+f,portfolio=none)", options)) == 2
    assert (
        hits(simulate_problem(problem, "lookahead(base=edf+f,portfolio=sjf+f,singles=false)", options)) == 2
    )


def test_values_of_the_candidates_are_the_hits_lost() -> None:
    # The long one first: both short ones are lost, -2. A short one first: the long one is lost then and there, -1.
    # Nothing runs, so nothing happens after holding: what waits may still be on time, 0 so far.
    options = EngineOptions()
    policy = lookahead(base="edf+f", portfolio="none", price=0.0)
    engine = asked(problem_of(dilemma(), options), policy, options)
    found = candidate_values(engine.companion)
    assert found.request.tolist() == [0, 1, 2]
    assert found.value.tolist() == [-2.0, -1.0, -1.0]
    assert found.base == -2.0


def asked(problem: Problem, policy: Any, options: EngineOptions) -> Engine:
    """An engine that waits for its first answer."""
    engine = Engine(problem, policy.rules._replace(mode=4), options)
    engine.companion = policy.attach(engine)
    assert engine.advance()
    return engine


@settings(max_examples=60, deadline=None)
@given(cases(periodic=False), st.sampled_from(RULES), st.booleans())
def test_one_rule_and_no_single_candidates_is_that_rule(case: Case, rule: str, charge: bool) -> None:
    problem = case.problem()
    alone = f"lookahead(base={rule},portfolio=none,singles=false,charge={str(charge).lower()})"
    same(simulate_problem(problem, alone, case.options), simulate_problem(problem, rule, case.options))


@settings(max_examples=40, deadline=None)
@given(
    cases(periodic=False),
    st.sampled_from(("hits", "attainment", "shortfall", "max_min")),
    st.booleans(),
    st.integers(0, 2),
)
def test_legal_and_deterministic(case: Case, objective: str, charge: bool, futures: int) -> None:
    policy = lookahead(base="edf+f", objective=objective, charge=charge, futures=futures, budget_us=50.0)
    one, two = (simulate_problem(case.problem(), policy, case.options) for _ in "ab")
    same(one, two)
    stepped = simulate_problem(case.problem(), policy, case.options, stepped=True)
    same(one, stepped)


def crowd(**more: Any) -> tuple[Problem, EngineOptions]:
    """Forty requests at more load than fits."""
    rng = np.random.default_rng(7)
    rows = [[[float(x) for x in rng.uniform(0.3, 2.0, 2)] for _ in range(3)] for _ in range(3)]
    asks = [[[float(x) for x in rng.uniform(0.2, 1.0, 2)] for _ in range(3)] for _ in range(3)]
    requests = [
        (int(rng.integers(3)), float(rng.uniform(0, 20)), float(rng.uniform(4, 9))) for _ in range(60)
    ]
    options = EngineOptions(late="drop", **more)
    case = tiny(rows, requests, [0, 0, 1, 1], asks, bandwidth=2.5, contention="proportional")
    return problem_of(case, options), options


def test_more_hits_than_its_base_in_a_crowd() -> None:
    problem, options = crowd()
    base = hits(simulate_problem(problem, "edf+f+eft", options))
    assert hits(simulate_problem(problem, "lookahead(base=edf+f+eft,portfolio=none)", options)) > base


def test_arrivals_to_come_change_nothing_before_they_come() -> None:
    # Non-clairvoyant: the same past, another future, the same decisions until then.
    problem, options = crowd()
    jobs = problem.jobs
    cut = len(jobs.arrival_s) // 2
    from_s = float(jobs.arrival_s[cut])
    other = jobs._replace(pair=np.concatenate([jobs.pair[:cut], jobs.pair[cut:][::-1]]))
    for policy in (
        "lookahead(base=edf+f)",
        "lookahead(base=edf+f,futures=2)",
        "lookahead(base=edf+f,charge=true)",
    ):
        one, two = (simulate_problem(problem._replace(jobs=j), policy, options) for j in (jobs, other))
        first, second = (o.subjobs[o.subjobs["start_s"] < from_s] for o in (one, two))
        early = np.minimum(len(first), len(second))
        for fact in ("request", "layer", "accelerator", "start_s"):
            np.testing.assert_array_equal(
                np.sort(first[fact]), np.sort(second[fact]), err_msg=f"{fact} {early}"
            )


def test_true_times_are_not_known_under_noise() -> None:
    # Estimates equal, truths different: the first plan, made at time 0, is the same.
    options = EngineOptions(estimator=Estimator(mode="none"))
    values = []
    for scale in (1.0, 3.0):
        problem = problem_of(dilemma(), options)
        costs = problem.costs._replace(latency_s=problem.costs.latency_s * scale)
        engine = asked(problem._replace(costs=costs), lookahead(base="edf+f"), options)
        values.append(candidate_values(engine.companion).value)
    np.testing.assert_array_equal(values[0], values[1])


def test_the_budget_bounds_the_simulated_work() -> None:
    problem, options = crowd()
    most = []
    for budget_us in (35.0, 0.0):  # 10 us for the snapshot, 25 us for 100 layer ends; no limit
        policy = lookahead(base="edf+f", budget_us=budget_us, ends_per_us=4.0)
        engine = Engine(problem, policy.rules, options, None, policy.decide)
        engine.state["system"]["parameters"][0, :4] = policy.parameters
        companion = engine.companion = policy.attach(engine)
        assert not engine.advance()
        most.append(companion.count("most"))
    one_rollout_begun, ends_of_one_instant = 16, 4
    assert 100 <= most[0] <= 100 + one_rollout_begun + ends_of_one_instant < most[1]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("lookahead(objective=fame)", UnknownNameError),
        ("lookahead(base=nothing)", UnknownNameError),
        ("lookahead(base=prema)", ConfigError),
        ("lookahead(budget_us=-1)", ConfigError),
        ("lookahead(budget_us=10)", ConfigError),
        ("lookahead(horizon_ms=0)", ConfigError),
        ("lookahead(price=-1)", ConfigError),
        ("lookahead(price_of=median)", UnknownNameError),
        ("lookahead(ends_per_us=0)", ConfigError),
        ("lookahead(depth=3)", UnknownNameError),
        ("lookahead(singles=maybe)", ConfigError),
        ("lookahead(futures=-1)", ConfigError),
    ],
)
def test_bad_settings_are_refused(name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        load_policy(name)


def test_without_deadlines_there_is_nothing_to_look_for() -> None:
    case = tiny([[[1.0]]], [(0, 0.0, math.inf), (0, 0.1, math.inf)], [0])
    options = EngineOptions()
    problem = problem_of(case, options)
    same(
        simulate_problem(problem, "lookahead", options), simulate_problem(problem, "edf+f+eft+g0.9", options)
    )


def test_sampled_arrivals_that_fall_into_one_instant_do_not_overflow() -> None:
    # 40 requests in a picosecond: the sampled future is as dense, so all of its 64 arrivals are one event. The
    # lookahead is given twice the memory that it may use; what lies beyond must stay as it was.
    rng = np.random.default_rng(3)
    rows = [[[float(x) for x in rng.uniform(0.3, 2.0, 2)] for _ in range(3)] for _ in range(3)]
    requests = [(int(rng.integers(3)), 1e-14 * (n + 1), 9.0) for n in range(40)]
    options = EngineOptions(late="drop")
    case = tiny(rows, requests, [0, 0, 1, 1], bandwidth=2.5, contention="proportional")
    problem = build_problem(case.request_table, case.table, case.platform, options)
    policy = lookahead(futures=2, budget_us=0.0)
    engine = Engine(problem, policy.rules, options, None, policy.decide)
    companion = engine.companion = policy.attach(engine)
    names = ("slots", "pending", "nodes", "waiting", "fresh")
    fits = [{name: len(state[name]) for name in names} for state in companion.states]
    for state in companion.states:
        state.grow()
        state.kernel["slot_capacity"] //= 2
        state.kernel["node_capacity"] //= 2
    while engine.advance():
        pass
    assert companion.count("rollouts") > 0
    for state, own in zip(companion.states, fits, strict=True):
        assert bytes(state["slots"]["layers"][: own["slots"]]).strip(b"\0")
        for name in names:
            assert not bytes(state[name][own[name] :]).strip(b"\0"), name

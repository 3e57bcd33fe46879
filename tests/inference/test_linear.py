"""A linear policy that reads the kernel's memory decides, bit for bit, as the function that is asked with a View."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.contract.constants import give_constants
from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Floats
from eunomia.inference.linear.columns import COLUMNS, KEPT, SCORE, SEQUENCE
from eunomia.inference.options import EngineOptions
from eunomia.inference.simulate import Engine, simulate_problem
from eunomia.learning.load import load_policy, shipped
from eunomia.learning.observation.compiled import observe
from eunomia.learning.observation.table import GLOBAL, JOB
from eunomia.learning.policy.bases import base_weights, with_promise
from eunomia.learning.policy.decide import score_all
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import PLACES, Weights
from tests.inference.strategies import Case, cases
from tests.inference.test_keyed import crowd
from tests.learning.test_policy import random_weights

LINEAR = [name for name in shipped() if name.startswith("eunomia")]


def weights_of(seed: int, place: str) -> Weights:
    """Random weights; some are 0, some have ranges, some ask for promises."""
    rng = np.random.default_rng([seed, 7])
    whole = random_weights(seed, size=float(rng.choice([0.1, 1.0])))
    few = {
        name: getattr(whole, name) * (rng.random(len(getattr(whole, name))) < 0.6)
        for name in ("job", "start")
    }
    base = base_weights(rng.choice(["edf+f+g0.9", "llf+f", "edf_bytes+f+g1.1"]))
    near = {"low": np.full(len(JOB), -1.0), "high": np.full(len(JOB), 1.0)} if seed % 2 else {}
    made = replace(whole, base=base.base, gate=base.gate, place=place, **few, **near)
    return with_promise(made, "keep", 1.0) if seed % 3 == 0 else made


def assert_alike(case: Case, make: LearnedPolicy, stepped: LearnedPolicy) -> None:
    """In place, and asked from Python with a View: results, counts."""
    options = replace(case.options, record="requests")
    mine = simulate_problem(case.problem(), make, options)
    theirs = simulate_problem(case.problem(), stepped, options, stepped=True)
    assert mine.results.tobytes() == theirs.results.tobytes()
    assert mine.busy_s.tobytes() == theirs.busy_s.tobytes()
    assert (mine.end_s, mine.events, mine.rounds) == (theirs.end_s, theirs.events, theirs.rounds)
    assert make.counts == stepped.counts and make.counts["decisions"] > 0
    noted = simulate_problem(case.problem(), make, replace(options, record="all"))
    anew = simulate_problem(case.problem(), stepped, replace(options, record="all"), stepped=True)
    assert noted.reasons is not None and anew.reasons is not None
    assert noted.reasons.rows.tobytes() == anew.reasons.rows.tobytes()
    assert noted.results.tobytes() == mine.results.tobytes() and make.counts == stepped.counts


@settings(max_examples=50, deadline=None)
@given(cases(periodic=False), st.integers(0, 10_000), st.sampled_from(PLACES), st.sampled_from([np.inf, 0.3]))
def test_random_problems(case: Case, seed: int, place: str, alarm: float) -> None:
    weights, starve = weights_of(seed, place), np.inf if seed % 5 else 2.0
    one, other = (LearnedPolicy(weights, starve=starve, alarm=alarm, shared=seed % 2 == 0) for _ in range(2))
    assert one.decides_in_place(replace(case.options, record="requests"))
    assert_alike(case, one, other)


@pytest.mark.parametrize("name", LINEAR)
def test_shipped_policies_on_a_crowded_platform(name: str) -> None:
    """Fifty live requests: orders are repaired, columns move, most sub-jobs are held."""
    for late in ("last", "drop"):
        case = replace(crowd(80), options=EngineOptions(late=late, record="requests"))
        assert_alike(case, load_policy(name), load_policy(name))


def test_room_grows_and_orders_are_made_anew() -> None:
    """A burst of hundreds at once: more than there is room for, and than an order takes in one by one."""
    case = crowd(240)
    r = case.requests
    burst = replace(case, requests=replace(r, arrival_s=np.arange(len(r)) // 150 * 1e-3, after=np.zeros(0)))
    assert_alike(burst, load_policy("eunomia"), load_policy("eunomia"))


class Spy(LearnedPolicy):
    """Keeps, of the last question, the scores computed from nothing but the View."""

    last: dict[int, float]

    def __call__(self, view: View) -> list[Assign]:
        jobs, overall = np.zeros((len(view), len(JOB))), np.zeros(len(GLOBAL))
        score, margin = np.zeros(len(view)), np.zeros(len(view))
        observe(view.ready, view.accelerators, view.system, jobs, overall, True, True)
        score_all(jobs, overall, self.block, True, score, margin)
        before = self.counts["decisions"]
        answer = super().__call__(view)
        if self.counts["decisions"] > before:
            self.last = dict(zip(view.ready["sequence"].tolist(), score.tolist(), strict=True))
        return answer


def kept_scores(engine: Engine) -> Floats:
    """(COLUMNS, nodes) of the last decision."""
    return engine.state.numbers("terms").reshape(COLUMNS, -1)


@settings(max_examples=25, deadline=None)
@given(cases(periodic=False), st.integers(0, 10_000), st.floats(0.5, 20.0))
def test_kept_scores_are_those_computed_anew(case: Case, seed: int, until_s: float) -> None:
    """At whatever instant a run is cut off."""
    options = replace(case.options, record="requests", horizon_s=until_s)
    weights, problem = weights_of(seed, "eft_ca"), case.problem()
    policy, spy = LearnedPolicy(weights, alarm=np.inf), Spy(weights, alarm=np.inf)
    spy.last = {}
    engine = Engine(problem, policy.rules, options, None, None)
    engine.state["system"]["memory"] = 0.0
    give_constants(policy, engine.state["system"])
    engine.companion = policy.attach(engine)
    while engine.advance():
        pass
    simulate_problem(case.problem(), spy, options, stepped=True)
    terms, count = kept_scores(engine), int(engine.state["system"]["memory"][0, KEPT])
    kept = dict(zip(terms[SEQUENCE, :count].astype(int).tolist(), terms[SCORE, :count].tolist(), strict=True))
    assert kept == spy.last

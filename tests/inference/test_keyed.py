"""Orders that change while sub-jobs wait: decisions look at few sub-jobs, and are those of who looks at all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import synthetic
from eunomia.contract.constants import give_constants
from eunomia.contract.rows import Ready, System
from eunomia.inference.kernel.setup import PLACEMENTS
from eunomia.inference.options import EngineOptions
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies.catalogue import ORDERS
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.ordering import Order
from eunomia.inference.policies.tenant_gap import tenant_order
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import Engine, simulate_problem
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests.inference.strategies import Case, ToyPlatform, cases, layers, toy_table

STAYING = sorted(name for name, order in ORDERS.items() if not order.dynamic)
CHANGING = sorted(name for name, order in ORDERS.items() if order.dynamic)


def in_steps(ready: Ready, system: System) -> float:
    """Time left in whole steps: keys of many sub-jobs of a pair are equal though their deadlines are not."""
    if ready.deadline_s == math.inf:
        return math.inf
    return math.floor((ready.deadline_s - system.now_s) * system.parameters[0])


def steps(per_s: float) -> Order:
    return Order("in_steps", in_steps, dynamic=True, parameters=(per_s,), kept_by="deadline")


def same_as_scoring_all(case: Case, rule: Greedy) -> None:
    """Every bit is that of the rule asked from Python, which scores all that waits at each start."""
    few = simulate_problem(case.problem(), rule, case.options)
    every = simulate_problem(case.problem(), rule, case.options, stepped=True)
    assert_same_bits(few, every)


def assert_same_bits(few: Outcome, every: Outcome) -> None:
    for name in few.subjobs.dtype.names or ():
        if name != "key":  # a stepped answer has none
            assert few.subjobs[name].tobytes() == every.subjobs[name].tobytes(), name
    for name in ("results", "decisions", "free_in_s", "busy_s"):
        assert getattr(few, name).tobytes() == getattr(every, name).tobytes(), name
    assert (few.end_s, few.events, few.rounds) == (every.end_s, every.events, every.rounds)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    cases(periodic=False), st.sampled_from(CHANGING), st.sampled_from(PLACEMENTS), st.booleans(),
    st.sampled_from([math.inf, 0.6]),
)  # fmt: skip
def test_random_problems(case: Case, order: str, place: str, feasible: bool, gate: float) -> None:
    same_as_scoring_all(case, Greedy(order, place, feasible, gate))


@settings(max_examples=80, derandomize=True, deadline=None)
@given(cases(periodic=False), st.sampled_from([0.01, 0.2, 3.0]), st.sampled_from(PLACEMENTS), st.booleans())
def test_equal_keys_of_unequal_deadlines(case: Case, per_s: float, place: str, feasible: bool) -> None:
    same_as_scoring_all(case, Greedy(steps(per_s), place, feasible))


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    cases(periodic=False), st.sampled_from([1e-13, 1e-15, 1e-16]), st.sampled_from(PLACEMENTS), st.booleans()
)
def test_ranks_so_large_that_deadlines_round_to_one_key(
    case: Case, step: float, place: str, feasible: bool
) -> None:
    same_as_scoring_all(case, Greedy(tenant_order("worst_first", "edf", step), place, feasible))


@pytest.mark.parametrize("order", [tenant_order("worst_first", "edf", 1e-15), steps(1e-3)])
def test_who_goes_first_by_rounding_starts_where_its_own_layer_ends_first(order: Order) -> None:
    chain = DnnModel("net", layers(2), ((0, 1),))
    table = toy_table([chain], ("slow", "fast"), np.array([[0.25, 0.25], [0.5, 0.25]]))
    requests = RequestTable(
        agreements=(Agreement("tenant", "net"),),
        pair=np.array([0, 0]),
        arrival_s=np.array([0.0, 0.25]),
        relative_deadline_s=np.array([90.0, 50.0]),
    )
    case = Case(requests, table, ToyPlatform(table.types, np.array([0, 1])), EngineOptions())
    started = simulate_problem(case.problem(), Greedy(order, "any_idle", False), case.options).subjobs
    second = started[(started["request"] == 0) & (started["layer"] == 1)]
    assert second["accelerator"].tolist() == [1]
    same_as_scoring_all(case, Greedy(order, "any_idle", False))


@settings(max_examples=40, derandomize=True, deadline=None)
@given(cases(periodic=False), st.sampled_from(STAYING), st.sampled_from(PLACEMENTS), st.booleans())
def test_keys_that_stay_in_heaps_that_stand(case: Case, order: str, place: str, feasible: bool) -> None:
    same_as_scoring_all(case, Greedy(order, place, feasible))


def crowd(count: int) -> Case:
    """Fifty live requests of eight pairs on eight accelerators, branching networks, targets missed and kept."""
    costs = synthetic.cost_table(synthetic.networks(branching=True))
    requests = synthetic.closed_loop(costs, count, with_slos=True)
    return Case(requests, costs, synthetic.Platform(), EngineOptions(late="last"))  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["any_idle", "eft"])
@pytest.mark.parametrize("order", [*CHANGING, "edf", "llf", "in_steps"])
def test_a_saturated_platform(order: str, place: str) -> None:
    same_as_scoring_all(
        crowd(80), Greedy(steps(40.0) if order == "in_steps" else order, place, feasible=True)
    )


def scored_a_start(order: str, place: str) -> tuple[float, float]:
    """Keys computed for each layer started, and sub-jobs that waited then."""
    case, rule = crowd(1_000), Greedy(order, place, feasible=True)
    problem = build_problem(case.requests, case.table, case.platform, case.options)
    engine = Engine(problem, rule.rules, case.options, rule.key)
    give_constants(rule, engine.state["system"])
    assert not engine.advance()
    out = engine.outcome(0.0, [])
    return int(engine.state.k["scored"]) / len(out.decisions), float(np.mean(out.decisions["waiting"]))


@pytest.mark.parametrize(
    ("order", "place", "most"),
    [
        # one of each of eight pairs, and one to see that no other ties with it
        ("deficit_edf", "any_idle", 9.0),
        # its pair, when a request of that ends
        ("triage_edf", "any_idle", 1.0),
        ("worst_first_edf", "eft", 1.0),
        # when it becomes ready, and those of its pair when a request of that ends
        ("shift_edf", "any_idle", 2.0),
        ("triage_sjf", "eft", 2.0),
        ("deficit_edf", "eft", 12.0),
    ],
)
def test_few_are_scored(order: str, place: str, most: float) -> None:
    scored, waiting = scored_a_start(order, place)
    assert waiting > 25.0
    assert scored <= most


def test_orders_without_an_order_of_their_own_score_all() -> None:
    scored, waiting = scored_a_start("planaria", "any_idle")
    assert scored >= waiting

"""What every registered policy promises, whatever its idea, at events and at ticks (docs/policies.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError
from eunomia.inference.options import EngineOptions
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies import POLICIES, load_policy
from eunomia.inference.policies.balancing import Queueing
from eunomia.inference.policies.catalogue import takes_gate
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.ordering import ORDERS
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo
from tests.inference.policies.views import answer, job, make_view
from tests.inference.strategies import Case, ToyPlatform, layers, toy_table

PINNED = ("relmas", "relmas-slo")  # to six accelerators; tests of their own: learning/agents/ddpg
FEWER = {
    "magma_10k": "magma_10k(samples=40)",
    "magma_10k+g0.8": "magma_10k(samples=40)+g0.8",
}  # the same code, sooner
NAMES = [
    FEWER.get(name, name)
    for name in (
        *(name for name in POLICIES.names() if name not in PINNED),
        *(f"{order}+f+eft+g0.8" for order in ORDERS),
        *(f"{name}+g0.8" for name in POLICIES.names() if takes_gate(name)),
    )
]
every_policy = pytest.mark.parametrize("name", NAMES)


def busy_case(lanes: int, seed: int = 1, **options: Any) -> Case:
    """Forty requests of two tenants, a chain and a network with branches, at more load than fits."""
    rng = np.random.default_rng(seed)
    chain = DnnModel("chain", layers(3), ((0, 1), (1, 2)))
    fork = DnnModel("fork", layers(4), ((0, 1), (0, 2), (1, 3), (2, 3)))
    types = ("a", "b")[:lanes]
    latency = rng.uniform(0.5, 2.0, (7, len(types)))
    if lanes > 1:
        latency[2, 0] = latency[5, 1] = math.inf
    dram = np.where(np.isfinite(latency), rng.uniform(0.2, 1.0, latency.shape), 0.0)
    pairs = (
        Agreement("gold", "chain", Slo(0.9, window_requests=10), 9.0, 2.0),
        Agreement("lead", "fork", Slo(0.5, window_requests=10)),
    )
    requests = RequestTable(
        pairs,
        rng.integers(0, 2, 40),
        np.cumsum(rng.exponential(4.5 / lanes, 40)),
        rng.uniform(4.0, 16.0, 40),
    )
    table = toy_table([chain, fork], types, latency, dram, rng.uniform(0.1, 1.0, latency.shape))
    platform = ToyPlatform(types, np.arange(lanes) % len(types), 1.0 if lanes > 1 else 0.7, "proportional")
    return Case(requests, table, platform, EngineOptions(**options))


class Watched:
    """A policy in stepped mode whose every View and answer is checked."""

    def __init__(self, name: str) -> None:
        self.policy = load_policy(name)
        for fact in (
            "rules",
            "key",
            "parameters",
            "blocks",
            "sharing",
            "prepare",
            "reset",
            "attach",
            "decide_tick",
        ):
            if hasattr(self.policy, fact):
                setattr(self, fact, getattr(self.policy, fact))
        self.asked = 0

    @property
    def charge_s(self) -> float:
        """What the policy charges for its last answer."""
        return float(getattr(self.policy, "charge_s", 0.0))

    def __call__(self, view: View) -> Sequence[Assign]:
        before = [
            a.copy()
            for a in (view.ready, view.accelerators, view.latency_s, view.demand_bytes_s, view.energy_j)
        ]
        system = view.system.copy()
        answers = self.policy(view)
        self.asked += 1
        after = (view.ready, view.accelerators, view.latency_s, view.demand_bytes_s, view.energy_j)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(before, after, strict=True)), "the View changed"
        for fact in system.dtype.names:
            assert fact == "memory" or np.array_equal(system[fact], view.system[fact]), f"{fact} changed"
        self.check(view, answers)
        return answers

    def check(self, view: View, answers: Sequence[Assign]) -> None:
        """Ready sub-jobs on accelerators that are idle, unless at a tick, and can run them; nothing twice."""
        ticks = view.system["period_s"] > 0.0
        rows = {(int(r["request"]), int(r["layer"])): i for i, r in enumerate(view.ready)}
        taken = [(a.request, a.layer) for a in answers]
        places = [a.accelerator for a in answers]
        assert len(set(taken)) == len(taken), f"booked twice: {answers}"
        assert ticks or len(set(places)) == len(places), f"booked twice: {answers}"
        for a in answers:
            assert ticks or a.accelerator in view.idle, f"{a}: busy"
            assert math.isfinite(view.latency_s[rows[a.request, a.layer], a.accelerator]), f"{a}: cannot run"


def same(one: Outcome, two: Outcome) -> None:
    for fact in ("request", "layer", "accelerator", "start_s", "end_s"):
        np.testing.assert_array_equal(one.subjobs[fact], two.subjobs[fact], err_msg=fact)
    np.testing.assert_array_equal(one.results["outcome"], two.results["outcome"])


@every_policy
def test_legal_stepped_as_compiled_and_repeatable(name: str) -> None:
    case = busy_case(3)
    watched = Watched(name)
    stepped = simulate_problem(case.problem(), watched, case.options, stepped=True)
    assert watched.asked > 40
    policy = load_policy(name)
    compiled = simulate_problem(case.problem(), policy, case.options)
    same(stepped, compiled)
    simulate_problem(busy_case(2, seed=9).problem(), policy, case.options)  # something to forget
    same(compiled, simulate_problem(case.problem(), policy, case.options))
    assert len(compiled.subjobs) == sum(3 if pair == 0 else 4 for pair in case.requests.pair)


@every_policy
@pytest.mark.parametrize("mode", ["wait", "patch"])
def test_legal_at_ticks_stepped_as_compiled_and_repeatable(name: str, mode: str) -> None:
    case = busy_case(3, period_s=0.7, period_mode=mode)
    policy = load_policy(name)
    if isinstance(policy, Queueing):
        for stepped in (False, True):
            with pytest.raises(ConfigError, match="cannot decide at the ticks of a period"):
                simulate_problem(case.problem(), policy, case.options, stepped=stepped)
        return
    compiled = simulate_problem(case.problem(), policy, case.options)
    asked = simulate_problem(case.problem(), Watched(name), case.options, stepped=True)
    if mode == "wait" or not isinstance(
        policy, Greedy
    ):  # what an order patches itself, others leave to the engine
        same(asked, compiled)
    same(compiled, simulate_problem(case.problem(), policy, case.options))
    for outcome in (compiled, asked):
        assert len(outcome.subjobs) == sum(3 if pair == 0 else 4 for pair in case.requests.pair)


@every_policy
@pytest.mark.parametrize("late", ["drop", "run"])
def test_one_accelerator(name: str, late: str) -> None:
    case = busy_case(1, late=late)
    out = simulate_problem(case.problem(), name, case.options)
    ends = out.subjobs["end_s"][np.argsort(out.subjobs["start_s"], kind="stable")]
    starts = np.sort(out.subjobs["start_s"])
    assert np.all(starts[1:] >= ends[:-1] - 1e-12), "two layers at once on one accelerator"
    assert set(out.results["outcome"]) <= {0, 1, 2}
    assert np.sum(out.results["outcome"] == 0) > 0, "not one hit"


@every_policy
def test_nothing_waits_nothing_starts(name: str) -> None:
    policy = load_policy(name)
    assert answer(policy, make_view(policy, [], [], types=[0, 1])) == []


@every_policy
def test_order_of_the_view_does_not_matter(name: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(10):
        policy = load_policy(name)
        view = random_view(policy, rng)
        shuffled = rng.permutation(len(view))
        arrays = [
            a[shuffled].copy() for a in (view.ready, view.latency_s, view.demand_bytes_s, view.energy_j)
        ]
        other = View(view.system.copy(), arrays[0], view.accelerators, *arrays[1:])
        assert set(answer(policy, view)) == set(answer(load_policy(name), other))


def random_view(policy: Any, rng: np.random.Generator) -> View:
    """Eight sub-jobs, some alike but for their sequence, four accelerators, one of them busy."""
    count, now_s = 8, 10.0
    jobs = []
    for i in range(count):
        work_s = float(rng.integers(1, 4))
        jobs.append(job(
            arrival_s=float(rng.integers(0, 10)), deadline_s=now_s + float(rng.integers(0, 9)), work_best_s=work_s,
            iso_best_s=work_s + float(rng.integers(0, 3)), priority=float(rng.choice([1, 3, 9])), layers_done=i % 3,
            layers_total=4, slo=0.9, sli=0.8, gap=float(rng.choice([-0.1, 0.1, 0.4])),
            sli_count=int(rng.integers(0, 3)), bytes_left=work_s, bound=i % 3, layer=i % 2, model=i % 2,
        ))  # fmt: skip
    latency = rng.integers(1, 4, (count, 4)).astype(float)
    return make_view(policy, jobs, latency.tolist(), now_s=now_s, types=[0, 0, 1, 1], free_in_s=[0, 0, 0, 1.5],
                     demand=(1 / latency).tolist(), energy=latency.tolist(),
                     bandwidth=2.0, running_demand=0.7)  # fmt: skip

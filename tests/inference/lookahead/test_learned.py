"""Lookahead over a learned policy: followed exactly while it runs, closely in rollouts; hopeless requests may wait."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.layers import start_layer
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.kernel.memory import KERNEL_TYPE, lane_at, queue_at, system_of, type_at, waiting_at
from eunomia.inference.lookahead.learned import running_demand
from eunomia.inference.lookahead.learned_place import look
from eunomia.inference.lookahead.learner import Followed
from eunomia.inference.lookahead.memory import WORKSPACE_TYPE, first_free_at
from eunomia.inference.lookahead.policy import Lookahead, lookahead
from eunomia.inference.lookahead.snapshot import restore, take_snapshot
from eunomia.inference.lookahead.values import candidate_values
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.load import load_policy
from eunomia.learning.policy.learned import LearnedPolicy
from tests.inference.lookahead.test_lookahead import asked, problem_of, same
from tests.inference.strategies import Case, cases
from tests.learning.test_policy import random_weights
from tests.metrics.tiny import tiny


def shipped() -> LearnedPolicy:
    policy = load_policy("eunomia")
    assert isinstance(policy, LearnedPolicy)
    return policy


def over(policy: LearnedPolicy, **more: float | str) -> Lookahead:
    """Lookahead whose base is this policy."""
    plain = lookahead("eunomia", **more)
    return replace(plain, portfolio=(Followed(policy), *plain.portfolio[1:]))


@settings(max_examples=40, deadline=None)
@given(cases(periodic=False), st.integers(0, 10_000), st.booleans())
def test_with_nothing_to_choose_it_is_the_policy_itself(case: Case, seed: int, charge: bool) -> None:
    policy = LearnedPolicy(random_weights(seed, size=0.3))
    alone = over(policy, portfolio="none", singles=False, charge=charge)
    same(
        simulate_problem(case.problem(), alone, case.options),
        simulate_problem(case.problem(), policy, case.options),
    )


@settings(max_examples=40, deadline=None)
@given(
    cases(periodic=False),
    st.integers(0, 10_000),
    st.booleans(),
    st.sampled_from(("hits", "attainment", "max_min")),
)
def test_legal_and_deterministic(case: Case, seed: int, refuse: bool, objective: str) -> None:
    policy = LearnedPolicy(random_weights(seed, size=0.3))
    plan = over(
        policy, objective=objective, refuse=refuse, charge=seed % 2 == 0, futures=seed % 3, budget_us=80.0
    )
    one = simulate_problem(case.problem(), plan, case.options)
    same(one, simulate_problem(case.problem(), plan, case.options))
    same(one, simulate_problem(case.problem(), plan, case.options, stepped=True))


def burst(seed: int, count: int, contention: str) -> tuple[Problem, EngineOptions]:
    """Requests that are all there at the beginning, so that a rollout knows all that will happen."""
    rng = np.random.default_rng(seed)
    rows = [[[float(x) for x in rng.uniform(0.3, 2.0, 2)] for _ in range(4)] for _ in range(3)]
    asks = [[[float(x) for x in rng.uniform(0.2, 1.5, 2)] for _ in range(4)] for _ in range(3)]
    requests = [
        (int(rng.integers(3)), 0.0, float(rng.uniform(7, 16))) for _ in range(count)
    ]  # none is hopeless
    requests.append((0, 0.0, 1000.0))  # rollouts end at the last deadline: after all others have ended
    options = EngineOptions(late="drop")
    case = tiny(rows, requests, [0, 0, 1, 1], asks, bandwidth=2.0, contention=contention)
    return problem_of(case, options), options


@pytest.mark.parametrize("contention", ["proportional", "max_min", "none"])
def test_a_rollout_ends_as_the_policy_does(contention: str) -> None:
    # The obvious twin of a rollout is the engine with the policy itself. Terms that wait for their turn, and
    # accelerators looked at by type, may change a request or two.
    off, total = [], 0
    for seed in range(24):
        problem, options = burst(seed, 8 + seed % 8, contention)
        policy = LearnedPolicy(shipped().weights, shared=True, alarm=np.inf)
        engine = asked(problem, over(policy, price=0.0), options)
        promised = -candidate_values(engine.companion).base
        lost = int((simulate_problem(problem, policy, options).results["outcome"] != HIT).sum())
        off.append(abs(promised - lost))
        total += lost
    assert total > 10
    assert np.mean(off) < 0.8 and max(off) <= 3, off


def look_after_each_start(ws, k):  # type: ignore[no-untyped-def]
    """Start what waits wherever it can; how often what is kept from start to start is not what a new look finds."""
    take_snapshot(ws)
    restore(ws)
    for s in range(k.num_lanes):
        queue_at(k, s).free_in_s = 0.0
    demand, differences = running_demand(k), 0
    look(ws, k, demand, -1)
    for s in range(k.num_lanes):
        if lane_at(k, s).node >= 0 or k.num_waiting == 0:
            continue
        start_layer(k, waiting_at(k, s % k.num_waiting).value, s, system_of(k).now_s, 0)
        demand = running_demand(k)
        look(ws, k, demand, s)
        slow, standing, seen = ws.slow, ws.standing, np.empty((k.num_types, 3))
        for kind in range(k.num_types):
            one = type_at(k, kind)
            seen[kind, 0], seen[kind, 1] = first_free_at(ws, kind).value, one.idle
            seen[kind, 2] = one.free_s
        look(ws, k, demand, -1)
        differences += 1 if slow != ws.slow or standing != ws.standing else 0
        for kind in range(k.num_types):
            one = type_at(k, kind)
            same_type = seen[kind, 0] == first_free_at(ws, kind).value and seen[kind, 1] == one.idle
            differences += 0 if same_type and seen[kind, 2] == one.free_s else 1
    return differences if k.num_running > 1 else -1


def test_what_is_kept_from_start_to_start_is_what_a_new_look_finds() -> None:
    folders = ("inference/kernel", "inference/policies", "inference/lookahead")
    compiled = compile_cached(
        look_after_each_start, types.int64(WORKSPACE_TYPE, KERNEL_TYPE), "test of looks", *folders
    )
    for contention in ("proportional", "max_min", "weighted", "none"):
        for seed in range(12):
            problem, options = burst(seed, 8 + seed, contention)
            engine = asked(problem, over(shipped()), options)  # what the workspace points to must live
            beside = engine.companion
            assert compiled(beside.workspace[0], beside.states[1].k) == 0


def test_hopeless_requests_wait_where_they_are_refused() -> None:
    # Two accelerators. The first request (2 s, due at 1 s) is hopeless, the second (2 s, due at 9) is not. Served,
    # the hopeless one starts beside it at once; refused, when nobody else can be on time any more.
    case = tiny([[[2.0]]], [(0, 0.0, 1.0), (0, 0.0, 9.0)], [0, 0])
    options = EngineOptions(late="last")
    started = {}
    for base in ("edf+f", "eunomia"):
        for refuse in (False, True):
            plan = lookahead(base, portfolio="none", refuse=refuse)
            outcome = simulate_problem(problem_of(case, options), plan, options)
            started[base, refuse] = outcome.results["start_s"].tolist()
    for base in ("edf+f", "eunomia"):
        assert started[base, False] == [0.0, 0.0]
        assert started[base, True] == [2.0, 0.0]


def test_what_rollouts_cannot_follow_is_refused() -> None:
    with pytest.raises(PolicyError, match="network"):
        Followed(LearnedPolicy(random_weights(0, "hidden")))
    with pytest.raises(PolicyError, match="several learned policies"):
        lookahead("eunomia", portfolio="eunomia-attainment")

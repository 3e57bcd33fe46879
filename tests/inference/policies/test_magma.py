"""MAGMA online by hand: plans, knowledge beyond the ready layers, charged time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eunomia.contract.view import Assign, View
from eunomia.core.errors import PolicyError
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies.gathering import Frontier, free_jobs, gather
from eunomia.inference.policies.knowledge import Knowledge, knowledge_of
from eunomia.inference.policies.magma import EVENT_S, magma, magma_10k
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests.inference.policies.test_contract import busy_case
from tests.inference.policies.views import ask, job
from tests.inference.strategies import ToyPlatform, layers, toy_table

ONE, TWO = np.array([0, 1], np.int64), np.array([0, 2], np.int64)


def test_all_deadlines_are_met_by_the_only_mapping_that_does() -> None:
    # Due at 2 and 3; c = 2 on either accelerator for the first, 3 and 9 for the second: 0 -> 1, 1 -> 0.
    jobs = [job(deadline_s=2.0, work_best_s=2.0), job(deadline_s=3.0, work_best_s=3.0)]
    assert set(ask(magma_10k(samples=200), jobs, [[2, 2], [3, 9]])) == {(0, 1), (1, 0)}


def test_without_deadlines_makespan_decides() -> None:
    # Fastest first would put both on accelerator 0 (1 + 2 = 3 s), or the first there and the second on 1 (8 s).
    assert set(ask(magma_10k(samples=200), [job(), job()], [[1, 2], [2, 8]])) == {(1, 0), (0, 1)}


def test_a_shut_gate_holds_everything() -> None:
    facts = dict(latency_s=[[1, 1]], free_in_s=[1.0, 0.0], bandwidth=2.0, running_demand=1.9)
    assert ask(magma_10k(samples=50, gate=0.9), [job()], **facts) == []
    assert ask(magma_10k(samples=50, gate=1.0), [job()], **facts) == [(0, 1)]


def fork() -> Knowledge:
    """One network 0 -> {1, 2} -> 3 on two accelerators; 1, 2, 3 and 4 s."""
    time_s = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]])
    path_s = np.array([8.0, 6.0, 7.0, 4.0])
    return Knowledge(
        time_s, np.ones((4, 2)), path_s, np.array([0, 4]), np.array([0, 2, 3, 4, 4]), np.array([1, 2, 3, 3])
    )


def test_the_group_holds_ready_and_running_layers_and_what_follows() -> None:
    # Layer 1 runs on accelerator 0, layer 2 is ready, due in 9 s: jobs are 2, 3 (free) and 1 (running).
    frontier = Frontier(TWO, np.array([2, 1]), np.array([-1, 0]), np.array([0]), np.array([9.0]))
    found = gather(fork(), frontier, most=10)
    assert (found.layer.tolist(), found.lane.tolist(), found.genes) == ([2, 3, 1], [-1, -1, 0], 2)
    assert (found.indegree.tolist(), found.successor_start.tolist()) == ([0, 2, 0], [0, 1, 1, 2])
    assert (found.successor.tolist(), found.deadline_s.tolist()) == ([1, 1], [9.0])


def test_what_the_group_leaves_out_is_taken_off_the_deadline() -> None:
    # Only layer 0 and one more fit: 2 is left out with 7 s to go, and 3 behind it.
    frontier = Frontier(ONE, np.array([0]), np.array([-1]), np.array([0]), np.array([9.0]))
    found = gather(fork(), frontier, most=2)
    assert (found.layer.tolist(), found.deadline_s.tolist()) == ([0, 1], [2.0])


def race(policy: object, **options: object) -> np.ndarray:
    """Ends of two chains of 1 + 1 s (due at 2 and 4) and of 1 s (due at 1.05) on two accelerators."""
    models = [DnnModel("chain", layers(2), ((0, 1),)), DnnModel("short", layers(1), ())]
    table = toy_table(models, ("a",), np.ones((3, 1)))
    agreements = (Agreement("t", "chain"), Agreement("t", "short"))
    requests = RequestTable(agreements, np.array([0, 0, 1]), np.zeros(3), np.array([2.0, 4.0, 1.05]))
    chosen = EngineOptions(**options)  # type: ignore[arg-type]
    problem = build_problem(requests, table, ToyPlatform(("a",), np.array([0, 0])), chosen)
    return simulate_problem(problem, policy, chosen).results["finish_s"]  # type: ignore[arg-type]


def test_it_plans_beyond_the_ready_layers() -> None:
    # The chain due at 2 must run 0..2, the short one 0..1; the other chain follows at 1.
    assert race(magma_10k(samples=500)).tolist() == [2.0, 3.0, 1.0]


def test_the_time_of_the_search_is_charged() -> None:
    # One plan of 5 jobs: 1e-4 s buy 1e-4 / (5 x 1e-7) = 200 samples, whose time the first starts pay.
    finish_s = race(magma(budget_s=1e-4))
    assert EVENT_S == 1e-7
    assert finish_s[2] == pytest.approx(1.0 + 1e-4, rel=1e-12)
    assert race(magma_10k(samples=200))[2] == 1.0
    assert race(magma_10k(samples=200), charge_measured=True)[2] > 1.0


def test_at_ticks_it_queues_everything() -> None:
    # A tick at 0 queues three layers at once; with the next tick at 10 the second layers are placed by the engine.
    finish_s = race(magma_10k(samples=500), period_s=10.0)
    assert sorted(finish_s.tolist()) == [1.0, 2.0, 3.0]


def test_knowledge_tells_nothing_of_requests() -> None:
    table = toy_table(
        [DnnModel("chain", layers(2), ((0, 1),))], ("a", "b"), np.array([[1.0, 2.0], [3.0, math.inf]])
    )
    requests = RequestTable((Agreement("t", "chain"),), np.array([0]), np.zeros(1), np.ones(1))
    platform = ToyPlatform(("a", "b"), np.array([1, 0, 1]))
    known = knowledge_of(build_problem(requests, table, platform, EngineOptions()))
    assert known.latency_s.tolist() == [[2.0, 1.0, 2.0], [math.inf, 3.0, math.inf]]
    assert (known.path_best_s.tolist(), known.successor.tolist()) == ([4.0, 3.0], [1])


def test_a_small_budget_maps_fewer_layers() -> None:
    # Two requests: 1 runs and 2 is ready; 0 is ready. 2 x 3 free jobs and the running one are 7; 5 leave 2 + 2 + 1.
    frontier = Frontier(
        np.array([0, 2, 3]),
        np.array([1, 2, 0]),
        np.array([0, -1, -1]),
        np.zeros(2, np.int64),
        np.full(2, 9.0),
    )
    for most, limit, jobs in ((6, None, 6), (6, 7, 6), (6, 6, 5), (6, 5, 5), (6, 4, 3), (1, 9, 3)):
        found = gather(fork(), frontier, free_jobs(frontier, most, limit))
        assert len(found.row) == jobs, (most, limit)


@pytest.mark.parametrize("budget_us", [0.2, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("period_s", [None, 0.7])
def test_the_budget_is_kept(budget_us: float, period_s: float | None) -> None:
    case = busy_case(3, period_s=period_s)
    policy = magma(budget_s=budget_us * 1e-6)
    charges = []

    class Noting:
        rules, reset, prepare = policy.rules, policy.reset, policy.prepare

        def __call__(self, view: View) -> list[Assign]:
            answer = policy(view)
            charges.append(policy.charge_s)
            return answer

    outcome = simulate_problem(case.problem(), Noting(), case.options)
    assert (outcome.results["finish_s"] > 0.0).all()
    assert 0.0 < max(charges) <= budget_us * 1e-6 * (1.0 + 1e-9)


def test_settings_are_checked() -> None:
    for wrong in (dict(budget_s=0.0), dict(samples=1), dict(jobs=0)):
        with pytest.raises(PolicyError, match="budget must be positive"):
            magma(**wrong)
    with pytest.raises(PolicyError, match="budget_s 1e-07 does not pay for 2 samples of a job"):
        magma(budget_s=1e-7)
    with pytest.raises(PolicyError, match="gate is 0"):
        magma_10k(gate=0.0)

"""MAGMA's search: hand-worked groups, a slow twin, brute force on tiny groups, the engine itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.contract.view import Assign, View
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies.genetic import evolve, first_fit, predict, sample
from eunomia.inference.policies.group import Group, independent
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests.inference.strategies import ToyPlatform, layers, toy_table


def arrays(lanes: list[int], ranks: list[float]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(lanes, np.int64), np.array(ranks, float)


def chained(group: Group, edges: list[tuple[int, int]], request: list[int], deadline_s: list[float]) -> Group:
    """The group with predecessors and deadlines."""
    count = group.genes
    after = [[b for a, b in edges if a == j] for j in range(count)]
    return group._replace(
        indegree=np.array([sum(b == j for _, b in edges) for j in range(count)], np.int64),
        successor_start=np.cumsum([0, *map(len, after)], dtype=np.int64),
        successor=np.array([b for row in after for b in row], np.int64),
        request=np.array(request, np.int64),
        deadline_s=np.array(deadline_s, float),
    )


def test_shared_bandwidth_by_hand() -> None:
    # Jobs of 2, 3 and 1 s. Accelerator 0: job 0, then 2; accelerator 1: job 1. Each asks for 1, B is 1.5.
    # Both run: D = 2, speed 3/4. Job 0 ends at 2 / (3/4) = 8/3; then job 2 and the 1 s left of job 1 end
    # together after 1 / (3/4): 8/3 + 4/3 = 4.
    group = independent(np.array([[2.0, 9.0], [9.0, 3.0], [1.0, 9.0]]), np.ones((3, 2)), 1.5)
    assert predict(group, *arrays([0, 1, 0], [0.1, 0.2, 0.3])) == (0, pytest.approx(4.0))
    # Without sharing: max(2 + 1, 3) = 3.
    assert predict(group._replace(bandwidth_bytes_s=math.inf), *arrays([0, 1, 0], [0.1, 0.2, 0.3])) == (
        0,
        3.0,
    )


def test_predecessors_deadlines_and_running_layers_by_hand() -> None:
    # Job 0 -> job 1 (request 0, due at 4); job 2 (request 1, due at 3). A foreign layer has 1 s left.
    # Priorities 1, 0, 2 wanted, but job 1 must follow 0: 0 runs 1..2, 1 runs 2..4, 2 runs 4..5.
    group = independent(np.array([[1.0], [2.0], [1.0]]), np.zeros((3, 1)), math.inf)
    group = chained(group, [(0, 1)], [0, 0, 1], [4.0, 3.0])._replace(free_in_s=np.array([1.0]))
    assert predict(group, *arrays([0, 0, 0], [0.2, 0.1, 0.3])) == (1, 5.0)
    # Request 1 first: 1..2; then 0 and 1 until 5: request 0 is late, request 1 is not.
    assert predict(group, *arrays([0, 0, 0], [0.2, 0.1, 0.0])) == (1, 5.0)
    assert predict(group._replace(deadline_s=np.array([5.0, 3.0])), *arrays([0, 0, 0], [0.2, 0.1, 0.0])) == (
        2,
        5.0,
    )


def test_the_gate_holds_jobs_by_hand() -> None:
    # Each asks for 1 of B = 1. Together: 2 s each at half speed. Gate at 0.5: one after the other.
    group = independent(np.ones((2, 2)), np.ones((2, 2)), 1.0)
    assert predict(group, *arrays([0, 1], [0.1, 0.2])) == (0, 2.0)
    assert predict(group._replace(hold_bytes_s=0.5), *arrays([0, 1], [0.1, 0.2])) == (0, 2.0)
    late = chained(group, [], [0, 1], [1.0, 2.0])
    assert predict(late, *arrays([0, 1], [0.1, 0.2]))[0] == 1
    assert predict(late._replace(hold_bytes_s=0.5), *arrays([0, 1], [0.1, 0.2]))[0] == 2


@st.composite
def groups(draw: st.DrawFn) -> Group:
    """Up to six jobs of up to three requests with random edges, on one to three accelerators."""
    count, lanes = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    latency = rng.uniform(0.5, 3.0, (count, lanes))
    latency[rng.random(latency.shape) < 0.2] = math.inf
    latency[:, 0] = np.where(np.isfinite(latency).any(axis=1), latency[:, 0], 1.0)
    group = independent(
        latency, rng.uniform(0.1, 1.0, latency.shape), draw(st.sampled_from([0.8, 1.5, math.inf]))
    )
    request = rng.integers(0, 3, count)
    edges = [
        (a, b)
        for a in range(count)
        for b in range(a + 1, count)
        if request[a] == request[b] and rng.random() < 0.4
    ]
    group = chained(group, edges, request.tolist(), rng.uniform(1.0, 8.0, 3).tolist())
    return group._replace(
        free_in_s=np.where(rng.random(lanes) < 0.3, 0.7, 0.0), running_demand=np.full(lanes, 0.5)
    )


def twin(group: Group, lane: np.ndarray, rank: np.ndarray) -> tuple[int, float]:
    """The evaluation once more, in plain words."""
    count, lanes = group.latency_s.shape
    start, after = group.successor_start, group.successor
    before = [[a for a in range(count) if j in after[start[a] : start[a + 1]]] for j in range(count)]
    foreign = {s: group.free_in_s[s] for s in range(lanes) if group.free_in_s[s] > 0}
    work: dict[int, float] = {}  # running job -> isolated time left
    end: dict[int, float] = {}
    started: set[int] = set()
    now = 0.0
    while len(end) < count:
        for s in range(lanes):
            if s in foreign or any(lane[j] == s for j in work):
                continue
            mine = [
                j
                for j in range(count)
                if lane[j] == s and j not in started and all(a in end for a in before[j])
            ]
            if mine:
                job = min(mine, key=lambda j: rank[j])
                started.add(job)
                work[job] = group.latency_s[job, s]
        total = sum(group.demand_bytes_s[j, lane[j]] for j in work) + sum(
            group.running_demand[s] for s in foreign
        )
        slow = max(1.0, total / group.bandwidth_bytes_s)
        step = min([*work.values(), *foreign.values()])
        now += step * slow
        work = {j: left - step for j, left in work.items()}
        foreign = {s: left - step for s, left in foreign.items() if left - step > 1e-12}
        for j in [j for j, left in work.items() if left <= 1e-12]:
            end[j] = now
            del work[j]
    last = {r: max((end[j] for j in range(count) if group.request[j] == r), default=0.0) for r in range(3)}
    return sum(last[r] <= group.deadline_s[r] for r in range(3)), now


def able(group: Group, rng: np.random.Generator) -> np.ndarray:
    """A random accelerator that can run it for each job."""
    return np.array([rng.choice(np.flatnonzero(np.isfinite(row))) for row in group.latency_s], np.int64)


@given(groups(), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_compiled_evaluation_equals_its_twin(group: Group, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lane, rank = able(group, rng), rng.random(group.genes)
    hits, makespan_s = predict(group, lane, rank)
    expected_hits, expected_s = twin(group, lane, rank)
    assert makespan_s == pytest.approx(expected_s, rel=1e-9)
    assert hits == expected_hits


@given(groups())
@settings(max_examples=60, deadline=None)
def test_the_list_schedule_and_what_is_found_can_run_and_are_predicted(group: Group) -> None:
    lane, rank = first_fit(group)
    found = evolve(group, samples=60, population=10, seed=3)
    for lanes, ranks in ((lane, rank), (found.accelerator, found.priority)):
        assert np.isfinite(group.latency_s[np.arange(group.genes), lanes]).all()
        assert predict(group, lanes, ranks)[1] == pytest.approx(twin(group, lanes, ranks)[1], rel=1e-9)
    kept = evolve(group, samples=60, population=10, start=(lane[None], rank[None]))
    assert (kept.hits, -kept.makespan_s) >= predict_key(group, lane, rank)
    assert np.all(np.diff(found.best_cost) <= 0.0)


def predict_key(group: Group, lane: np.ndarray, rank: np.ndarray) -> tuple[int, float]:
    hits, makespan_s = predict(group, lane, rank)
    return hits, -makespan_s


@pytest.mark.parametrize("seed", range(4))
def test_the_search_finds_the_optimum_of_tiny_groups(seed: int) -> None:
    # Five jobs on two accelerators: 2^5 x 5! = 3,840 genomes in all.
    rng = np.random.default_rng(seed)
    group = independent(rng.uniform(1.0, 4.0, (5, 2)), rng.uniform(0.2, 1.0, (5, 2)), 1.0)
    best = min(
        predict(group, np.array(lanes), np.array(ranks, float))[1]
        for lanes in itertools.product(range(2), repeat=5)
        for ranks in itertools.permutations(range(5))
    )
    assert evolve(group, samples=10_000, seed=seed).makespan_s == pytest.approx(best, rel=1e-9)


def test_same_seed_same_mapping_and_every_sample_counts() -> None:
    rng = np.random.default_rng(0)
    group = independent(rng.uniform(1.0, 4.0, (20, 4)), rng.uniform(0.2, 1.0, (20, 4)), 1.0)
    one, two, other = (evolve(group, 730, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.accelerator, two.accelerator) and np.array_equal(one.best_cost, two.best_cost)
    assert not np.array_equal(one.best_cost, other.best_cost)
    assert len(one.best_cost) == one.samples == 730
    drawn = sample(group, 730, seed=1)
    assert (
        one.makespan_s
        < drawn.makespan_s
        == pytest.approx(predict(group, drawn.accelerator, drawn.priority)[1])
    )


def test_the_engine_gives_the_predicted_makespan() -> None:
    rng = np.random.default_rng(3)
    count, lanes = 12, 3
    latency, demand = rng.uniform(1.0, 4.0, (count, lanes)), rng.uniform(0.2, 1.0, (count, lanes))
    group = independent(latency, demand, 1.0)
    found = evolve(group, 500, seed=0)
    models = [DnnModel(f"net{j}", layers(1), ()) for j in range(count)]
    table = toy_table(models, ("a", "b", "c"), latency, latency * demand)
    agreements = tuple(Agreement("t", model.name) for model in models)
    requests = RequestTable(agreements, np.arange(count), np.zeros(count), np.full(count, math.inf))
    platform = ToyPlatform(("a", "b", "c"), np.arange(lanes), 1.0, "proportional")

    def follow(view: View) -> list[Assign]:
        answer = []
        for s in view.idle:
            mine = [i for i in range(len(view)) if found.accelerator[view.ready[i]["request"]] == s]
            if mine:
                first = min(mine, key=lambda i: found.priority[view.ready[i]["request"]])
                answer.append(view.assign(first, int(s)))
        return answer

    outcome = simulate_problem(
        build_problem(requests, table, platform, EngineOptions()), follow, EngineOptions()
    )
    assert outcome.subjobs["end_s"].max() == pytest.approx(found.makespan_s, rel=1e-9)

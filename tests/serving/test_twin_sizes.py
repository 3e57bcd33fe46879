"""Requests of mixed shapes in the twin: each costs what its own shape does, for the engine and for its policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies import load_policy
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.reference import Rule
from eunomia.inference.reference.run import simulate as simulate_plainly
from eunomia.inference.simulate import simulate_problem
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.observe.twin import times_of
from eunomia.study.serving.twin import Twin, twin_of
from eunomia.study.serving.twin_costs import check_blocks
from eunomia.study.serving.twin_predict import replayed
from eunomia.study.serving.twin_scenario import write_scenario
from eunomia.study.serving.twin_training import redrawn, stretch
from tests.inference.agreement import compare_decisions, compare_outcomes, compiled
from tests.serving.test_twin import recording

SIZES = ([[1.0], [0.5]], [[0.1], [0.2]], [[2.0], [3.0]])


def mixed(requests: list[list[Any]], **more: Any) -> dict[str, Any]:
    """A recording of one network in three sizes on one device; of a request: arrival, deadline, batch, size."""
    rows = [[at, "t", "m", due, rows, "hit", 1.0, 0.0, 0.0, 0.0, size] for at, due, rows, size in requests]
    pair = {"tenant": "t", "model": "m", "weight": 1.0, "priority": 1.0, "slo": None}
    return {
        "format": 4, "policy": "fcfs", "lease_s": 0.0, "late": "last", "max_batch": 1, "devices": ["a"],
        "networks": {"m": SIZES[0]}, "sizes": list(SIZES), "pairs": [pair], "turn_s": 0.0, "spread": 0.0,
        "requests": rows,
    } | more  # fmt: skip


def drawn(seed: int, count: int = 60) -> list[list[Any]]:
    rng = np.random.default_rng(seed)
    at = np.cumsum(rng.exponential(2.0, count)).tolist()
    return [[t, float(rng.uniform(3, 30)), int(rng.integers(1, 3)), int(rng.integers(3))] for t in at]


def test_first_come_first_served_by_hand() -> None:
    """Size 1 in two rows takes 0.6 s, size 2 takes 5, size 0 takes 1.5; the queue is one."""
    twin = twin_of(mixed([[0.0, 9.0, 2, 1], [0.1, 9.0, 1, 2], [0.2, 5.0, 1, 0]]))
    hit, response_s = replayed(twin, "fcfs")
    np.testing.assert_allclose(response_s, [0.6, 0.6 + 5.0 - 0.1, 0.6 + 5.0 + 1.5 - 0.2])
    assert hit.tolist() == [True, True, False]


def test_a_loop_that_serves_in_order_says_the_same() -> None:
    for seed in range(5):
        requests, free_s, told = drawn(seed), 0.0, []
        for at, _, rows, size in requests:
            free_s = max(free_s, at - requests[0][0]) + rows * sum(block[0] for block in SIZES[size])
            told.append(free_s - (at - requests[0][0]))
        endless = [[at, None, rows, size] for at, _, rows, size in requests]
        np.testing.assert_allclose(replayed(twin_of(mixed(endless)), "fcfs")[1], told)


def apart(twin: Twin, problem: Problem) -> Problem:
    """The same requests where every size is a network of a pair of its own."""
    table = replace(twin.table, size_of=())
    pair = twin.requests.agreements[0]
    requests = replace(
        twin.requests,
        agreements=tuple(replace(pair, model=model.name) for model in table.models),
        pair=problem.jobs.model,
        size=np.empty(0, np.int64),
    )
    return build_problem(requests, table, twin.platform, twin.options)


@pytest.mark.parametrize("policy", ["edf+f", "sjf", "edf+f+eft", "laxity_ratio"])
def test_policies_that_know_no_pair_cannot_tell_sizes_from_networks(policy: str) -> None:
    """Each of them with its own way through the engine: in order of keys, or of keys that change."""
    for seed in range(3):
        twin = twin_of(mixed(drawn(seed)))
        problem = twin.problem()
        assert len(twin.table.models) == 6 and len(set(problem.jobs.model.tolist())) == 6
        one, other = (
            simulate_problem(p, load_policy(policy), twin.options).results["finish_s"]
            for p in (problem, apart(twin, problem))
        )
        np.testing.assert_array_equal(one, other)
        assert len(np.unique(one)) > 50


@pytest.mark.parametrize("order", ["edf", "sjf", "laxity_ratio", "deficit_edf"])
def test_the_reference_engine_says_the_same(order: str) -> None:
    twin, rule = twin_of(mixed(drawn(1))), Rule(order)
    options = replace(twin.options, record="all")
    plain, fast = (
        simulate_plainly(twin.problem(), rule, options),
        simulate_problem(twin.problem(), compiled(rule), options),
    )
    compare_decisions(plain, fast, keys=True)
    compare_outcomes(plain, fast)


def test_the_size_of_the_trial_is_the_network_itself() -> None:
    twin = twin_of(mixed([[float(n), 9.0, 1, 0] for n in range(9)]))
    assert len(twin.table.models) == 1 and (twin.requests.size == -1).all()


def test_a_recording_from_before_sizes_costs_what_its_network_did() -> None:
    rows = [[float(90 * n), "t0", "m0", 4.0, 1 + n % 2, "hit", 1.0, 0.0, 0.0, 0.0] for n in range(4)]
    twin = twin_of(recording(0, "fcfs") | {"requests": rows})
    once, twice = (replayed(twin, "fcfs")[1][n] for n in (0, 1))
    assert twice == pytest.approx(2 * once)


def test_what_is_drawn_anew_keeps_its_size() -> None:
    twin = twin_of(mixed(drawn(2)))
    size_of = dict(zip(twin.requests.relative_deadline_s, twin.requests.size, strict=True))
    again = redrawn(stretch(twin.requests, 10, 50), 200, np.random.default_rng(0))
    assert [size_of[due] for due in again.relative_deadline_s] == again.size.tolist()
    assert len(np.unique(again.size)) > 3


@pytest.mark.parametrize(("change", "says"), [
    ([0.0, 9.0, 1, 3], "has size 3 of 3"), ([0.0, 9.0, 1, -1], "has size -1 of 3"),
    ([0.0, 9.0, 1, 0.5], "has size 0.5"),
    ([0.0, 9.0, 0, 1], "has 0 rows"), ([0.0, 9.0, 1.5, 1], "has 1.5 rows"),
    ([0.0, 9.0, True, 1], "has True rows"), ([0.0, 9.0, 1, True], "has size True"),
])  # fmt: skip
def test_a_damaged_size_is_told_in_words(change: list[Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        twin_of(mixed([change]))
    with pytest.raises(ConfigError, match="is no recording"):
        twin_of({k: v for k, v in mixed([[0.0, 9.0, 1, 1]]).items() if k != "sizes"})


def test_a_size_of_another_network_is_refused() -> None:
    twin = twin_of(mixed(drawn(0)))
    for size in (0, len(twin.table.models)):
        table = replace(twin.table, size_of=(0, 1, 1, 1, 1, 1)) if not size else twin.table
        requests = replace(twin.requests, size=np.full(len(twin.requests), size or 2))
        with pytest.raises(ConfigError, match="which is no size of its pair's network"):
            build_problem(requests, table, twin.platform, EngineOptions())


def test_a_scenario_has_a_network_for_each_size(tmp_path: Any) -> None:
    from eunomia import run

    twin = twin_of(mixed(drawn(3, 80)))
    write_scenario(twin, tmp_path)
    trace = (tmp_path / "trace.csv").read_text().splitlines()[1:]
    assert len({line.split(",")[2] for line in trace}) == 6
    assert run(tmp_path / "scenario.toml", "fcfs")


def test_the_server_records_what_each_size_takes() -> None:
    """A network that has run at two sizes: one mean for each; at a third it has run nowhere, so what is expected."""
    costs = CostBook(1)
    network = costs.add("net", 2, rows=1, sizes=(100,))
    costs.measured(network, 0, [1e-3, 2e-3])
    large = costs.row_of(network, 1, (800,))
    for took_s in (8e-3, 12e-3):
        costs.learn(network, 0, 0, [took_s, 2 * took_s], 1, large)
    costs.learn(network, 0, 0, [1e-3, 2e-3], 1)
    assert times_of(costs, network.first_row, 2) == pytest.approx(np.array([[1e-3], [2e-3]]))
    assert times_of(costs, large, 2) == pytest.approx(np.array([[10e-3], [20e-3]]))
    several = times_of(costs, large, 2, 4)
    assert several == pytest.approx(np.array([[2.5e-3], [5e-3]] * 4)), "others come between"
    check_blocks("m", several, 1)
    between = costs.row_of(network, 1, (300,))
    expected = times_of(costs, between, 2)
    assert 1e-3 < expected[0][0] < 10e-3
    costs.lost(0)  # the only device is away: what never ran keeps what is expected, and can be read
    assert times_of(costs, between, 2) == expected
    check_blocks("m", expected, 1)

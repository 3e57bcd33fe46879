"""Schedulers that start one layer at a time, asked at a tick."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eunomia.core.errors import PolicyError
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies.compiled import Compiled, compiled_plan
from eunomia.inference.policies.prema import prema
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests.inference.policies.views import ask, job, make_view
from tests.inference.strategies import ToyPlatform, layers, toy_table

JOBS = [job(work_best_s=3.0), job(work_best_s=1.0), job(work_best_s=2.0), job(work_best_s=4.0)]


def test_a_tick_queues_everything_in_the_order_of_the_starts() -> None:
    # Equal tokens: shortest first. Accelerator 0 is free now, 1 in 2.5 s: 1 (0..1 s) and 2 (1..3) on 0, then at
    # 2.5 s request 0 on 1, and request 3 on 0 at 3 s.
    facts = dict(latency_s=[[3, 3], [1, 1], [2, 2], [4, 4]], free_in_s=[0.0, 2.5])
    assert ask(prema(), JOBS, **facts) == [(1, 0)]
    assert ask(prema(), JOBS, **facts, period_s=1.0) == [(1, 0), (2, 0), (0, 1), (3, 0)]
    view = make_view(prema(), JOBS, **facts, period_s=1.0)
    assert [assign.priority for assign in prema()(view)] == [4.0, 3.0, 2.0, 1.0]


def test_what_would_start_after_the_next_tick_is_not_queued() -> None:
    # Starts at 0, 1, 2.5 and 3 s, as above; so many of them lie within one period.
    facts: Any = dict(latency_s=[[3, 3], [1, 1], [2, 2], [4, 4]], free_in_s=[0.0, 2.5])
    for period_s, queued in ((0.5, 1), (1.0, 2), (2.4, 2), (2.6, 3), (3.0, 4)):
        answer, priority = np.zeros((4, 2), np.int64), np.zeros(4)
        view = make_view(prema(), JOBS, **facts, period_s=period_s)
        numbers = (view.latency_s, view.demand_bytes_s, view.energy_j, view.accelerators, view.system)
        within = compiled_plan()(view.ready, *numbers, answer, priority, prema().decide, 1.0)
        assert within == queued, period_s
        assert [tuple(row) for row in answer[:queued].tolist()] == [(1, 0), (2, 0), (0, 1), (3, 0)][:queued]
        assert priority[:queued].tolist() == [4.0, 3.0, 2.0, 1.0][:queued]


def test_the_clock_that_goes_on_makes_requests_hopeless() -> None:
    # Due at 4 with 3.5 s to go: on time now, hopeless once the first (1 s, then 2 s) has run: behind the one without.
    jobs = [job(work_best_s=1.0), job(work_best_s=3.5, deadline_s=4.0), job(work_best_s=9.0)]
    assert ask(prema(), jobs, [[1], [3.5], [9]], period_s=1.0) == [(0, 0), (2, 0), (1, 0)]


def test_a_gate_opens_again_when_layers_end() -> None:
    # Each asks for all of B; the gate lets one run at a time, on either accelerator.
    facts = dict(latency_s=[[3, 3], [1, 1], [2, 2], [4, 4]], demand=[[1, 1]] * 4, bandwidth=1.0)
    assert ask(prema(gate=0.5), JOBS, **facts, period_s=1.0) == [(1, 0), (2, 0), (0, 0), (3, 0)]


def test_one_tick_serves_all_accelerators_in_the_engine() -> None:
    # Four requests of 1 s at 0 on two accelerators, the next tick at 10 s: all are done by 2 s.
    table = toy_table([DnnModel("one", layers(1), ())], ("a",), np.ones((1, 1)))
    requests = RequestTable((Agreement("t", "one"),), np.zeros(4, np.int64), np.zeros(4), np.full(4, 9.0))
    options = EngineOptions(period_s=10.0)
    problem = build_problem(requests, table, ToyPlatform(("a",), np.array([0, 0])), options)
    assert np.sort(simulate_problem(problem, "prema", options).results["finish_s"]).tolist() == [
        1.0,
        1.0,
        2.0,
        2.0,
    ]


def no_such_accelerator(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """Takes 'none' for an accelerator."""
    answer[0, 0], answer[0, 1] = 0, -1
    return 1


def no_such_job(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """Takes 'none' for a sub-job."""
    answer[0, 0], answer[0, 1] = -1, 0
    return 1


@pytest.mark.parametrize(
    ("function", "said"),
    [(no_such_accelerator, "on accelerator -1; there are 2"), (no_such_job, "sub-job -1 of a view")],
)
@pytest.mark.parametrize("period_s", [None, 10.0])
def test_answers_that_name_nothing_are_refused(function: Any, said: str, period_s: float | None) -> None:
    table = toy_table([DnnModel("one", layers(1), ())], ("a",), np.ones((1, 1)))
    requests = RequestTable((Agreement("t", "one"),), np.zeros(4, np.int64), np.zeros(4), np.full(4, 9.0))
    options = EngineOptions(period_s=period_s)
    problem = build_problem(requests, table, ToyPlatform(("a",), np.zeros(2, np.int64)), options)
    with pytest.raises(PolicyError, match=said):
        simulate_problem(problem, Compiled(function, "astray"), options)

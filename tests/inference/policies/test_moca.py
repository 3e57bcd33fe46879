"""MoCA's dispatch score by hand."""

import numpy as np
import pytest

from eunomia.inference.options import Contention, EngineOptions
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.moca import moca
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests.inference.policies.views import ask, job, make_view
from tests.inference.strategies import ToyPlatform, layers, toy_table


def test_priority_plus_normalised_waiting() -> None:
    # t = 12: 2 + 12/4 = 5; 4 + 2/4 = 4.5.
    jobs = [
        job(priority=4.0, arrival_s=10.0, iso_best_s=4.0),
        job(priority=2.0, arrival_s=0.0, iso_best_s=4.0),
    ]
    policy = moca()
    view = make_view(policy, jobs, [[1], [1]], now_s=12.0)
    assert [policy.key(r, view.system) for r in view.ready] == pytest.approx([-4.5, -5.0])
    assert ask(policy, jobs, [[1], [1]], now_s=12.0) == [(1, 0)]
    # The same wait of a network three times as long counts 12/12: 3 < 4.5.
    jobs[1]["iso_best_s"] = 12.0
    assert ask(policy, jobs, [[1], [1]], now_s=12.0) == [(0, 0)]


def test_takes_placements_and_the_gate_by_name() -> None:
    # D = 0.9 B is above a gate of 0.8; the busy accelerator is the faster one.
    facts = dict(latency_s=[[1, 9]], free_in_s=[2.0, 0.0], bandwidth=1.0, running_demand=0.9)
    assert ask(load_policy("moca+g0.8"), [job()], **facts) == []
    assert ask(load_policy("moca+g0.95"), [job()], **facts) == [(0, 1)]
    assert ask(load_policy("moca+eft"), [job()], **facts) == []


def finish_s(policy: str, contention: Contention) -> list[float]:
    """Ends of two layers of 1 s that ask for all of B each, of priority 11 and 0, without deadlines."""
    table = toy_table([DnnModel("one", layers(1), ())], ("a",), np.ones((1, 1)), np.ones((1, 1)))
    agreements = (Agreement("high", "one", None, 11.0), Agreement("low", "one", None, 0.0))
    requests = RequestTable(agreements, np.array([0, 1]), np.zeros(2), np.full(2, np.inf))
    options = EngineOptions(contention=contention)
    problem = build_problem(requests, table, ToyPlatform(("a",), np.array([0, 0]), 1.0), options)
    return [round(float(t), 9) for t in simulate_problem(problem, policy, options).results["finish_s"]]


def test_the_split_comes_with_the_policy() -> None:
    # Weights (1 + 11)/4 = 3 and 1/4. D - B = 1 is cut by 0.25/3.25 and 3/3.25 = 0.923, at most 0.75: grants
    # 0.923 and 0.25, scaled by 1/1.173 to 0.787 and 0.213. The first ends at 1/0.787 = 1.2708; the second has
    # 1 - 0.2708 left then: 2 s.
    assert finish_s("moca", "proportional") == [2.0, 2.0]
    assert finish_s("moca_split", "proportional") == [pytest.approx(1.2708, abs=1e-4), 2.0]
    assert (
        finish_s("moca_split", "proportional")
        == finish_s("moca", "weighted")
        == finish_s("moca_split", "max_min")
    )
    assert finish_s("moca_split", "none") == [1.0, 1.0]
    assert load_policy("moca_split+g0.8").name == "moca_split+g0.8"

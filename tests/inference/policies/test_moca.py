"""MoCA's dispatch score by hand."""

import pytest

from eunomia.inference.policies import load_policy
from eunomia.inference.policies.moca import moca
from tests.inference.policies.views import ask, job, make_view


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

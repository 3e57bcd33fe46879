"""Herald's online form by hand."""

import pytest

from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.policies.herald import herald
from tests.inference.policies.views import ask, job


def test_theta_decides_how_long_to_wait_for_the_preferred_accelerator() -> None:
    # c = 2 on accelerator 0, busy for 3 s: finish 5. c = 4 on accelerator 1, idle: finish 4, the earliest.
    # theta 0.25: 5 <= 1.25 * 4, so the preferred one is close enough: hold. theta 0.2: 5 > 4.8, take 1 now.
    facts = dict(latency_s=[[2, 4]], free_in_s=[3.0, 0.0])
    assert ask(herald(0.25), [job()], **facts) == []
    assert ask(herald(0.2), [job()], **facts) == [(0, 1)]


def test_a_held_layer_lets_the_next_one_pass() -> None:
    # Request 0 (arrived first) holds as above; request 1 prefers the idle accelerator.
    jobs = [job(arrival_s=0.0), job(arrival_s=1.0)]
    assert ask(herald(0.25), jobs, [[2, 4], [9, 1]], now_s=1.0, free_in_s=[3.0, 0.0]) == [(1, 1)]


def test_preference_by_energy_and_by_energy_times_delay() -> None:
    # Latency 2 / 3, energy 6 / 3, product 12 / 9; 3 <= 1.5 * 2, so either may be taken.
    facts = dict(latency_s=[[2, 3]], energy=[[6, 3]])
    assert ask(herald(0.5, "latency"), [job()], **facts) == [(0, 0)]
    assert ask(herald(0.5, "energy"), [job()], **facts) == [(0, 1)]
    assert ask(herald(0.5, "edp"), [job()], **facts) == [(0, 1)]
    assert ask(herald(0.4, "energy"), [job()], **facts) == [(0, 0)]  # 3 > 1.4 * 2


def test_depth_first_goes_by_arrival_and_breadth_first_by_readiness() -> None:
    jobs = [
        job(arrival_s=1.0),
        job(arrival_s=0.0),
    ]  # request 1 arrived first, request 0's layer was ready first
    assert ask(herald(), jobs, [[1], [1]], now_s=2.0) == [(1, 0)]
    assert ask(herald(breadth_first=True), jobs, [[1], [1]], now_s=2.0) == [(0, 0)]


def test_settings_are_checked() -> None:
    with pytest.raises(PolicyError, match="theta is -1"):
        herald(-1.0)
    with pytest.raises(UnknownNameError, match="speed"):
        herald(metric="speed")

"""Pairing by bandwidth, by hand."""

import pytest

from eunomia.core.errors import PolicyError
from eunomia.inference.policies.layerweaver import layerweaver
from tests.inference.policies.views import ask, job

SAME = [[1.0, 1.0]] * 3


def test_the_layer_that_fills_the_bandwidth() -> None:
    # B = 10, nothing runs, all equally urgent: demands 3, 12, 8. 3 and 8 fit, 8 leaves less idle.
    jobs = [job(deadline_s=20.0), job(deadline_s=20.0), job(deadline_s=20.0)]
    demand = [[3, 3], [12, 12], [8, 8]]
    assert ask(layerweaver(), jobs, SAME, demand=demand, bandwidth=10.0) == [(2, 0)]
    # 8 is running on accelerator 0: none fits into the 2 left; the least demand exceeds it least.
    facts = dict(free_in_s=[0.5, 0.0], running_demand=8.0, bandwidth=10.0)
    assert ask(layerweaver(), jobs[:2], [[9.0, 1.0]] * 2, demand=demand[:2], **facts) == [(0, 1)]
    # Its complement fits: 2 <= 2, taken before 1.
    assert ask(layerweaver(), jobs[:2], [[9.0, 1.0]] * 2, demand=[[1, 1], [2, 2]], **facts) == [(1, 1)]


def test_only_among_the_equally_urgent() -> None:
    # The leader's deadline is 20 and its network takes 4 s: with window 0.5 up to 22 counts as equal.
    jobs = [job(deadline_s=20.0, iso_best_s=4.0), job(deadline_s=22.0), job(deadline_s=22.5)]
    demand = [[1, 1], [5, 5], [9, 9]]
    assert ask(layerweaver(0.5), jobs, SAME, demand=demand, bandwidth=10.0) == [(1, 0)]
    assert ask(layerweaver(0.0), jobs, SAME, demand=demand, bandwidth=10.0) == [(0, 0)]
    assert ask(layerweaver(1.0), jobs, SAME, demand=demand, bandwidth=10.0) == [(2, 0)]
    # Hopeless requests are not equal to any that can make it, whatever their deadline.
    late = job(deadline_s=0.5, work_best_s=1.0)
    assert ask(layerweaver(1.0), [late, *jobs[:2]], SAME, demand=[[9, 9], *demand[:2]], bandwidth=10.0) == [
        (2, 0)
    ]


def test_without_a_limit_it_is_earliest_deadline_first() -> None:
    jobs = [job(deadline_s=21.0), job(deadline_s=20.0), job(deadline_s=22.0)]
    assert ask(layerweaver(9.0), jobs, SAME, demand=[[1, 1], [5, 5], [9, 9]]) == [(1, 0)]


def test_settings_are_checked() -> None:
    with pytest.raises(PolicyError, match="window"):
        layerweaver(-1.0)

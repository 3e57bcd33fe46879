"""Planaria's score by hand."""

import pytest

from eunomia.inference.policies.planaria import planaria
from tests.inference.policies.views import ask, job, make_view


def test_scores() -> None:
    # t = 4. Priority 6, deadline 7: 6 / 3 = 2. Priority 2, deadline 6, needs 3 s > 2 s: -2 / 3. No deadline: 0.
    jobs = [
        job(priority=6.0, deadline_s=7.0),
        job(priority=2.0, deadline_s=6.0, work_best_s=3.0),
        job(priority=9.0),
    ]
    policy = planaria()
    view = make_view(policy, jobs, [[1], [1], [1]], now_s=4.0)
    assert [policy.key(r, view.system) for r in view.ready] == pytest.approx([-2.0, 2.0 / 3.0, 0.0])


def test_priority_over_slack_then_hopeless_by_least_priority_per_work() -> None:
    jobs = [job(priority=9.0, deadline_s=10.0), job(priority=1.0, deadline_s=1.1)]  # 0.9 and 0.909
    assert ask(planaria(), jobs, [[1], [1]]) == [(1, 0)]
    # Both hopeless: -8 / 4 = -2 and -3 / 2 = -1.5: the second.
    jobs = [
        job(priority=8.0, deadline_s=1.0, work_best_s=4.0),
        job(priority=3.0, deadline_s=1.0, work_best_s=2.0),
    ]
    assert ask(planaria(), jobs, [[1], [1]]) == [(1, 0)]
    # Any request that can still make it goes before them.
    assert ask(planaria(), [*jobs, job(priority=1.0, deadline_s=90.0)], [[1], [1], [1]]) == [(2, 0)]

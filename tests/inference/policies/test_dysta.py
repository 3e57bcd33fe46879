"""Dysta's score by hand."""

import pytest

from eunomia.core.errors import PolicyError
from eunomia.inference.policies.dysta import dysta
from tests.inference.policies.views import ask, job, make_view


def test_score() -> None:
    # t = 6, two requests live. rem 2, slack 5, so 3 to spare; waited 6 of an isolated 3: 2 / 2 = 1, counted as 0.5 s.
    # score = 2 + 0.1 (3 + 0.5) = 2.35. The other: rem 2.2, slack 1 < rem, waited 0: 2.2.
    jobs = [job(work_best_s=2.0, deadline_s=11.0, iso_best_s=3.0, arrival_s=0.0),
            job(work_best_s=2.2, deadline_s=7.0, iso_best_s=3.0, arrival_s=6.0)]  # fmt: skip
    policy = dysta(beta=0.1, unit_s=0.5)
    view = make_view(policy, jobs, [[1], [1]], now_s=6.0, late_last=0)
    assert [policy.key(r, view.system) for r in view.ready] == pytest.approx([2.35, 2.2])
    assert ask(policy, jobs, [[1], [1]], now_s=6.0, late_last=0) == [(1, 0)]
    # beta 0.01: 2 + 0.035 < 2.2. Where hopeless requests go last, the second is that in any case.
    assert ask(dysta(0.01, 0.5), jobs, [[1], [1]], now_s=6.0, late_last=0) == [(0, 0)]
    assert ask(policy, jobs, [[1], [1]], now_s=6.0) == [(0, 0)]


def test_settings_are_checked() -> None:
    with pytest.raises(PolicyError, match="beta is 0"):
        dysta(beta=0.0)

"""PREMA by hand."""

import pytest

from eunomia.errors import PolicyError, UnknownNameError
from eunomia.inference.policies.prema import prema
from tests.inference.policies.views import ask, job


def test_candidates_are_those_with_a_token_at_the_threshold() -> None:
    # t = 10. Tokens: 3 (1 + 0/2) = 3; 1 (1 + 8/4) = 3; 9 (1 + 0) = 9 would be the threshold alone.
    # Without the third: greatest token 3, threshold 3; both are candidates, the second has less work left.
    first = job(priority=3.0, last_run_s=10.0, iso_best_s=2.0, work_best_s=2.0)
    second = job(priority=1.0, last_run_s=2.0, iso_best_s=4.0, work_best_s=1.0)
    third = job(priority=9.0, last_run_s=10.0, iso_best_s=5.0, work_best_s=5.0)
    assert ask(prema(), [first, second], [[1], [1]], now_s=10.0) == [(1, 0)]
    assert ask(prema(), [first, second, third], [[1], [1], [1]], now_s=10.0) == [(2, 0)]
    # One second less waiting: token 1 (1 + 7/4) = 2.75 < 3, the first runs although it is longer.
    second = job(priority=1.0, last_run_s=3.0, iso_best_s=4.0, work_best_s=1.0)
    assert ask(prema(), [first, second], [[1], [1]], now_s=10.0) == [(0, 0)]


def test_waiting_lifts_a_low_priority_over_every_threshold() -> None:
    # 1 (1 + 40/5) = 9 = 3 (1 + 4/2): both reach threshold 9; 4 s of work go before 5.
    jobs = [job(priority=1.0, last_run_s=0.0, iso_best_s=5.0, work_best_s=4.0),
            job(priority=3.0, last_run_s=36.0, iso_best_s=2.0, work_best_s=5.0)]  # fmt: skip
    assert ask(prema(), jobs, [[1], [1]], now_s=40.0) == [(0, 0)]


def test_fastest_idle_accelerator_unless_placed_otherwise() -> None:
    # Accelerator 1 is the fastest but busy for 1 s: any_idle takes accelerator 0 (5 s), eft waits for 1 + 2 s.
    facts = dict(latency_s=[[5, 2, 6]], free_in_s=[0.0, 1.0, 0.0])
    assert ask(prema(), [job()], **facts) == [(0, 0)]
    assert ask(prema("eft"), [job()], **facts) == []


def test_settings_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="nearest"):
        prema("nearest")
    with pytest.raises(PolicyError, match="gate is 0"):
        prema(gate=0.0)

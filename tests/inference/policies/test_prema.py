"""PREMA by hand."""

import pytest

from eunomia.core.errors import PolicyError, UnknownNameError
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


def test_tokens_of_all_waiting_keep_the_claim_of_a_request_served_in_pieces() -> None:
    # t = 6. The first arrived at 0, ran for 1 s and stopped at 5: since then it has waited 1 s, in all 5 s.
    # Since the last run its token is 1 (1 + 1/2) = 1.5, the second's 3 (1 + 0) = 3: threshold 3, the second alone.
    # Waited in all it is 1 (1 + 5/2) = 3.5: threshold 3, both are candidates, and 1 s of work goes before 2 s.
    first = job(priority=1.0, arrival_s=0.0, attained_s=1.0, last_run_s=5.0, iso_best_s=2.0, work_best_s=1.0)
    second = job(priority=3.0, arrival_s=6.0, last_run_s=6.0, iso_best_s=2.0, work_best_s=2.0)
    assert ask(prema(), [first, second], [[1], [1]], now_s=6.0) == [(1, 0)]
    assert ask(prema(tokens="waited"), [first, second], [[1], [1]], now_s=6.0) == [(0, 0)]
    # A second more of the five spent running: 1 (1 + 4/2) = 3 is still enough; two more are not.
    for attained_s, chosen in ((2.0, 0), (3.0, 1)):
        served = {**first, "attained_s": attained_s}
        assert ask(prema(tokens="waited"), [served, second], [[1], [1]], now_s=6.0) == [(chosen, 0)]
    assert prema(tokens="waited").name == "prema_waited"
    with pytest.raises(UnknownNameError, match="lifetime"):
        prema(tokens="lifetime")

"""AuRORA's queue, grants and moves by hand."""

from eunomia.inference.policies.aurora import aurora
from tests.inference.policies.views import ask, job

ONE = [[1.0]]


def test_the_queue_goes_by_normalised_waiting_and_the_unreachable_score_nothing() -> None:
    # t = 8: 8/4 = 2; 6/2 = 3; the third has waited 8/1 = 8, but needs 2 s and has 1 left: 0.
    jobs = [job(arrival_s=0.0, iso_best_s=4.0), job(arrival_s=2.0, iso_best_s=2.0),
            job(arrival_s=0.0, iso_best_s=1.0, work_best_s=2.0, deadline_s=9.0)]  # fmt: skip
    assert ask(aurora(), jobs, ONE * 3, now_s=8.0) == [(1, 0)]
    assert ask(aurora(), jobs, ONE * 3, now_s=8.0, late_last=0) == [(1, 0)]
    assert ask(aurora(), [jobs[2], jobs[0]], ONE * 2, now_s=8.0, late_last=0) == [(1, 0)]


def test_urgent_requests_that_have_started_go_on_and_relaxed_ones_queue() -> None:
    # t = 8. Started, slack 2.8 < 1.5 * 2: goes on, although the other has waited longest.
    started = job(arrival_s=7.0, layers_done=1, work_best_s=2.0, iso_best_s=4.0, deadline_s=10.8)
    waiting = job(arrival_s=0.0, iso_best_s=4.0)
    assert ask(aurora(), [waiting, started], ONE * 2, now_s=8.0) == [(1, 0)]
    # slack 3.1 > 3: relaxed, 1/4 < 8/4 in the queue.
    relaxed = job(arrival_s=7.0, layers_done=1, work_best_s=2.0, iso_best_s=4.0, deadline_s=11.1)
    assert ask(aurora(), [waiting, relaxed], ONE * 2, now_s=8.0) == [(0, 0)]
    # Two urgent ones: slack / remaining 2.8/2 = 1.4 and 1.2/1 = 1.2: the second.
    more = job(arrival_s=7.0, layers_done=1, work_best_s=1.0, iso_best_s=4.0, deadline_s=9.2)
    assert ask(aurora(), [started, more], ONE * 2, now_s=8.0) == [(1, 0)]


def test_a_grant_limits_the_parallel_branches_of_a_request() -> None:
    # Request 99 holds accelerators 0 and 1; accelerator 2 is idle. Path 4 s, work 16 s: time on 4 is 4 s, on 2 8 s.
    # slack 5 < 6: four allowed. slack 11 < 12: two allowed, both in use. slack 13: one allowed.
    facts = dict(latency_s=[[1, 1, 1]], free_in_s=[1.0, 1.0, 0.0])
    branch = dict(request=99, path_best_s=4.0, work_best_s=16.0, iso_best_s=16.0)
    assert ask(aurora(), [job(deadline_s=5.0, **branch)], **facts) == [(99, 2)]
    assert ask(aurora(), [job(deadline_s=11.0, **branch)], **facts) == []
    facts["free_in_s"] = [1.0, 0.0, 0.0]  # one in use
    assert ask(aurora(), [job(deadline_s=11.0, **branch)], **facts) == [(99, 1)]
    assert ask(aurora(), [job(deadline_s=13.0, **branch)], **facts) == []

"""What Themis says to jobs that got nothing: rho, bids, payments, and when a gang will fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eunomia.cluster.policies.themis.allocator import Themis
from eunomia.contract.cluster import Cluster
from eunomia.report.cluster.explain import JobStory, Turn, explain_job
from eunomia.study.cluster import run_cluster
from tests.cluster.policies.peer_views import view_of


def test_bids_and_payments_by_hand() -> None:
    """The two gangs of test_themis_gangs: gains 1.6 and 1.3, payment 1 - 1 / 1.3 = 23 %. T_id = 3000 s."""
    policy = Themis(fairness=0.0, lease_s=1200.0, aligned=False)
    view = view_of(
        Cluster.of({"gpu": 4}), [[1.0], [1.0]], [1000.0, 3000.0], scale=[4, 4], now_s=1000.0,
        total=[1000.0, 3000.0],
    )  # fmt: skip
    assert policy.allocate(view).reasons == (
        "",
        "lost the auction: its bid for 'gpu' gains 1.30 times (rho 1.33 if served), the 1 winning ones at least 1.60; "
        "they pay up to 23% of the lease",
    )


def test_who_may_not_bid_is_told_from_which_rho_on() -> None:
    """f = 0.8 of three waiting apps: the oldest alone bids; the youngest gets no leftover."""
    view = view_of(
        Cluster.of({"gpu": 2}), [[1.0]] * 3, [100.0] * 3, now_s=1000.0, arrival_s=[0.0, 400.0, 800.0]
    )
    served, also, told = Themis().allocate(view).reasons
    assert (served, also) == ("", "")
    assert told.startswith("not offered: rho 3.00 if served; 1 of 3 apps bid for 'gpu', from rho 11.00 on")


def test_a_gang_that_does_not_fit_is_told_when_it_will() -> None:
    policy, cluster = Themis(lease_s=600.0, aligned=False), Cluster.of({"gpu": 4})
    policy.allocate(view_of(cluster, [[1.0]], [9000.0], scale=[3]))
    later = view_of(
        cluster,
        [[1.0]] * 2,
        [8800.0, 50.0],
        scale=[3, 2],
        now_s=240.0,
        arrival_s=[0.0, 240.0],
        total=[9000.0, 50.0],
    )
    assert policy.allocate(later).reasons == (
        "", "gang does not fit: it needs 2, 1 of 4 'gpu' are free, enough by leases in 6 min",
    )  # fmt: skip


def test_explain_tells_kinds_and_numbers() -> None:
    """Before: others came first by the policy's own order, at every point."""
    jobs = [{"id": f"j{i}", "type": "m", "steps": 6000.0, "gpus": 4, "arrival_s": 10.0 * i} for i in range(4)]
    config = {
        "name": "x", "device": [{"type": "gpu", "count": 6}], "job": jobs,
        "throughputs": {"model": [{"name": "m", "speed": {"gpu": 1.0}, "scales": [4]}]},
    }  # fmt: skip
    story = explain_job(run_cluster(config, "themis").records, "j3")
    text = story.text()
    assert set(story.reasons) <= {"lost the auction", "not offered", "gang does not fit"} and story.reasons
    assert "came first by the policy's own order" not in text
    assert "gang does not fit: it needs 4, 2 of 6 'gpu' are free, enough by leases in" in text
    assert (
        "with 2 more 'gpu' devices left over it would have run at" in text
    )  # gangs of 4, 2 of 6 are left over
    assert np.isclose(sum(story.reasons.values()), sum(turn.wait_s for turn in story.turns))


def test_explain_names_the_priority_that_would_have_done() -> None:
    """Three points on 2 devices: 1 short of 2, 2 short, 2 short; priorities 0.1, 0.3 and 0.2 behind the last served."""
    turns = tuple(
        Turn(60.0 * n, 60.0, "gpu", own, 0.5, 0.0, own + gap, free, "why")
        for n, (own, gap, free) in enumerate([(0.4, 0.1, 1), (0.5, 0.3, 0), (0.6, 0.2, 0)])
    )
    story = JobStory("p", {"scale_factor": 2}, turns, (), {}, outright=False)
    assert story.would_have_run() == [
        "what would have changed that:",
        "  with 1 more 'gpu' device left over it would have run at 1 of these 3 points, with 2 at every one",
        "  at 0 s it lacked least: its priority was 0.4, the last that ran had 0.5",
    ]
    assert replace(story, outright=True).would_have_run()[2:] == []

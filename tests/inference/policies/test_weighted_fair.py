"""Shares of device time: by hand, over a long run, and against a flood."""

from __future__ import annotations

import numpy as np
import pytest

from eunomia.core.errors import PolicyError
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.elsewhere import TAGS
from eunomia.inference.policies.weighted_fair import weighted_fair
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.workload.tenant import Agreement
from tests.inference.policies.views import ask, job, make_view
from tests.serving.test_dispatcher import Replay


def test_tags_by_hand() -> None:
    # T = (5, 3) per unit of weight, V = 4: tenant 1 waits at max(4, 3) = 4, tenant 0 at 5.
    memory = np.zeros(64)
    memory[:3] = 4.0, 5.0, 3.0
    fresh = [job(tenant=0, deadline_s=9.0), job(tenant=1, deadline_s=99.0)]
    policy = weighted_fair()
    view = make_view(policy, fresh, [[1.0], [1.0]], memory=memory)
    assert [a.request for a in policy(view)] == [1]
    assert view.system["memory"][:3].tolist() == [4.0, 5.0, 5.0]  # charged: max(4, 3) + 1 / 1
    # Tenant 0 has begun a request of which 1.5 of 2 s are left: 5 - 1.5 / 1 = 3.5 < 4, it goes on.
    begun = [job(tenant=0, layers_done=1, work_best_s=1.5), job(tenant=1)]
    view = make_view(policy, begun, [[0.5], [1.0]], memory=memory)
    assert [a.request for a in policy(view)] == [0]
    assert view.system["memory"][:3].tolist() == [4.0, 5.0, 3.0]  # charged once


def test_inside_a_tenant_by_deadline_and_hopeless_last() -> None:
    jobs = [job(deadline_s=8.0), job(deadline_s=5.0), job(deadline_s=0.5)]
    assert ask(weighted_fair(), jobs, [[1.0]] * 3) == [(1, 0)]
    assert ask(weighted_fair(), jobs, [[1.0]] * 3, late_last=0) == [(2, 0)]
    assert ask(weighted_fair(), jobs[:1], [[3.0, 2.0]]) == [(0, 1)]
    with pytest.raises(PolicyError, match="bandwidth gate"):
        weighted_fair(gate=0.0)


def replay(weights: list[float], requests: list[tuple[float, int, float, int]], blocks: list[int]) -> Replay:
    latency_s = np.full((sum(blocks), 1), 0.01)
    run = Replay(load_policy("weighted_fair"), latency_s, blocks, DispatchOptions(lease_s=0.0))
    for n, weight in enumerate(weights):
        run.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}", None, 1.0, weight))
    run.play(requests)
    return run


@pytest.mark.parametrize("blocks", [[1, 1], [1, 5], [4, 2]])
def test_saturated_tenants_share_by_weight_whatever_their_networks(blocks: list[int]) -> None:
    requests = sorted([(0.0, n, float("inf"), n) for n in (0, 1) for _ in range(300)])
    run = replay([3.0, 1.0], requests, blocks)
    half = [requests[number][3] for _, number, _, _ in run.log[: len(run.log) // 6]]
    assert half.count(0) / len(half) == pytest.approx(0.75, abs=0.05)


def test_a_light_tenant_does_not_notice_a_flood() -> None:
    flood = [(0.0, 1, float("inf"), 1)] * 400
    light = [(0.1 * n + 0.005, 0, float("inf"), 0) for n in range(1, 30)]
    requests = sorted([*flood, *light])
    run = replay([1.0, 1.0], requests, [1, 8])
    starts = {number: time_s for time_s, number, _, _ in reversed(run.log)}
    waits = [starts[n] - requests[n][0] for n in starts if requests[n][3] == 0]
    assert len(waits) == 29 and max(waits) <= 0.0101  # one block


def test_more_tenants_than_tags_are_all_served() -> None:
    jobs = [job(tenant=n) for n in range(TAGS + 3)]
    assert len(ask(weighted_fair(), jobs, [[1.0]] * len(jobs))) == 1

"""Deadlines while all fits, shares once it does not: by hand, against a plain twin, and under floods."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.inference.policies import load_policy
from eunomia.inference.policies.fair_edf import FAR_S, fair_edf
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.workload.tenant import Agreement
from tests.inference.policies.views import ask, job, make_view
from tests.serving.test_dispatcher import Replay

BLOCK_S = 0.01


def test_by_hand() -> None:
    """Tenant 1 has had less; tenant 0 is due first. 0.5 s of work is due by 0.6 and another 0.5 s by 0.9."""
    memory = np.zeros(64)
    memory[:3] = 1.0, 5.0, 1.0
    policy = fair_edf()

    def first(second_due_s: float) -> list[int]:
        jobs = [
            job(tenant=0, deadline_s=0.6, work_best_s=0.5),
            job(tenant=1, deadline_s=second_due_s, work_best_s=0.5),
        ]
        view = make_view(policy, jobs, [[0.5], [0.5]], memory=memory, now_s=0.0)
        return [a.request for a in policy(view)]

    assert first(1.0) == [0]  # both fit: by deadline
    assert first(0.9) == [1]  # one must lose: it is who has had more
    assert first(FAR_S + 0.1) == [0]  # not due soon: behind
    two = [job(tenant=0, work_best_s=0.5), job(tenant=1, work_best_s=0.5)]
    assert ask(fair_edf(), two, [[0.5, 0.5]] * 2)[0][0] == 0


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([0.05, 0.2, 0.6, 3.0, math.inf]), st.sampled_from([0.1, 0.3])),
        min_size=1, max_size=8,
    ),
    tags=st.lists(st.floats(0.0, 9.0), min_size=4, max_size=4), virtual=st.floats(0.0, 9.0),
)  # fmt: skip
def test_it_does_what_a_plain_twin_does(
    jobs: list[tuple[int, float, float]], tags: list[float], virtual: float
) -> None:
    memory = np.zeros(64)
    memory[:5] = virtual, *tags
    waiting = [job(tenant=t, deadline_s=d, work_best_s=w) for t, d, w in jobs]
    policy = fair_edf()
    view = make_view(policy, waiting, [[0.1]] * len(jobs), memory=memory, now_s=0.0)
    chosen = policy(view)[0].request

    late = [work_s > due_s for _, due_s, work_s in jobs]
    soon = [n for n, (_, due, _) in enumerate(jobs) if due <= FAR_S and not late[n]]
    work, calm = 0.0, True
    for n in sorted(soon, key=lambda n: jobs[n][1]):
        work += jobs[n][2]
        calm = calm and work <= jobs[n][1]

    def key(n: int) -> tuple[float, bool, float, int]:
        tenant, due, _ = jobs[n]
        tag = -math.inf if calm and n in soon else max(virtual, tags[tenant])
        return tag, late[n], due, n

    assert key(chosen) == min(map(key, range(len(jobs))))


def hits(
    policy: str, streams: list[tuple[float, float, float]], weights: list[float], end_s: float
) -> list[float]:
    """Share in time of each tenant: requests of one block of 10 ms, every so often, due so soon, from so late."""
    replay = Replay(
        load_policy(policy), np.full((len(streams), 1), BLOCK_S), [1] * len(streams), DispatchOptions()
    )
    for n, weight in enumerate(weights):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}", None, 1.0, weight))
    requests = sorted(
        (start_s + k * every_s, n, start_s + k * every_s + due_s, n)
        for n, (every_s, due_s, start_s) in enumerate(streams)
        for k in range(int((end_s - start_s) / every_s))
    )
    sent, good = Counter(r[3] for r in requests), Counter[int]()
    leave = replay.dispatcher.leave

    def note(job, *, dropped=False):  # type: ignore[no-untyped-def]
        hit = leave(job, dropped=dropped)
        good[job.pair] += hit
        return hit

    replay.dispatcher.leave = note  # type: ignore[method-assign]
    replay.play(requests)
    return [good[n] / sent[n] for n in range(len(streams))]


@pytest.mark.parametrize("due_s, flood_s", [(0.05, 0.2), (0.2, 0.05), (0.05, 0.05), (0.5, 0.03)])
def test_a_flood_costs_a_light_tenant_nothing_whatever_it_claims(due_s: float, flood_s: float) -> None:
    """Gold needs a tenth of the device, bronze asks for twice what there is."""
    gold, bronze = hits("fair_edf", [(0.1, due_s, 0.003), (0.005, flood_s, 0.0)], [3.0, 1.0], 4.0)
    assert gold == 1.0 and bronze > 0.3
    assert hits("edf+f", [(0.1, due_s, 0.003), (0.005, flood_s, 0.0)], [3.0, 1.0], 4.0)[0] < 0.9


def test_who_claims_no_deadline_is_not_starved_by_who_claims_a_late_one() -> None:
    streams = [(0.1, math.inf, 0.003), (0.005, 50.0, 0.0)]
    replay = Replay(load_policy("fair_edf"), np.full((2, 1), BLOCK_S), [1, 1], DispatchOptions())
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    requests = sorted(
        (start_s + k * every_s, n, start_s + k * every_s + due_s, n)
        for n, (every_s, due_s, start_s) in enumerate(streams)
        for k in range(int(2.0 / every_s))
    )
    replay.play(requests)
    waits = [time_s - requests[number][0] for time_s, number, _, _ in replay.log if requests[number][3] == 0]
    assert len(waits) == 20 and max(waits) <= 2 * BLOCK_S


def test_while_all_fits_it_meets_the_deadlines_that_shares_would_miss() -> None:
    """A tenant uses more than its share of a device that has room: 60 % of it, beside one of 30 %."""
    streams, weights = (
        [(0.1, 0.03, 0.0), (0.1, 0.03, 0.01), (0.1, 0.03, 0.02), (0.0167, 0.3, 0.001)],
        [3.0, 3.0, 3.0, 1.0],
    )
    assert min(hits("fair_edf", streams, weights, 4.0)) == min(hits("edf+f", streams, weights, 4.0)) > 0.97

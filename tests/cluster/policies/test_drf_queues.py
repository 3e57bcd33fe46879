"""Dominant resource fairness with queues and gangs: dues, reclaiming and late gangs by hand, and as properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.policies.drf import DominantResourceFairness
from eunomia.cluster.policies.queue_shares import deserved
from eunomia.contract.allocation import ClusterView
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError
from tests.cluster.policies.peer_views import check_legal, view_of


def gangs(
    count: int,
    jobs: Sequence[tuple[int, int]],
    weight: Sequence[float],
    held: Sequence[int] = (),
    **more: object,
) -> ClusterView:
    """Jobs (queue, devices) on one type, in order of arrival."""
    view = view_of(
        Cluster.of({"gpu": count}), [[1.0]] * len(jobs), [100.0] * len(jobs), scale=[n for _, n in jobs],
        tenant=[q for q, _ in jobs], holdings=[(m, 0, jobs[m][1]) for m in held],
        arrival_s=[float(m) for m in range(len(jobs))], **more,  # type: ignore[arg-type]
    )  # fmt: skip
    return replace(view, tenant_weight=np.array(weight[: len(view.tenants)], float))


def run(view: ClusterView, **settings: object) -> list[int]:
    answer = DominantResourceFairness(**settings).allocate(view)  # type: ignore[arg-type]
    check_legal(view, answer)
    assert answer.devices is not None
    return answer.devices.sum(axis=1).tolist()


@pytest.mark.parametrize(
    ("weight", "demand", "expected"),
    [
        ([3, 1], [8, 8], [6, 2]),
        ([3, 1], [1, 8], [1, 7]),
        ([1, 1, 2], [1, 9, 3], [1, 4, 3]),
        ([1, 1], [2, 3], [2, 3]),
        ([1, 0], [9, 9], [8, 0]),
    ],
)
def test_what_queues_deserve(weight: list[float], demand: list[float], expected: list[float]) -> None:
    assert deserved(8.0, np.array(weight, float), np.array(demand, float)) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), min_size=1, max_size=5), st.integers(1, 20))
def test_dues_are_weighted_max_min(queues: list[tuple[int, int]], total: int) -> None:
    """Nobody gets more than it wants; all is given or all are full; who wants more has the highest level."""
    weight, demand = np.array(queues, float).T
    due = deserved(float(total), weight, demand)
    assert (due <= demand + 1e-9).all()
    assert due.sum() == pytest.approx(min(total, demand.sum()))
    level = due / weight
    for q in np.flatnonzero(due < demand - 1e-9):
        assert level[q] >= level.max() - 1e-9


def test_queues_share_by_weight_and_gangs_start_whole() -> None:
    """8 devices, weights 3 and 1, gangs of 2 from both: 6 and 2. Between equals the older goes first."""
    jobs = [(1, 2), (1, 2), (1, 2)] + [(0, 2)] * 4
    assert run(gangs(8, jobs, [3, 1]), queues=True) == [2, 0, 0, 2, 2, 2, 0]
    assert run(gangs(8, [(1, 4), (0, 2), (0, 2), (0, 2)], [3, 1]), queues=True) == [4, 2, 2, 0]


def test_priority_counts_within_a_queue_only() -> None:
    jobs = [(0, 2), (0, 2), (1, 2)]
    view = gangs(4, jobs, [1, 1], traits={"priority": [0.0, 9.0, -5.0]})
    assert run(view, queues=True) == [0, 2, 2]


@pytest.mark.parametrize(
    ("jobs", "held", "devices"),
    [
        ([(0, 2)] * 4 + [(1, 2)], range(4), [2, 2, 2, 0, 2]),  # the one that came last goes
        (
            [(0, 4)] * 2 + [(1, 2)],
            range(2),
            [4, 4, 0],
        ),  # without one of its gangs of 4, queue 0 would be below its 6
        ([(0, 2)] * 4 + [(1, 4)], range(4), [2, 2, 2, 2, 0]),  # 4 are more than queue 1 deserves
    ],
)
def test_a_queue_reclaims_what_it_deserves(
    jobs: list[tuple[int, int]], held: range, devices: list[int]
) -> None:
    """8 devices, weights 3 and 1; queue 0 holds all."""
    view = gangs(8, jobs, [3, 1], list(held))
    assert run(view, queues=True, reclaim=True) == devices
    assert run(view, queues=True)[-1] == 0


def test_devices_are_held_for_a_gang_that_is_late() -> None:
    """Two of four are free. A gang of 4 waits for 100 s; small ones overtake it unless the limit is below that."""
    view = gangs(4, [(0, 2), (0, 4), (0, 2)], [1], [0], now_s=101.0)
    assert run(view) == [2, 0, 2]
    assert run(view, sla_s=200.0) == [2, 0, 2]
    assert run(view, sla_s=50.0) == [2, 0, 0]
    assert run(gangs(4, [(0, 4), (0, 1)], [1], now_s=101.0), sla_s=50.0) == [4, 0]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=12),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
    st.integers(0, 12),
)
@settings(deadline=None)
def test_who_reclaims_never_takes_others_below_their_due(
    jobs: list[tuple[int, int]], weight: list[int], first: int
) -> None:
    view = gangs(8, jobs[: max(first, 1)], weight)
    held = [m for m, n in enumerate(run(view, queues=True, reclaim=True)) if n]
    view = gangs(8, jobs, weight, held)
    devices = np.array(run(view, queues=True, reclaim=True))
    due = deserved(
        8.0, view.tenant_weight, np.bincount(view.tenant, view.scale, len(view.tenants)).astype(float)
    )
    used = np.bincount(view.tenant, devices, len(view.tenants))
    evicted = [m for m in held if not devices[m]]
    for m in evicted:
        assert used[view.tenant[m]] >= due[view.tenant[m]] - 1e-9


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"users": "all"}, "users is 'all'; choose one of: tenant, app"),
        ({"reclaim": True}, "reclaim takes from queues; set queues=true"),
        ({"sla_s": -1.0}, "sla_s is -1.0; it must be at least 0"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DominantResourceFairness(**wrong)  # type: ignore[arg-type]

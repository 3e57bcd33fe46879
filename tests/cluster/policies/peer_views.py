"""Views of the cluster wing made by hand, for the policies' tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eunomia.contract.allocation import Allocation, ClusterView, Elastic, Holdings
from eunomia.contract.cluster import Cluster


def view_of(
    cluster: Cluster,
    throughput: Sequence[Sequence[float]],
    left: Sequence[float],
    *,
    now_s: float = 0.0,
    scale: Sequence[int] | None = None,
    total: Sequence[float] | None = None,
    attained_s: Sequence[Sequence[float]] | None = None,
    arrival_s: Sequence[float] | None = None,
    key: Sequence[int] | None = None,
    app: Sequence[int] | None = None,
    tenant: Sequence[int] | None = None,
    weight: Sequence[float] | None = None,
    first_start_s: Sequence[float] | None = None,
    holdings: Sequence[tuple[int, int, int]] = (),
    traits: Mapping[str, Sequence[float]] | None = None,
    up: Sequence[int] | None = None,
    elastic: Elastic | None = None,
    beside: Any = None,
    row: Sequence[int] | None = None,
) -> ClusterView:
    """A view with sensible defaults; ``holdings`` are (job, server, count)."""
    jobs, types = len(left), len(cluster.types)
    held = np.zeros((jobs, types), np.int64)
    for m, server, count in holdings:
        held[m, cluster.server_type[server]] += count
    columns = np.array(holdings, np.int64).reshape(-1, 3).T
    owner = tenant or [0] * jobs
    names = tuple(f"tenant {i}" for i in range(max(owner, default=0) + 1))
    ones = [1.0] * jobs
    return ClusterView(
        now_s=now_s,
        cluster=cluster,
        key=np.array(key if key is not None else range(jobs), np.int64),
        throughput=np.array(throughput, float).reshape(jobs, types),
        scale=np.array(scale or [1] * jobs, np.int64),
        weight=np.array(weight or ones, float),
        arrival_s=np.array(arrival_s or [0.0] * jobs, float),
        total_steps=np.array(total if total is not None else left, float),
        steps_left=np.array(left, float),
        attained_s=np.array(attained_s, float) if attained_s is not None else np.zeros((jobs, types)),
        isolated_s=np.zeros(jobs),
        deadline_s=np.full(jobs, np.inf),
        held=held,
        holdings=Holdings(*columns),
        first_start_s=np.array(first_start_s, float) if first_start_s is not None else np.full(jobs, np.nan),
        up=np.array(up, np.int64) if up is not None else cluster.server_size,
        row=np.array(row or [0] * jobs, np.int64),
        tenant=np.array(owner, np.int64),
        app=np.array(app if app is not None else range(jobs), np.int64),
        tenants=names,
        tenant_weight=np.ones(len(names)),
        beside=beside,
        elastic=elastic,
        traits={name: np.array(values, float) for name, values in (traits or {}).items()},
    )


def check_legal(view: ClusterView, answer: Allocation) -> None:
    """Gangs of the right size on one type, nothing beyond what works."""
    assert answer.devices is not None
    devices = answer.devices
    scale = view.scale if answer.scale is None else answer.scale
    assert devices.shape == view.throughput.shape
    assert ((devices > 0).sum(axis=1) <= 1).all()
    assert (np.isin(devices.sum(axis=1), [0]) | (devices.sum(axis=1) == scale)).all()
    assert (devices.sum(axis=0) <= view.capacity).all()
    if answer.servers is not None:
        used = np.bincount(answer.servers.server, answer.servers.count, len(view.up))
        assert (used <= view.up).all()
        by_job = np.bincount(answer.servers.job, answer.servers.count, len(view))
        assert (by_job == devices.sum(axis=1)).all()

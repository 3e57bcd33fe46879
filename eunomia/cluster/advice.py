"""What an allocator would do now with the jobs of a real cluster: whom it would start, keep or stop, and why.

Slurm says neither throughputs nor steps. A job's work is its time limit less what it has used, so shorter limits count
as shorter jobs. Every type counts as equally fast unless ``speeds`` says otherwise. Time shares become a decision by
one round of the round mechanism without a past.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eunomia.cluster.operators.slurm_now import Job, SlurmNow
from eunomia.cluster.round_core import pick
from eunomia.cluster.rounds import RoundQueue, queue_order
from eunomia.contract.allocation import Allocation, Allocator, ClusterView, Elastic, Holdings
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.core.arrays import Ints

NO_LIMIT_S = 86_400.0  # a job without a limit counts as a day
ROUND_S = 360.0


@dataclass(frozen=True)
class Advised:
    """One job: ``does`` is start, keep, stop or wait; ``on``: the type of GPU."""

    job: Job
    does: str
    on: str
    why: str


def advise(
    now: SlurmNow, allocator: Allocator, speeds: Mapping[str, float], shares: Mapping[str, float]
) -> list[Advised]:
    """What the allocator would do, job by job. ``shares``: weights of accounts, 1 where there is none."""
    view = view_of(now, speeds, shares)
    if not now.jobs:
        return []
    allocator.reset(0)
    allocation = allocator.allocate(view)
    kind = _kinds(view, allocation)
    return [_advised(job, m, int(kind[m]), view, allocation) for m, job in enumerate(now.jobs)]


def view_of(now: SlurmNow, speeds: Mapping[str, float], shares: Mapping[str, float]) -> ClusterView:
    """The cluster and its jobs as allocators see them."""
    cluster = Cluster(tuple(DeviceType(k, n, min(now.per_node[k], n)) for k, n in now.counts.items()))
    names, jobs, count = list(now.counts), now.jobs, len(now.jobs)
    speed = np.array([speeds.get(name, 1.0) for name in names])
    may = np.array([[j.may(name) for name in names] for j in jobs], bool).reshape(count, len(names))
    scale = np.array([j.gpus for j in jobs], np.int64)
    limit_s = np.array([j.limit_s if math.isfinite(j.limit_s) else NO_LIMIT_S for j in jobs])
    used_s = np.array([j.used_s for j in jobs])
    held = _held(now, may, names)
    tenants = tuple(dict.fromkeys(j.account for j in jobs)) or ("",)
    work_speed = np.where(may, speed, 0.0).max(axis=1, initial=1e-9)
    throughput = np.where(may & (scale[:, None] <= cluster.counts), speed, 0.0)
    total = limit_s * work_speed
    return ClusterView(
        now_s=now.now_s,
        cluster=cluster,
        key=np.arange(count),
        throughput=throughput,
        scale=scale,
        weight=np.array([shares.get(j.account, 1.0) for j in jobs]),
        arrival_s=np.array([j.submit_s for j in jobs]),
        total_steps=total,
        steps_left=np.maximum(total - used_s * work_speed, 1.0),
        attained_s=held * used_s[:, None],
        isolated_s=np.zeros(count),
        deadline_s=np.full(count, np.inf),
        held=held,
        holdings=_holdings(cluster, held),
        first_start_s=np.where([j.running for j in jobs], now.now_s - used_s, np.nan),
        up=np.array([n for k in cluster.types for n in k.server_sizes], np.int64),
        row=np.zeros(count, np.int64),
        tenant=np.array([tenants.index(j.account) for j in jobs], np.int64),
        app=np.arange(count),
        tenants=tenants,
        tenant_weight=np.array([shares.get(name, 1.0) for name in tenants]),
        elastic=Elastic(np.array([1]), throughput[:, None, :]),
        traits={"time_limit_s": limit_s},
    )


def _held(now: SlurmNow, may: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], names: list[str]) -> Ints:
    """Running jobs hold their type; those that named none hold what is left, the most of a type first."""
    held = np.zeros(may.shape, np.int64)
    free = np.array([now.counts[name] for name in names], np.int64)
    for m in sorted(range(len(now.jobs)), key=lambda m: not now.jobs[m].kind):
        if now.jobs[m].running:
            j = int(np.argmax(np.where(may[m], free, -1)))
            held[m, j] = now.jobs[m].gpus
            free[j] -= now.jobs[m].gpus
    return held


def _holdings(cluster: Cluster, held: Ints) -> Holdings:
    """The same on servers, filled in order."""
    rows: list[tuple[int, int, int]] = []
    free = [n for kind in cluster.types for n in kind.server_sizes]
    for m, j in zip(*(part.tolist() for part in np.nonzero(held)), strict=True):
        need = int(held[m, j])
        for s in np.flatnonzero(cluster.server_type == j).tolist():
            part = min(need, free[s])
            if part > 0:
                free[s], need = free[s] - part, need - part
                rows.append((m, s, part))
    job, server, count = (np.array([row[n] for row in rows], np.int64) for n in range(3))
    return Holdings(job, server, count)


def _kinds(view: ClusterView, allocation: Allocation) -> Ints:
    """(M,) the type on which each job would run now, -1 = it would wait."""
    if allocation.devices is not None:
        devices = np.asarray(allocation.devices)
        return np.where(devices.any(axis=1), devices.argmax(axis=1), -1)
    queue = RoundQueue(len(view), len(view.cluster.types), ROUND_S, "credit")
    queue.set_shares(view.key, allocation)
    units = queue.units(view.key, view.throughput)
    unit, kind = queue_order(units, list(range(len(view.cluster.types))), one_queue=True)
    wanted = units.share[unit, kind] > 0.0
    chosen = np.full(len(units.first), -1, np.int64)
    scale = np.concatenate([view.scale, view.scale[units.first[len(view) :]]])
    taken = np.zeros(len(view), np.bool_)
    pick(unit[wanted], kind[wanted], units.first, units.second, scale, view.capacity.copy(), taken, chosen)
    for n in range(len(view), len(chosen)):  # a pair runs on the same devices
        if chosen[n] >= 0:
            chosen[units.first[n]] = chosen[units.second[n]] = chosen[n]
    return chosen[: len(view)]


def _advised(job: Job, m: int, kind: int, view: ClusterView, allocation: Allocation) -> Advised:
    does = ("keep" if job.running else "start") if kind >= 0 else ("stop" if job.running else "wait")
    why = allocation.reasons[m] if allocation.reasons else ""
    if allocation.shares is not None:
        best = int(np.argmax(allocation.shares[m]))
        why = (
            why or f"its share is {allocation.shares[m, best]:.2f} of the time on {view.cluster.names[best]}"
        )
    if not view.runnable[m].any():
        why = f"it wants {job.gpus} of '{job.kind or 'any type'}', more than there are"
    return Advised(job, does, view.cluster.names[kind] if kind >= 0 else "", why)

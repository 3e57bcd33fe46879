"""Rounds on a real cluster: an allocator's answer and what was booked so far become a target, job by job.

At a round's start everybody is considered. Within a round who runs stays, and free GPUs go to whoever waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from eunomia.cluster.advice import view_of
from eunomia.cluster.live_book import STICKINESS, Book, Known
from eunomia.cluster.operators.slurm_now import Job, SlurmNow
from eunomia.cluster.round_core import pick
from eunomia.cluster.rounds import Units, queue_order
from eunomia.cluster.shares import isolated_throughput
from eunomia.contract.allocation import Allocation, Allocator, ClusterView, Elastic
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError


def refuse_what_slurm_cannot(allocator: Allocator, name: str) -> None:
    """Raise ConfigError for policies that share GPUs or change the size of jobs."""
    for wish, what in (("pairs", "lets jobs share GPUs"), ("elastic", "changes how many GPUs a job has")):
        if getattr(allocator.needs, wish):
            raise ConfigError(
                f"policy '{name}' {what}, which this daemon cannot; choose for example max_min_fairness_perf"
            )


def view_with_past(
    now: SlurmNow,
    book: Book,
    speeds: Mapping[str, float],
    weights: Mapping[str, float],
    taken: Mapping[str, int],
) -> ClusterView:
    """The cluster as allocators see it. ``taken``: GPUs by type that jobs of others hold."""
    known = [book.jobs[job.name] for job in now.jobs]
    freed = tuple(replace(j, kind="") if k.free else j for j, k in zip(now.jobs, known, strict=True))
    standing = tuple(replace(job, kind=book.kind_of(job)) for job in now.jobs)
    view = view_of(replace(now, jobs=freed), speeds, weights)
    held = view_of(replace(now, jobs=standing), speeds, weights)
    names = list(now.counts)
    throughput, total, left = _progress(view, known, names)
    up = _up(view, taken)
    view = replace(
        view,
        key=np.array([k.key for k in known], np.int64),
        throughput=throughput,
        total_steps=total,
        steps_left=left,
        arrival_s=np.array([k.submit_s for k in known]),
        attained_s=_by_type(known, names, "had_s") * view.scale[:, None],
        isolated_s=np.array([k.isolated_s for k in known]),
        first_start_s=np.array([np.nan if k.began_s is None else k.began_s for k in known]),
        held=held.held,
        holdings=held.holdings,
        up=up,
        elastic=Elastic(np.array([1]), throughput[:, None, :]),
    )
    rate = isolated_throughput(np.where(view.usable, throughput, 0.0), view.capacity, view.scale)
    for m, each in enumerate(known):
        each.isolated_rate, each.speed = float(rate[m]), dict(zip(names, throughput[m].tolist(), strict=True))
    return view


def decide(
    view: ClusterView, jobs: tuple[Job, ...], book: Book, allocator: Allocator, full: bool, round_s: float
) -> None:
    """Set the book's target, and why. ``full``: a round starts, so leases may end. Row m of the view is ``jobs[m]``."""
    if not len(view):
        book.target, book.why = {}, {}
        return
    names = view.cluster.names
    allocation = allocator.allocate(view)
    stay = np.full(len(view), -1, np.int64)
    if not full:
        for m, job in enumerate(jobs):
            kind = book.target.get(job.name, "")
            stay[m] = names.index(kind) if kind in names else -1
    kind_of = (
        _outright(view, allocation, stay)
        if allocation.shares is None
        else _by_shares(view, jobs, book, allocation, (stay, round_s))
    )
    book.target = {job.name: names[kind_of[m]] for m, job in enumerate(jobs) if kind_of[m] >= 0}
    book.why = {job.name: _why(view, allocation, book.jobs[job.name], m) for m, job in enumerate(jobs)}


def _by_shares(
    view: ClusterView, jobs: tuple[Job, ...], book: Book, allocation: Allocation, way: tuple[Ints, float]
) -> Ints:
    """(M,) types by what each job is owed, as :mod:`~eunomia.cluster.rounds` orders them."""
    stay, round_s = way
    share = np.asarray(allocation.shares)
    names = view.cluster.names
    known = [book.jobs[job.name] for job in jobs]
    for m, each in enumerate(known):
        each.share = {name: float(share[m, j]) for j, name in enumerate(names) if share[m, j] > 0.0}
    owed = _by_type(known, names, "credit")
    priority = np.where(view.usable, (owed + share * round_s) / round_s, -np.inf)
    priority += np.where(view.held > 0, STICKINESS, 0.0)
    rows = np.arange(len(view))
    units = Units(rows, np.full(len(view), -1, np.int64), share, priority, owed)
    unit, kind = queue_order(units, list(range(len(names))), one_queue=True)
    free, chosen = _left(view, stay)
    pick(unit, kind, units.first, units.second, view.scale, free, stay >= 0, chosen)
    return chosen


def _outright(view: ClusterView, allocation: Allocation, stay: Ints) -> Ints:
    """(M,) types of an answer in devices, after those who stay."""
    devices = np.asarray(allocation.devices)
    free, chosen = _left(view, stay)
    for m in np.flatnonzero(devices.any(axis=1) & (stay < 0)).tolist():
        j = int(devices[m].argmax())
        if view.scale[m] <= free[j]:
            free[j] -= view.scale[m]
            chosen[m] = j
    return chosen


def _left(view: ClusterView, stay: Ints) -> tuple[Ints, Ints]:
    free, chosen = view.capacity.copy(), stay.copy()
    for m in np.flatnonzero(stay >= 0).tolist():
        free[stay[m]] -= view.scale[m]
    return free, chosen


def _why(view: ClusterView, allocation: Allocation, known: Known, m: int) -> str:
    if not view.usable[m].any():
        return f"no type of GPU that works has the {view.scale[m]} that it wants"
    said = allocation.reasons[m] if allocation.reasons else ""
    if said or allocation.shares is None:
        return said
    shares = (
        ", ".join(f"{share:.2f} of the time on {kind}" for kind, share in known.share.items()) or "no share"
    )
    owed = ", ".join(
        f"{credit:+.0f} s on {kind}" for kind, credit in known.credit.items() if kind in known.share
    )
    return f"promised {shares}; owed {owed or 'nothing yet'}"


def _progress(view: ClusterView, known: list[Known], names: list[str]) -> tuple[Floats, Floats, Floats]:
    """Throughput, all steps, steps left: as reported where a job reports, by relative speed elsewhere."""
    throughput, total = view.throughput.copy(), view.total_steps.copy()
    had = _by_type(known, names, "had_s")
    left = np.maximum(total - (had * view.throughput).sum(axis=1), 1.0)
    for m, each in enumerate(known):
        seen = [
            j for j, name in enumerate(names) if each.rate.get(name, 0.0) > 0.0 and throughput[m, j] > 0.0
        ]
        if not seen or each.total <= 0.0:
            continue
        unit = float(np.mean([each.rate[names[j]] / throughput[m, j] for j in seen]))
        throughput[m] *= unit
        for j in seen:
            throughput[m, j] = each.rate[names[j]]
        total[m], left[m] = each.total, max(each.total - each.steps, 1e-9)
    return throughput, total, left


def _by_type(known: list[Known], names: Sequence[str], what: str) -> Floats:
    rows = [[getattr(each, what).get(name, 0.0) for name in names] for each in known]
    return np.array(rows).reshape(len(known), len(names))


def _up(view: ClusterView, taken: Mapping[str, int]) -> Ints:
    """Devices of each server less what others hold, the last servers of a type first."""
    up = view.up.copy()
    for j, name in enumerate(view.cluster.names):
        gone = taken.get(name, 0)
        for s in np.flatnonzero(view.cluster.server_type == j)[::-1].tolist():
            part = min(gone, int(up[s]))
            up[s], gone = up[s] - part, gone - part
    return up

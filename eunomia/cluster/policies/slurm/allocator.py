"""Slurm's scheduler: jobs by multifactor priority, started with backfill over the users' time limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from eunomia.cluster.policies.serving_order import Memory, serve
from eunomia.cluster.policies.slurm.fair_share import ShareTree, classic, fair_tree
from eunomia.cluster.policies.slurm.one_node import plan_node
from eunomia.cluster.policies.slurm.plan import ALL, EASY, NONE, Profiles, keep, plan, profiles
from eunomia.cluster.policies.slurm.usage import DecayedUsage
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

Algorithm = Literal["fair_tree", "classic"]
Reservations = Literal["slurm", "easy", "conservative", "none"]
HOW = {"none": NONE, "easy": EASY, "slurm": ALL}
DAY_S = 86_400.0
OVERRUN_S = 1.0  # a job beyond its limit is expected to end so much later than now


@dataclass
class Slurm:
    """Priority = sum of weight * factor, factors from 0 to 1; then backfill by time limits. Never preempts.

    Factors (``priority_multifactor.html``): ``age`` is the wait over ``max_age_s``, ``job_size`` the mean of nodes and
    devices over all, or the opposite with ``favor_small``. ``partition`` and ``qos`` are the traits
    ``partition_factor`` and ``qos_factor``. The trait ``nice`` is taken off. ``fair_share`` is computed by ``tree``
    over tenants named ``account/user``; usage is halved every ``half_life_s``. ``shares`` go by path; users without
    have their tenant's weight. ``billing``: what a device-second of a type counts, 1 unless given.

    ``backfill``: ``slurm`` plans everybody anew each time, in order of priority, up to ``window_s`` ahead; ``easy``
    reserves for the first waiting job alone; ``conservative`` keeps every reservation, which only moves forward;
    ``none`` stops at the first job that cannot start. ``one_node``: all GPUs stand on one node, of which ``slurm``
    reserves all or nothing (:mod:`.one_node`); over several nodes it reserves GPUs. ``depth``: how many jobs are
    looked at (bf_max_job_test).
    Limits are the trait ``time_limit_s``, else ``default_limit_s``, else the engine's estimate.

    Does badly with limits far above the run times: gaps look too short to fill. Under ``slurm`` a waiting job can be
    planned later again, when another one ends early or a job of higher priority comes.
    """

    age: float = 1_000.0
    fair_share: float = 10_000.0
    job_size: float = 1_000.0
    partition: float = 1_000.0
    qos: float = 10_000.0
    max_age_s: float = 7 * DAY_S
    half_life_s: float = 7 * DAY_S
    favor_small: bool = False
    tree: Algorithm = "fair_tree"
    dampening: float = 1.0
    backfill: Reservations = "slurm"
    depth: int = 500
    window_s: float = DAY_S
    one_node: bool = False
    resolution_s: float = 60.0
    default_limit_s: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    idle: bool = False  # ``shares`` may name accounts and users without jobs
    billing: Mapping[str, float] = field(default_factory=dict)
    needs: Needs = Needs(answer="devices", sticky=True, every_event=True)

    def __post_init__(self) -> None:
        _one_of("tree", self.tree, get_args(Algorithm))
        _one_of("backfill", self.backfill, get_args(Reservations))
        for name in ("age", "fair_share", "job_size", "partition", "qos", "half_life_s", "window_s"):
            _at_least(name, getattr(self, name), 0.0)
        for name in ("max_age_s", "dampening", "depth", "resolution_s"):
            _at_least(name, getattr(self, name), 1e-9)
        if self.default_limit_s is not None:
            _at_least("default_limit_s", self.default_limit_s, 1e-9)
        for kind, value in self.billing.items():
            _at_least(f"billing of '{kind}'", value, 0.0)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Forget usage and reservations."""
        self._tree: ShareTree | None = None
        self._usage = DecayedUsage(0, self.half_life_s)
        self._started, self._kind, self._start = Memory(), Memory(), Memory()

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices: what runs goes on; who may start now."""
        priority = self.priority(view)
        devices = serve(view, np.flatnonzero(view.held.any(axis=1)))  # after a failure fewer may fit
        self._mark(view, devices)
        waits = np.flatnonzero(~devices.any(axis=1))
        order = waits[np.lexsort((view.key[waits], view.arrival_s[waits], -priority[waits]))][: self.depth]
        limit_s = self._limits(view)
        if self.one_node and self.backfill == "slurm":
            kind = self._on_one_node(view, order, limit_s, devices)
        else:
            profile = self._profiles(view, devices, limit_s, len(order))
            kind, start = self._planned(view, order, limit_s, profile)
            kind = np.where(start <= view.now_s, kind, -1)
        devices[order[kind >= 0], kind[kind >= 0]] = view.scale[order[kind >= 0]]
        self._mark(view, devices)
        self._usage.watch(view, devices, self._prices(view))
        return Allocation(devices=devices)

    def priority(self, view: ClusterView) -> Floats:
        """Priority (M,) of every job now, a whole number as in Slurm; usage is booked up to now."""
        if self._tree is None:
            self._tree = ShareTree.of(view.tenants, self.shares, view.tenant_weight.tolist(), self.idle)
            self._usage = DecayedUsage(len(view.tenants), self.half_life_s)
        self._usage.advance(view.now_s, set(view.key.tolist()))
        usage = self._usage.value
        share = (
            fair_tree(self._tree, usage)
            if self.tree == "fair_tree"
            else classic(self._tree, usage, self.dampening)
        )
        size = self._size(view)
        total = (
            self.age * np.minimum(view.age_s / self.max_age_s, 1.0)
            + self.fair_share * share[view.tenant]
            + self.job_size * (1.0 - size if self.favor_small else size)
            + self.partition * _trait(view, "partition_factor")
            + self.qos * _trait(view, "qos_factor")
        )
        return np.asarray(np.floor(total + 1e-9) - _trait(view, "nice"))

    def _size(self, view: ClusterView) -> Floats:
        """Factor (M,) of the job's size."""
        servers = 1 if self.one_node else max(len(view.cluster.server_size), 1)
        largest = view.cluster.server_size.max(initial=1) if servers > 1 else np.inf
        nodes = np.ceil(np.maximum(view.scale / largest, 1e-9))
        return np.asarray((nodes / servers + view.scale / max(int(view.cluster.counts.sum()), 1)) / 2.0)

    def _on_one_node(self, view: ClusterView, order: Ints, limit_s: Floats, devices: Ints) -> Ints:
        """Type of each job in ``order`` that starts now, -1 = waits."""
        rows, kinds = np.nonzero(devices)
        running = self._ends(view, rows, kinds, limit_s), kinds, devices[rows, kinds]
        speed = np.ascontiguousarray(view.throughput[order])
        free = np.asarray(view.capacity - devices.sum(axis=0), np.int64)
        ahead = (float(self.window_s), float(self.resolution_s))
        return plan_node(view.scale[order], limit_s[order], speed, view.now_s, free, running, ahead)

    def _planned(
        self, view: ClusterView, order: Ints, limit_s: Floats, profile: Profiles
    ) -> tuple[Ints, Floats]:
        """Type and start of each job in ``order``; kept for the next time where reservations hold."""
        count, speed = view.scale[order], np.ascontiguousarray(view.throughput[order])
        start = np.full(len(order), np.inf)
        if self.backfill != "conservative":
            window_s = self.window_s if self.backfill == "slurm" else np.inf
            kind = plan(count, limit_s[order], speed, profile, HOW[self.backfill], window_s, start)
            return kind, start
        key = view.key[order]
        before = self._kind.of(key)
        kind = np.where(np.isnan(before), -1.0, before).astype(np.int64)
        start = np.where(kind >= 0, self._start.of(key), np.inf)
        keep(count, limit_s[order], speed, profile, kind, start)
        self._kind.put(key, kind.astype(float))
        self._start.put(key, start)
        return kind, start

    def _limits(self, view: ClusterView) -> Floats:
        """Expected length (M, J) by the users' limits; inf where a job cannot run."""
        with np.errstate(divide="ignore"):
            estimate = view.steps_left[:, None] / np.where(view.runnable, view.throughput, 0.0)
        limit_s = _trait(view, "time_limit_s", np.nan)
        if self.default_limit_s is not None:
            limit_s = np.where(np.isnan(limit_s), self.default_limit_s, limit_s)
        known = np.broadcast_to(limit_s[:, None], estimate.shape)
        return np.where(np.isnan(known) | ~view.runnable, estimate, np.maximum(known, OVERRUN_S))

    def _profiles(self, view: ClusterView, devices: Ints, limit_s: Floats, waiting: int) -> Profiles:
        rows, kinds = np.nonzero(devices)
        end_s = self._ends(view, rows, kinds, limit_s)
        free = view.capacity - devices.sum(axis=0)
        return profiles(view.now_s, free, kinds, end_s, devices[rows, kinds], waiting)

    def _ends(self, view: ClusterView, rows: Ints, kinds: Ints, limit_s: Floats) -> Floats:
        """When running jobs are expected to end."""
        end_s = self._started.of(view.key[rows]) + limit_s[rows, kinds]
        with_estimates = np.isnan(_trait(view, "time_limit_s", np.nan)[rows]) & (self.default_limit_s is None)
        end_s = np.where(with_estimates, view.now_s + limit_s[rows, kinds], end_s)
        return np.asarray(np.maximum(end_s, view.now_s + OVERRUN_S))

    def _mark(self, view: ClusterView, devices: Ints) -> None:
        """Since when each job holds its devices; a job that lost them starts anew."""
        runs = devices.any(axis=1)
        since = self._started.of(view.key)
        self._started.put(view.key, np.where(runs, np.where(np.isnan(since), view.now_s, since), np.nan))

    def _prices(self, view: ClusterView) -> Floats:
        for name in self.billing:
            view.cluster.column(name)
        return np.array([self.billing.get(name, 1.0) for name in view.cluster.names])


def _trait(view: ClusterView, name: str, default: float = 0.0) -> Floats:
    values = view.traits.get(name)
    if values is None:
        return np.full(len(view), default)
    return np.where(np.isnan(values), default, values)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"slurm: {name} is '{value}'; choose one of: {', '.join(known)}")


def _at_least(name: str, value: float, least: float) -> None:
    if not (isinstance(value, int | float) and least <= value < np.inf):
        low = "0" if least == 0.0 else "above 0"
        raise ConfigError(
            f"slurm: {name} is {value!r}; it must be a finite number, {'at least ' if least == 0 else ''}{low}"
        )

"""A pool of rented machines played against arrivals: cost, waiting, and how long deciding took."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from eunomia.cluster.environments.elastic_pool import (
    Flavour,
    Node,
    PoolJob,
    drain,
    least_requested,
    pack_batch,
    pack_services,
    scale,
    time_bin,
)
from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError

Pattern = Literal["stable", "growing", "cycle", "on_off"]
PATTERNS: tuple[Pattern, ...] = ("stable", "growing", "cycle", "on_off")


@dataclass(frozen=True)
class PoolOptions:
    """``scheduler``: ``htas`` or ``least_requested`` (with one flavour, scale-out by need, no migration).

    Scheduling every ``cycle_s``, autoscaling every ``scale_s``; A machine is ready ``boot_s`` after it was
    rented, and is paid for by the second. An empty machine that fits no waiting job is given back at an
    autoscaling point. A migration pauses a job for ``migrate_s``; it fails with probability
    ``migrate_fails``, is tried ``retries`` times, and else the source runs on.
    """

    scheduler: Literal["htas", "least_requested"] = "htas"
    cycle_s: float = 20.0
    scale_s: float = 300.0
    boot_s: float = 120.0
    migrate_s: float = 15.0
    migrate_fails: float = 0.0
    retries: int = 3
    keep: int = 2  # machines that are never given back
    migrate: bool = True
    bins: bool = True  # False: batch jobs best-fit without regard to time
    flavours: Literal["best", "one"] = "best"  # one: always the first of the catalogue
    seed: int = 0

    def __post_init__(self) -> None:
        if self.scheduler not in ("htas", "least_requested"):
            raise ConfigError(f"pool: scheduler is '{self.scheduler}'; choose one of: htas, least_requested")
        for name in ("cycle_s", "scale_s"):
            if not getattr(self, name) > 0.0:
                raise ConfigError(f"pool: {name} is {getattr(self, name)}; it must be positive")


@dataclass
class PoolResult:
    """What a run cost and how long jobs waited. Jobs in = finished + unfinished, services counted as finished."""

    submitted: int
    finished: int
    unfinished: int
    cost: float
    wait_s: Floats  # (started,) arrival to start
    turnaround_s: Floats  # (finished batch jobs,)
    decision_ms: Floats  # (scheduling points with waiting jobs,) wall time of the decision
    rented: int
    migrations: int
    failed_migrations: int
    end_s: float
    machine_h: float


@dataclass
class _Pool:
    catalogue: Sequence[Flavour]
    options: PoolOptions
    rng: np.random.Generator
    nodes: list[Node] = field(default_factory=list)
    rented: int = 0
    paid_s: dict[str, float] = field(default_factory=dict)
    migrations: int = 0
    failed: int = 0

    def rent(self, flavour: Flavour, now_s: float, boot_s: float) -> None:
        """A new machine."""
        self.nodes.append(Node(self.rented, flavour, now_s + boot_s, now_s))
        self.rented += 1

    def give_back(self, node: Node, now_s: float) -> None:
        """End the rent."""
        self.nodes.remove(node)
        self.paid_s[node.flavour.name] = self.paid_s.get(node.flavour.name, 0.0) + now_s - node.rented_s

    def cost(self) -> float:
        """Rent so far of machines given back."""
        price = {flavour.name: flavour.price_per_hour for flavour in self.catalogue}
        return sum(price[name] * seconds / 3600.0 for name, seconds in self.paid_s.items())


def run_pool(
    jobs: Sequence[PoolJob], catalogue: Sequence[Flavour], options: PoolOptions, horizon_s: float = math.inf
) -> PoolResult:
    """Play ``jobs`` until all batch jobs ended, or to the horizon."""
    pool = _Pool(catalogue, options, np.random.default_rng([options.seed, 23]))
    for _ in range(options.keep):
        pool.rent(catalogue[0], 0.0, 0.0)
    todo = sorted(jobs, key=lambda job: (job.arrival_s, job.name))
    ends: list[tuple[float, str, int]] = []  # true end, job, version
    where: dict[str, tuple[Node, int]] = {}
    queue: list[PoolJob] = []
    wait_s, turnaround_s, decision_ms = [], [], []
    batch_left = sum(1 for job in todo if math.isfinite(job.run_s))
    by_name = {job.name: job for job in todo}
    now_s, next_job, tick = 0.0, 0, 0
    while (batch_left or queue or next_job < len(todo)) and now_s <= horizon_s:
        while ends and ends[0][0] <= now_s + 1e-9:
            end_s, name, version = heapq.heappop(ends)
            if name in where and where[name][1] == version:
                where.pop(name)[0].stop(by_name[name])
                turnaround_s.append(end_s - by_name[name].arrival_s)
                batch_left -= 1
        while next_job < len(todo) and todo[next_job].arrival_s <= now_s + 1e-9:
            queue.append(todo[next_job])
            next_job += 1
        if queue:
            began = time.perf_counter()
            placed, queue = _place(pool, queue, now_s)
            decision_ms.append(1000.0 * (time.perf_counter() - began))
            for job, node in placed:
                wait_s.append(now_s - job.arrival_s)
                where[job.name] = (node, 0)
                heapq.heappush(ends, (now_s + job.run_s, job.name, 0))
        elif options.scheduler == "htas" and options.migrate:
            _rescheduled(pool, now_s, ends, where)
        if tick % max(1, round(options.scale_s / options.cycle_s)) == 0:
            _autoscale(pool, queue, now_s)
        tick += 1
        now_s = tick * options.cycle_s
    for node in list(pool.nodes):
        pool.give_back(node, now_s)
    services = sum(1 for name in where if math.isinf(by_name[name].run_s))
    finished = len(turnaround_s) + services
    return PoolResult(
        len(todo),
        finished,
        len(todo) - finished,
        pool.cost(),
        np.array(wait_s),
        np.array(turnaround_s),
        np.array(decision_ms),
        pool.rented,
        pool.migrations,
        pool.failed,
        now_s,
        sum(pool.paid_s.values()) / 3600.0,
    )


def _place(
    pool: _Pool, queue: list[PoolJob], now_s: float
) -> tuple[list[tuple[PoolJob, Node]], list[PoolJob]]:
    """One scheduling point. Services and batch jobs of HTAS keep to nodes of their own group."""
    if pool.options.scheduler == "least_requested":
        return least_requested(queue, pool.nodes, now_s)
    services = [job for job in queue if math.isinf(job.run_s)]
    batch = [job for job in queue if math.isfinite(job.run_s)]
    own, other = _groups(pool.nodes)
    placed, left = pack_services(services, own, now_s)
    own, other = _groups(pool.nodes)
    if pool.options.bins:
        more, rest = pack_batch(batch, other, now_s, pool.options.scale_s)
    else:
        more, rest = pack_services(batch, other, now_s)
    return placed + more, left + rest


def _groups(nodes: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """Nodes for services (they have one, or nothing) and for batch jobs (they have no service)."""
    has = [any(math.isinf(job.run_s) for job in node.jobs.values()) for node in nodes]
    services = [node for node, yes in zip(nodes, has, strict=True) if yes or not node.jobs]
    return services, [node for node, yes in zip(nodes, has, strict=True) if not yes]


def _autoscale(pool: _Pool, queue: Sequence[PoolJob], now_s: float) -> None:
    """Rent for what waits; give back what is empty."""
    options = pool.options
    coming = [node for node in pool.nodes if node.ready_s > now_s]
    if queue:
        offers = list(pool.catalogue)
        if options.scheduler == "least_requested" or options.flavours == "one":
            offers = [next(f for f in pool.catalogue if all(f.fits(job) for job in queue))]
        free = np.array([sum(n.cpu for n in coming), sum(n.memory_gib for n in coming)], float)
        for group in _wanting(pool, queue):
            ending = _ending(pool, now_s) if group and math.isfinite(group[0].run_s) else np.zeros(2)
            for flavour in scale(group, offers, free + ending):
                pool.rent(flavour, now_s, options.boot_s)
            need = np.array([sum(job.cpu for job in group), sum(job.memory_gib for job in group)])
            free = np.maximum(free - need, 0.0)
    for node in [n for n in pool.nodes if not n.jobs and n.ready_s <= now_s and n.number >= options.keep]:
        if not any(node.flavour.fits(job) for job in queue):
            pool.give_back(node, now_s)


def _wanting(pool: _Pool, queue: Sequence[PoolJob]) -> list[list[PoolJob]]:
    """Services and batch jobs apart for HTAS, as they use different nodes; all together otherwise."""
    if pool.options.scheduler == "least_requested":
        return [list(queue)]
    services = [job for job in queue if math.isinf(job.run_s)]
    return [services, [job for job in queue if math.isfinite(job.run_s)]]


def _ending(pool: _Pool, now_s: float) -> Floats:
    """CPU and memory of batch nodes whose jobs all end within this cycle: free before a new machine would be.

    Nothing for the baseline, which does not know run times.
    """
    if pool.options.scheduler == "least_requested":
        return np.zeros(2)
    nodes = [
        node
        for node in _groups(pool.nodes)[1]
        if node.jobs and time_bin(node.remaining_s(now_s), pool.options.scale_s) == 0
    ]
    return np.array([sum(n.flavour.cpu for n in nodes), sum(n.flavour.memory_gib for n in nodes)], float)


def _rescheduled(
    pool: _Pool, now_s: float, ends: list[tuple[float, str, int]], where: dict[str, tuple[Node, int]]
) -> None:
    """Move all jobs off one half-empty node and give it back; a migration that fails three times moves nobody."""
    found = drain([node for node in _groups(pool.nodes)[1] if node.number >= pool.options.keep], now_s)
    if found is None:
        return
    source, moves = found
    options = pool.options
    if options.migrate_fails and (pool.rng.random(options.retries) < options.migrate_fails).all():
        pool.failed += 1
        return
    true_end = {
        name: (end, version) for end, name, version in ends if name in where and where[name][1] == version
    }
    for job, target in moves:
        end_s, version = true_end[job.name]
        believed = source.ends_s[job.name]
        source.stop(job)
        target.start(job, now_s)
        target.ends_s[job.name] = believed + options.migrate_s
        where[job.name] = (target, version + 1)
        heapq.heappush(ends, (end_s + options.migrate_s, job.name, version + 1))
        pool.migrations += 1
    pool.give_back(source, now_s)


# --- arrivals


def arrivals(
    pattern: Pattern, seed: int, jobs: int = 300, services: float = 0.1, error: float = 0.0
) -> list[PoolJob]:
    """Jobs of 1 to 12 minutes with small or large requests, ``services`` of them staying, in one of four patterns.

    Over two hours: ``stable`` Poisson; ``growing`` rate rising linearly to twice the mean; ``cycle`` a sine of
    period one hour; ``on_off`` ten minutes full, ten minutes nothing. ``error``: run times are believed to be
    run * (1 + error * U(-1, 1)).
    """
    if pattern not in PATTERNS:
        raise ConfigError(f"pattern is '{pattern}'; choose one of: {', '.join(PATTERNS)}")
    rng = np.random.default_rng([seed, PATTERNS.index(pattern)])
    wrong = np.random.default_rng([seed, PATTERNS.index(pattern), 1])  # the same jobs for every error
    span_s, grid = 7200.0, np.linspace(0.0, 7200.0, 7201)
    rate = {
        "stable": np.ones_like(grid),
        "growing": grid / span_s,
        "cycle": 1.0 + np.sin(2.0 * np.pi * grid / 3600.0 - np.pi / 2.0),
        "on_off": (np.floor(grid / 600.0) % 2 == 0).astype(float),
    }[pattern]
    mass = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2.0)])
    times = np.interp(np.sort(rng.random(jobs)), mass / mass[-1], grid)
    made = []
    for i, at in enumerate(times.tolist()):
        run_s = math.inf if rng.random() < services else float(rng.uniform(60.0, 720.0))
        memory = float(rng.choice([0.5, 1.0, 2.0, 6.0]))
        job = PoolJob(f"job {i:04d}", at, run_s, float(rng.choice([0.25, 0.5, 1.0, 2.0])), memory)
        if error and math.isfinite(run_s):
            job = replace(job, estimate_s=run_s * (1.0 + error * float(wrong.uniform(-1.0, 1.0))))
        made.append(job)
    return made

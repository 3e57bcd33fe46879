"""HTAS: containers on a pool of priced machines that grows and shrinks (Zhong and Buyya, TOIT 2020).

The rules alone, as pure functions of nodes and jobs; :mod:`.elastic_pool_run` plays them against arrivals.
Resources are CPU cores, memory in GiB and accelerators; a flavour may carry a device kind, which jobs may ask for.
Re-implemented from the paper's description; no code of its authors is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError, PlatformError


@dataclass(frozen=True, slots=True)
class Flavour:
    """A kind of machine one can rent: what it has, and what an hour costs."""

    name: str
    cpu: float
    memory_gib: float
    price_per_hour: float
    device: str | None = None  # kind of accelerator
    devices: int = 0

    def __post_init__(self) -> None:
        for name in ("cpu", "memory_gib", "price_per_hour"):
            if not getattr(self, name) > 0.0:
                raise ConfigError(
                    f"flavour '{self.name}': {name} is {getattr(self, name)}; it must be positive"
                )

    def fits(self, job: PoolJob) -> bool:
        """Whether an empty machine of this kind holds the job."""
        kind = job.device is None or job.device == self.device
        return (
            kind and job.cpu <= self.cpu and job.memory_gib <= self.memory_gib and job.devices <= self.devices
        )


@dataclass(frozen=True, slots=True)
class PoolJob:
    """A container: a batch job with a run time, or a service that stays (``run_s`` = inf)."""

    name: str
    arrival_s: float
    run_s: float
    cpu: float
    memory_gib: float
    estimate_s: float | None = None  # what the scheduler believes; None = it knows
    device: str | None = None
    devices: int = 0

    @property
    def believed_s(self) -> float:
        """Run time as the scheduler sees it."""
        return self.run_s if self.estimate_s is None else self.estimate_s


@dataclass(slots=True, eq=False)
class Node:
    """A rented machine, what runs on it, and until when that is believed to last."""

    number: int
    flavour: Flavour
    ready_s: float  # machines take time to boot
    rented_s: float
    cpu: float = field(init=False)
    memory_gib: float = field(init=False)
    devices: int = field(init=False)
    ends_s: dict[str, float] = field(default_factory=dict)  # job -> believed end
    jobs: dict[str, PoolJob] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cpu, self.memory_gib, self.devices = (
            self.flavour.cpu,
            self.flavour.memory_gib,
            self.flavour.devices,
        )

    def fits(self, job: PoolJob) -> bool:
        """Whether the job fits into what is free."""
        kind = job.device is None or job.device == self.flavour.device
        return (
            kind and job.cpu <= self.cpu and job.memory_gib <= self.memory_gib and job.devices <= self.devices
        )

    def start(self, job: PoolJob, now_s: float) -> None:
        """Take the job's resources."""
        self.cpu -= job.cpu
        self.memory_gib -= job.memory_gib
        self.devices -= job.devices
        self.jobs[job.name] = job
        self.ends_s[job.name] = now_s + job.believed_s

    def stop(self, job: PoolJob) -> None:
        """Give them back."""
        self.cpu += job.cpu
        self.memory_gib += job.memory_gib
        self.devices += job.devices
        del self.jobs[job.name], self.ends_s[job.name]

    def remaining_s(self, now_s: float) -> float:
        """Believed time until its longest job ends; 0 when empty or overdue."""
        return max(0.0, max(self.ends_s.values(), default=now_s) - now_s)

    @property
    def utilisation(self) -> float:
        """Mean of the shares of CPU and memory in use."""
        return 1.0 - 0.5 * (self.cpu / self.flavour.cpu + self.memory_gib / self.flavour.memory_gib)


def time_bin(remaining_s: float, cycle_s: float) -> float:
    """floor(remaining / cycle); inf stays inf."""
    return math.floor(remaining_s / cycle_s) if math.isfinite(remaining_s) else math.inf


def pack_batch(
    jobs: Sequence[PoolJob], nodes: Sequence[Node], now_s: float, cycle_s: float
) -> tuple[list[tuple[PoolJob, Node]], list[PoolJob]]:
    """Batch jobs, longest first, to nodes whose jobs end about then: placed (and started), and left over.

    Each node carries the bin of its longest remaining job. A job tries its own bin, then greater bins upwards,
    then lesser bins downwards; within a bin the fullest node. So nodes empty at once and can be given back.
    Does badly when run times are estimated wrong: one overdue job keeps a node.
    """
    placed, left = [], []
    for job in sorted(jobs, key=lambda job: (-job.believed_s, job.arrival_s, job.name)):
        own = time_bin(job.believed_s, cycle_s)

        def rank(node: Node, own: float = own) -> tuple[int, float, float, int]:
            theirs = time_bin(node.remaining_s(now_s), cycle_s)
            return (0 if theirs >= own else 1, abs(theirs - own), -node.utilisation, node.number)

        fitting = [node for node in nodes if node.ready_s <= now_s and node.fits(job)]
        if fitting:
            node = min(fitting, key=rank)
            node.start(job, now_s)
            placed.append((job, node))
        else:
            left.append(job)
    return placed, left


def pack_services(
    jobs: Sequence[PoolJob], nodes: Sequence[Node], now_s: float
) -> tuple[list[tuple[PoolJob, Node]], list[PoolJob]]:
    """Services by best-fit decreasing, memory first, CPU second (CPU can be throttled, memory cannot)."""
    placed, left = [], []
    for job in sorted(jobs, key=lambda job: (-job.memory_gib, -job.cpu, job.name)):
        fitting = [node for node in nodes if node.ready_s <= now_s and node.fits(job)]
        if fitting:
            node = min(fitting, key=lambda node: (node.memory_gib, node.cpu, node.number))
            node.start(job, now_s)
            placed.append((job, node))
        else:
            left.append(job)
    return placed, left


def least_requested(
    jobs: Sequence[PoolJob], nodes: Sequence[Node], now_s: float
) -> tuple[list[tuple[PoolJob, Node]], list[PoolJob]]:
    """The default of container schedulers: first come, to the node with the largest free share. Empties no node."""
    placed, left = [], []
    for job in sorted(jobs, key=lambda job: (job.arrival_s, job.name)):
        fitting = [node for node in nodes if node.ready_s <= now_s and node.fits(job)]
        if fitting:
            node = min(fitting, key=lambda node: (node.utilisation, node.number))
            node.start(job, now_s)
            placed.append((job, node))
        else:
            left.append(job)
    return placed, left


def scale(
    pending: Sequence[PoolJob], catalogue: Sequence[Flavour], free: Floats | None = None
) -> list[Flavour]:
    """Flavours to rent for what waits: while something is wanted, the one that would be used best per price.

    Score = (cpu used / cpu + memory used / memory) / 2 / price, used = min(wanted, had). ``free`` (2,) is
    what will be free before new machines arrive: the smallest jobs are covered by it first. Each machine must
    hold the widest job still wanted. It is filled on paper, widest first, so that a sum never hides jobs that
    do not fit together. Jobs that ask for a device kind get flavours that have it. Raises PlatformError for a
    job that fits on no flavour. Does badly where the score's greed for a low price buys many small machines.
    """
    for job in pending:
        if not any(flavour.fits(job) for flavour in catalogue):
            raise PlatformError(
                f"job '{job.name}' ({job.cpu:g} cores, {job.memory_gib:g} GiB, {job.devices} x {job.device}) "
                "fits on no flavour of the catalogue"
            )
    wanted = _uncovered(sorted(pending, key=lambda job: (-job.memory_gib, -job.cpu, job.name)), free)
    chosen: list[Flavour] = []
    while wanted:
        able = [flavour for flavour in catalogue if flavour.fits(wanted[0])]
        mine = [job for job in wanted if job.device == wanted[0].device]
        total = np.array([sum(job.cpu for job in mine), sum(job.memory_gib for job in mine)])
        best = max(able, key=lambda flavour: (_score(flavour, total), -flavour.price_per_hour))
        chosen.append(best)
        machine = Node(-1, best, 0.0, 0.0)
        for job in wanted:
            if machine.fits(job):
                machine.start(job, 0.0)
        wanted = [job for job in wanted if job.name not in machine.jobs]
    return chosen


def _uncovered(jobs: list[PoolJob], free: Floats | None) -> list[PoolJob]:
    """What ``free`` CPU and memory do not cover, the smallest being covered first; device jobs never are."""
    if free is None:
        return jobs
    rest, wanted = free.copy(), list(jobs)
    for job in reversed(jobs):
        need = np.array([job.cpu, job.memory_gib])
        if job.device is None and (need <= rest + 1e-9).all():
            rest = rest - need
            wanted.remove(job)
    return wanted


def _score(flavour: Flavour, wanted: Floats) -> float:
    had = np.array([flavour.cpu, flavour.memory_gib])
    return float(0.5 * (np.clip(wanted, 0.0, had) / had).sum() / flavour.price_per_hour)


def drain(
    nodes: Sequence[Node], now_s: float, below: float = 0.5
) -> tuple[Node, list[tuple[PoolJob, Node]]] | None:
    """The emptiest node under ``below`` utilisation whose jobs ALL fit elsewhere, and where they would go; or None.

    All or none: checkpoint and restore, then the machine is given back. Nothing is changed here.
    """
    busy = [node for node in nodes if node.ready_s <= now_s and node.jobs and node.utilisation < below]
    for source in sorted(busy, key=lambda node: (node.utilisation, node.number)):
        room = {
            n.number: [n.cpu, n.memory_gib, float(n.devices)] for n in nodes if n is not source and n.jobs
        }
        moves = []
        for job in sorted(source.jobs.values(), key=lambda job: (-job.memory_gib, job.name)):
            need = (job.cpu, job.memory_gib, float(job.devices))
            fitting = [
                node
                for node in nodes
                if node.number in room
                and node.ready_s <= now_s
                and (job.device is None or job.device == node.flavour.device)
                and all(have >= want for have, want in zip(room[node.number], need, strict=True))
            ]
            if not fitting:
                break
            target = min(fitting, key=lambda node: (room[node.number][1], node.number))
            room[target.number] = [have - want for have, want in zip(room[target.number], need, strict=True)]
            moves.append((job, target))
        if len(moves) == len(source.jobs):
            return source, moves
    return None

"""The same jobs in the simulator, and what a live run and a simulated one are compared by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.slurm.jobs import Asked, problem
from benchmarks.slurm.live import ROUND_S, Facts
from benchmarks.slurm.private import GPUS
from benchmarks.slurm.private import WEIGHTS as PRIORITY
from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.catalogue import own_allocator
from eunomia.cluster.policies.slurm.allocator import Slurm
from eunomia.cluster.simulate import simulate_cluster
from eunomia.contract.allocation import Allocation, Allocator, ClusterView, Needs
from eunomia.core.arrays import Floats

Lease = tuple[int, str, float, float]  # job, type, begin, end


def leases_of(facts: Facts) -> list[Lease]:
    """What jobs held, as they wrote it down."""
    rows: Iterable[tuple[int, str, float, float]] = facts["leases"]  # type: ignore[assignment]
    return sorted(((int(job), kind, begin, end) for job, kind, begin, end in rows), key=lambda one: one[2])


def switches(facts: Facts, jobs: list[Asked]) -> list[float]:
    """Seconds from the moment that its GPUs are free and it is there to the moment that a lease begins."""
    free_s = {kind: [0.0] * count for kind, count in GPUS.items()}
    submits: list[float] = facts["submits"]  # type: ignore[assignment]
    came, found = dict(enumerate(submits)), []
    for job, kind, begin, end in leases_of(facts):
        pool, gpus = sorted(free_s[kind]), jobs[job].gpus
        gap_s = begin - max(pool[gpus - 1], came[job])
        if gap_s < 10.0:  # longer ones are of GPUs that were kept for others, or of a controller that is away
            found.append(max(gap_s, 0.0))
        free_s[kind] = pool[gpus:] + [end] * gpus
        came[job] = end
    return found


@dataclass
class AsTheDaemon:
    """An allocator with what the daemon knows and does: limits until a job has run; who runs stays until a round ends.

    Answers in devices are filled up between rounds, as the daemon does with GPUs that become free.
    """

    inner: Allocator
    round_s: float

    def __post_init__(self) -> None:
        outright = self.inner.needs.answer == "devices"
        self.needs = Needs(answer="devices", every_event=True) if outright else self.inner.needs
        self.round_ends_s = -np.inf

    def reset(self, seed: int) -> None:
        """Forget all."""
        self.inner.reset(seed)
        self.round_ends_s = -np.inf

    def allocate(self, view: ClusterView) -> Allocation:
        """The answer of the allocator, as the daemon would act upon it."""
        limit_s = np.nan_to_num(view.traits["time_limit_s"], nan=600.0)
        unknown = np.isnan(view.first_start_s)
        work = limit_s * np.where(view.runnable, view.throughput, 0.0).max(axis=1)
        seen = replace(
            view,
            total_steps=np.where(unknown, work, view.total_steps),
            steps_left=np.where(unknown, work, view.steps_left),
        )
        answer = self.inner.allocate(seen)
        if answer.devices is None:
            return answer
        if view.now_s >= self.round_ends_s:
            self.round_ends_s = view.now_s + self.round_s
            return answer
        devices = np.array(view.held)
        free = view.capacity - devices.sum(axis=0)
        wanted = np.asarray(answer.devices)
        for m in np.flatnonzero(wanted.any(axis=1) & ~devices.any(axis=1)).tolist():
            if (wanted[m] <= free).all():
                devices[m] = wanted[m]
                free -= wanted[m]
        return Allocation(devices=devices)


def simulated(policy: str, jobs: list[Asked], switch_s: float, seed: int = 0) -> Facts:
    """Leases and ends of the simulator, with that latency at each start."""
    p = problem(jobs, chooses=policy != "slurm")
    allocator: Allocator = (
        Slurm(age=0.0, fair_share=0.0, qos=0.0, one_node=True, **PRIORITY)  # type: ignore[arg-type]
        if policy == "slurm"
        else AsTheDaemon(own_allocator(policy), ROUND_S)
    )
    options = SimulationOptions(
        round_s=ROUND_S, events="at_once", restart=Restart(warmup_s=switch_s), record="leases", seed=seed
    )
    run = simulate_cluster(p, allocator, options, policy)
    found: list[Lease] = []
    for key, kind, _, _, start, end in run.recorder.leases:
        for k, j, begin, until in zip(key.tolist(), kind.tolist(), start.tolist(), end.tolist(), strict=True):
            if until > begin + switch_s:
                found.append((int(p.jobs[k].job_id), p.cluster.names[j], begin + switch_s, until))
    ends = {int(p.jobs[k].job_id): float(at) for k, at in enumerate(run.ledger.finish_s)}
    return {
        "leases": found,
        "ends": [ends[job.number] for job in jobs],
        "submits": [job.at_s for job in jobs],
    }


def parts(facts: Facts, jobs: list[Asked], window_s: float) -> dict[str, float]:
    """Accounts' parts of all device-seconds until then."""
    had = dict.fromkeys(sorted({job.account for job in jobs}), 0.0)
    for job, _, begin, end in leases_of(facts):
        had[jobs[job].account] += jobs[job].gpus * max(min(end, window_s) - begin, 0.0)
    total = sum(had.values())
    return {name: value / total for name, value in had.items()}


def ends_of(facts: Facts) -> Floats:
    """When jobs ended (n,)."""
    return np.asarray(facts["ends"], np.float64)


def times(facts: Facts) -> Floats:
    """Completion times (n,)."""
    return np.asarray(ends_of(facts) - np.asarray(facts["submits"], np.float64))

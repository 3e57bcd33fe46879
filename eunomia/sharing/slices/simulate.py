"""Jobs on one simulated device: in slices, and ungated, where a driver serves whatever lies in its queue."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from eunomia.core.errors import ConfigError
from eunomia.sharing.slices.profile import CostProfile
from eunomia.sharing.slices.scheduler import Turn, TurnScheduler


@dataclass(frozen=True)
class Job:
    """``runs`` inferences of one network. ``true_s``: real device time over the profile's, per node in turn.

    ``threads``: nodes that it keeps in the driver's queue when nothing gates it.
    """

    name: str
    profile: CostProfile
    runs: int
    true_s: tuple[float, ...] = (1.0,)
    threads: int = 1
    weight: float = 1.0
    priority: int = 0

    def __post_init__(self) -> None:
        if self.runs < 1 or self.threads < 1 or not self.true_s or min(self.true_s) <= 0.0:
            raise ConfigError(f"job '{self.name}': runs and threads are at least 1, true_s more than 0")

    @property
    def nodes(self) -> int:
        """How many it runs in all."""
        return self.runs * len(self.profile.node_cost)

    def seconds(self, number: int) -> float:
        """Real device time of its ``number``-th node."""
        per_run = len(self.profile.node_cost)
        return self.profile.seconds(number % per_run) * self.true_s[number % len(self.true_s)]


@dataclass(frozen=True)
class Finished:
    """Per job: when it ended, and its device time when the first of all ended. ``makespan_s``: the last end."""

    end_s: dict[str, float]
    at_first_s: dict[str, float]
    switches: int

    @property
    def makespan_s(self) -> float:
        """When the last job ended."""
        return max(self.end_s.values())

    @property
    def spread(self) -> float:
        """Latest over earliest end, less 1."""
        return self.makespan_s / min(self.end_s.values()) - 1.0


def simulate_slices(jobs: Sequence[Job], scheduler: TurnScheduler, switch_s: float) -> Finished:
    """All jobs from time 0; each change of hands costs ``switch_s``."""
    for job in jobs:
        scheduler.join(Turn(job.name, job.profile, job.weight, job.priority, wants=True))
    by_name, done = {job.name: job for job in jobs}, dict.fromkeys((job.name for job in jobs), 0)
    used, first, ends, now_s = dict.fromkeys(done, 0.0), dict[str, float](), dict[str, float](), 0.0
    scheduler.advance()
    switches = 0
    while scheduler.holder is not None:
        holder = scheduler.holder.name
        now_s += switch_s * (scheduler.switches - switches)
        switches = scheduler.switches
        job, number = by_name[holder], done[holder]
        took_s = job.seconds(number)
        now_s, used[holder], done[holder] = now_s + took_s, used[holder] + took_s, number + 1
        over = scheduler.charge(holder, number % len(job.profile.node_cost))
        if done[holder] == job.nodes:
            ends[holder], first = now_s, first or dict(used)
            scheduler.leave(holder)
        elif over:
            scheduler.advance()
    return Finished(ends, first, scheduler.switches)


def simulate_ungated(jobs: Sequence[Job], rng: np.random.Generator) -> Finished:
    """A driver that cannot tell jobs apart: it serves any of the nodes in its queue, as likely each."""
    nodes, done = [job.nodes for job in jobs], [0] * len(jobs)
    used, ends, first, now_s, changes, last = [0.0] * len(jobs), {}, dict[str, float](), 0.0, 0, -1
    for chance in rng.random(sum(nodes)).tolist():
        queued = [min(job.threads, all_ - d) for job, all_, d in zip(jobs, nodes, done, strict=True)]
        n = bisect_right(list(accumulate(queued)), chance * sum(queued))
        took_s = jobs[n].seconds(done[n])
        now_s, used[n], done[n] = now_s + took_s, used[n] + took_s, done[n] + 1
        changes, last = changes + (n != last), n
        if done[n] == nodes[n]:
            ends[jobs[n].name] = now_s
            first = first or {job.name: s for job, s in zip(jobs, used, strict=True)}
    return Finished(ends, first, changes)

"""Things that change during a run: requests, waiting sub-jobs, accelerators."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from eunomia.inference.reference.records import Interval, Outcome

GRACE_S = 1e-9


@dataclass(eq=False, slots=True)
class Request:
    """One request that has arrived."""

    index: int
    pair: int
    model: int
    arrival_s: float
    deadline_s: float
    priority: float
    layers: int
    missing: list[int]  # unfinished predecessors of each layer
    unfinished: set[int]  # layers
    record: Outcome
    running: int = 0
    gone: bool = False  # finished or dropped
    attained_s: float = 0.0
    last_run_s: float = 0.0
    last_accelerator: int = -1
    given_priority: float | None = None  # last answer of a periodic policy


@dataclass(eq=False, slots=True)
class Job:
    """One waiting or running sub-job: READY's facts, frozen when it became ready."""

    owner: Request
    request: int
    layer: int
    row: int
    sequence: int
    arrival_s: float
    deadline_s: float
    ready_s: float
    work_best_s: float
    work_mean_s: float
    path_best_s: float
    path_mean_s: float
    iso_best_s: float
    iso_mean_s: float
    bytes_left: float
    attained_s: float
    last_run_s: float
    priority: float
    layers_done: int
    accelerator: int
    key: float = math.nan
    bound: int | None = None  # accelerator whose queue holds it
    bound_s: float = 0.0  # estimated time when it was bound

    def is_late(self, now_s: float) -> bool:
        """Whether even the best case misses the deadline."""
        return self.deadline_s + GRACE_S < now_s + self.path_best_s

    @property
    def drop_s(self) -> float:
        """When a waiting sub-job becomes hopeless."""
        return self.deadline_s - self.path_best_s + GRACE_S


@dataclass(eq=False, slots=True)
class Running:
    """A layer on an accelerator."""

    job: Job
    interval: Interval
    total_s: float  # isolated: work, switch and charge
    remaining_s: float
    estimate_s: float  # what the scheduler believes of total_s
    demand_bytes_s: float  # estimated, b'
    weight: float  # urgency
    rate: float = 1.0

    @property
    def free_in_s(self) -> float:
        """Estimated isolated time left."""
        return max(0.0, self.estimate_s - (self.total_s - self.remaining_s))


@dataclass(eq=False, slots=True)
class Lane:
    """One accelerator."""

    index: int
    kind: int
    running: Running | None = None
    last_request: int = -1
    busy_s: float = 0.0
    history: list[Interval] = field(default_factory=list)

    def busy_until(self, now_s: float) -> float:
        """Time it has been busy, the running layer included."""
        return self.busy_s + (now_s - self.running.interval.start_s if self.running else 0.0)

"""What must be done: one training job of one user."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from eunomia.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training job: a number of steps of a model, on a gang of devices of one type at a time.

    ``job_type`` and ``scale_factor`` (workers, all or none) are the key of the throughput table.
    ``deadline_s`` is absolute, on the clock of ``arrival_s``; None = no objective. ``app_id`` groups the
    trials of one hyperparameter search; None = the job is an app of its own. ``memory_gib`` is what one
    worker needs; None = fits everywhere. ``min_scale`` and ``max_scale`` bound what an elastic policy may
    choose instead of ``scale_factor``; None = rigid. ``traits`` holds further numbers by name (parameters of
    a loss curve, skew of tensor sizes, utilisation), which reach the policies as arrays.

    Raises ConfigError for a value that makes no sense, naming job, field and value.
    """

    job_id: str
    job_type: str
    total_steps: float
    scale_factor: int = 1
    arrival_s: float = 0.0
    weight: float = 1.0
    tenant: str = ""
    deadline_s: float | None = None
    app_id: str | None = None
    memory_gib: float | None = None
    min_scale: int | None = None
    max_scale: int | None = None
    traits: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._positive("total_steps", self.total_steps)
        self._positive("weight", self.weight)
        if self.memory_gib is not None:
            self._positive("memory_gib", self.memory_gib)
        if not (math.isfinite(self.arrival_s) and self.arrival_s >= 0.0):
            raise self._wrong("arrival_s", self.arrival_s, "seconds, 0 or later")
        if self.deadline_s is not None and not self.deadline_s > self.arrival_s:
            raise self._wrong(
                "deadline_s", self.deadline_s, f"later than its arrival at {self.arrival_s:g} s"
            )
        low, high = self.scale_range
        if not (isinstance(self.scale_factor, int) and 1 <= low <= self.scale_factor <= high):
            raise self._wrong("scale_factor", self.scale_factor, "a whole number of workers within its range")

    @property
    def scale_range(self) -> tuple[int, int]:
        """Least and largest number of workers; equal for a rigid job."""
        low = self.scale_factor if self.min_scale is None else self.min_scale
        return low, self.scale_factor if self.max_scale is None else self.max_scale

    def _positive(self, name: str, value: float) -> None:
        if not (math.isfinite(value) and value > 0.0):
            raise self._wrong(name, value, "a positive number")

    def _wrong(self, name: str, value: object, right: str) -> ConfigError:
        return ConfigError(f"job '{self.job_id}': {name} is {value!r}; it must be {right}")


def unique_jobs(jobs: Iterable[TrainingJob]) -> tuple[TrainingJob, ...]:
    """The jobs in order of arrival (ties keep their order); raises ConfigError for an id that occurs twice."""
    ordered = tuple(sorted(jobs, key=lambda job: job.arrival_s))
    seen: set[str] = set()
    for job in ordered:
        if job.job_id in seen:
            raise ConfigError(f"job id '{job.job_id}' occurs twice; ids must be unique")
        seen.add(job.job_id)
    return ordered

"""Where traces of placement come from: drawn anew for training, the same at every call for validation."""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.inference.environments.edge_cloud.case import Case, draw

FIRST_TRAINING_SEED, FIRST_VALIDATION_SEED = 1_000_000, 900_000


@dataclass(frozen=True)
class Cases:
    """Where traces come from: ``draw`` with these arguments. Seeds are apart from those of tests."""

    tasks: int = 40
    devices: int = 6
    tenants: int = 4
    load: float = 1.0
    bars: float = 0.15
    traces: int = 2
    kept: int = 24  # for validation
    seed: int = 0

    def training(self, generation: int, count: int) -> list[Case]:
        """The traces of an iteration, ``traces`` for each of ``count`` workers."""
        return [case for worker in range(count) for case in self.of_worker(generation, worker)]

    def of_worker(self, number: int, worker: int) -> list[Case]:
        """The traces of one worker in an iteration."""
        first = FIRST_TRAINING_SEED * (1 + self.seed) + number * 10_000 + worker * 100
        return [self.one(first + n) for n in range(self.traces)]

    def validation(self) -> list[Case]:
        """The same at every call."""
        return [self.one(FIRST_VALIDATION_SEED + n) for n in range(self.kept)]

    def one(self, seed: int) -> Case:
        """One trace."""
        return draw(seed, self.tasks, self.devices, self.tenants, self.load, self.bars)

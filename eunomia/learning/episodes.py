"""An episode: one problem, how the engine runs it, and which of its requests are measured; where episodes come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem
from eunomia.workload.tenant import SLI_KINDS

HIT_RATE = SLI_KINDS.index("hit_rate")


@dataclass(frozen=True, eq=False)
class Episode:
    """A problem to be run under a policy. Requests that arrive before ``warmup_s`` are not measured."""

    problem: Problem
    options: EngineOptions
    name: str = ""
    warmup_s: float = 0.0

    def with_targets(
        self, low: float | Floats, high: float | Floats, rng: np.random.Generator, window: int = 100
    ) -> Episode:
        """Every (tenant, model) pair is promised a hit rate drawn from [low, high], one range for all or one each."""
        jobs = self.problem.jobs
        pairs = len(jobs.model_of)
        promised = jobs._replace(
            slo_kind=np.full(pairs, HIT_RATE, np.int64),
            slo_target=rng.uniform(low, high, pairs),
            slo_window=np.full(pairs, window, np.int64),
        )
        return replace(self, problem=self.problem._replace(jobs=promised))


class Sampler(Protocol):
    """Where episodes come from; equal arguments give equal episodes, in any process and after any interruption."""

    def training(self, generation: int, count: int) -> Sequence[Any]:
        """Episodes of one iteration, the same for its whole population."""

    def validation(self) -> Sequence[Any]:
        """Episodes on which policies are chosen; never trained on."""


@dataclass(frozen=True, eq=False)
class Task:
    """What is trained for: episodes, and ``worth(policy, episode)``, of which more is better."""

    sampler: Sampler
    worth: Callable[[Any, Any], float]

    def training(self, generation: int, count: int) -> Sequence[Any]:
        """Episodes of one iteration."""
        return self.sampler.training(generation, count)

    def validation(self) -> Sequence[Any]:
        """Episodes on which policies are chosen."""
        return self.sampler.validation()

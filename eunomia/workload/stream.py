"""Who sends what: one tenant's models, how they are mixed, when they come and until when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.workload.deadlines import DeadlineRule, NoDeadline, Window
from eunomia.workload.processes import Arrivals
from eunomia.workload.quantity import not_negative, positive
from eunomia.workload.tenant import Agreement

Mix = Literal["requests", "work"]


@dataclass(frozen=True, slots=True)
class Draw:
    """One model of a stream: its agreement, its weight in the mix, its deadline rule."""

    agreement: Agreement
    weight: float = 1.0
    deadline: DeadlineRule = NoDeadline()

    def __post_init__(self) -> None:
        positive(f"draw weight of model '{self.agreement.model}'", self.weight)


@dataclass(frozen=True, slots=True)
class PriorityLevels:
    """Priorities drawn per request: levels[i] with chance weights[i] / sum(weights); higher is urgent."""

    levels: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.levels or len(self.levels) != len(self.weights):
            raise ConfigError(f"{len(self.levels)} priority levels but {len(self.weights)} weights")
        for weight in self.weights:
            not_negative("priority weight", weight)
        if not any(self.weights):
            raise ConfigError("priority levels need at least one positive weight")

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Priorities of ``count`` requests."""
        weights = np.array(self.weights, np.float64)
        return rng.choice(np.array(self.levels, np.float64), count, p=weights / weights.sum())


@dataclass(frozen=True)
class Stream:
    """One source of requests: a tenant, the models it draws from, and an arrival process.

    ``mix = "requests"``: the weights are shares of requests. ``mix = "work"``: shares of isolated
    time, so the chance of a model is its weight over its isolated time (equal weights: equal work).
    ``window`` makes the requests deferrable; it replaces the draws' deadlines. ``priorities`` draws a
    priority per request; without it each has its agreement's. ``name`` seeds the stream's randomness
    and need only differ between streams of one tenant.
    """

    draws: tuple[Draw, ...]
    arrivals: Arrivals
    mix: Mix = "requests"
    window: Window | None = None
    priorities: PriorityLevels | None = None
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", tuple(self.draws))
        if not self.draws:
            raise ConfigError(f"stream '{self.name}' has no models to draw from")
        tenants = sorted({draw.agreement.tenant for draw in self.draws})
        if len(tenants) > 1:
            raise ConfigError(f"one stream belongs to one tenant; this one names {', '.join(tenants)}")
        models = [draw.agreement.model for draw in self.draws]
        twice = sorted({model for model in models if models.count(model) > 1})
        if twice:
            raise ConfigError(
                f"tenant '{self.tenant}' draws model '{twice[0]}' twice in one stream; add the weights"
            )
        if self.mix not in ("requests", "work"):
            raise ConfigError(f"stream mix is '{self.mix}'; choose one of: requests, work")

    @property
    def tenant(self) -> str:
        """The tenant's name."""
        return self.draws[0].agreement.tenant

    def chances(self, iso_s: Floats | None) -> Floats:
        """Probability of each draw; ``iso_s`` (draws,) is needed for ``mix = "work"``."""
        weights = np.array([draw.weight for draw in self.draws])
        if self.mix == "work":
            if iso_s is None:
                raise ConfigError(f"tenant '{self.tenant}' mixes by work, which needs isolated times")
            weights = weights / iso_s
        return np.asarray(weights / weights.sum(), np.float64)

"""Weights for deferrable requests by CMA-ES on whole episodes, in the common loop of loop.py.

What is sought: share x hit rate of deferrable requests + hit rate of on-demand ones, each over measured requests. A
start before its window closes is a hit, unless contention makes it late; the search begins at ``first_fit``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eunomia.core.errors import ConfigError
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.deferrable.policy import RULES, Deferring, Floats
from eunomia.learning.agents.evolution import Evolution, new_evolution
from eunomia.learning.agents.torch_state import Arrays
from eunomia.learning.episodes import Episode, Sampler


@dataclass(frozen=True)
class Settings:
    """``share``: worth of a deferrable hit rate of 1 against an on-demand one of 1."""

    base: str = "edf+f+eft"
    share: float = 0.5
    population: int = 8
    episodes: int = 3  # per generation, shared by its population
    sigma: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.population < 4 or self.episodes < 1 or not (self.sigma > 0.0 and self.share >= 0.0):
            raise ConfigError(
                "population must be at least 4, episodes 1, sigma positive and share not negative"
            )


def hit_rates(policy: Any, episode: Episode) -> tuple[float, float]:
    """Hit rates of on-demand and of deferrable requests; 1 where there are none."""
    results, jobs = simulate_problem(episode.problem, policy, episode.options).results, episode.problem.jobs
    measured = results["arrival_s"] >= episode.warmup_s
    hit = results["outcome"] == HIT
    rates = [hit[measured & (jobs.deferrable == kind)] for kind in (0, 1)]
    on_demand, deferrable = (float(each.mean()) if len(each) else 1.0 for each in rates)
    return on_demand, deferrable


def worth(policy: Any, episode: Episode, share: float) -> float:
    """On-demand hit rate + share x deferrable hit rate."""
    on_demand, deferrable = hit_rates(policy, episode)
    return on_demand + share * deferrable


class DeferrableAgent:
    """One iteration is one generation."""

    def __init__(self, settings: Settings, sampler: Sampler) -> None:
        self.settings, self.sampler = settings, sampler
        start = np.array(RULES["first_fit"])
        self.search = new_evolution(start, settings.sigma, settings.population, settings.seed)

    def policy(self, weights: Floats) -> Deferring:
        """These weights as a policy."""
        return Deferring(self.settings.base, tuple(weights.tolist()))

    def iterate(self, number: int) -> dict[str, float]:
        """Ask, value, tell."""
        candidates = self.search.ask()
        episodes = self.sampler.training(number, self.settings.episodes)
        values = np.array([
            np.mean([worth(self.policy(x), e, self.settings.share) for e in episodes]) for x in candidates
        ])  # fmt: skip
        self.search = self.search.tell(candidates, values)
        return {"mean": float(values.mean()), "best": float(values.max()), "sigma": self.search.sigma}

    def arrays(self) -> Arrays:
        """The search."""
        return dict(self.search.arrays())

    def restore(self, arrays: Arrays) -> None:
        """Go on from ``arrays()``."""
        self.search = Evolution.from_arrays(arrays)

    def tensors(self) -> dict[str, Floats]:
        """The mean of the search."""
        return {"weights": self.search.mean}

    def validate(self, tensors: dict[str, Floats]) -> Floats:
        """Worth on every validation episode."""
        policy = self.policy(tensors["weights"])
        return np.array(
            [worth(policy, episode, self.settings.share) for episode in self.sampler.validation()]
        )

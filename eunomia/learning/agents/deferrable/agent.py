"""Weights for deferrable requests by CMA-ES on whole episodes.

What is sought: share x hit rate of deferrable requests + hit rate of on-demand ones, each over measured requests. A
start before its window closes is a hit, unless contention makes it late; the search begins at ``first_fit``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eunomia.inference.kernel.layout import HIT
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.deferrable.policy import RULES, Deferring
from eunomia.learning.agents.evolution import Evolution, new_evolution
from eunomia.learning.episodes import Episode
from eunomia.learning.loop import Agent
from eunomia.learning.state import Arrays, Entry, Pieces
from eunomia.learning.workers import Workers

if TYPE_CHECKING:
    from eunomia.config.algorithm import DeferrableAlgorithm
    from eunomia.learning.agents import Context


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


class DeferrableAgent(Agent):
    """One iteration is one generation. The task's worth is ``worth`` with the settings' share."""

    def __init__(self, settings: DeferrableAlgorithm, context: Context) -> None:
        super().__init__(context.task)
        self.settings = settings
        start = np.array(RULES["first_fit"])
        self.search = new_evolution(start, settings.sigma, settings.population, context.seed)

    def iterate(self, number: int, crew: Workers) -> Entry:
        """Ask, value, tell."""
        candidates = self.search.ask()
        episodes = self.task.training(number, self.settings.episodes)
        tasks = [(self.task.worth, self.policy({"weights": x}), episodes) for x in candidates]
        values = np.array(crew.map(_mean_worth, tasks))
        self.search = self.search.tell(candidates, values)
        return {"mean": float(values.mean()), "best": float(values.max()), "sigma": self.search.sigma}

    def arrays(self) -> Arrays:
        """The search."""
        return dict(self.search.arrays())

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()``."""
        self.search = Evolution.from_arrays(arrays)

    def tensors(self) -> Arrays:
        """The mean of the search."""
        return {"weights": self.search.mean}

    def policy(self, tensors: Arrays, name: str = "") -> Deferring:
        """These weights as a policy."""
        return Deferring(self.settings.base, tuple(tensors["weights"].tolist()), name or "deferring")


def _mean_worth(task: tuple[Any, Any, Any]) -> float:
    worth, policy, episodes = task
    return float(np.mean([worth(policy, episode) for episode in episodes]))

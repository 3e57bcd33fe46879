"""Weights of the policy for deferrable requests (inference/policies/deferring.py) by CMA-ES on whole episodes.

What is sought: share x hit rate of deferrable requests + hit rate of on-demand ones, each over measured requests. A
start before its window closes is a hit, unless contention makes it late; the search begins at ``first_fit``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eunomia.contract.view import Policy
from eunomia.core.arrays import Floats
from eunomia.engines.crew import Workers
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.policies.deferring import FEATURES, RULES, Deferring
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents import Context
from eunomia.learning.agents.cmaes import SearchAgent
from eunomia.learning.agents.evolution import new_evolution
from eunomia.learning.card import Card, Family, Parts
from eunomia.learning.episodes import Episode
from eunomia.learning.state import Arrays

if TYPE_CHECKING:
    from eunomia.config.algorithm import DeferrableAlgorithm


def hit_rates(policy: str | Policy, episode: Episode) -> tuple[float, float]:
    """Hit rates of on-demand and of deferrable requests; 1 where there are none."""
    results, jobs = simulate_problem(episode.problem, policy, episode.options).results, episode.problem.jobs
    measured = results["arrival_s"] >= episode.warmup_s
    hit = results["outcome"] == HIT
    rates = [hit[measured & (jobs.deferrable == kind)] for kind in (0, 1)]
    on_demand, deferrable = (float(each.mean()) if len(each) else 1.0 for each in rates)
    return on_demand, deferrable


def worth(policy: str | Policy, episode: Episode, share: float) -> float:
    """On-demand hit rate + share x deferrable hit rate."""
    on_demand, deferrable = hit_rates(policy, episode)
    return on_demand + share * deferrable


class DeferrableStarts(Deferring, Family):
    """Starts by learned weights, with what their card says."""

    FAMILY, VERSION = "deferrable", 1

    def parts(self) -> Parts:
        """What its card says of it."""
        kind = {"kind": "deferring", "base": self.base}
        return Parts({"names": FEATURES}, kind, {"weights": np.array(self.weights)})

    @classmethod
    def of_card(cls, card: Card, tensors: dict[str, Floats]) -> DeferrableStarts:
        """The policy of a checked card."""
        return cls(card["policy"]["base"], tuple(tensors["weights"].tolist()), card["name"])


class DeferrableAgent(SearchAgent):
    """The task's worth is ``worth`` with the settings' share."""

    def __init__(self, settings: DeferrableAlgorithm, context: Context) -> None:
        super().__init__(context.task)
        self.settings = settings
        start = np.array(RULES["first_fit"])
        self.search = new_evolution(start, settings.sigma, settings.population, context.seed)

    def values(self, candidates: Floats, number: int, crew: Workers) -> Floats:
        """Mean worth on episodes that the whole population shares."""
        episodes = self.task.training(number, self.settings.episodes)
        tasks = [(self.task.worth, self.policy({"weights": x}), episodes) for x in candidates]
        return np.array(crew.map(_mean_worth, tasks))

    def tensors(self) -> Arrays:
        """The mean of the search."""
        return {"weights": self.search.mean}

    def policy(self, tensors: Arrays, name: str = "") -> DeferrableStarts:
        """These weights as a policy."""
        return DeferrableStarts(self.settings.base, tuple(tensors["weights"].tolist()), name or "deferring")


def _mean_worth(task: tuple[Callable[[Policy, Episode], float], Policy, Sequence[Episode]]) -> float:
    worth, policy, episodes = task
    return float(np.mean([worth(policy, episode) for episode in episodes]))

"""Agents that search by CMA-ES, and a stage of it: candidates play inside the compiled engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from eunomia.config.training import StageConfig
from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.engines.crew import Workers
from eunomia.learning.agents import Context
from eunomia.learning.agents.codec import Codec
from eunomia.learning.agents.evolution import Evolution, new_evolution
from eunomia.learning.episodes import Episode, Task
from eunomia.learning.loop import Agent
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import Weights
from eunomia.learning.state import Arrays, Entry, Pieces

# What each stage trains; ``sharing``: the price of a start where bandwidth is shared, alone.
# The pointer's inner layers stay as they were drawn (or taught); its output layer is searched.
STAGES: dict[str, tuple[str, ...]] = {
    "linear": ("job", "pair", "start", "gate"),
    "sharing": ("share", "gate"),
    "whole": ("job", "pair", "start", "share", "gate"),
    "hidden": ("W1", "b1", "out", "out_start"),
    "pointer": ("out", "out_start"),
}


class SearchAgent(Agent):
    """One iteration is one generation: ask, value on common episodes, tell. The mean of the search is the policy."""

    search: Evolution

    @abstractmethod
    def values(self, candidates: Floats, number: int, crew: Workers) -> Floats:
        """(candidates,) what each is worth on the episodes of iteration ``number``."""

    def iterate(self, number: int, crew: Workers) -> Entry:
        """One generation."""
        candidates = self.search.ask()
        values = self.values(candidates, number, crew)
        self.search = self.search.tell(candidates, values)
        return {"mean": float(values.mean()), "best": float(values.max()), "sigma": self.search.sigma}

    def arrays(self) -> Arrays:
        """The search."""
        return dict(self.search.arrays())

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()``."""
        self.search = Evolution.from_arrays(arrays)


class WeightsAgent(Agent):
    """An agent whose tensors are coordinates ``x`` of a :class:`Codec`, 0 = the weights that it begins with."""

    def __init__(self, task: Task, codec: Codec) -> None:
        super().__init__(task)
        self.codec = codec

    def policy(self, tensors: Arrays, name: str = "") -> LearnedPolicy:
        """The weights at ``x``, without the alarm: training must see what the weights do."""
        return LearnedPolicy(self.weights(tensors), name or "eunomia", alarm=np.inf, shared=True)

    def weights(self, tensors: Arrays) -> Weights:
        """The weights at ``x``."""
        return self.codec.decode(tensors["x"])


class Search(SearchAgent, WeightsAgent):
    """A stage of the search in stages."""

    def __init__(self, settings: StageConfig, context: Context) -> None:
        start = context.start
        kind, count = start.kind if start else "new", settings.population
        if start is None or kind not in ("linear", settings.stage):
            raise ConfigError(f"stage '{settings.stage}' cannot train a {kind} policy")
        if 0 < count < 4:
            raise ConfigError(f"population is {count}; it must be at least 4, or 0 for 4 + 3 ln n")
        codec = Codec(start, STAGES[settings.stage], context.tenants, context.promises)
        super().__init__(context.task, codec)
        self.episodes, zero = settings.episodes, np.zeros(codec.size)
        self.search = new_evolution(zero, settings.sigma, count, context.seed, settings.diagonal)

    def values(self, candidates: Floats, number: int, crew: Workers) -> Floats:
        """Mean worth on episodes that the whole population shares."""
        episodes = self.task.training(number - 1, self.episodes)
        tasks = [(self.codec, self.task.worth, candidates, episode) for episode in episodes]
        return np.asarray(np.array(crew.map(_column, tasks)).T.mean(axis=1))

    def tensors(self) -> Arrays:
        """The mean of the search."""
        return {"x": self.search.mean}


def _column(task: tuple[Codec, Callable[[LearnedPolicy, Episode], float], Floats, Episode]) -> list[float]:
    """What all candidates are worth on one episode."""
    codec, worth, candidates, episode = task
    return [worth(LearnedPolicy(codec.decode(x), alarm=np.inf, shared=True), episode) for x in candidates]

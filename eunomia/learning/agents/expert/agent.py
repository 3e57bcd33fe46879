"""Expert iteration: label, descend, validate.

Round r labels states to which the policy of round r - 1 comes (DAgger: Ross, Gordon and Bagnell, AISTATS 2011), and
descends on the labels of all rounds. Policies are chosen by closed-loop validation: neither loss nor agreement with the
teacher ranks them. The state on disk is the path of the coordinates; labels are made again from it where needed.
"""

from __future__ import annotations

import numpy as np

from eunomia.config.training import StageConfig
from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.engines.crew import Workers
from eunomia.learning.agents import Context
from eunomia.learning.agents.cmaes import WeightsAgent
from eunomia.learning.agents.codec import Codec
from eunomia.learning.agents.expert.labels import Labels, collect, together
from eunomia.learning.agents.expert.regret import Descent, descend
from eunomia.learning.episodes import Episode
from eunomia.learning.policy.weights import Weights
from eunomia.learning.state import Arrays, Entry, Pieces

# What is trained: never the decision to hold, which labels overrate (results/learned.md).
ORDER: dict[str, tuple[str, ...]] = {"linear": ("job",), "hidden": ("job", "W1", "b1", "out")}


class Expert(WeightsAgent):
    """One iteration is one round. Features of promises are left alone, for labels count hits."""

    def __init__(self, settings: StageConfig, context: Context) -> None:
        kind = context.start.kind if context.start else "new"
        if context.start is None or kind not in ORDER:
            raise ConfigError(f"expert iteration cannot train a {kind} policy; kinds: {', '.join(ORDER)}")
        super().__init__(context.task, Codec(context.start, ORDER[kind], False))
        self.settings, self.seed, self.descent = settings, context.seed, Descent()
        self.rule = context.rule.replace("+any_idle", "")  # rollouts have it by the shorter name
        self.path: Floats = np.zeros((1, self.codec.size))  # (rounds + 1, n): coordinates, the start first
        self._labels: list[Labels] = []

    def iterate(self, number: int, crew: Workers) -> Entry:
        """One round: label, then descend on all labels."""
        self._labels.append(self._label(number - 1, crew))
        labels = together(self._labels)
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, number, 0xE1]))
        x, loss = descend(self.codec, self.path[-1], labels, self.descent, rng)
        self.path = np.vstack([self.path, x])
        return {"points": float(labels.points), "loss": loss}

    def _label(self, number: int, crew: Workers) -> Labels:
        """Labels of one round, under the policy that it begins with."""
        s = self.settings
        how = self.codec.decode(self.path[number]), self.rule, s.price, s.share
        episodes = enumerate(self.task.training(number, s.episodes), 1000 * number)
        return together(crew.map(_collect, [(*how, seed, episode) for seed, episode in episodes]))

    def arrays(self) -> Arrays:
        """The path."""
        return {"path": self.path}

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()``; labels are made again."""
        self.path = arrays["path"]
        self._labels = [self._label(number, crew) for number in range(len(self.path) - 1)]

    def tensors(self) -> Arrays:
        """The coordinates after the last round."""
        return {"x": self.path[-1]}


def _collect(task: tuple[Weights, str, float, float, int, Episode]) -> Labels:
    return collect(*task)

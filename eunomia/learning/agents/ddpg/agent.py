"""RELMAS as an agent of the loop: clone the teacher, then explore, remember, update.

Iteration k: ``episodes`` traces with noise sigma_k (from ``SIGMA`` down to ``LEAST_SIGMA``), then ``updates`` steps on
batches from replay. In the first ``critic_first`` iterations the critics learn the returns that were earned, and
nothing else moves. The clone is among the policies that validation chooses from, so a training that goes wrong costs
time and not quality.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eunomia.config.algorithm import RelmasAlgorithm
from eunomia.core.arrays import Floats
from eunomia.engines.crew import Workers
from eunomia.learning.agents import Context
from eunomia.learning.agents.ddpg.episode import Exploration, Replay, Rewarded, Transitions, transitions
from eunomia.learning.agents.ddpg.features import inputs
from eunomia.learning.agents.ddpg.learner import BATCH, Learner
from eunomia.learning.agents.ddpg.policy import RelmasPolicy
from eunomia.learning.episodes import Episode
from eunomia.learning.loop import Agent, mean_of
from eunomia.learning.rewards import RewardSettings
from eunomia.learning.state import Arrays, Entry, Pieces

SIGMA, LEAST_SIGMA = 0.2, 0.02  # of exploration noise, at first and at last
ROOM = 100_000  # ticks in replay
EXPLORE, SAMPLE = 1, 2  # streams of random numbers


class Relmas(Agent):
    """DDPG or TD3 over lists of sub-jobs. With ``context.tenants``, Fair/Firm's features (then R5 is usual)."""

    def __init__(self, settings: RelmasAlgorithm, context: Context) -> None:
        super().__init__(context.task)
        self.settings, self.seed = settings, context.seed
        lanes = len(self.task.validation()[0].problem.type_of)
        self.learner = Learner(lanes, context.tenants, settings, context.seed)
        width = inputs(lanes, context.tenants)
        self.replay, self.taught = (Replay(ROOM, width, settings.gamma) for _ in range(2))
        self.rewarded = Rewarded(settings.reward, RewardSettings(spread=settings.spread), settings.scale)

    def begin(self, crew: Workers) -> Entry:
        """Watch the teacher and clone it."""
        rng, loss = self._rng(SAMPLE, 0), 0.0
        self._watch_teacher()
        for _ in range(self.settings.clone_steps):
            loss = self.learner.clone(self.taught.sample(BATCH, rng))
        self.learner.follow_actor()
        return {"clone": loss}

    def _watch_teacher(self) -> None:
        """Episodes in which the teacher acts: with noise, first in the replay; without, cloned from."""
        actor = self.learner.actor.numbers()
        for number, episode in enumerate(self.task.training(0, self.settings.clone_episodes)):
            for memory, sigma in ((self.replay, SIGMA), (self.taught, 0.0)):
                how = Exploration(sigma, teacher=True)
                memory.add(number, self._explore(actor, episode, how, 0, number))

    def iterate(self, number: int, crew: Workers) -> Entry:
        """Explore and update."""
        s, rewards = self.settings, 0.0
        actor, share = self.learner.actor.numbers(), (number - 1) / max(s.iterations - 1, 1)
        sigma = float(SIGMA * (LEAST_SIGMA / SIGMA) ** share)  # geometric over the whole training
        for n, episode in enumerate(self.task.training(number, s.episodes)):
            seen = self._explore(actor, episode, Exploration(sigma), number, n)
            rewards += float(seen.rewards.sum()) / s.scale / s.episodes
            self.replay.add(s.clone_episodes + (number - 1) * s.episodes + n, seen)
        told = self._update(self._rng(SAMPLE, number), number > s.critic_first)
        if number <= s.critic_first:
            self.learner.follow_actor()
        return {"sigma": sigma, "reward": rewards, **told}

    def _update(self, rng: np.random.Generator, move: bool) -> Entry:
        """Means over the updates of an iteration."""
        s, told = self.settings, []
        for _ in range(s.updates):
            batch = self.replay.sample(BATCH, rng)
            if not move:
                told.append({"critic": self.learner.regress(batch)})
                continue
            taught = self.taught.sample(BATCH, rng) if s.imitation > 0.0 else None
            told.append(self.learner.update(batch, taught, s.imitation))
        return mean_of(told)

    def _explore(
        self, actor: Mapping[str, Floats], episode: Episode, how: Exploration, *stream: int
    ) -> Transitions:
        policy = RelmasPolicy(actor, period_layers=self.settings.period_layers)
        return transitions(policy, episode, how, self.rewarded, self._rng(EXPLORE, *stream))

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, 0x4E1, *stream])

    def arrays(self) -> Arrays:
        """The learner."""
        return self.learner.kept()

    def pieces(self) -> Pieces:
        """The episodes in replay."""
        return {str(number): dict(vars(episode)) for number, episode, _ in self.replay.episodes}

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()`` and the episodes; the teacher is watched again."""
        self._watch_teacher()
        self.replay.episodes.clear()
        for number, kept in pieces.items():
            self.replay.add(int(number), Transitions(**kept))
        self.learner.put_back(arrays)

    def tensors(self) -> Arrays:
        """The actor as numbers."""
        return dict(self.learner.actor.numbers())

    def policy(self, tensors: Arrays, name: str = "") -> RelmasPolicy:
        """The actor as the engine takes it."""
        return RelmasPolicy(tensors, name or "relmas", self.settings.period_layers)

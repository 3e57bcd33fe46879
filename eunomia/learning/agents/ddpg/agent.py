"""RELMAS as an agent of the loop: begin at the teacher, then explore, remember, update. ``network``: LSTM or sets.

Iteration k: ``episodes`` traces, each ``rollouts`` times with noise sigma_k (it falls to a third), then ``updates``
steps on batches from replay. Noise: ``weights`` of the last layer, once for a rollout and with both signs; for
``requests``, one each; for actions (``steps``). In the first ``critic_first``
iterations the critics learn the returns that were earned, and nothing else moves.
"""

from __future__ import annotations

import numpy as np

from eunomia.config.algorithm import RelmasAlgorithm
from eunomia.engines.crew import Workers
from eunomia.inference.outcome import Outcome
from eunomia.learning.agents import Context
from eunomia.learning.agents.ddpg.episode import Exploration, Log, Replay, Transitions, credited, explore
from eunomia.learning.agents.ddpg.features import inputs
from eunomia.learning.agents.ddpg.learner import BATCH, Learner
from eunomia.learning.agents.ddpg.policy import RelmasPolicy
from eunomia.learning.agents.ddpg.sets import SetPolicy
from eunomia.learning.episodes import Episode
from eunomia.learning.loop import Agent, mean_of
from eunomia.learning.objectives import hit_rate
from eunomia.learning.state import Arrays, Entry, Pieces

FALL = 3.0  # of sigma, over the whole training
ROOM = 60_000  # ticks in replay
NOISE, SAMPLE = 1, 2  # streams of random numbers
RMS = {"lstm": 0.12, "sets": 0.14}  # of a hidden state, about


class Relmas(Agent):
    """DDPG or TD3 over lists of sub-jobs. With ``context.tenants``, Fair/Firm's features (then R5 is usual)."""

    def __init__(self, settings: RelmasAlgorithm, context: Context) -> None:
        super().__init__(context.task)
        self.settings, self.seed = settings, context.seed
        lanes = len(self.task.validation()[0].problem.type_of)
        self.learner = Learner(lanes, context.tenants, settings, context.seed)
        self.width = inputs(lanes, context.tenants)
        self.replay, self.taught = (Replay(ROOM, self.width, settings.ahead) for _ in range(2))

    def begin(self, crew: Workers) -> Entry:
        """Watch the teacher, and clone it where it is not corrected."""
        rng, loss, s = self._rng(SAMPLE, 0), 0.0, self.settings
        self._watch_teacher()
        if s.normalise:
            rows = np.concatenate([episode.rows for _, episode, _ in self.taught.episodes])
            self.learner.normalise(rows[:, : self.width].copy())
        for _ in range(0 if s.residual else s.clone_steps):
            loss = self.learner.clone(self.taught.sample(BATCH, rng))
        self.learner.follow_actor()
        return {"clone": loss}

    def _watch_teacher(self) -> None:
        """Episodes in which the teacher acts."""
        policy, s = self.policy(self.tensors()), self.settings
        for number, episode in enumerate(self.task.training(0, s.clone_episodes)):
            how = Exploration(0.0, teacher=True, every=s.every)
            played = explore(policy, episode, how, self._rng(NOISE, 0, number))
            self.taught.add(number, credited(episode, [played], s)[0])

    def iterate(self, number: int, crew: Workers) -> Entry:
        """Explore and update."""
        s, rewards = self.settings, 0.0
        sigma = s.sigma * FALL ** (-(number - 1) / max(s.iterations - 1, 1))
        for n, episode in enumerate(self.task.training(number, s.episodes)):
            played = [self._explore(episode, sigma, number, n, rollout) for rollout in range(s.rollouts)]
            rewards += sum(hit_rate(outcome.results, episode) for _, outcome in played) / len(played)
            for k, seen in enumerate(credited(episode, played, s)):
                self.replay.add((number * s.episodes + n) * s.rollouts + k, seen)
        told = self._update(self._rng(SAMPLE, number), number > s.critic_first)
        if number <= s.critic_first:
            self.learner.follow_actor()
        return {"sigma": sigma, "hits": rewards / s.episodes, **told}

    def _update(self, rng: np.random.Generator, move: bool) -> Entry:
        """Means over the updates of an iteration."""
        s, told = self.settings, []
        for _ in range(s.updates):
            batch = self.replay.sample(BATCH, rng)
            if not move:
                told.append({"critic": self.learner.regress(batch)})
                continue
            taught = self.taught.sample(BATCH, rng) if s.imitation > 0.0 and not s.residual else None
            told.append(self.learner.update(batch, taught, s.imitation))
        return mean_of(told)

    def _explore(self, episode: Episode, sigma: float, *stream: int) -> tuple[Log, Outcome]:
        """One rollout; ``stream`` ends with its number: two in turn have the same noise with other signs."""
        s, tensors = self.settings, self.tensors()
        if s.explore == "weights":
            rng = self._rng(NOISE, *stream[:-1], stream[-1] // 2)
            tensors, sigma = (
                disturbed(tensors, sigma if stream[-1] % 2 == 0 else -sigma, rng, RMS[s.network]),
                0.0,
            )
        how = Exploration(sigma, coherent=s.explore == "requests", every=s.every)
        return explore(self.policy(tensors), episode, how, self._rng(NOISE, *stream))

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
        made = SetPolicy if self.settings.network == "sets" else RelmasPolicy
        return made(
            tensors, name or made.FAMILY, self.settings.period_layers, corrected=self.settings.corrected
        )


def disturbed(tensors: Arrays, sigma: float, rng: np.random.Generator, rms: float) -> Arrays:
    """Actions with a deviation of about ``sigma``, half of its variance from the constant terms."""
    out, bias = tensors["out"], tensors["out_bias"]
    spread = sigma / np.sqrt(2.0)
    shake = rng.standard_normal(out.shape) / (rms * np.sqrt(len(out)))
    return {
        **tensors,
        "out": out + spread * shake,
        "out_bias": bias + spread * rng.standard_normal(bias.shape),
    }

"""A RELMAS training run: clone the teacher, then explore, remember, update, validate; stopped and resumed to the bit.

Iteration k: ``episodes`` traces with noise sigma_k (from ``sigma`` down to ``least_sigma``), then ``updates`` steps on
batches from replay. In the first ``critic_first`` iterations the critics learn the returns that were earned, and
nothing else moves. The weights that were best
on validation traces are kept, the clone among them, so a training that goes wrong costs time and not quality.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.learning.agents.ddpg.ddpg import Learner, Rates
from eunomia.learning.agents.ddpg.episode import OFFERED, Exploration, Floats, transitions
from eunomia.learning.agents.ddpg.network import Actor
from eunomia.learning.agents.ddpg.policy import HOLD, PERIOD_LAYERS, RelmasPolicy
from eunomia.learning.agents.ddpg.replay import Replay
from eunomia.learning.agents.ddpg.state import RunState, read_state, write_state
from eunomia.learning.agents.ddpg.table import inputs
from eunomia.learning.episodes import Sampler
from eunomia.learning.objectives import check_objective, value
from eunomia.learning.rewards import RewardSettings

VALIDATE, EXPLORE, SAMPLE = range(3)  # streams of random numbers


@dataclass(frozen=True)
class Settings:
    """One run. ``reward``: R1, R2, R5 or R6; ``promises``: Fair/Firm's features (then R5 is the usual reward)."""

    lanes: int
    promises: bool = False
    reward: str = "R2"
    weights: RewardSettings = field(default_factory=RewardSettings)
    scale: float = 20.0  # of rewards, which are shares of an episode's requests
    rates: Rates = field(default_factory=Rates)
    period_layers: float = PERIOD_LAYERS
    period_mode: str = "patch"
    hold: float = HOLD
    clone_episodes: int = 4
    clone_steps: int = 300
    iterations: int = 40
    episodes: int = 1  # per iteration
    updates: int = 40  # per iteration
    critic_first: int = 5  # iterations in which the actor stands still
    sigma: float = 0.2
    least_sigma: float = 0.02
    imitation: float = 0.0  # weight of the teacher in the actor's loss
    replay: int = 100_000  # ticks
    validate_every: int = 5
    objective: dict[str, float] = field(default_factory=lambda: {"hit_rate": 1.0})
    seed: int = 0
    about: str = ""  # where episodes come from; part of the run's identity

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if self.reward not in OFFERED:
            raise UnknownNameError("reward of periodic training", self.reward, OFFERED)
        for name, least in (("lanes", 1), ("clone_episodes", 1), ("clone_steps", 1), ("iterations", 0), ("episodes", 1),
                            ("updates", 1), ("critic_first", 0), ("replay", 1), ("validate_every", 1),
                            ("period_layers", 0)):  # fmt: skip
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("scale", "sigma", "least_sigma"):
            if not getattr(self, name) > 0.0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be positive")
        if self.period_mode not in ("wait", "patch"):
            raise ConfigError(f"period_mode is '{self.period_mode}'; choose one of: wait, patch")

    @property
    def hash(self) -> str:
        """Identity of the run: everything its numbers depend on but its length."""
        plain = {name: value for name, value in asdict(self).items() if name != "iterations"}
        plain["horizon"] = self.iterations  # noise falls over the whole run
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    def sigma_at(self, iteration: int) -> float:
        """Geometric from ``sigma`` to ``least_sigma``."""
        share = iteration / max(self.iterations - 1, 1)
        return float(self.sigma * (self.least_sigma / self.sigma) ** share)


@dataclass(frozen=True)
class Progress:
    """What is known after an iteration (0 = the clone)."""

    entry: dict[str, float]
    iterations: int
    elapsed_s: float
    left_s: float


@dataclass(frozen=True, eq=False)
class Trained:
    """The outcome: the best actor on validation, its values and the clone's per validation episode."""

    actor: Actor
    values: Floats
    clone_values: Floats
    cpu_s: float
    curve: tuple[dict[str, float], ...]


def train(
    settings: Settings,
    sampler: Sampler,
    folder: Path | None = None,
    tell: Callable[[Progress], None] | None = None,
) -> Trained:
    """Run what is left of a training. With ``folder``, its state is kept there after every iteration.

    Equal settings give equal weights, however often the run was stopped. Raises RecordError where ``folder`` holds
    another run.
    """
    run = _Run(settings, sampler)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in the same order on every machine; these networks are small
    try:
        state = read_state(folder, settings.hash) if folder is not None else None
        state = run.resume(state) if state is not None else run.begin()
        began, first = time.perf_counter(), state.iteration
        if folder is not None and first == 0:
            write_state(state, folder, settings.hash)
        while state.iteration < settings.iterations:
            state = run.iterate(state)
            if folder is not None:
                write_state(state, folder, settings.hash)
            if tell is not None:
                elapsed_s = time.perf_counter() - began
                left_s = elapsed_s / (state.iteration - first) * (settings.iterations - state.iteration)
                tell(Progress(state.curve[-1], settings.iterations, elapsed_s, left_s))
    finally:
        torch.set_num_threads(before)
    best = Actor(settings.lanes, settings.promises, **state.best)
    return Trained(best, run.validate(best), state.clone_values, state.cpu_s, state.curve)


class _Run:
    """What all iterations share: the learner, the replay, the traces to validate on."""

    def __init__(self, settings: Settings, sampler: Sampler) -> None:
        self.settings, self.sampler = settings, sampler
        width = inputs(settings.lanes, settings.promises)
        self.learner = Learner(settings.lanes, settings.promises, settings.rates, settings.seed)
        self.replay, self.taught = (Replay(settings.replay, width, settings.rates.gamma) for _ in range(2))

    def begin(self) -> RunState:
        """Watch the teacher, clone it, and value the clone."""
        began, rng = time.process_time(), self._rng(SAMPLE, 0)
        self._watch_teacher()
        for _ in range(self.settings.clone_steps):
            loss = self.learner.clone(self.taught.sample(self.settings.rates.batch, rng))
        self.learner.follow_actor()
        clone = self.learner.actor.numbers()
        values = self.validate(clone)
        entry = {"iteration": 0.0, "clone": loss, "validation": float(values.mean())}
        cpu_s = time.process_time() - began
        return RunState(0, self.learner.arrays(), tuple(self.replay.episodes), clone.tensors(), entry["validation"],
                        values, cpu_s, (entry,))  # fmt: skip

    def resume(self, state: RunState) -> RunState:
        """Put everything back as it was."""
        self._watch_teacher()
        self.replay.episodes.clear()
        self.replay.episodes.extend(state.episodes)
        self.learner.restore(state.learner)
        return state

    def _watch_teacher(self) -> None:
        """Episodes in which the teacher acts, with some noise: cloned from, and the first ones in the replay."""
        how = Exploration(self.settings.sigma, teacher=True)
        for number, episode in enumerate(self.sampler.training(0, self.settings.clone_episodes)):
            seen = self._explore(self.learner.actor.numbers(), episode, how, self._rng(EXPLORE, 0, number))
            self.replay.add(number, seen)
            clean = self._explore(
                self.learner.actor.numbers(), episode, replace(how, sigma=0.0), self._rng(EXPLORE, 0, number)
            )
            self.taught.add(number, clean)

    def iterate(self, state: RunState) -> RunState:
        """Explore, update, and validate when that is due."""
        began, s, number = time.process_time(), self.settings, state.iteration + 1
        actor, sigma = self.learner.actor.numbers(), s.sigma_at(state.iteration)
        rewards = 0.0
        for n, episode in enumerate(self.sampler.training(number, s.episodes)):
            seen = self._explore(actor, episode, Exploration(sigma), self._rng(EXPLORE, number, n))
            rewards += float(seen.rewards.sum()) / s.scale / s.episodes
            self.replay.add(s.clone_episodes + (number - 1) * s.episodes + n, seen)
        told = self._update(self._rng(SAMPLE, number), number > s.critic_first)
        if number <= s.critic_first:
            self.learner.follow_actor()
        entry = {"iteration": float(number), "sigma": sigma, "reward": rewards, **told}
        best, best_value = state.best, state.best_value
        if number == s.iterations or number % s.validate_every == 0:
            actor = self.learner.actor.numbers()
            entry["validation"] = float(self.validate(actor).mean())
            if entry["validation"] > best_value:
                best, best_value = actor.tensors(), entry["validation"]
        cpu_s = state.cpu_s + time.process_time() - began
        return RunState(number, self.learner.arrays(), tuple(self.replay.episodes), best, best_value,
                        state.clone_values, cpu_s, (*state.curve, entry))  # fmt: skip

    def _update(self, rng: np.random.Generator, move: bool) -> dict[str, float]:
        """Means over the updates of an iteration."""
        s, told = self.settings, []
        for _ in range(s.updates):
            batch = self.replay.sample(s.rates.batch, rng)
            if not move:
                told.append({"critic": self.learner.regress(batch)})
                continue
            taught = self.taught.sample(s.rates.batch, rng) if s.imitation > 0.0 else None
            told.append(self.learner.update(batch, taught, s.imitation))
        names = {name for one in told for name in one}
        return {name: float(np.mean([one[name] for one in told if name in one])) for name in sorted(names)}

    def _explore(self, actor: Actor, episode: Any, how: Exploration, rng: np.random.Generator) -> Any:
        s = self.settings
        return transitions(self._policy(actor), episode, how, s.reward, s.weights, rng, s.scale)

    def validate(self, actor: Actor) -> Floats:
        """The objective on every validation trace, without noise."""
        policy = self._policy(actor)
        return np.array(
            [value(policy, episode, self.settings.objective) for episode in self.sampler.validation()]
        )

    def _policy(self, actor: Actor) -> RelmasPolicy:
        s = self.settings
        return RelmasPolicy(actor, "relmas", s.period_layers, s.hold, s.period_mode)

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, 0x4E1, *stream])

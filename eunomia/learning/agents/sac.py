"""Discrete soft actor-critic (Christodoulou, 2019) with masked pointers, for comparison; one file, no framework.

    critics  (Q_i(s, a) - r - gamma (1 - end) sum_a' pi(a'|s') [min_j Q_j'(s', a') - alpha log pi(a'|s')])^2
    actor    sum_a pi(a|s) [alpha log pi(a|s) - min_i Q_i(s, a)]
    alpha    fixed, or moved until the entropy is ``entropy`` times that of the allowed actions

Does badly: with many allowed actions the entropy term keeps it from the rule it starts with; credit is many steps away.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eunomia.core.errors import ConfigError
from eunomia.learning.agents.pointer import KEYS, MASKED, Pointer, served, tensors
from eunomia.learning.agents.pointer_policy import PointerPolicy
from eunomia.learning.agents.replay import Play, Recall
from eunomia.learning.agents.torch_state import Arrays, kept, put_back
from eunomia.learning.episodes import Sampler
from eunomia.learning.loop import Floats, valued


@dataclass(frozen=True)
class Settings:
    """Numbers of the algorithm."""

    first: int = 1000  # decisions before the first update
    every: int = 4  # steps of all episodes together per update
    batch: int = 128
    replay: int = 20_000  # decisions
    rate: float = 3e-4
    gamma: float = 0.99
    tau: float = 0.005
    alpha: float = 0.01
    entropy: float = 0.05  # target, share of the greatest possible; 0 = alpha stays
    units: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("every", "batch", "replay", "rate", "alpha", "units"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be positive")
        for name in ("gamma", "tau"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must lie in (0, 1]")


class SAC:
    """Networks, targets and optimisers."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.actor = Pointer(settings.units)
            self.critics = nn.ModuleList(Pointer(settings.units, residual=False) for _ in range(2))
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_alpha = torch.tensor(math.log(settings.alpha), requires_grad=True)
        self.actor_step = torch.optim.Adam(self.actor.parameters(), settings.rate)
        self.critic_step = torch.optim.Adam(self.critics.parameters(), settings.rate)
        self.alpha_step = torch.optim.Adam([self.log_alpha], settings.rate)
        self.generator = torch.Generator().manual_seed(settings.seed)

    def act(self, seen: dict[str, Tensor]) -> Tensor:
        """Sampled actions."""
        with torch.no_grad():
            odds = self.actor(seen)[0].softmax(dim=1)
        return torch.multinomial(odds, 1, generator=self.generator)[:, 0]

    def update(self, now: Any, action: Tensor, reward: Tensor, then: Any, end: Tensor) -> dict[str, float]:
        """One step of critics, actor, alpha and targets."""
        s, alpha = self.settings, self.log_alpha.exp().detach()
        with torch.no_grad():
            odds, log = _odds(self.actor(then)[0])
            value = _least(self.targets, then) - alpha * log
            goal = reward + s.gamma * (1.0 - end) * (odds * value).sum(dim=1)
        chosen = [critic(now)[0].gather(1, action[:, None])[:, 0] for critic in self.critics]
        critic_loss = torch.stack([((q - goal) ** 2).mean() for q in chosen]).sum()
        _descend(critic_loss, self.critic_step)
        odds, log = _odds(self.actor(now)[0])
        actor_loss = (odds * (alpha * log - _least(self.critics, now).detach())).sum(dim=1).mean()
        _descend(actor_loss, self.actor_step)
        entropy = -(odds * log).sum(dim=1).detach()
        if s.entropy > 0.0:
            allowed = (now["mask"] > 0).sum(dim=1).clamp(min=2).float()
            _descend((self.log_alpha * (entropy - s.entropy * allowed.log())).mean(), self.alpha_step)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.targets.parameters()), list(self.critics.parameters()), s.tau)
        return {"critic": critic_loss.item(), "actor": actor_loss.item(), "entropy": entropy.mean().item()}


def _odds(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities, and their logarithms, 0 where an action is not allowed."""
    log = logits.log_softmax(dim=1)
    return log.exp(), log.masked_fill(logits <= MASKED, 0.0)


def _least(critics: nn.ModuleList, seen: dict[str, Tensor]) -> Tensor:
    """(B, N + 1) lesser of both values, 0 where an action is not allowed."""
    least = torch.stack([critic(seen)[0] for critic in critics]).amin(dim=0)
    return least.masked_fill(least <= MASKED, 0.0)


def _descend(loss: Tensor, step: torch.optim.Optimizer) -> None:
    step.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    step.step()


class SACAgent:
    """SAC for the loop of loop.py: an iteration is whole episodes, with an update after every ``every`` steps."""

    def __init__(
        self, settings: Settings, play: Play, sampler: Sampler, objective: Mapping[str, float]
    ) -> None:
        self.settings, self.play, self.sampler, self.objective = settings, play, sampler, objective
        self.sac, self.recall = SAC(settings), Recall(sampler, play, settings.replay, KEYS)
        self._done, self._steps = 0.0, 0

    def iterate(self, number: int) -> dict[str, float]:
        """Play and learn."""
        s, rng = self.settings, np.random.default_rng([self.settings.seed, 0x5AC, number])
        told: list[dict[str, float]] = []

        def learn() -> None:
            self._steps += 1
            if self.recall.ring.count >= s.first and self._steps % s.every == 0:
                told.append(self.sac.update(*self.recall.ring.sample(s.batch, rng)))

        decisions, rate = self.recall.iterate(number, lambda seen: self.sac.act(tensors(seen)).numpy(), learn)
        self._done += decisions
        means = {name: float(np.mean([one[name] for one in told])) for name in (told[0] if told else ())}
        return {"decisions": self._done, "hit_rate": rate, **means}

    def _parts(self) -> dict[str, Any]:
        names = (
            "actor",
            "critics",
            "targets",
            "log_alpha",
            "actor_step",
            "critic_step",
            "alpha_step",
            "generator",
        )
        return {name: getattr(self.sac, name) for name in names}

    def arrays(self) -> Arrays:
        """Networks, optimisers, random numbers, and the actions behind the replay."""
        counters = {"done": np.array(self._done), "steps": np.array(self._steps)}
        return kept(self._parts()) | self.recall.arrays() | counters

    def restore(self, arrays: Arrays) -> None:
        """Go on from ``arrays()``; the replay is played again."""
        put_back(self._parts(), arrays)
        self.recall.restore(arrays)
        self._done, self._steps = float(arrays["done"]), int(arrays["steps"])

    def tensors(self) -> dict[str, Floats]:
        """The actor as numbers."""
        return served(self.sac.actor)

    def validate(self, tensors: dict[str, Floats]) -> Floats:
        """The objective on every validation episode."""
        return valued(PointerPolicy(tensors, most=self.play.most), self.sampler, self.objective)

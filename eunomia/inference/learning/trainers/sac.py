"""Discrete soft actor-critic (Christodoulou, 2019) with masked pointers, for comparison; one file, no framework.

    critics  (Q_i(s, a) - r - gamma (1 - end) sum_a' pi(a'|s') [min_j Q_j'(s', a') - alpha log pi(a'|s')])^2
    actor    sum_a pi(a|s) [alpha log pi(a|s) - min_i Q_i(s, a)]
    alpha    fixed, or moved until the entropy is ``entropy`` times that of the allowed actions

Does badly: with many allowed actions the entropy term keeps it from the rule it starts with; credit is many steps away.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eunomia.errors import ConfigError
from eunomia.inference.learning.gym.vector import SchedulingVectorEnv
from eunomia.inference.learning.trainers.pointer import KEYS, MASKED, Pointer, tensors


@dataclass(frozen=True)
class Settings:
    """Numbers of the algorithm."""

    steps: int = 20_000  # decisions in total
    first: int = 1000  # decisions before the first update
    every: int = 4  # vector steps per update
    batch: int = 128
    replay: int = 20_000  # vector steps times environments
    rate: float = 3e-4
    gamma: float = 0.99
    tau: float = 0.005
    alpha: float = 0.01
    entropy: float = 0.05  # target, share of the greatest possible; 0 = alpha stays
    scale: float = 100.0  # of rewards
    units: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "every", "batch", "replay", "rate", "alpha", "scale", "units"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be positive")
        for name in ("gamma", "tau"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must lie in (0, 1]")


class Memory:
    """A ring of transitions in preallocated arrays."""

    def __init__(self, room: int, seen: dict[str, np.ndarray[Any, Any]]) -> None:
        self.room, self.count, self.at = room, 0, 0
        self.now = {name: np.empty((room, *seen[name].shape[1:]), seen[name].dtype) for name in KEYS}
        self.then = {name: np.empty_like(value) for name, value in self.now.items()}
        self.action, self.reward, self.end = np.empty(room, np.int64), *np.empty((2, room), np.float32)

    def add(self, now: Any, action: Any, reward: Any, then: Any, end: Any, live: Any) -> None:
        """Keep the transitions of environments that were live."""
        for e in np.flatnonzero(live).tolist():
            for name in KEYS:
                self.now[name][self.at], self.then[name][self.at] = now[name][e], then[name][e]
            self.action[self.at], self.reward[self.at], self.end[self.at] = action[e], reward[e], end[e]
            self.at, self.count = (self.at + 1) % self.room, min(self.count + 1, self.room)

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """(now, action, reward, then, end) as tensors."""
        rows = rng.integers(0, self.count, size)
        now, then = (
            {name: torch.from_numpy(kept[name][rows]) for name in KEYS} for kept in (self.now, self.then)
        )
        return (
            now,
            *(torch.from_numpy(a[rows]) for a in (self.action, self.reward)),
            then,
            torch.from_numpy(self.end[rows]),
        )


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


def train(
    settings: Settings, env: SchedulingVectorEnv, tell: Callable[[dict[str, float]], None] | None = None
) -> tuple[Pointer, list[dict[str, float]]]:
    """Train for ``steps`` decisions; returns the actor and the curve, one entry per 50 updates. Seeded throughout."""
    agent, rng, curve, told = SAC(settings), np.random.default_rng(settings.seed), [], []
    seen, _ = env.reset(seed=settings.seed)
    memory, ended, began = (
        Memory(settings.replay, seen),
        np.zeros(env.num_envs, np.bool_),
        time.process_time(),
    )
    done, step, rates = 0, 0, [float("nan")]
    while done < settings.steps:
        action = agent.act(tensors(seen)).numpy()
        live, before = ~ended, seen
        seen, reward, ended, _, info = env.step(action)
        memory.add(before, action, settings.scale * reward, seen, ended, live)
        rates += [
            float(info["hits"][e] / max(info["hits"][e] + info["misses"][e], 1.0))
            for e in np.flatnonzero(ended & live)
        ]
        done, step = done + int(live.sum()), step + 1
        if done < settings.first or step % settings.every:
            continue
        told.append(agent.update(*memory.sample(settings.batch, rng)))
        if len(told) == 50 or done >= settings.steps:
            means = {name: float(np.mean([one[name] for one in told])) for name in told[0]}
            curve.append({"decisions": float(done), "hit_rate": float(np.mean(rates[-10:])), **means})
            told = []
            if tell is not None:
                tell({**curve[-1], "cpu_s": time.process_time() - began})
    return copy.deepcopy(agent.actor), curve

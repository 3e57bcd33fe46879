"""PPO (Schulman et al., 2017) with a masked pointer over waiting sub-jobs, for comparison; one file, no framework.

    advantage  generalised (lambda), normalised per batch
    loss       - min(ratio A, clip(ratio) A) + value_weight (v - G)^2 - entropy_weight H

Does badly: it sees some thousand decisions per second of processor time, an evolution strategy inside the compiled loop
hundreds of thousands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eunomia.core.errors import ConfigError
from eunomia.learning.agents.pointer import KEYS, Pointer, served, tensors
from eunomia.learning.agents.pointer_policy import PointerPolicy
from eunomia.learning.agents.replay import Play
from eunomia.learning.agents.torch_state import Arrays, kept, put_back
from eunomia.learning.episodes import Sampler
from eunomia.learning.gym.stage import Stage
from eunomia.learning.loop import Floats, valued


@dataclass(frozen=True)
class Settings:
    """Numbers of the algorithm."""

    epochs: int = 4
    minibatch: int = 256
    rate: float = 3e-4
    gamma: float = 0.997
    trace: float = 0.95  # lambda
    clip: float = 0.2
    entropy_weight: float = 0.003
    value_weight: float = 0.5
    gradient: float = 0.5  # greatest norm
    units: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "minibatch", "rate", "clip", "gradient", "units"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be positive")
        for name in ("gamma", "trace"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must lie in (0, 1]")


def advantages(rewards: Tensor, values: Tensor, ends: Tensor, gamma: float, trace: float) -> Tensor:
    """(T, E) A_t = d_t + gamma lambda (1 - end_t) A_{t+1}, d_t = r_t + gamma (1 - end_t) v_{t+1} - v_t.

    ``values`` (T + 1, E); ``ends`` (T, E): 1 where the episode ended with step t.
    """
    result, following = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        go_on = gamma * (1.0 - ends[t])
        following = rewards[t] + go_on * values[t + 1] - values[t] + trace * go_on * following
        result[t] = following
    return result


class PPO:
    """Network and optimiser. The environment's encoding must be ``priority_eft``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.network = Pointer(settings.units)
        self.optimiser = torch.optim.Adam(self.network.parameters(), settings.rate)
        self.generator = torch.Generator().manual_seed(settings.seed)

    def act(self, seen: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Sampled actions, their log-probabilities, values."""
        with torch.no_grad():
            logits, value = self.network(seen)
        odds = logits.softmax(dim=1)
        action = torch.multinomial(odds, 1, generator=self.generator)
        return action[:, 0], logits.log_softmax(dim=1).gather(1, action)[:, 0], value

    def learn(self, roll: dict[str, Any]) -> dict[str, float]:
        """All epochs over one rollout; returns means of the losses."""
        s, told = self.settings, []
        advantage = advantages(roll["rewards"], roll["values"], roll["ends"], s.gamma, s.trace)
        goal = (advantage + roll["values"][:-1]).flatten()
        kept = roll["live"].flatten().nonzero()[:, 0]  # a step that only begins an episode is no decision
        advantage = advantage.flatten()
        advantage = (advantage - advantage[kept].mean()) / (advantage[kept].std() + 1e-8)
        seen = {name: value.flatten(0, 1) for name, value in roll["seen"].items()}
        action, before = roll["actions"].flatten(), roll["odds"].flatten()
        for _ in range(s.epochs):
            order = kept[torch.randperm(len(kept), generator=self.generator)]
            for rows in order.split(s.minibatch):
                given = {name: value[rows] for name, value in seen.items()}
                told.append(self._step(given, action[rows], before[rows], advantage[rows], goal[rows]))
        return {name: float(np.mean([one[name] for one in told])) for name in told[0]}

    def _step(
        self, seen: dict[str, Tensor], action: Tensor, before: Tensor, advantage: Tensor, goal: Tensor
    ) -> dict[str, float]:
        s = self.settings
        logits, value = self.network(seen)
        log = logits.log_softmax(dim=1)
        ratio = (log.gather(1, action[:, None])[:, 0] - before).exp()
        policy = -torch.minimum(ratio * advantage, ratio.clamp(1.0 - s.clip, 1.0 + s.clip) * advantage).mean()
        worth = ((value - goal) ** 2).mean()
        entropy = -(log.exp() * log).sum(dim=1).mean()
        loss = policy + s.value_weight * worth - s.entropy_weight * entropy
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), s.gradient)
        self.optimiser.step()
        return {"policy": policy.item(), "value": worth.item(), "entropy": entropy.item()}


def roll_out(agent: PPO, stage: Stage, scale: float) -> dict[str, Any]:
    """All episodes of a stage to their ends: (T, E) tables, T that of the longest; ``live`` marks real decisions."""
    kept: dict[str, list[Any]] = {
        name: [] for name in ("actions", "odds", "values", "rewards", "ends", "live")
    }
    views: dict[str, list[Tensor]] = {name: [] for name in KEYS}
    while stage.live.any():
        now, live = tensors(stage.seen), stage.live
        action, odds, value = agent.act(now)
        reward = scale * stage.step(action.numpy())
        for name, given in (("actions", action), ("odds", odds), ("values", value),
                            ("live", torch.from_numpy(live)), ("rewards", torch.from_numpy(reward).float()),
                            ("ends", torch.from_numpy(~stage.live).float())):  # fmt: skip
            kept[name].append(given)
        for name in KEYS:
            views[name].append(now[name])
    kept["values"].append(torch.zeros_like(kept["values"][0]))
    roll: dict[str, Any] = {name: torch.stack(values) for name, values in kept.items()}
    return {**roll, "seen": {name: torch.stack(each) for name, each in views.items()}}


class PPOAgent:
    """PPO for the loop of loop.py: an iteration is whole episodes, then all epochs over them."""

    def __init__(
        self, settings: Settings, play: Play, sampler: Sampler, objective: Mapping[str, float]
    ) -> None:
        self.settings, self.play, self.sampler, self.objective = settings, play, sampler, objective
        self.ppo, self._done = PPO(settings), 0.0

    def iterate(self, number: int) -> dict[str, float]:
        """Play and learn."""
        stage = self.play.stage(self.sampler, number)
        roll = roll_out(self.ppo, stage, self.play.scale)
        self._done += float(roll["live"].sum())
        return {
            "decisions": self._done,
            "hit_rate": float(stage.hit_rates.mean()),
            **self.ppo.learn(roll),
        }

    def _parts(self) -> dict[str, Any]:
        return {
            "network": self.ppo.network,
            "optimiser": self.ppo.optimiser,
            "generator": self.ppo.generator,
        }

    def arrays(self) -> Arrays:
        """Network, optimiser, random numbers."""
        return kept(self._parts()) | {"done": np.array(self._done)}

    def restore(self, arrays: Arrays) -> None:
        """Go on from ``arrays()``."""
        put_back(self._parts(), arrays)
        self._done = float(arrays["done"])

    def tensors(self) -> dict[str, Floats]:
        """The pointer as numbers."""
        return served(self.ppo.network)

    def validate(self, tensors: dict[str, Floats]) -> Floats:
        """The objective on every validation episode."""
        return valued(PointerPolicy(tensors, most=self.play.most), self.sampler, self.objective)

"""Deep deterministic policy gradient (Lillicrap et al., ICLR 2016) over lists of sub-jobs, and TD3 as the fallback.

    critic:  minimise (r + gamma^g Q'(s', mu'(s')) - Q(s, a))^2, g the time to s' in T_s, Q' = 0 after the end of
    an episode
    actor:   maximise Q(s, mu(s)) / mean |Q| - imitation * (distance of mu(s) to the teacher's action on the
    teacher's states)
    targets: theta' <- (1 - tau) theta' + tau theta

TD3 (Fujimoto et al., ICML 2018) adds: two critics and the lesser of their targets, clipped noise on mu', and an
actor that
moves at every second update. Whichever is used stands in the card. The start is a clone of the teacher: priorities
by squared error, scores by cross-entropy of the chosen accelerator. The critics start from the returns that the
teacher and its clone really earned, which takes a minute where bootstrapping from nothing takes hours.

Deviations: (1) TD3 and ``imitation`` (after Fujimoto and Gu, NeurIPS 2021), 0 by default, are ours, as are (2) the
critics'
first steps on returns, and (3) the division by mean |Q|, without which the clip of the gradient sets the step.

Does badly: a deterministic gradient through an argmax sees no difference until the argmax flips; and the critic
extrapolates to actions that nobody took, which shows as a falling hit rate under a rising Q.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eunomia.core.errors import ConfigError
from eunomia.learning.agents.ddpg.network import MOST_UNITS
from eunomia.learning.agents.ddpg.networks import ActorNet, CriticNet, mask_of
from eunomia.learning.agents.ddpg.replay import Batch
from eunomia.learning.agents.torch_state import Arrays, kept, put_back

SHARPNESS = 5.0  # of the softmax over scores in cloning


@dataclass(frozen=True)
class Rates:
    """Numbers of the algorithm (D15)."""

    units: int = 64
    gamma: float = 0.99
    tau: float = 0.005
    actor_rate: float = 1e-4
    critic_rate: float = 1e-3
    clone_rate: float = 3e-3
    batch: int = 128
    clip: float = 1.0  # greatest norm of a gradient
    twin: bool = False  # TD3
    target_noise: float = 0.2  # TD3: its standard deviation, clipped at 0.5
    delay: int = 2  # TD3: critic updates per actor update

    def __post_init__(self) -> None:
        if not 1 <= self.units <= MOST_UNITS:
            raise ConfigError(f"units is {self.units}; it must be 1 to {MOST_UNITS}")
        for name in ("gamma", "tau"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must lie in (0, 1]")
        for name in ("actor_rate", "critic_rate", "clone_rate", "batch", "clip", "delay"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be positive")


class Learner:
    """Networks, their targets and optimisers. Equal seeds and batches give equal weights, bit for bit."""

    def __init__(self, lanes: int, promises: bool, rates: Rates, seed: int) -> None:
        self.rates, self.updates = rates, 0
        self.generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.actor = ActorNet(lanes, promises, rates.units)
            self.critics = nn.ModuleList(
                CriticNet(lanes, promises, rates.units) for _ in range(2 if rates.twin else 1)
            )
        self.targets = copy.deepcopy(nn.ModuleList([self.actor, *self.critics])).requires_grad_(False)
        self.actor_step = torch.optim.Adam(self.actor.parameters(), rates.actor_rate)
        self.critic_step = torch.optim.Adam(self.critics.parameters(), rates.critic_rate)
        self.clone_step = torch.optim.Adam(self.actor.parameters(), rates.clone_rate)

    def clone(self, batch: Batch) -> float:
        """One step towards the actions of a batch that the teacher took; returns the loss."""
        seen, action, count = map(torch.from_numpy, (batch.seen, batch.action, batch.count))
        loss = _distance(self.actor(seen), action, count)
        self._descend(loss, self.clone_step, self.actor)
        return loss.item()

    def follow_actor(self) -> None:
        """Targets become copies: after cloning."""
        self.targets.load_state_dict(nn.ModuleList([self.actor, *self.critics]).state_dict())

    def regress(self, batch: Batch) -> float:
        """One step of the critics towards the returns that were really earned; returns the loss."""
        seen, action, count, returns = map(
            torch.from_numpy, (batch.seen, batch.action, batch.count, batch.returns)
        )
        loss = torch.stack(
            [((critic(seen, action, count) - returns) ** 2).mean() for critic in self.critics]
        ).sum()
        self._descend(loss, self.critic_step, self.critics)
        return loss.item()

    def update(self, batch: Batch, imitation: Batch | None = None, weight: float = 0.0) -> dict[str, float]:
        """One step of the critics and, when it is due, of the actor and the targets."""
        seen, action, count, reward, gap, then, then_count = map(
            torch.from_numpy,
            (batch.seen, batch.action, batch.count, batch.reward, batch.gap, batch.then, batch.then_count),
        )
        with torch.no_grad():
            best = self._smooth(self.targets[0](then))
            values = [critic(then, best, then_count) for critic in self.targets[1:]]
            goal = reward + self.rates.gamma**gap * torch.stack(values).amin(dim=0)
        loss = torch.stack(
            [((critic(seen, action, count) - goal) ** 2).mean() for critic in self.critics]
        ).sum()
        self._descend(loss, self.critic_step, self.critics)
        self.updates += 1
        told = {"critic": loss.item(), "target": goal.mean().item()}
        if not self.rates.twin or self.updates % self.rates.delay == 0:
            told["value"] = self._move_actor(seen, count, imitation, weight)
            self._follow()
        return told

    def _move_actor(self, seen: Tensor, count: Tensor, imitation: Batch | None, weight: float) -> float:
        values = self.critics[0](seen, self.actor(seen), count)
        value, loss = values.mean(), -values.mean() / values.detach().abs().mean().clamp(min=1e-6)
        if imitation is not None and weight > 0.0:
            taught, action, number = map(
                torch.from_numpy, (imitation.seen, imitation.action, imitation.count)
            )
            loss = loss + weight * _distance(self.actor(taught), action, number)
        self._descend(loss, self.actor_step, self.actor)
        return float(value.item())

    def _smooth(self, action: Tensor) -> Tensor:
        """TD3's clipped noise on the target's action."""
        if not self.rates.twin:
            return action
        noise = self.rates.target_noise * torch.randn(action.shape, generator=self.generator)
        return (action + noise.clamp(-0.5, 0.5)).clamp(-1.0, 1.0)

    def _descend(self, loss: Tensor, step: torch.optim.Optimizer, network: nn.Module) -> None:
        step.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), self.rates.clip)
        step.step()

    def _follow(self) -> None:
        with torch.no_grad():
            own: list[Tensor] = [*self.actor.parameters(), *self.critics.parameters()]
            torch._foreach_lerp_(list(self.targets.parameters()), own, self.rates.tau)

    def _parts(self) -> dict[str, Any]:
        names = ("actor", "critics", "targets", "actor_step", "critic_step", "clone_step", "generator")
        return {name: getattr(self, name) for name in names}

    def arrays(self) -> Arrays:
        """Everything that the next step depends on."""
        return kept(self._parts()) | {"updates": np.array(self.updates)}

    def restore(self, arrays: Arrays) -> None:
        """Go on from ``arrays()``."""
        put_back(self._parts(), arrays)
        self.updates = int(arrays["updates"].item())


def _distance(action: Tensor, wanted: Tensor, count: Tensor) -> Tensor:
    """Squared error of priorities plus cross-entropy of the accelerator, mean over sub-jobs."""
    mask = mask_of(count, action.shape[1])
    priority = (action[:, :, 0] - wanted[:, :, 0]) ** 2
    scores, chosen = SHARPNESS * action[:, :, 1:], wanted[:, :, 1:].argmax(dim=2)
    place = nn.functional.cross_entropy(scores.flatten(0, 1), chosen.flatten(), reduction="none")
    return ((priority + place.view_as(priority)) * mask).sum() / mask.sum()

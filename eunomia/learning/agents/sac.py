"""Discrete soft actor-critic (Christodoulou, 2019) with masked pointers, for comparison; one file, no framework.

    critics  (Q_i(s, a) - r - gamma (1 - end) sum_a' pi(a'|s') [min_j Q_j'(s', a') - alpha log pi(a'|s')])^2
    actor    sum_a pi(a|s) [alpha log pi(a|s) - min_i Q_i(s, a)]
    alpha    fixed, or moved until the entropy is ``entropy`` times that of the allowed actions

Does badly: with many allowed actions the entropy term keeps it from the rule it starts with; credit is many steps away.
"""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from torch import Tensor, nn

from eunomia.config.algorithm import SacAlgorithm
from eunomia.core.arrays import Ints
from eunomia.learning.agents import Context
from eunomia.learning.agents.pointer import KEYS, MASKED, Pointer, tensors
from eunomia.learning.agents.replay import Drawn, ReplayAgent
from eunomia.learning.agents.torch_state import descend, follow, seeded
from eunomia.learning.gym.stage import Seen
from eunomia.learning.state import Entry

NETWORKS = ("network", "critics", "targets")
FIRST = 1000  # decisions before the first update
TAU = 0.005
ALPHA = 0.01  # at first
CRITIC_FIRST = 500  # updates in which the critics alone move
ENTROPY = 0.05  # target, share of the greatest possible; 0 = alpha stays


class SAC(ReplayAgent):
    """An iteration is whole episodes, with an update after every ``every`` steps. The encoding is ``start_eft``."""

    PARTS = (*NETWORKS, "log_alpha", "actor_step", "critic_step", "alpha_step", "generator")
    SHOWN, STREAM = KEYS, 0x5AC
    network: Pointer
    settings: SacAlgorithm

    def __init__(self, settings: SacAlgorithm, context: Context) -> None:
        super().__init__(settings, context)
        with seeded(context.seed):
            self.network = Pointer(settings.units)
            self.critics = nn.ModuleList(Pointer(settings.units, residual=False) for _ in range(2))
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_alpha = torch.tensor(math.log(ALPHA), requires_grad=True)
        self.actor_step = torch.optim.Adam(self.network.parameters(), settings.rate)
        self.critic_step = torch.optim.Adam(self.critics.parameters(), settings.rate)
        self.alpha_step = torch.optim.Adam([self.log_alpha], settings.rate)
        self.first, self.entropy, self.critic_first = FIRST, ENTROPY, CRITIC_FIRST
        self.generator = torch.Generator().manual_seed(context.seed)

    def act(self, seen: Seen, number: int, rng: np.random.Generator) -> Ints:
        """Sampled actions."""
        with torch.no_grad():
            odds = self.network(tensors(seen))[0].softmax(dim=1)
        return np.asarray(torch.multinomial(odds, 1, generator=self.generator)[:, 0].numpy())

    def update(self, drawn: Drawn) -> Entry:
        """One step of critics, actor, alpha and targets."""
        now, action, reward, then, end = drawn
        gamma, alpha = self.settings.gamma, self.log_alpha.exp().detach()
        with torch.no_grad():
            odds, log = _odds(self.network(then)[0])
            value = _least(self.targets, then) - alpha * log
            goal = reward + gamma * (1.0 - end) * (odds * value).sum(dim=1)
        chosen = [critic(now)[0].gather(1, action[:, None])[:, 0] for critic in self.critics]
        critic_loss = torch.stack([((q - goal) ** 2).mean() for q in chosen]).sum()
        descend(critic_loss, self.critic_step)
        follow(self.targets, self.critics, TAU)
        if self.updates < self.critic_first:
            return {"critic": critic_loss.item()}
        odds, log = _odds(self.network(now)[0])
        actor_loss = (odds * (alpha * log - _least(self.critics, now).detach())).sum(dim=1).mean()
        descend(actor_loss, self.actor_step)
        entropy = -(odds * log).sum(dim=1).detach()
        if self.entropy > 0.0:
            allowed = (now["mask"] > 0).sum(dim=1).clamp(min=2).float()
            descend((self.log_alpha * (entropy - self.entropy * allowed.log())).mean(), self.alpha_step)
        return {"critic": critic_loss.item(), "actor": actor_loss.item(), "entropy": entropy.mean().item()}


def _odds(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities, and their logarithms, 0 where an action is not allowed."""
    log = logits.log_softmax(dim=1)
    return log.exp(), log.masked_fill(logits <= MASKED, 0.0)


def _least(critics: nn.ModuleList, seen: dict[str, Tensor]) -> Tensor:
    """(B, N + 1) lesser of both values, 0 where an action is not allowed."""
    least = torch.stack([critic(seen)[0] for critic in critics]).amin(dim=0)
    return least.masked_fill(least <= MASKED, 0.0)

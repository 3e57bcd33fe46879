"""Training a branching network: double Q-learning with replay on whole episodes.

y = r + gamma mean over asked branches of Q'_d(s', argmax_a Q_d(s', a)); loss = mean over asked branches of
Huber(y - Q_d), plus ``auxiliary`` x mean squared error of the forecasts. Exploration: every asked branch draws a
random allowed action with probability epsilon, falling linearly over ``iterations``. Uniform replay. Equal settings
give equal bits, however often a training is stopped.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from eunomia.learning.agents.bdq.choose import asked_branches, resolve
from eunomia.learning.agents.bdq.network import AUXILIARIES, BranchingQ, Observed
from eunomia.learning.agents.bdq.policy import BranchingPolicy, BranchingWeights
from eunomia.learning.agents.replay import SHOWN, Drawn, ReplayAgent
from eunomia.learning.agents.torch_state import descend
from eunomia.learning.gym.stage import Seen
from eunomia.learning.state import Arrays, Entry
from eunomia.learning.workers import Workers

if TYPE_CHECKING:
    from eunomia.config.algorithm import BdqAlgorithm
    from eunomia.learning.agents import Context

EPSILON = (1.0, 0.05)  # share of random choices, at first and at last
GRADIENT = 10.0  # greatest norm


class BranchingAgent(ReplayAgent):
    """Branching Q. The encoding is ``branch``."""

    PARTS = ("network", "slow", "optimizer")
    ENCODING = "branch"
    STREAM = 0xBD9
    settings: BdqAlgorithm

    def __init__(self, settings: BdqAlgorithm, context: Context) -> None:
        super().__init__(settings, context)
        lanes = len(self.task.validation()[0].problem.type_of)
        self.network = BranchingQ(lanes, settings.units, settings.shared, settings.auxiliaries, context.seed)
        self.slow = copy.deepcopy(self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), settings.rate)

    def epsilon_at(self, number: int) -> float:
        """Linear over the iterations, which count from 1."""
        share = (number - 1) / max(self.settings.iterations - 1, 1)
        return EPSILON[0] + share * (EPSILON[1] - EPSILON[0])

    def act(self, seen: Seen, number: int, rng: np.random.Generator) -> npt.NDArray[Any]:
        """Greedy choices, and random ones."""
        return choose(self.network, seen, self.epsilon_at(number), rng)

    def iterate(self, number: int, crew: Workers) -> Entry:
        """Play and learn."""
        return {**super().iterate(number, crew), "epsilon": self.epsilon_at(number)}

    def update(self, drawn: Drawn) -> Entry:
        """One step of the optimiser; returns the loss."""
        s, (first, actions, rewards, second, done) = self.settings, drawn
        now, later = _observed(first), _observed(second)
        with torch.no_grad():
            best = self.network(later)[0].argmax(-1, keepdim=True)
            worth = self.slow(later)[0].gather(-1, best).squeeze(-1)
            y = rewards + s.gamma * (1.0 - done) * _over_asked(worth, later[4])
        q, forecasts = self.network(now)
        chosen = q.gather(-1, actions[:, :, None]).squeeze(-1)
        errors = torch.nn.functional.smooth_l1_loss(chosen, y[:, None].expand_as(chosen), reduction="none")
        loss = _over_asked(errors, now[4]).mean()
        if forecasts is not None:
            facts = later[2][:, [AUXILIARIES[name] for name in s.auxiliaries]]
            loss = loss + s.auxiliary * (((forecasts - facts) ** 2).mean(-1) * (1.0 - done)).mean()
        descend(loss, self.optimizer, self.network, GRADIENT)
        if self.updates % s.copy_every == 0:
            self.slow.load_state_dict(self.network.state_dict())
        return {"loss": float(loss.detach())}

    def tensors(self) -> Arrays:
        """The network as numbers."""
        return dict(self.network.weights().tensors)

    def policy(self, tensors: Arrays, name: str = "") -> BranchingPolicy:
        """The network without PyTorch."""
        weights = BranchingWeights(self.network.units, self.network.heads, tensors)
        return BranchingPolicy(weights, name or "branching", self.settings.most)


def choose(
    network: BranchingQ, seen: Mapping[str, Any], epsilon: float, rng: np.random.Generator
) -> npt.NDArray[Any]:
    """(E, S) actions without conflicts; random values stand in for a branch's own with probability epsilon."""
    with torch.no_grad():
        q = network(_observed({k: torch.as_tensor(seen[k]) for k in SHOWN}))[0].numpy().astype(np.float64)
    random = rng.random(q.shape[:2]) < epsilon
    q = np.where(random[:, :, None], rng.random(q.shape), q)
    return np.stack([resolve(q[e], seen["mask"][e] > 0) for e in range(len(q))])


def _over_asked(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(B,) mean over branches that have something to choose; 0 where none has."""
    asked = torch.as_tensor(asked_branches(mask.numpy() > 0), dtype=values.dtype)
    return (values * asked).sum(-1) / asked.sum(-1).clamp(min=1.0)


def _observed(seen: Mapping[str, torch.Tensor]) -> Observed:
    jobs, pairs, overall, waiting, mask = (torch.nan_to_num(seen[k].float()) for k in SHOWN)
    return jobs, pairs, overall, waiting, mask

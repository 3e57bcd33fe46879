"""Training a branching network: double Q-learning with replay on whole episodes.

y = r + gamma mean over asked branches of Q'_d(s', argmax_a Q_d(s', a)); loss = mean over asked branches of
Huber(y - Q_d), plus ``auxiliary`` x mean squared error of the forecasts. Exploration: every asked branch draws a
random allowed action with probability epsilon, falling linearly over ``iterations``. Uniform replay. Equal settings
give equal bits, however often a training is stopped.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from eunomia.core.errors import ConfigError
from eunomia.learning.agents.bdq.choose import asked_branches, resolve
from eunomia.learning.agents.bdq.network import AUXILIARIES, BranchingQ, Observed
from eunomia.learning.agents.bdq.policy import BranchingPolicy, BranchingWeights
from eunomia.learning.agents.replay import SHOWN, Play, Recall
from eunomia.learning.agents.torch_state import Arrays, kept, put_back
from eunomia.learning.episodes import Sampler
from eunomia.learning.loop import Floats, valued


@dataclass(frozen=True)
class BranchingSettings:
    """``auxiliaries``: names of heads, weighed by ``auxiliary`` (0.05 to 0.5); ``every`` steps, one update."""

    iterations: int = 20
    units: int = 32
    shared: bool = True
    gamma: float = 0.99
    rate: float = 1e-3
    batch: int = 64
    memory: int = 20_000
    every: int = 2
    copy_every: int = 200  # updates
    epsilon: tuple[float, float] = (1.0, 0.05)
    auxiliaries: tuple[str, ...] = ()
    auxiliary: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.iterations, self.units, self.batch, self.every, self.copy_every) < 1:
            raise ConfigError("iterations, units, batch, every and copy_every must be at least 1")
        if not (0.0 <= self.gamma <= 1.0 and self.rate > 0.0 and self.memory >= self.batch):
            raise ConfigError(
                "gamma must be within 0 and 1, the rate positive, and the memory at least one batch"
            )

    def epsilon_at(self, number: int) -> float:
        """Linear over the iterations, which count from 1."""
        share = (number - 1) / max(self.iterations - 1, 1)
        return self.epsilon[0] + share * (self.epsilon[1] - self.epsilon[0])


class BranchingAgent:
    """Branching Q for the loop of loop.py. The encoding of ``play`` must be ``branch``."""

    def __init__(
        self, settings: BranchingSettings, play: Play, sampler: Sampler, objective: Mapping[str, float]
    ) -> None:
        s = self.settings = settings
        self.play, self.sampler, self.objective = play, sampler, objective
        lanes = len(sampler.validation()[0].problem.type_of)
        self.network = BranchingQ(lanes, s.units, s.shared, s.auxiliaries, s.seed)
        self.slow = copy.deepcopy(self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), s.rate)
        self.recall = Recall(sampler, play, s.memory, SHOWN)
        self._done, self._steps, self._updates = 0.0, 0, 0

    def iterate(self, number: int) -> dict[str, float]:
        """Play and learn."""
        s, rng = self.settings, np.random.default_rng([self.settings.seed, 0xBD9, number])
        losses: list[float] = []

        def learn() -> None:
            self._steps += 1
            if self.recall.ring.count < s.batch or self._steps % s.every:
                return
            losses.append(self.update(self.recall.ring.sample(s.batch, rng)))

        epsilon = s.epsilon_at(number)
        decisions, rate = self.recall.iterate(
            number, lambda seen: act(self.network, seen, epsilon, rng), learn
        )
        self._done += decisions
        loss = float(np.mean(losses)) if losses else float("nan")
        return {"decisions": self._done, "hit_rate": rate, "epsilon": epsilon, "loss": loss}

    def update(self, drawn: tuple[Any, ...]) -> float:
        """One step of the optimizer; returns the loss."""
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
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 10.0)
        self.optimizer.step()
        self._updates += 1
        if self._updates % s.copy_every == 0:
            self.slow.load_state_dict(self.network.state_dict())
        return float(loss.detach())

    def _parts(self) -> dict[str, Any]:
        return {"network": self.network, "slow": self.slow, "optimizer": self.optimizer}

    def arrays(self) -> Arrays:
        """Networks, optimiser, counters, and the actions behind the replay."""
        counters = np.array([self._done, self._steps, self._updates])
        return kept(self._parts()) | self.recall.arrays() | {"counters": counters}

    def restore(self, arrays: Arrays) -> None:
        """Go on from ``arrays()``; the replay is played again."""
        put_back(self._parts(), arrays)
        self.recall.restore(arrays)
        done, steps, updates = arrays["counters"].tolist()
        self._done, self._steps, self._updates = done, int(steps), int(updates)

    def tensors(self) -> dict[str, Floats]:
        """The network as numbers."""
        return self.network.weights().tensors

    def validate(self, tensors: dict[str, Floats]) -> Floats:
        """The objective on every validation episode."""
        weights = BranchingWeights(self.network.units, self.network.heads, tensors)
        return valued(BranchingPolicy(weights, most=self.play.most), self.sampler, self.objective)


def act(
    network: BranchingQ, seen: Mapping[str, Any], epsilon: float, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
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

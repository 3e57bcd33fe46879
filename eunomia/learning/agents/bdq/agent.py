"""Training a branching network: double Q-learning with replay on whole episodes.

y = r + gamma mean over asked branches of Q'_d(s', argmax_a Q_d(s', a)); loss = mean over asked branches of
Huber(y - Q_d), plus ``auxiliary`` x mean squared error of the forecasts. Exploration: every asked branch draws a
random allowed action with probability epsilon, falling linearly over ``iterations``. Uniform replay. The network's
formulas, and the rule that it begins with: policy.py, which it is tested to equal. Equal settings give equal bits,
however often a training is stopped.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from eunomia.config.algorithm import BdqAlgorithm
from eunomia.core.arrays import Ints
from eunomia.core.errors import UnknownNameError
from eunomia.engines.crew import Workers
from eunomia.learning.agents import Context
from eunomia.learning.agents.bdq.policy import REACH, BranchingPolicy, asked_branches, resolve, rule, shapes
from eunomia.learning.agents.replay import SHOWN, Drawn, ReplayAgent
from eunomia.learning.agents.torch_state import descend
from eunomia.learning.gym.stage import Seen
from eunomia.learning.observation.table import GLOBAL
from eunomia.learning.state import Arrays, Entry

EPSILON = (0.2, 0.02)  # share of random choices, at first and at last
GRADIENT = 10.0  # greatest norm
# What auxiliary heads foretell from the trunk: a global feature at the next decision.
AUXILIARIES = {
    "next_demand": GLOBAL.index("demand_share"),  # bandwidth demand
    "next_waiting": GLOBAL.index("waiting"),  # arrivals less departures
    "next_hopeless": GLOBAL.index("hopeless_share"),  # misses to come
}
HEADS = ("Wa", "ba", "wa", "ca", "Wh", "bh", "wh", "ch")
Observed = Mapping[str, Tensor]


class BranchingQ(torch.nn.Module):
    """Dueling branches over a shared trunk. ``shared``: one head for all branches (unibranch).

    Observed, by name: jobs (B, N, JOB), pairs (B, N, S, PAIR), overall (B, GLOBAL), waiting (B, N), mask (B, S, N + 1).
    """

    def __init__(
        self,
        branches: int,
        units: int = 32,
        shared: bool = False,
        auxiliaries: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name in auxiliaries:
            if name not in AUXILIARIES:
                raise UnknownNameError("auxiliary loss", name, AUXILIARIES)
        self.branches, self.units, self.heads = branches, units, 1 if shared else branches
        self.auxiliaries = tuple(auxiliaries)
        generator = torch.Generator().manual_seed(seed)
        self.tensors = torch.nn.ParameterDict()
        for name, shape in shapes(units, self.heads).items():
            matrix = name.startswith("W")
            drawn = torch.randn(shape, generator=generator) / shape[-2 if matrix else -1] ** 0.5
            weight = matrix or name == "v"  # biases, and the last layers of heads, are 0: the rule alone
            self.tensors[name] = torch.nn.Parameter(drawn if weight else drawn * 0.0)
        self.foretell = torch.nn.Linear(units, len(auxiliaries)) if auxiliaries else None
        if self.foretell is not None:
            drawn = torch.randn(len(auxiliaries), units, generator=generator) / units**0.5
            self.foretell.load_state_dict({"weight": drawn, "bias": torch.zeros(len(auxiliaries))})

    def trunk(self, seen: Observed) -> tuple[Tensor, Tensor]:
        """(B, N, units) of sub-jobs and (B, units) of the whole."""
        t, waiting = self.tensors, seen["waiting"]
        jobs, overall = seen["jobs"].clamp(-REACH, REACH), seen["overall"].clamp(-REACH, REACH)
        everyone = torch.cat([jobs, overall[:, None, :].expand(-1, jobs.shape[1], -1)], -1)
        hidden = torch.relu(everyone @ t["W1"] + t["b1"]) * waiting[:, :, None]
        mean = hidden.sum(1) / waiting.sum(1, keepdim=True).clamp(min=1.0)
        return hidden, torch.relu(torch.cat([mean, overall], -1) @ t["Wz"] + t["bz"])

    def forward(self, seen: Observed) -> tuple[Tensor, Tensor | None]:
        """(B, S, N + 1) values, -1e9 where the mask forbids, and (B, auxiliaries) forecasts.

        The trunk's gradient from the branches is scaled by 1 / (branches + 1).
        """
        t, pairs, mask = self.tensors, seen["pairs"], seen["mask"]
        hidden, z = self.trunk(seen)
        forecasts = None if self.foretell is None else self.foretell(z)
        hidden, z = (_scaled(x, 1.0 / (self.branches + 1)) for x in (hidden, z))
        lanes = pairs.shape[2]
        own = hidden[:, :, None, :].expand(-1, -1, lanes, -1)
        whole = z[:, None, None, :].expand(-1, hidden.shape[1], lanes, -1)
        joint = torch.cat([own, pairs.clamp(-REACH, REACH), whole], -1)
        head = {name: t[name].expand(lanes, *t[name].shape[1:]) for name in HEADS}
        first = torch.relu(torch.einsum("bnsj,sju->bnsu", joint, head["Wa"]) + head["ba"])
        serve = torch.einsum("bnsu,su->bsn", first, head["wa"]) + head["ca"][None, :, None]
        quiet = torch.relu(torch.einsum("bj,sju->bsu", z, head["Wh"]) + head["bh"])
        hold = torch.einsum("bsu,su->bs", quiet, head["wh"]) + head["ch"]
        advantage = torch.cat([serve, hold[:, :, None]], -1)
        mean = (advantage * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1.0)
        value = z @ t["v"] + t["bv"]
        shown = (seen["jobs"].numpy(), pairs.numpy(), seen["overall"].numpy())
        added = torch.as_tensor(rule(*shown, mask.numpy() > 0), dtype=value.dtype)
        return torch.where(mask > 0, value[:, None, None] + advantage - mean + added, -1e9), forecasts

    def numbers(self) -> Arrays:
        """The tensors that a policy without PyTorch needs."""
        return {name: value.detach().numpy().astype(np.float64) for name, value in self.tensors.items()}


class BranchingAgent(ReplayAgent):
    """Branching Q. The encoding is ``branch``."""

    PARTS = ("network", "slow", "optimizer")
    ENCODING, STREAM, SERVED = "branch", 0xBD9, BranchingPolicy
    network: BranchingQ
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

    def act(self, seen: Seen, number: int, rng: np.random.Generator) -> Ints:
        """(E, S) actions without conflicts; random values stand in for a branch's own with probability epsilon."""
        with torch.no_grad():
            shown = _observed({name: torch.as_tensor(seen[name]) for name in SHOWN})
            q = self.network(shown)[0].numpy().astype(np.float64)
        random = rng.random(q.shape[:2]) < self.epsilon_at(number)
        q = np.where(random[:, :, None], rng.random(q.shape), q)
        return np.stack([resolve(q[e], seen["mask"][e] > 0) for e in range(len(q))])

    def iterate(self, number: int, crew: Workers) -> Entry:
        """Play and learn."""
        return {**super().iterate(number, crew), "epsilon": self.epsilon_at(number)}

    def update(self, drawn: Drawn) -> Entry:
        """One step of the optimiser; returns the loss."""
        s, (first, actions, rewards, second, done) = self.settings, drawn
        now, later = _observed(first), _observed(second)
        with torch.no_grad():
            own, slow = (network(later)[0] for network in (self.network, self.slow))
            y = goals(rewards, s.gamma * (1.0 - done), own, slow, later["mask"])
        q, forecasts = self.network(now)
        chosen = q.gather(-1, actions[:, :, None]).squeeze(-1)
        errors = torch.nn.functional.smooth_l1_loss(chosen, y[:, None].expand_as(chosen), reduction="none")
        loss = _over_asked(errors, now["mask"]).mean()
        if forecasts is not None:
            facts = later["overall"][:, [AUXILIARIES[name] for name in s.auxiliaries]]
            loss = loss + s.auxiliary * (((forecasts - facts) ** 2).mean(-1) * (1.0 - done)).mean()
        descend(loss, self.optimizer, self.network, GRADIENT)
        if self.updates % s.copy_every == 0:
            self.slow.load_state_dict(self.network.state_dict())
        return {"loss": float(loss.detach())}


def goals(rewards: Tensor, discount: Tensor, q: Tensor, slow: Tensor, mask: Tensor) -> Tensor:
    """(B,) y, for (B, S, N + 1) values of both networks at the next decision."""
    worth = slow.gather(-1, q.argmax(-1, keepdim=True)).squeeze(-1)
    return rewards + discount * _over_asked(worth, mask)


def _over_asked(values: Tensor, mask: Tensor) -> Tensor:
    """(B,) mean over branches that have something to choose; 0 where none has."""
    asked = torch.as_tensor(asked_branches(mask.numpy() > 0), dtype=values.dtype)
    return (values * asked).sum(-1) / asked.sum(-1).clamp(min=1.0)


def _observed(seen: Mapping[str, Tensor]) -> Observed:
    return {name: torch.nan_to_num(seen[name].float()) for name in SHOWN}


def _scaled(x: Tensor, factor: float) -> Tensor:
    """The same value, ``factor`` times its gradient."""
    return x * factor + x.detach() * (1.0 - factor)

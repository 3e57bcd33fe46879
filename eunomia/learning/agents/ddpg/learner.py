"""Deep deterministic policy gradient (Lillicrap et al., ICLR 2016) over lists of sub-jobs, and TD3 as the fallback.

    critic:  minimise (r + gamma^g Q'(s', mu'(s')) - Q(s, a))^2, g the time to s' in T_s, Q' = 0 after an episode
    actor:   maximise Q(s, mu(s)) / mean |Q| - imitation * (distance of mu(s) to the teacher on the teacher's states)
    targets: theta' <- (1 - tau) theta' + tau theta

TD3 (Fujimoto et al., ICML 2018) adds: two critics and the lesser of their targets, clipped noise on mu', and an actor
that moves at every second update. The start is a clone of the teacher: priorities by squared error, scores by
cross-entropy of the chosen accelerator. The critics start from the returns that the teacher and its clone really
earned, which takes a minute where bootstrapping from nothing takes hours. Ours, not RELMAS' (docs/deviations.d): TD3,
``imitation`` (after Fujimoto and Gu, NeurIPS 2021), that start, and the division by mean |Q|: without it the clip of
the gradient sets the step.

Does badly: a deterministic gradient through an argmax sees no difference until the argmax flips; and the critic
extrapolates to actions that nobody took, which shows as a falling hit rate under a rising Q.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from eunomia.config.algorithm import RelmasAlgorithm
from eunomia.core.arrays import Floats
from eunomia.learning.agents.ddpg.episode import Batch
from eunomia.learning.agents.ddpg.features import inputs
from eunomia.learning.agents.torch_state import TorchState, descend, follow, seeded
from eunomia.learning.state import Entry

SHARPNESS = 5.0  # of the softmax over scores in cloning
TAU = 0.005
ACTOR_RATE, CRITIC_RATE, CLONE_RATE = 1e-4, 1e-3, 3e-3
BATCH = 128
CLIP = 1.0  # greatest norm of a gradient
TARGET_NOISE = 0.2  # TD3: its standard deviation, clipped at 0.5
DELAY = 2  # TD3: critic updates per actor update


def mask_of(count: Tensor, length: int) -> Tensor:
    """(B, n) True where there is a sub-job."""
    return torch.arange(length)[None, :] < count[:, None]


class ActorNet(nn.Module):
    """LSTM over the list, and per sub-job priority and S scores in (-1, 1)."""

    def __init__(self, lanes: int, promises: bool, units: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs(lanes, promises), units, batch_first=True)
        self.head = nn.Linear(units, 1 + lanes)

    def forward(self, seen: Tensor) -> Tensor:
        """(B, n, F) -> (B, n, 1 + S). Padding comes last, so it changes nothing before it."""
        return torch.tanh(self.head(self.lstm(seen)[0]))

    def numbers(self) -> dict[str, Floats]:
        """The tensors of policy.py; PyTorch's two biases become one."""
        t = {name: value.numpy().astype(np.float64) for name, value in self.state_dict().items()}
        plain = {
            "x": t["lstm.weight_ih_l0"].T, "h": t["lstm.weight_hh_l0"].T, "out": t["head.weight"].T,
            "bias": t["lstm.bias_ih_l0"] + t["lstm.bias_hh_l0"], "out_bias": t["head.bias"],
        }  # fmt: skip
        return {name: np.ascontiguousarray(value) for name, value in plain.items()}


class CriticNet(nn.Module):
    """Q: LSTM over (features, action) of the list, mean of its states over the sub-jobs, one hidden layer."""

    def __init__(self, lanes: int, promises: bool, units: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs(lanes, promises) + 1 + lanes, units, batch_first=True)
        self.head = nn.Sequential(nn.Linear(units, units), nn.ReLU(), nn.Linear(units, 1))

    def forward(self, seen: Tensor, action: Tensor, count: Tensor) -> Tensor:
        """(B,) value; 0 for an empty list."""
        states = self.lstm(torch.cat([seen, action], dim=2))[0]
        mask = mask_of(count, seen.shape[1])[:, :, None]
        mean = (states * mask).sum(dim=1) / count.clamp(min=1)[:, None]
        value: Tensor = self.head(mean)[:, 0]
        return value * (count > 0)


class Learner(TorchState):
    """Networks, their targets and optimisers. Equal seeds and batches give equal weights, bit for bit."""

    PARTS = ("actor", "critics", "targets", "actor_step", "critic_step", "clone_step", "generator")
    COUNTERS = ("updates",)

    def __init__(self, lanes: int, promises: bool, settings: RelmasAlgorithm, seed: int) -> None:
        self.gamma, self.twin, self.updates = settings.gamma, settings.name == "td3", 0
        self.generator = torch.Generator().manual_seed(seed)
        with seeded(seed):
            self.actor = ActorNet(lanes, promises, settings.units)
            critics = [CriticNet(lanes, promises, settings.units) for _ in range(2 if self.twin else 1)]
            self.critics = nn.ModuleList(critics)
        self.targets = copy.deepcopy(nn.ModuleList([self.actor, *self.critics])).requires_grad_(False)
        self.actor_step = torch.optim.Adam(self.actor.parameters(), ACTOR_RATE)
        self.critic_step = torch.optim.Adam(self.critics.parameters(), CRITIC_RATE)
        self.clone_step = torch.optim.Adam(self.actor.parameters(), CLONE_RATE)

    def clone(self, batch: Batch) -> float:
        """One step towards the actions of a batch that the teacher took; returns the loss."""
        loss = self._distance(batch)
        descend(loss, self.clone_step, self.actor, CLIP)
        return loss.item()

    def follow_actor(self) -> None:
        """Targets become copies: after cloning."""
        self.targets.load_state_dict(nn.ModuleList([self.actor, *self.critics]).state_dict())

    def regress(self, batch: Batch) -> float:
        """One step of the critics towards the returns that were really earned; returns the loss."""
        return self._move_critics(batch, torch.from_numpy(batch.returns))

    def _move_critics(self, batch: Batch, goal: Tensor) -> float:
        given = [torch.from_numpy(each) for each in (batch.seen, batch.action, batch.count)]
        loss = torch.stack([((critic(*given) - goal) ** 2).mean() for critic in self.critics]).sum()
        descend(loss, self.critic_step, self.critics, CLIP)
        return loss.item()

    def update(self, batch: Batch, imitation: Batch | None = None, weight: float = 0.0) -> Entry:
        """One step of the critics and, when it is due, of the actor and the targets."""
        then, then_count = torch.from_numpy(batch.then), torch.from_numpy(batch.then_count)
        with torch.no_grad():
            best = self._smooth(self.targets[0](then))
            values = [critic(then, best, then_count) for critic in self.targets[1:]]
            discount = self.gamma ** torch.from_numpy(batch.gap)
            goal = torch.from_numpy(batch.reward) + discount * torch.stack(values).amin(dim=0)
        self.updates += 1
        told = {"critic": self._move_critics(batch, goal), "target": goal.mean().item()}
        if not self.twin or self.updates % DELAY == 0:
            told["value"] = self._move_actor(batch, imitation, weight)
            follow(self.targets, (self.actor, self.critics), TAU)
        return told

    def _move_actor(self, batch: Batch, imitation: Batch | None, weight: float) -> float:
        seen, count = torch.from_numpy(batch.seen), torch.from_numpy(batch.count)
        values = self.critics[0](seen, self.actor(seen), count)
        value, loss = values.mean(), -values.mean() / values.detach().abs().mean().clamp(min=1e-6)
        if imitation is not None and weight > 0.0:
            loss = loss + weight * self._distance(imitation)
        descend(loss, self.actor_step, self.actor, CLIP)
        return float(value.item())

    def _smooth(self, action: Tensor) -> Tensor:
        """TD3's clipped noise on the target's action."""
        if not self.twin:
            return action
        noise = TARGET_NOISE * torch.randn(action.shape, generator=self.generator)
        return (action + noise.clamp(-0.5, 0.5)).clamp(-1.0, 1.0)

    def _distance(self, taught: Batch) -> Tensor:
        """Squared error of priorities plus cross-entropy of the accelerator, mean over sub-jobs."""
        seen, wanted, count = map(torch.from_numpy, (taught.seen, taught.action, taught.count))
        action = self.actor(seen)
        mask = mask_of(count, action.shape[1])
        priority = (action[:, :, 0] - wanted[:, :, 0]) ** 2
        scores, chosen = SHARPNESS * action[:, :, 1:], wanted[:, :, 1:].argmax(dim=2)
        place = nn.functional.cross_entropy(scores.flatten(0, 1), chosen.flatten(), reduction="none")
        loss: Tensor = ((priority + place.view_as(priority)) * mask).sum() / mask.sum()
        return loss

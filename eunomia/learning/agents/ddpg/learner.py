"""Deep deterministic policy gradient (Lillicrap et al., ICLR 2016) over lists of sub-jobs, and TD3.

    critic:  minimise (r + f Q'(s', mu'(s')) - Q(s, a))^2, r what is earned until s', f the discount then (episode.py)
    actor:   follow dQ/da at (s, mu(s)), each sub-job its own, over its root mean square; - imitation x distance
    targets: theta' <- (1 - tau) theta' + tau theta

*Compatible* (Silver et al., ICML 2014): Q(s, a) = V(s) + sum over sub-jobs of g_j(s) . (a_j - mu'_j(s)), V and g from a
bidirectional LSTM. The effect of an action, a thousandth of what a state is worth, has outputs of its own. *Joint*: the
LSTM reads features and actions, Q is a hidden layer over the mean of its states.

TD3 (Fujimoto et al., ICML 2018) adds: two critics and the lesser of their targets, clipped noise on mu', and an actor
that moves at every second update. The distance is that to no correction (``residual``), or to the teacher's actions on
its own states: priorities and margins by squared error, scores by cross-entropy, and whether to hold by a logistic
loss, the soft form of the step (docs/deviations.d).

Does badly: what a start does to requests that have not arrived is noise to the critic.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from eunomia.config.algorithm import RelmasAlgorithm
from eunomia.learning.agents.ddpg.act import MARGIN, SCORES
from eunomia.learning.agents.ddpg.decide import Singles
from eunomia.learning.agents.ddpg.episode import Batch
from eunomia.learning.agents.ddpg.networks import CriticNet, actor_of, mask_of
from eunomia.learning.agents.torch_state import TorchState, descend, follow, seeded
from eunomia.learning.state import Entry

SHARPNESS = 5.0  # of the softmax over scores in cloning
SOFT = 0.1  # width of the logistic loss of holding
TAU = 0.005
CRITIC_RATE, CLONE_RATE, DECAY = 1e-3, 3e-3, 1e-4
BATCH = 256
CLIP = 1.0  # greatest norm of a gradient
TARGET_NOISE = 0.2  # TD3: its standard deviation, clipped at 0.5
DELAY = 2  # TD3: critic updates per actor update


class Learner(TorchState):
    """Networks, their targets and optimisers. Equal seeds and batches give equal weights, bit for bit."""

    PARTS = ("actor", "critics", "targets", "actor_step", "critic_step", "clone_step", "generator")
    COUNTERS = ("updates",)

    def __init__(self, lanes: int, promises: bool, settings: RelmasAlgorithm, seed: int) -> None:
        self.settings, self.twin, self.updates = settings, settings.name == "td3", 0
        self.generator = torch.Generator().manual_seed(seed)
        with seeded(seed):
            self.actor = actor_of(lanes, promises, settings)
            critics = [CriticNet(lanes, promises, settings) for _ in range(2 if self.twin else 1)]
            self.critics = nn.ModuleList(critics)
        self.targets = copy.deepcopy(nn.ModuleList([self.actor, *self.critics])).requires_grad_(False)
        self.actor_step = torch.optim.Adam(self.actor.parameters(), settings.rate)
        self.critic_step = torch.optim.AdamW(self.critics.parameters(), CRITIC_RATE, weight_decay=DECAY)
        self.clone_step = torch.optim.Adam(self.actor.parameters(), CLONE_RATE)

    def normalise(self, seen: Singles) -> None:
        """All networks shift and scale by these sub-jobs (n, F)."""
        for network in (self.actor, *self.critics):
            network.normalise(torch.from_numpy(seen))
        self.follow_actor()

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
        seen, action, count = (torch.from_numpy(each) for each in (batch.seen, batch.action, batch.count))
        with torch.no_grad():
            usual = self.targets[0](seen, count)
        losses = [((critic(seen, action, usual, count) - goal) ** 2).mean() for critic in self.critics]
        loss = torch.stack(losses).sum()
        descend(loss, self.critic_step, self.critics, CLIP)
        return loss.item()

    def update(self, batch: Batch, imitation: Batch | None = None, weight: float = 0.0) -> Entry:
        """One step of the critics and, when it is due, of the actor and the targets."""
        goal = self.goal(batch)
        self.updates += 1
        told = {"critic": self._move_critics(batch, goal), "target": goal.mean().item()}
        if not self.twin or self.updates % DELAY == 0:
            told |= self._move_actor(batch, imitation, weight)
            follow(self.targets, (self.actor, self.critics), TAU)
        return told

    def goal(self, batch: Batch) -> Tensor:
        """(B,) what the critics should say."""
        then, count = torch.from_numpy(batch.then), torch.from_numpy(batch.then_count)
        with torch.no_grad():
            usual = self.targets[0](then, count)
            best = self.smooth(usual)
            values = [critic(then, best, usual, count) for critic in self.targets[1:]]
        return torch.from_numpy(batch.reward) + torch.from_numpy(batch.factor) * torch.stack(values).amin(
            dim=0
        )

    def _move_actor(self, batch: Batch, imitation: Batch | None, weight: float) -> Entry:
        seen, count = torch.from_numpy(batch.seen), torch.from_numpy(batch.count)
        mask, action = mask_of(count, seen.shape[1])[:, :, None], self.actor(seen, count)
        at = action.detach().requires_grad_()
        value = self.critics[0](seen, at, self.targets[0](seen, count), count)
        (slope,) = torch.autograd.grad(value.sum(), at)
        size = (slope**2 * mask).sum().div(mask.sum() * slope.shape[2]).sqrt().clamp(min=1e-9)
        loss = -(slope / size * action * mask).sum() / mask.sum()
        if self.settings.residual and weight > 0.0:
            loss = loss + weight * (action**2 * mask).sum() / mask.sum()
        elif imitation is not None and weight > 0.0:
            loss = loss + weight * self._distance(imitation)
        descend(loss, self.actor_step, self.actor, CLIP)
        reach = (action.detach() ** 2 * mask).sum().div(mask.sum() * slope.shape[2]).sqrt()
        return {"value": value.mean().item(), "slope": size.item(), "action": reach.item()}

    def smooth(self, action: Tensor) -> Tensor:
        """TD3's clipped noise on the target's action."""
        if not self.twin:
            return action
        noise = TARGET_NOISE * torch.randn(action.shape, generator=self.generator)
        return (action + noise.clamp(-0.5, 0.5)).clamp(-1.0, 1.0)

    def _distance(self, taught: Batch) -> Tensor:
        """Of the actor to the teacher, mean over sub-jobs."""
        seen, wanted, count = map(torch.from_numpy, (taught.seen, taught.action, taught.count))
        action = self.actor(seen, count)
        mask = mask_of(count, action.shape[1])
        level = ((action[:, :, :SCORES] - wanted[:, :, :SCORES]) ** 2).sum(dim=2)
        starts = torch.where(wanted[:, :, MARGIN] >= 0.0, -1.0, 1.0)
        hold = nn.functional.softplus(starts * action[:, :, MARGIN] / SOFT)
        scores, chosen = SHARPNESS * action[:, :, SCORES:], wanted[:, :, SCORES:].argmax(dim=2)
        place = nn.functional.cross_entropy(scores.flatten(0, 1), chosen.flatten(), reduction="none")
        loss: Tensor = ((level + hold + place.view_as(hold)) * mask).sum() / mask.sum()
        return loss

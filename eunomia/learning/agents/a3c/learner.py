"""Advantage actor-critic on traces of placement: the numbers, the network in torch, and a worker's gradients.

Mnih et al. 2016. A worker acts for ``steps`` decisions; the gradient is that of

    - log pi(a|s) A - entropy_weight H + value_weight (G - v)^2,   G_t = r_t - rho tau_t + G_{t+1},  A = G - v

at the weights that it acted with; n-step returns, G after the last step = v, or 0 at a trace's end. rho is the
running reward per unit time, because gaps tau between events vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from eunomia.config.algorithm import PlacementAlgorithm
from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.inference.environments.edge_cloud.case import Case
from eunomia.inference.environments.edge_cloud.features import PAIR, observe
from eunomia.inference.environments.edge_cloud.world import Goals, World
from eunomia.learning.agents.a3c.policy import BASE, DEFER, PreferencePlacement, shapes

DECAY = 0.99  # of RMSprop
GRADIENT = 5.0  # greatest norm
VALUE_WEIGHT = 0.25
FOLLOW = 0.02  # of rho


def goals_of(settings: PlacementAlgorithm) -> Goals:
    """What a training is rewarded for."""
    return Goals(settings.requester, settings.provider, settings.utilisation, settings.waiting)


def first_tensors(units: int, seed: int) -> dict[str, Floats]:
    """Random layers, output layers 0: the policy begins as ``greedy_gain``."""
    rng = np.random.default_rng([seed, 0xA3C])
    found = {name: np.zeros(shape) for name, shape in shapes(units).items()}
    inner = [name for name in found if name.startswith("W")]
    return found | {n: rng.standard_normal(found[n].shape) / len(found[n]) ** 0.5 for n in inner}


def flat(tensors: dict[str, Floats]) -> Tensor:
    """All numbers in one vector, in the order of ``shapes``."""
    return torch.from_numpy(np.concatenate([value.ravel() for value in tensors.values()]))


def unflat(theta: Tensor, units: int) -> dict[str, Tensor]:
    """Views of the vector by name."""
    sizes = {name: int(np.prod(shape)) for name, shape in shapes(units).items()}
    parts = torch.split(theta, list(sizes.values()))
    return {name: part.view(shapes(units)[name]) for name, part in zip(sizes, parts, strict=True)}


def evaluate(t: dict[str, Tensor], x: Tensor, overall: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
    """(B, P + 1) log-odds and (B,) values for (B, P, PAIR) pairs, padded where ``legal`` (B, P) is False."""
    hidden = torch.relu(x @ t["W1"] + t["b1"]) * legal[:, :, None]
    mean = hidden.sum(1) / legal.sum(1, keepdim=True).clamp(min=1)
    z = torch.cat([mean, hidden.amax(1), overall], 1)
    joint = torch.cat([hidden, z[:, None, :].expand(-1, x.shape[1], -1)], 2)
    scores = torch.relu(joint @ t["W2"] + t["b2"]) @ t["w2"] + t["c2"] + BASE * x[:, :, PAIR.index("gain")]
    defer = torch.relu(z @ t["W3"] + t["b3"]) @ t["w3"] + t["c3"] + DEFER
    logits = torch.cat([scores.masked_fill(~legal, -1e9), defer[:, None]], 1)
    return logits.log_softmax(1), torch.relu(z @ t["W4"] + t["b4"]) @ t["w4"] + t["c4"]


@dataclass
class _Walk:
    """What one segment saw and did."""

    seen: list[tuple[Floats, Floats]] = field(default_factory=list)  # legal pairs' features, globals
    action: list[int] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    tau: list[float] = field(default_factory=list)


class Worker:
    """Plays traces in segments and turns each into a gradient."""

    def __init__(self, settings: PlacementAlgorithm, cases: Sequence[Case], rng: np.random.Generator) -> None:
        self.settings, self._cases, self._rng = settings, list(cases), rng
        self._world: World | None = None
        self.rewards: list[float] = []  # of finished traces

    def segment(self, theta: Tensor, rho: float) -> tuple[Tensor, float, float] | None:
        """(gradient, sum of rewards, sum of tau) of the next decisions; None when all traces are over."""
        if self._world is None and not self._cases:
            return None
        s, walk = self.settings, _Walk()
        tensors = {name: value.detach().numpy() for name, value in unflat(theta, s.units).items()}
        policy = PreferencePlacement(tensors, hidden=s.hidden)
        ended = False
        while len(walk.action) < s.steps and not ended:
            ended = self._decide(policy, walk)
        after = 0.0 if ended else policy.decision(self._at(), self._mask()).value
        if not walk.action:
            return torch.zeros_like(theta), 0.0, 0.0
        return _gradient(theta, walk, after, rho, s), sum(walk.reward), sum(walk.tau)

    def _at(self) -> World:
        if self._world is None:
            case = self._cases.pop(0)
            self._world = World(case, goals_of(self.settings), self.settings.period * case.mean_run_s)
        return self._world

    def _mask(self) -> Flags | None:
        return np.ones_like(self._at().mask()) if self.settings.penalty > 0.0 else None

    def _decide(self, policy: PreferencePlacement, walk: _Walk) -> bool:
        """One decision; True if the trace is over."""
        world, s = self._at(), self.settings
        if not world.done and not (world.waiting and world.mask().any()):
            world.advance()
        if not world.done:
            found = policy.decision(world, self._mask())
            features, overall = observe(world, s.hidden)
            choice = int(self._rng.choice(len(found.odds), p=found.odds))
            walk.seen.append((features[found.pairs[:, 0], found.pairs[:, 1]], overall))
            walk.action.append(choice)
            reward, tau_s = self._apply(world, found.pairs, choice)
            walk.reward.append(reward * len(world.case.arrival_s))
            walk.tau.append(tau_s / world.case.mean_run_s)
        if world.done:
            self.rewards.append(world.reward)
            self._world = None
            return True
        return False

    def _apply(self, world: World, pairs: Ints, choice: int) -> tuple[float, float]:
        reward, tau_s, deferred = 0.0, 0.0, choice == len(pairs)
        if not deferred:
            row, device = pairs[choice].tolist()
            deferred = not world.mask()[row, device]
            penalty = self.settings.penalty / len(world.case.arrival_s)
            reward = -penalty if deferred else world.place(row, device)
        if not world.done and (deferred or not (world.waiting and world.mask().any())):
            waited, tau_s = world.advance()
            reward += waited
        return reward, tau_s


def _gradient(theta: Tensor, walk: _Walk, after: float, rho: float, s: PlacementAlgorithm) -> Tensor:
    """Of the loss of a segment, at ``theta``."""
    most = max(max(len(x) for x, _ in walk.seen), 1)
    x = torch.zeros(len(walk.action), most, len(PAIR), dtype=torch.float64)
    legal = torch.zeros(len(walk.action), most, dtype=torch.bool)
    action = torch.empty(len(walk.action), dtype=torch.int64)
    for n, (rows, _) in enumerate(walk.seen):
        x[n, : len(rows)], legal[n, : len(rows)] = torch.from_numpy(rows), True
        action[n] = walk.action[n] if walk.action[n] < len(rows) else most
    overall = torch.from_numpy(np.stack([overall for _, overall in walk.seen]))
    goal = torch.from_numpy(returns(walk.reward, walk.tau, after, rho))
    leaf = theta.detach().clone().requires_grad_()
    log, value = evaluate(unflat(leaf, s.units), x, overall, legal)
    advantage = (goal - value).detach()
    entropy = -(log.exp() * log.clamp(min=-1e3)).sum(1)
    taken = log.gather(1, action[:, None])[:, 0]
    loss = (-taken * advantage - s.entropy * entropy + VALUE_WEIGHT * (goal - value) ** 2).mean()
    (gradient,) = torch.autograd.grad(loss, leaf)
    norm = float(gradient.norm())
    return gradient * min(1.0, GRADIENT / max(norm, 1e-12))


def returns(reward: Sequence[float], tau: Sequence[float], after: float, rho: float) -> Floats:
    """G_t = r_t - rho tau_t + G_{t+1}, from ``after`` behind the last one."""
    earned = np.asarray(reward, np.float64) - rho * np.asarray(tau, np.float64)
    return np.cumsum(np.append(after, earned[::-1]))[1:][::-1].copy()

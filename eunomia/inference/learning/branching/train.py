"""Training a branching network: double Q-learning with replay on the vector environment.

y = r + gamma mean over asked branches of Q'_d(s', argmax_a Q_d(s', a)); loss = mean over asked branches of
Huber(y - Q_d), plus ``auxiliary`` x mean squared error of the forecasts. Exploration: every asked branch draws a
random allowed action with probability epsilon, falling linearly. Uniform replay. Equal settings give equal bits on
one machine and thread count.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch

from eunomia.errors import ConfigError
from eunomia.inference.learning.branching.choose import asked_branches, resolve
from eunomia.inference.learning.branching.network import AUXILIARIES, BranchingQ, Observed
from eunomia.inference.learning.gym.env import Draw
from eunomia.inference.learning.gym.vector import SchedulingVectorEnv

SHOWN = ("jobs", "pairs", "overall", "waiting", "mask")


@dataclass(frozen=True)
class BranchingSettings:
    """``steps`` of all episodes together; ``auxiliaries``: names of heads, weighed by ``auxiliary`` (0.05 to 0.5)."""

    steps: int = 2000
    size: int = 8
    most: int = 16
    units: int = 32
    shared: bool = True
    reward: str = "R1"
    gamma: float = 0.99
    rate: float = 1e-3
    batch: int = 64
    memory: int = 20_000
    copy_every: int = 200
    epsilon: tuple[float, float] = (1.0, 0.05)
    auxiliaries: tuple[str, ...] = ()
    auxiliary: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.size, self.most, self.units, self.batch, self.copy_every) < 1:
            raise ConfigError("steps, size, most, units, batch and copy_every must be at least 1")
        if not (0.0 <= self.gamma <= 1.0 and self.rate > 0.0 and self.memory >= self.batch):
            raise ConfigError(
                "gamma must be within 0 and 1, the rate positive, and the memory at least one batch"
            )


class Replay:
    """A ring of transitions."""

    def __init__(self, room: int) -> None:
        self._room, self._rows, self._at = room, [], 0  # type: tuple[int, list[tuple[object, ...]], int]

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: tuple[object, ...]) -> None:
        """One transition; the oldest goes when there is no room."""
        if len(self._rows) < self._room:
            self._rows.append(row)
        else:
            self._rows[self._at] = row
        self._at = (self._at + 1) % self._room

    def draw(self, count: int, rng: np.random.Generator) -> list[torch.Tensor]:
        """``count`` transitions, column by column."""
        chosen = [self._rows[i] for i in rng.integers(len(self._rows), size=count)]
        return [torch.as_tensor(np.stack(column)) for column in zip(*chosen, strict=True)]


def train_branching(draw: Draw, settings: BranchingSettings) -> tuple[BranchingQ, list[float]]:
    """The network and the loss of every update. ``draw``: seed -> episode. Raises ConfigError, UnknownNameError."""
    s = settings
    env = SchedulingVectorEnv(draw, s.size, "branch", s.reward, s.most)
    rng = np.random.default_rng(np.random.SeedSequence([s.seed, 0xBD9]))
    seen, _ = env.reset(seed=s.seed)
    network = BranchingQ(seen["pairs"].shape[2], s.units, s.shared, s.auxiliaries, s.seed)
    slow = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), s.rate)
    replay, losses, ended = Replay(s.memory), [], np.zeros(s.size, np.bool_)
    turns = max(s.steps // s.size, 1)
    for turn in range(turns):
        share = turn / max(turns - 1, 1)
        actions = act(network, seen, s.epsilon[0] + share * (s.epsilon[1] - s.epsilon[0]), rng)
        after, rewards, done, _, _ = env.step(actions)
        for e in np.flatnonzero(~ended).tolist():  # the step after an end only begins anew
            replay.add((*(_real(seen[k][e]) for k in SHOWN), actions[e], np.float32(rewards[e]), np.float32(done[e]),
                        *(_real(after[k][e]) for k in SHOWN)))  # fmt: skip
        seen, ended = after, done
        if len(replay) >= s.batch:
            losses.append(_update(network, slow, optimizer, replay.draw(s.batch, rng), s))
        if turn % s.copy_every == 0:
            slow.load_state_dict(network.state_dict())
    return network, losses


def act(
    network: BranchingQ, seen: dict[str, np.ndarray], epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """(E, S) actions without conflicts; random values stand in for a branch's own with probability epsilon."""
    with torch.no_grad():
        q = network(_observed([torch.as_tensor(_real(seen[k])) for k in SHOWN]))[0].numpy().astype(np.float64)
    random = rng.random(q.shape[:2]) < epsilon
    q = np.where(random[:, :, None], rng.random(q.shape), q)
    return np.stack([resolve(q[e], seen["mask"][e] > 0) for e in range(len(q))])


def _update(
    network: BranchingQ, slow: BranchingQ, optimizer: torch.optim.Optimizer, rows: list[torch.Tensor],
    s: BranchingSettings,
) -> float:  # fmt: skip
    """One step of the optimizer; returns the loss."""
    now, (actions, rewards, done), later = _observed(rows[:5]), rows[5:8], _observed(rows[8:])
    with torch.no_grad():
        best = network(later)[0].argmax(-1, keepdim=True)
        valued = slow(later)[0].gather(-1, best).squeeze(-1)
        y = rewards + s.gamma * (1.0 - done) * _over_asked(valued, later[4])
    q, forecasts = network(now)
    chosen = q.gather(-1, actions[:, :, None]).squeeze(-1)
    errors = torch.nn.functional.smooth_l1_loss(chosen, y[:, None].expand_as(chosen), reduction="none")
    loss = _over_asked(errors, now[4]).mean()
    if forecasts is not None:
        facts = later[2][:, [AUXILIARIES[name] for name in s.auxiliaries]]
        wrong = ((forecasts - facts) ** 2).mean(-1)
        loss = loss + s.auxiliary * (wrong * (1.0 - done)).mean()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
    optimizer.step()
    return float(loss.detach())


def _over_asked(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(B,) mean over branches that have something to choose; 0 where none has."""
    asked = torch.as_tensor(asked_branches(mask.numpy() > 0), dtype=values.dtype)
    return (values * asked).sum(-1) / asked.sum(-1).clamp(min=1.0)


def _real(values: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.asarray(values, np.float32))


def _observed(columns: list[torch.Tensor]) -> Observed:
    jobs, pairs, overall, waiting, mask = columns
    return jobs, pairs, overall, waiting, mask

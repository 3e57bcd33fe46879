"""Replay of whole episodes: the last ones up to a number of ticks, sampled uniformly over ticks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.learning.agents.ddpg.episode import Singles, Transitions


@dataclass(frozen=True, eq=False)
class Batch:
    """B transitions, padded to the longest list among them. ``count``: sub-jobs before the padding."""

    seen: Singles  # (B, n, F)
    action: Singles  # (B, n, 1 + S)
    count: npt.NDArray[np.int64]  # (B,)
    reward: Singles  # (B,)
    gap: Singles  # (B,) time to the next decision
    then: Singles  # (B, m, F)
    then_count: npt.NDArray[np.int64]  # (B,); 0 = the episode is over
    returns: Singles  # (B,) discounted sum of what was really earned from here to the end of the episode


class Replay:
    """Keeps the newest episodes whose ticks fit into ``room``; the newest one always. ``width`` = F."""

    def __init__(self, room: int, width: int, gamma: float) -> None:
        self.room, self.width, self.gamma = room, width, gamma
        self.episodes: deque[tuple[int, Transitions]] = deque()  # (number, episode)
        self._returns: dict[int, Singles] = {}

    def __len__(self) -> int:
        return sum(len(episode) for _, episode in self.episodes)

    def add(self, number: int, episode: Transitions) -> None:
        """Take in one episode, forget the oldest ones that no longer fit."""
        self.episodes.append((number, episode))
        while len(self.episodes) > 1 and len(self) > self.room:
            self._returns.pop(self.episodes.popleft()[0], None)

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """Draw ``size`` ticks with replacement."""
        ends = np.cumsum([len(episode) for _, episode in self.episodes])
        drawn = rng.integers(0, ends[-1], size)
        which = np.searchsorted(ends, drawn, side="right")
        tick = drawn - np.concatenate([[0], ends])[which]
        now, after = [], []
        reward, gap, returns = np.empty((3, size), np.float32)
        for n, (e, t) in enumerate(zip(which.tolist(), tick.tolist(), strict=True)):
            number, episode = self.episodes[e]
            now.append(_state(episode, t))
            after.append(_state(episode, t + 1))
            reward[n], gap[n], returns[n] = (
                episode.rewards[t],
                episode.gaps[t],
                self._earned(number, episode)[t],
            )
        rows, count = _pad(now)
        then, then_count = _pad(after)
        seen, action = rows[:, :, : self.width], rows[:, :, self.width :]
        return Batch(seen, action, count, reward, gap, then[:, :, : self.width], then_count, returns)

    def _earned(self, number: int, episode: Transitions) -> Singles:
        if number not in self._returns:
            self._returns[number] = discounted(episode.rewards, self.gamma**episode.gaps)
        return self._returns[number]


def discounted(rewards: Singles, factors: Singles) -> Singles:
    """(T,) G_t = r_t + f_t G_{t+1}, G_T = 0."""
    returns, following = np.empty(len(rewards)), 0.0
    for t in range(len(rewards) - 1, -1, -1):
        following = float(rewards[t]) + float(factors[t]) * following
        returns[t] = following
    return returns.astype(np.float32)


def _state(episode: Transitions, tick: int) -> Singles:
    """(n, F + 1 + S) of a tick; no rows after the last one."""
    if tick == len(episode):
        return episode.rows[:0]
    return episode.rows[episode.start[tick] : episode.start[tick + 1]]


def _pad(lists: list[Singles]) -> tuple[Singles, npt.NDArray[np.int64]]:
    count = np.array([len(rows) for rows in lists], np.int64)
    padded = np.zeros((len(lists), max(int(count.max()), 1), lists[0].shape[1]), np.float32)
    for n, rows in enumerate(lists):
        padded[n, : len(rows)] = rows
    return padded, count

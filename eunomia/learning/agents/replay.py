"""Transitions to learn from, in a ring; brought back after a stop by playing the same actions again.

On disk stand the actions of the last iterations alone: episodes are the same for the same numbers, so that what was
seen and earned follows from them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.learning.agents.torch_state import Arrays
from eunomia.learning.episodes import Sampler
from eunomia.learning.gym.stage import Seen, Stage
from eunomia.learning.rewards import REWARDS, RewardSettings

SHOWN = ("jobs", "pairs", "overall", "waiting", "mask")


@dataclass(frozen=True)
class Play:
    """How episodes are played: ``episodes`` per iteration, ``most`` sub-jobs shown, rewards times ``scale``."""

    encoding: str
    episodes: int = 4
    most: int = 32
    reward: str = "R1"
    scale: float = 100.0
    weights: RewardSettings = field(default_factory=RewardSettings)

    def __post_init__(self) -> None:
        if min(self.episodes, self.most) < 1 or not self.scale > 0.0:
            raise ConfigError("episodes and most must be at least 1, and scale positive")
        if self.reward not in REWARDS:
            raise UnknownNameError("reward", self.reward, REWARDS)

    def stage(self, sampler: Sampler, number: int) -> Stage:
        """The episodes of iteration ``number``, at their first decisions."""
        return Stage(
            sampler.training(number, self.episodes), self.encoding, self.reward, self.most, self.weights
        )


class Ring:
    """The last ``room`` transitions, in preallocated arrays of the kinds that the first one has."""

    def __init__(self, room: int, keys: tuple[str, ...]) -> None:
        self.room, self.keys, self.count, self.at = room, keys, 0, 0
        self._columns: dict[str, np.ndarray[Any, Any]] = {}

    def add(self, now: Seen, action: Any, reward: Any, then: Seen, end: Any, live: Any) -> None:
        """Keep the transitions of episodes that were live; all arguments have a leading axis of episodes."""
        columns = {**{f"now.{k}": now[k] for k in self.keys}, "action": np.asarray(action),
                   "reward": np.asarray(reward, np.float32), **{f"then.{k}": then[k] for k in self.keys},
                   "end": np.asarray(end, np.float32)}  # fmt: skip
        if not self._columns:
            self._columns = {
                name: np.empty((self.room, *v.shape[1:]), v.dtype) for name, v in columns.items()
            }
        for e in np.flatnonzero(live).tolist():
            for name, kept in self._columns.items():
                kept[self.at] = columns[name][e]
            self.at, self.count = (self.at + 1) % self.room, min(self.count + 1, self.room)

    def sample(
        self, size: int, rng: np.random.Generator
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor, dict[str, torch.Tensor], torch.Tensor]:
        """(now, action, reward, then, end) of ``size`` transitions, drawn with replacement."""
        rows = rng.integers(0, self.count, size)
        drawn = {name: torch.from_numpy(kept[rows]) for name, kept in self._columns.items()}
        now, then = ({k: drawn[f"{when}.{k}"] for k in self.keys} for when in ("now", "then"))
        return now, drawn["action"], drawn["reward"], then, drawn["end"]


Act = Callable[[Seen], np.ndarray[Any, Any]]


class Recall:
    """Plays iterations into a ring, and remembers the actions of those that may still be in it."""

    def __init__(self, sampler: Sampler, play: Play, room: int, keys: tuple[str, ...]) -> None:
        self.play, self.ring, self._sampler = play, Ring(room, keys), sampler
        self._past: deque[tuple[int, int, np.ndarray[Any, Any]]] = (
            deque()
        )  # (iteration, ring.at before, actions)
        self._sizes: deque[int] = deque()  # transitions of each

    def iterate(self, number: int, act: Act, learn: Callable[[], None]) -> tuple[float, float]:
        """Play one iteration, learning after each step; (decisions, mean hit rate)."""
        at, stage, taken, count = self.ring.at, self.play.stage(self._sampler, number), [], 0
        while stage.live.any():
            action = act(stage.seen)
            count += self._step(stage, action)
            taken.append(action.astype(np.int16))
            learn()
        self._past.append((number, at, np.stack(taken)))
        self._sizes.append(count)
        while sum(self._sizes) - self._sizes[0] >= self.ring.room:
            self._past.popleft()
            self._sizes.popleft()
        return float(count), float(stage.hit_rates.mean())

    def _step(self, stage: Stage, action: np.ndarray[Any, Any]) -> int:
        live, before = stage.live, stage.seen
        reward = stage.step(action)
        self.ring.add(
            before, action.astype(np.int64), self.play.scale * reward, stage.seen, live & ~stage.live, live
        )
        return int(live.sum())

    def arrays(self) -> Arrays:
        """Actions of the iterations that the ring may hold, and where the ring stood before each."""
        return {f"past.{number}.{at}": actions for number, at, actions in self._past}

    def restore(self, arrays: Arrays) -> None:
        """Play what ``arrays()`` names again."""
        names = [name.split(".") for name in arrays if name.startswith("past.")]
        for number, at in sorted((int(n), int(a)) for _, n, a in names):
            actions, stage, count = arrays[f"past.{number}.{at}"], self.play.stage(self._sampler, number), 0
            self.ring.at = at
            for action in actions:
                count += self._step(stage, action.astype(np.int64))
            self._past.append((number, at, actions))
            self._sizes.append(count)

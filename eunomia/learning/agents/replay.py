"""Transitions to learn from, in a ring; brought back after a stop by playing the same actions again.

On disk stand the actions of the last iterations alone: episodes are the same for the same numbers, so that what was
seen and earned follows from them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque

import numpy as np
import torch
from torch import Tensor

from eunomia.config.algorithm import BdqAlgorithm, SacAlgorithm
from eunomia.core.arrays import Ints
from eunomia.engines.crew import Workers
from eunomia.learning.agents import Context
from eunomia.learning.agents.torch_state import TorchAgent
from eunomia.learning.gym.stage import Array, Seen, Stage
from eunomia.learning.loop import mean_of
from eunomia.learning.state import Arrays, Entry, Pieces

SHOWN = ("jobs", "pairs", "overall", "waiting", "mask")
Drawn = tuple[dict[str, Tensor], Tensor, Tensor, dict[str, Tensor], Tensor]  # now, action, reward, then, end


class Ring:
    """The last ``room`` transitions, in preallocated arrays of the kinds that the first one has."""

    def __init__(self, room: int, keys: tuple[str, ...]) -> None:
        self.room, self.keys, self.count, self.at = room, keys, 0, 0
        self._columns: Arrays = {}

    def add(self, now: Seen, action: Array, reward: Array, then: Seen, end: Array, live: Array) -> None:
        """Keep the transitions of episodes that were live; all arguments have a leading axis of episodes."""
        columns = {f"now.{k}": now[k] for k in self.keys} | {f"then.{k}": then[k] for k in self.keys}
        columns |= {"action": action, "reward": reward.astype(np.float32), "end": end.astype(np.float32)}
        if not self._columns:
            self._columns = {n: np.empty((self.room, *v.shape[1:]), v.dtype) for n, v in columns.items()}
        for e in np.flatnonzero(live).tolist():
            for name, value in columns.items():
                self._columns[name][self.at] = value[e]
            self.at, self.count = (self.at + 1) % self.room, min(self.count + 1, self.room)

    def sample(self, size: int, rng: np.random.Generator) -> Drawn:
        """``size`` transitions, drawn with replacement."""
        rows = rng.integers(0, self.count, size)
        drawn = {name: torch.from_numpy(kept[rows]) for name, kept in self._columns.items()}
        now, then = ({k: drawn[f"{when}.{k}"] for k in self.keys} for when in ("now", "then"))
        return now, drawn["action"], drawn["reward"], then, drawn["end"]


class ReplayAgent(TorchAgent):
    """Whole episodes per iteration, an update after every ``every`` steps once ``first`` transitions are there."""

    COUNTERS = ("done", "steps", "updates")
    SHOWN: tuple[str, ...] = SHOWN
    STREAM = 0  # of random numbers
    settings: SacAlgorithm | BdqAlgorithm

    def __init__(self, settings: SacAlgorithm | BdqAlgorithm, context: Context) -> None:
        super().__init__(settings, context)
        self.first = settings.batch  # transitions
        self.steps = self.updates = 0
        self.ring = Ring(settings.replay, self.SHOWN)
        # Of each iteration that may be in the ring: number, where the ring stood before it, actions, transitions.
        self._past: deque[tuple[int, int, Array, int]] = deque()

    @abstractmethod
    def act(self, seen: Seen, number: int, rng: np.random.Generator) -> Ints:
        """Actions of all episodes in iteration ``number``."""

    @abstractmethod
    def update(self, drawn: Drawn) -> Entry:
        """Learn from transitions; what the curve shows of it."""

    def iterate(self, number: int, crew: Workers) -> Entry:
        """Play and learn."""
        s, rng = self.settings, np.random.default_rng([self.seed, self.STREAM, number])
        at, before, stage = self.ring.at, self.done, self.stage(number)
        taken, told = [], []
        while stage.live.any():
            action = self.act(stage.seen, number, rng)
            self.done += self._step(stage, action)
            taken.append(action.astype(np.int16))
            self.steps += 1
            if self.ring.count >= self.first and self.steps % s.every == 0:
                self.updates += 1
                told.append(self.update(self.ring.sample(s.batch, rng)))
        self._past.append((number, at, np.stack(taken), self.done - before))
        while sum(past[3] for past in self._past) - self._past[0][3] >= self.ring.room:
            self._past.popleft()
        entry = {"decisions": float(self.done), "hit_rate": float(stage.hit_rates.mean())}
        return entry | mean_of(told)

    def _step(self, stage: Stage, action: Ints) -> int:
        """Play one step into the ring; returns the number of its transitions."""
        live, before = stage.live, stage.seen
        reward = self.settings.scale * stage.step(action)
        self.ring.add(before, action, reward, stage.seen, live & ~stage.live, live)
        return int(live.sum())

    def arrays(self) -> Arrays:
        """The parts, and the actions behind the replay."""
        return self.kept() | {f"past.{number}.{at}": actions for number, at, actions, _ in self._past}

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()``; the replay is played again."""
        self.put_back(arrays)
        names = [name.split(".") for name in arrays if name.startswith("past.")]
        for number, at in sorted((int(n), int(a)) for _, n, a in names):
            actions, stage = arrays[f"past.{number}.{at}"], self.stage(number)
            self.ring.at = at
            count = sum(self._step(stage, action.astype(np.int64)) for action in actions)
            self._past.append((number, at, actions, count))

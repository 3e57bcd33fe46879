"""Transitions to learn from, in a ring; brought back after a stop by playing the same actions again.

On disk stand the actions of the last iterations alone: episodes are the same for the same numbers, so that what was
seen and earned follows from them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eunomia.learning.agents.torch_state import TorchAgent
from eunomia.learning.episodes import Task
from eunomia.learning.gym.stage import Seen, Stage
from eunomia.learning.loop import mean_of
from eunomia.learning.state import Arrays, Entry, Pieces
from eunomia.learning.workers import Workers

if TYPE_CHECKING:
    from eunomia.config.algorithm import BdqAlgorithm, PpoAlgorithm, SacAlgorithm
    from eunomia.learning.agents import Context

    Played = PpoAlgorithm | SacAlgorithm | BdqAlgorithm

SHOWN = ("jobs", "pairs", "overall", "waiting", "mask")
Drawn = tuple[dict[str, Tensor], Tensor, Tensor, dict[str, Tensor], Tensor]  # now, action, reward, then, end


def stage_of(settings: Played, task: Task, number: int, encoding: str = "priority_eft") -> Stage:
    """The episodes of iteration ``number``, at their first decisions."""
    return Stage.of(task.training(number, settings.episodes), encoding, settings.reward, settings.most)


class Ring:
    """The last ``room`` transitions, in preallocated arrays of the kinds that the first one has."""

    def __init__(self, room: int, keys: tuple[str, ...]) -> None:
        self.room, self.keys, self.count, self.at = room, keys, 0, 0
        self._columns: dict[str, npt.NDArray[Any]] = {}

    def add(self, now: Seen, action: Any, reward: Any, then: Seen, end: Any, live: Any) -> None:
        """Keep the transitions of episodes that were live; all arguments have a leading axis of episodes."""
        columns = {f"now.{k}": now[k] for k in self.keys}
        columns |= {"action": np.asarray(action), "reward": np.asarray(reward, np.float32)}
        columns |= {f"then.{k}": then[k] for k in self.keys} | {"end": np.asarray(end, np.float32)}
        if not self._columns:
            self._columns = {
                name: np.empty((self.room, *v.shape[1:]), v.dtype) for name, v in columns.items()
            }
        for e in np.flatnonzero(live).tolist():
            for name, kept in self._columns.items():
                kept[self.at] = columns[name][e]
            self.at, self.count = (self.at + 1) % self.room, min(self.count + 1, self.room)

    def sample(self, size: int, rng: np.random.Generator) -> Drawn:
        """``size`` transitions, drawn with replacement."""
        rows = rng.integers(0, self.count, size)
        drawn = {name: torch.from_numpy(kept[rows]) for name, kept in self._columns.items()}
        now, then = ({k: drawn[f"{when}.{k}"] for k in self.keys} for when in ("now", "then"))
        return now, drawn["action"], drawn["reward"], then, drawn["end"]


class Recall:
    """Plays iterations into a ring, and remembers the actions of those that may still be in it."""

    def __init__(self, room: int, keys: tuple[str, ...], scale: float, stage: Callable[[int], Stage]) -> None:
        self.ring, self._scale, self._stage = Ring(room, keys), scale, stage
        # Of each iteration: its number, where the ring stood before it, its actions, its number of transitions.
        self._past: deque[tuple[int, int, npt.NDArray[Any], int]] = deque()

    def iterate(
        self, number: int, act: Callable[[Seen], Any], learn: Callable[[], None]
    ) -> tuple[int, float]:
        """Play one iteration, learning after each step; (decisions, mean hit rate)."""
        at, stage, taken, count = self.ring.at, self._stage(number), [], 0
        while stage.live.any():
            action = act(stage.seen)
            count += self._step(stage, action)
            taken.append(action.astype(np.int16))
            learn()
        self._past.append((number, at, np.stack(taken), count))
        while sum(past[3] for past in self._past) - self._past[0][3] >= self.ring.room:
            self._past.popleft()
        return count, float(stage.hit_rates.mean())

    def _step(self, stage: Stage, action: npt.NDArray[Any]) -> int:
        live, before = stage.live, stage.seen
        reward = self._scale * stage.step(action)
        self.ring.add(before, action.astype(np.int64), reward, stage.seen, live & ~stage.live, live)
        return int(live.sum())

    def arrays(self) -> Arrays:
        """Actions of the iterations that the ring may hold, and where the ring stood before each."""
        return {f"past.{number}.{at}": actions for number, at, actions, _ in self._past}

    def restore(self, arrays: Arrays) -> None:
        """Play what ``arrays()`` names again."""
        names = [name.split(".") for name in arrays if name.startswith("past.")]
        for number, at in sorted((int(n), int(a)) for _, n, a in names):
            actions, stage = arrays[f"past.{number}.{at}"], self._stage(number)
            self.ring.at = at
            count = sum(self._step(stage, action.astype(np.int64)) for action in actions)
            self._past.append((number, at, actions, count))


class ReplayAgent(TorchAgent):
    """Whole episodes per iteration, an update after every ``every`` steps once ``first`` transitions are there."""

    COUNTERS = ("done", "steps", "updates")
    SHOWN: tuple[str, ...] = SHOWN
    ENCODING = "priority_eft"
    STREAM = 0  # of random numbers

    def __init__(self, settings: Any, context: Context) -> None:
        super().__init__(settings, context)
        self.first = settings.batch  # transitions
        self.done = self.steps = self.updates = 0

        def stage(number: int) -> Stage:
            return stage_of(settings, self.task, number, self.ENCODING)

        self.recall = Recall(settings.replay, self.SHOWN, settings.scale, stage)

    @abstractmethod
    def act(self, seen: Seen, number: int, rng: np.random.Generator) -> npt.NDArray[Any]:
        """Actions of all episodes in iteration ``number``."""

    @abstractmethod
    def update(self, drawn: Drawn) -> Entry:
        """Learn from transitions; what the curve shows of it."""

    def iterate(self, number: int, crew: Workers) -> Entry:
        """Play and learn."""
        s, rng = self.settings, np.random.default_rng([self.seed, self.STREAM, number])
        told: list[Entry] = []

        def learn() -> None:
            self.steps += 1
            if self.recall.ring.count >= self.first and self.steps % s.every == 0:
                self.updates += 1
                told.append(self.update(self.recall.ring.sample(s.batch, rng)))

        count, rate = self.recall.iterate(number, lambda seen: self.act(seen, number, rng), learn)
        self.done += count
        return {"decisions": float(self.done), "hit_rate": rate, **mean_of(told)}

    def arrays(self) -> Arrays:
        """The parts, and the actions behind the replay."""
        return super().arrays() | self.recall.arrays()

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()``; the replay is played again."""
        super().restore(arrays, pieces, crew)
        self.recall.restore(arrays)

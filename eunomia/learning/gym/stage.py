"""Whole episodes side by side, from first to last decision: what one iteration of a trainer plays.

No episode begins anew when it ends, so that an iteration depends on its episodes and actions alone: a stopped training
can play again what it had played.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.learning.encodings import Starts
from eunomia.learning.encodings import encoding as find_encoding
from eunomia.learning.episodes import Episode
from eunomia.learning.gym.batch import Batch, most_requests
from eunomia.learning.gym.env import observation
from eunomia.learning.rewards import HITS, MISSES, RewardSettings
from eunomia.learning.rewards import reward as find_reward

Seen = dict[str, np.ndarray[Any, Any]]


class Stage:
    """E episodes in progress; all must have the same number of accelerators. Raises PolicyError, UnknownNameError."""

    def __init__(
        self, episodes: Sequence[Episode], encoding: str, reward: str, most: int,
        settings: RewardSettings | None = None,
    ) -> None:  # fmt: skip
        self._encoding, self._reward = find_encoding(encoding), find_reward(reward)
        self._settings = settings or RewardSettings()
        lanes = len(episodes[0].problem.type_of)
        self.batch = Batch(len(episodes), most, lanes, most_requests(episodes))
        for e, episode in enumerate(episodes):
            self.batch.start(e, episode)
        self.seen = self._look()

    @property
    def live(self) -> npt.NDArray[np.bool_]:
        """(E,) which episodes wait for an answer."""
        return self.batch.asking.copy()

    @property
    def hit_rates(self) -> npt.NDArray[np.float64]:
        """(E,) hits over hits and misses so far."""
        tally = self.batch.tally
        return np.asarray(tally[:, HITS] / np.maximum(tally[:, HITS] + tally[:, MISSES], 1.0), np.float64)

    def step(self, actions: Any) -> npt.NDArray[np.float64]:
        """Answer all decisions that are shown; (E,) rewards, 0 for episodes that are over."""
        live, before = self.batch.asking.copy(), self.batch.tally.copy()
        answers: dict[int, Starts | None] = {
            e: self._encoding.decode(actions[e], self.batch.choice(e)) for e in np.flatnonzero(live).tolist()
        }
        self.batch.step(answers)
        self.seen = self._look()
        return np.where(live, self._reward(before, self.batch.tally, self._settings), 0.0)

    def _look(self) -> Seen:
        each = [observation(self.batch, e, self._encoding.name) for e in range(len(self.batch.asking))]
        return {name: np.stack([one[name] for one in each]) for name in each[0]}

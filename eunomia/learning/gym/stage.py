"""Episodes side by side: what they show, what actions mean, what is earned. Environments and trainers stand on it.

Observation, by name, with a leading axis of episodes: ``jobs`` (N, JOB) and ``pairs`` (N, S, PAIR) features of the N
most urgent waiting sub-jobs, padded with zeros; ``overall`` (GLOBAL,); ``waiting`` (N,) 1 where there is a sub-job;
``mask``: which actions are allowed (all ones for real-valued encodings). Features: observation/table.py; actions:
encodings.py; rewards: rewards.py. An action that the mask forbids holds.

No episode begins anew by itself when it ends, so that an iteration of a trainer depends on its episodes and actions
alone: a stopped training can play again what it had played.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Flags, Floats
from eunomia.learning.encodings import encoding as find_encoding
from eunomia.learning.episodes import Episode
from eunomia.learning.gym.batch import Batch
from eunomia.learning.rewards import HITS, MISSES, RewardSettings
from eunomia.learning.rewards import reward as find_reward

BOUND = 1000.0  # of every feature
USUAL = RewardSettings()
Array = npt.NDArray[Any]
Seen = dict[str, Array]
Actions = Sequence[Any] | Array  # one per episode, of the encoding's kind


class Stage:
    """``size`` episodes in progress on ``lanes`` accelerators. Raises UnknownNameError, PolicyError."""

    def __init__(
        self,
        size: int,
        lanes: int,
        encoding: str,
        reward: str,
        most: int,
        settings: RewardSettings = USUAL,
    ) -> None:
        self.encoding, self._reward, self._settings = find_encoding(encoding), find_reward(reward), settings
        self.batch = Batch(size, most, lanes)
        self._seen: Seen = {}

    @classmethod
    def of(cls, episodes: Sequence[Episode], encoding: str, reward: str, most: int) -> Stage:
        """Whole episodes, at their first decisions; all must have the same number of accelerators."""
        stage = cls(len(episodes), len(episodes[0].problem.type_of), encoding, reward, most)
        for e, episode in enumerate(episodes):
            stage.begin(e, episode)
        return stage

    def begin(self, e: int, episode: Episode) -> None:
        """Go to the first decision of an episode, in place e."""
        self.batch.start(e, episode)
        self._go_on([e])

    @property
    def live(self) -> Flags:
        """(E,) which episodes wait for an answer."""
        return self.batch.asking.copy()

    @property
    def hit_rates(self) -> Floats:
        """(E,) hits over hits and misses so far."""
        hits, misses = self.batch.tally[:, HITS], self.batch.tally[:, MISSES]
        return np.asarray(hits / np.maximum(hits + misses, 1.0), np.float64)

    @property
    def seen(self) -> Seen:
        """What all episodes show, in arrays of its own."""
        if not self._seen:
            shown, mask, all_of = self.batch.shown, self.encoding.mask, range(len(self.live))
            features = {"jobs": shown.jobs, "pairs": shown.pairs, "overall": shown.overall}
            allowed = [np.ones(1) if mask is None else mask(self.batch.choice(e)) for e in all_of]
            flags = {"waiting": shown.rows >= 0, "mask": np.stack(allowed)}
            seen = {name: value.clip(-BOUND, BOUND).astype(np.float32) for name, value in features.items()}
            self._seen = seen | {name: value.astype(np.int8) for name, value in flags.items()}
        return self._seen

    def step(self, actions: Actions) -> Floats:
        """Answer all decisions that are shown; (E,) rewards, 0 for episodes that are over."""
        live, before = self.live, self.batch.tally.copy()
        decode, asked = self.encoding.decode, np.flatnonzero(live).tolist()
        self.batch.step({e: decode(actions[e], self.batch.choice(e)) for e in asked})
        self._go_on(asked)
        return np.where(live, self._reward(before, self.batch.tally, self._settings), 0.0)

    def _go_on(self, asked: list[int]) -> None:
        """Hold for those that may do nothing else, where the encoding does not ask them."""
        self._seen, mask = {}, self.encoding.mask
        while mask is not None and not self.encoding.asks:
            alone = [e for e in asked if self.batch.asking[e] and not mask(self.batch.choice(e))[:-1].any()]
            if not alone:
                return
            self.batch.step({e: [] for e in alone})

"""Many scheduling episodes as one Gymnasium vector environment: one compiled call steps them all.

Autoreset is NEXT_STEP: the step after an episode's last one ignores its action and returns the first observation of
the next episode, with reward 0. Observations, actions and rewards are those of ``SchedulingEnv``, stacked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from eunomia.learning.encodings import Starts
from eunomia.learning.encodings import encoding as find_encoding
from eunomia.learning.gym.batch import Batch
from eunomia.learning.gym.env import Draw, action_space, observation, observation_space
from eunomia.learning.rewards import HITS, MISSES, RewardSettings
from eunomia.learning.rewards import reward as find_reward


class SchedulingVectorEnv(VectorEnv[dict[str, Any], Any, Any]):
    """``size`` episodes at once. Arguments as for ``SchedulingEnv``."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self, draw: Draw, size: int, encoding: str = "pair", reward: str = "R1", most: int = 64,
        settings: RewardSettings | None = None,
    ) -> None:  # fmt: skip
        self._draw, self._encoding, self._reward = draw, find_encoding(encoding), find_reward(reward)
        self._settings = settings or RewardSettings()
        first = draw(0)
        lanes = len(first.problem.type_of)
        self._batch = Batch(size, most, lanes, len(first.problem.jobs.pair))
        self._rngs = [np.random.default_rng() for _ in range(size)]
        self._ended = np.zeros(size, np.bool_)
        self.num_envs = size
        self.single_action_space = action_space(encoding, most, lanes)
        self.single_observation_space = observation_space(encoding, most, lanes)
        self.action_space = batch_space(self.single_action_space, size)
        self.observation_space = batch_space(self.single_observation_space, size)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin all episodes; place e is seeded with seed + e."""
        seeds = [seed + e for e in range(self.num_envs)] if isinstance(seed, int) else seed
        for e in range(self.num_envs):
            if seeds is not None:
                self._rngs[e] = np.random.default_rng(seeds[e])
            self._begin(e)
        self._ended[:] = False
        return self._seen()

    def step(
        self, actions: Any
    ) -> tuple[
        dict[str, Any], npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]
    ]:
        """Answer all decisions that were shown last; episodes that had ended begin anew."""
        before = self._batch.tally.copy()
        going = np.flatnonzero(~self._ended)
        answers: dict[int, Starts | None] = {
            e: self._encoding.decode(actions[e], self._batch.choice(e)) for e in going.tolist()
        }
        self._batch.step(answers)
        rewards = np.where(self._ended, 0.0, self._reward(before, self._batch.tally, self._settings))
        for e in np.flatnonzero(self._ended).tolist():
            self._begin(e)
        self._ended = ~self._batch.asking
        seen, info = self._seen()
        return seen, rewards, self._ended.copy(), np.zeros(self.num_envs, np.bool_), info

    def _begin(self, e: int) -> None:
        self._batch.start(e, self._draw(int(self._rngs[e].integers(2**31))))

    def _seen(self) -> tuple[dict[str, Any], dict[str, Any]]:
        each = [observation(self._batch, e, self._encoding.name) for e in range(self.num_envs)]
        seen = {name: np.stack([one[name] for one in each]) for name in each[0]}
        tally = self._batch.tally
        return seen, {
            "action_mask": seen["mask"],
            "hits": tally[:, HITS].copy(),
            "misses": tally[:, MISSES].copy(),
        }

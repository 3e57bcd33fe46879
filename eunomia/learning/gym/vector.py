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

from eunomia.core.arrays import Flags
from eunomia.learning.gym.env import Draw, Info, spaces_of
from eunomia.learning.gym.stage import Actions, Seen, Stage
from eunomia.learning.rewards import HITS, MISSES, RewardSettings


class SchedulingVectorEnv(VectorEnv[Seen, Any, Any]):
    """``size`` episodes at once. Arguments as for ``SchedulingEnv``."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        draw: Draw,
        size: int,
        encoding: str = "pair",
        reward: str = "R1",
        most: int = 64,
        settings: RewardSettings | None = None,
    ) -> None:
        lanes = len(draw(0).problem.type_of)
        self._draw, self._stage = draw, Stage(size, lanes, encoding, reward, most, settings)
        self._rngs = [np.random.default_rng() for _ in range(size)]
        self.num_envs = size
        self.single_observation_space, self.single_action_space = spaces_of(encoding, most, lanes)
        self.action_space = batch_space(self.single_action_space, size)
        self.observation_space = batch_space(self.single_observation_space, size)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: Info | None = None
    ) -> tuple[Seen, Info]:
        """Begin all episodes; place e is seeded with seed + e."""
        seeds = [seed + e for e in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is not None:
            self._rngs = [np.random.default_rng(each) for each in seeds]
        for e in range(self.num_envs):
            self._begin(e)
        return self._look()

    def step(self, actions: Actions) -> tuple[Seen, npt.NDArray[np.float64], Flags, Flags, Info]:
        """Answer all decisions that were shown last; episodes that had ended begin anew."""
        ended = ~self._stage.live
        rewards = self._stage.step(actions)
        for e in np.flatnonzero(ended).tolist():
            self._begin(e)
        seen, info = self._look()
        return seen, rewards, ~self._stage.live, np.zeros(self.num_envs, np.bool_), info

    def _begin(self, e: int) -> None:
        self._stage.begin(e, self._draw(int(self._rngs[e].integers(2**31))))

    def _look(self) -> tuple[Seen, Info]:
        seen, tally = self._stage.seen, self._stage.batch.tally
        hits, misses = tally[:, HITS].copy(), tally[:, MISSES].copy()
        return dict(seen), {"action_mask": seen["mask"], "hits": hits, "misses": misses}

"""One scheduling episode as a Gymnasium environment.

Observations, actions and rewards: stage.py. ``info`` holds ``action_mask``, ``hits``, ``misses`` and ``now_s``. An
episode ends when every request has left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from eunomia.learning.encodings import encoding as find_encoding
from eunomia.learning.episodes import Episode
from eunomia.learning.gym.stage import BOUND, Array, Seen, Stage
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR
from eunomia.learning.rewards import HITS, MISSES, RewardSettings

Draw = Callable[[int], Episode]  # seed -> episode; all with the same number of accelerators
Info = dict[str, Any]
Space = spaces.Space[Any]


def spaces_of(name: str, most: int, lanes: int) -> tuple[Space, Space]:
    """Observations and actions of an encoding for N sub-jobs and S accelerators."""
    encoding = find_encoding(name)
    shape = allowed = encoding.shape(most, lanes)
    actions: Space
    if encoding.kind == "discrete":
        actions = spaces.Discrete(shape[0])
    elif encoding.kind == "multi_discrete":
        actions = spaces.MultiDiscrete(np.full(shape[0], shape[1], np.int64))
    else:
        actions, allowed = spaces.Box(-1.0, 1.0, shape, np.float32), (1,)
    features = {"jobs": (most, len(JOB)), "pairs": (most, lanes, len(PAIR)), "overall": (len(GLOBAL),)}
    flags = {"waiting": (most,), "mask": allowed}
    boxes = {name: spaces.Box(-BOUND, BOUND, size, np.float32) for name, size in features.items()}
    return spaces.Dict(
        boxes | {name: spaces.Box(0, 1, size, np.int8) for name, size in flags.items()}
    ), actions


class SchedulingEnv(gymnasium.Env[Seen, Any]):
    """Start or hold, decision by decision. ``draw(seed)`` makes the episode of a reset.

    ``encoding``: a name of encodings.ENCODINGS; ``reward``: of rewards.REWARDS; ``most``: N. Raises UnknownNameError.
    Does badly with more than N sub-jobs waiting: the least urgent ones are not shown.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        draw: Draw,
        encoding: str = "pair",
        reward: str = "R1",
        most: int = 64,
        settings: RewardSettings | None = None,
    ) -> None:
        lanes = len(draw(0).problem.type_of)
        self._draw, self._stage = draw, Stage(1, lanes, encoding, reward, most, settings)
        self.observation_space, self.action_space = spaces_of(encoding, most, lanes)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Seen, Info]:
        """Begin the next episode; equal seeds give equal episodes."""
        super().reset(seed=seed)
        self._stage.begin(0, self._draw(int(self.np_random.integers(2**31))))
        return self._look()

    def step(self, action: int | Array) -> tuple[Seen, float, bool, bool, Info]:
        """Answer the decision that was shown last and go on to the next."""
        if not self._stage.live[0]:
            raise gymnasium.error.ResetNeeded("the episode is over, or has not begun; call reset()")
        value = float(self._stage.step([action])[0])
        seen, info = self._look()
        return seen, value, not self._stage.live[0], False, info

    def _look(self) -> tuple[Seen, Info]:
        batch, seen = self._stage.batch, {name: value[0] for name, value in self._stage.seen.items()}
        hits, misses = float(batch.tally[0, HITS]), float(batch.tally[0, MISSES])
        return seen, {"action_mask": seen["mask"], "hits": hits, "misses": misses, "now_s": batch.now_s(0)}

"""Scheduling episodes as Gymnasium environments: one, or many that one compiled call steps.

Observations, actions and rewards: stage.py. ``info`` holds ``action_mask``, ``hits``, ``misses`` and, of one episode,
``now_s``. An episode ends when every request has left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from eunomia.core.arrays import Flags, Floats
from eunomia.learning.encodings import encoding as find_encoding
from eunomia.learning.episodes import Episode
from eunomia.learning.gym.stage import BOUND, USUAL, Actions, Array, Seen, Stage
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR
from eunomia.learning.rewards import HITS, MISSES, RewardSettings

Draw = Callable[[int], Episode]  # seed -> episode; all with the same number of accelerators
Info = dict[str, Any]
Space = spaces.Space[Any]
ANY_SEED = 2**31


def staged(
    draw: Draw, size: int, encoding: str, reward: str, most: int, settings: RewardSettings
) -> tuple[Stage, Space, Space]:
    """A stage for ``size`` episodes of a draw, with the spaces of one: observations and actions."""
    lanes = len(draw(0).problem.type_of)
    return Stage(size, lanes, encoding, reward, most, settings), *spaces_of(encoding, most, lanes)


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
    boxes: dict[str, Space] = {n: spaces.Box(0, 1, size, np.int8) for n, size in flags.items()}
    boxes |= {n: spaces.Box(-BOUND, BOUND, size, np.float32) for n, size in features.items()}
    return spaces.Dict(boxes), actions


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
        settings: RewardSettings = USUAL,
    ) -> None:
        made = staged(draw, 1, encoding, reward, most, settings)
        self._draw, (self._stage, self.observation_space, self.action_space) = draw, made

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Seen, Info]:
        """Begin the next episode; equal seeds give equal episodes."""
        super().reset(seed=seed)
        self._stage.begin(0, self._draw(int(self.np_random.integers(ANY_SEED))))
        return self._look()

    def step(self, action: int | Array) -> tuple[Seen, float, bool, bool, Info]:
        """Answer the decision that was shown last and go on to the next."""
        if not self._stage.live[0]:
            raise gymnasium.error.ResetNeeded("the episode is over, or has not begun; call reset()")
        value = float(self._stage.step([action])[0])
        seen, info = self._look()
        return seen, value, not self._stage.live[0], False, info

    def _look(self) -> tuple[Seen, Info]:
        seen, info = _look(self._stage)
        hits, misses = float(info["hits"][0]), float(info["misses"][0])
        first = {name: value[0] for name, value in seen.items()}
        now_s = self._stage.batch.now_s(0)
        return first, {"action_mask": first["mask"], "hits": hits, "misses": misses, "now_s": now_s}


class SchedulingVectorEnv(VectorEnv[Seen, Any, Any]):
    """``size`` episodes at once. Other arguments as for ``SchedulingEnv``.

    Autoreset is NEXT_STEP: the step after an episode's last one ignores its action and returns the first observation of
    the next episode, with reward 0.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        draw: Draw,
        size: int,
        encoding: str = "pair",
        reward: str = "R1",
        most: int = 64,
        settings: RewardSettings = USUAL,
    ) -> None:
        made = staged(draw, size, encoding, reward, most, settings)
        self._draw, (self._stage, self.single_observation_space, self.single_action_space) = draw, made
        self._rngs = [np.random.default_rng() for _ in range(size)]
        self.num_envs = size
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
        return _look(self._stage)

    def step(self, actions: Actions) -> tuple[Seen, Floats, Flags, Flags, Info]:
        """Answer all decisions that were shown last; episodes that had ended begin anew."""
        ended = ~self._stage.live
        rewards = self._stage.step(actions)
        for e in np.flatnonzero(ended).tolist():
            self._begin(e)
        seen, info = _look(self._stage)
        return seen, rewards, ~self._stage.live, np.zeros(self.num_envs, np.bool_), info

    def _begin(self, e: int) -> None:
        self._stage.begin(e, self._draw(int(self._rngs[e].integers(ANY_SEED))))


def _look(stage: Stage) -> tuple[Seen, Info]:
    """What all episodes show, and what was earned so far."""
    seen, tally = stage.seen, stage.batch.tally
    hits, misses = tally[:, HITS].copy(), tally[:, MISSES].copy()
    return dict(seen), {"action_mask": seen["mask"], "hits": hits, "misses": misses}

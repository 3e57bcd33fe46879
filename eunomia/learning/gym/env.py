"""One scheduling episode as a Gymnasium environment.

Observation, a dictionary: ``jobs`` (N, JOB) and ``pairs`` (N, S, PAIR) features of the N most urgent waiting sub-jobs,
padded with zeros; ``overall`` (GLOBAL,); ``waiting`` (N,) 1 where there is a sub-job; ``mask``: which actions are
allowed (all ones for real-valued encodings), also in ``info["action_mask"]``. Features: observation/table.py; actions:
actions.py; rewards: rewards.py. ``info`` holds ``hits``, ``misses`` and ``now_s``. An episode ends when every request
has left. An action that the mask forbids holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from eunomia.learning.encodings import encoding as find_encoding
from eunomia.learning.episodes import Episode
from eunomia.learning.gym.batch import Batch
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR
from eunomia.learning.rewards import HITS, MISSES, RewardSettings
from eunomia.learning.rewards import reward as find_reward

BOUND = 1000.0  # of every feature
Draw = Callable[[int], Episode]  # seed -> episode; all with the same number of accelerators


def action_space(name: str, most: int, lanes: int) -> spaces.Space[Any]:
    """The space of an encoding for N sub-jobs and S accelerators."""
    kind, shape = find_encoding(name).kind, find_encoding(name).shape(most, lanes)
    if kind == "discrete":
        return spaces.Discrete(shape[0])
    if kind == "multi_discrete":
        return spaces.MultiDiscrete(np.full(shape[0], shape[1], np.int64))
    return spaces.Box(-1.0, 1.0, shape, np.float32)


def observation_space(name: str, most: int, lanes: int) -> spaces.Dict:
    """The space of observations."""
    encoding = find_encoding(name)
    shape = encoding.shape(most, lanes) if encoding.kind != "box" else (1,)

    def box(*size: int) -> spaces.Box:
        return spaces.Box(-BOUND, BOUND, size, np.float32)

    return spaces.Dict({
        "jobs": box(most, len(JOB)), "pairs": box(most, lanes, len(PAIR)), "overall": box(len(GLOBAL)),
        "waiting": spaces.Box(0, 1, (most,), np.int8), "mask": spaces.Box(0, 1, shape, np.int8),
    })  # fmt: skip


def observation(batch: Batch, e: int, name: str) -> dict[str, Any]:
    """What episode e of a batch shows, in the environment's types."""
    encoding = find_encoding(name)
    mask = np.ones(1) if encoding.mask is None else encoding.mask(batch.choice(e))
    return {
        "jobs": batch.jobs[e].clip(-BOUND, BOUND).astype(np.float32),
        "pairs": batch.pairs[e].clip(-BOUND, BOUND).astype(np.float32),
        "overall": batch.overall[e].clip(-BOUND, BOUND).astype(np.float32),
        "waiting": (batch.rows[e] >= 0).astype(np.int8),
        "mask": mask.astype(np.int8),
    }


def facts(batch: Batch, e: int, mask: Any) -> dict[str, Any]:
    """The ``info`` of episode e."""
    tally = batch.tally[e]
    return {
        "action_mask": mask,
        "hits": float(tally[HITS]),
        "misses": float(tally[MISSES]),
        "now_s": batch.now_s(e),
    }


class SchedulingEnv(gymnasium.Env[dict[str, Any], Any]):
    """Start or hold, decision by decision. ``draw(seed)`` makes the episode of a reset.

    ``encoding``: a name of actions.ENCODINGS; ``reward``: of rewards.REWARDS; ``most``: N. Raises UnknownNameError.
    Does badly with more than N sub-jobs waiting: the least urgent ones are not shown.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self, draw: Draw, encoding: str = "pair", reward: str = "R1", most: int = 64,
        settings: RewardSettings | None = None,
    ) -> None:  # fmt: skip
        self._draw, self._encoding, self._reward = draw, find_encoding(encoding), find_reward(reward)
        self._settings = settings or RewardSettings()
        first = draw(0)
        lanes = len(first.problem.type_of)
        self._batch = Batch(1, most, lanes, len(first.problem.jobs.pair))
        self.action_space = action_space(encoding, most, lanes)
        self.observation_space = observation_space(encoding, most, lanes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin the next episode; equal seeds give equal episodes."""
        super().reset(seed=seed)
        self._batch.start(0, self._draw(int(self.np_random.integers(2**31))))
        seen = observation(self._batch, 0, self._encoding.name)
        return seen, facts(self._batch, 0, seen["mask"])

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Answer the decision that was shown last and go on to the next."""
        if not self._batch.asking[0]:
            raise gymnasium.error.ResetNeeded("the episode is over, or has not begun; call reset()")
        before = self._batch.tally.copy()
        self._batch.step({0: self._encoding.decode(action, self._batch.choice(0))})
        value = float(self._reward(before, self._batch.tally, self._settings)[0])
        done = not self._batch.asking[0]
        seen = observation(self._batch, 0, self._encoding.name)
        return seen, value, done, False, facts(self._batch, 0, seen["mask"])


__all__ = ["Draw", "SchedulingEnv"]

"""One training episode: run the engine with an exploring policy, and turn what happened into transitions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.ddpg.decide import EXPLORE, SERVE, TEACH
from eunomia.learning.agents.ddpg.network import (
    COUNTERS,
    KEEP,
    LAYER_S,
    LOGGED_ROWS,
    LOGGED_TICKS,
    MODE,
    NOISE_USED,
)
from eunomia.learning.agents.ddpg.policy import RelmasPolicy
from eunomia.learning.agents.ddpg.table import JOB, inputs
from eunomia.learning.agents.ddpg.tally import tallies
from eunomia.learning.episodes import Episode
from eunomia.learning.rewards import RewardSettings
from eunomia.learning.rewards import reward as find_reward
from eunomia.learning.state import Arrays

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
HOPELESS = JOB.index("hopeless")
OFFERED = ("R1", "R2", "R5", "R6")  # R3 and R4 need features of the event-driven observation
NOISE = 1 << 18  # numbers drawn per episode, used in turn and again from the start


@dataclass(frozen=True)
class Exploration:
    """a <- clip(keep a + sigma N(0, 1), -1, 1); ``teacher`` acts in the LSTM's place."""

    sigma: float = 0.2
    keep: float = 1.0
    teacher: bool = False


@dataclass(frozen=True, eq=False)
class Transitions:
    """T consecutive ticks. ``rows`` (sum of n, F + 1 + S): features and the action taken; ``start`` (T + 1,).

    The state after tick t is tick t + 1; after the last one the episode is over.
    """

    rows: Singles
    start: npt.NDArray[np.int64]
    rewards: Singles  # (T,)
    gaps: Singles  # (T,) time to the next decision, in T_s, or mean layer times without a period

    def __len__(self) -> int:
        return len(self.rewards)

    def arrays(self) -> Arrays:
        """All arrays by name."""
        return {"rows": self.rows, "start": self.start, "rewards": self.rewards, "gaps": self.gaps}


@dataclass(frozen=True)
class Rewarded:
    """``scale`` times a named reward of learning/rewards.py: R1, R2, R5 or R6. Raises UnknownNameError."""

    name: str = "R2"
    settings: RewardSettings = field(default_factory=RewardSettings)
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in OFFERED:
            raise UnknownNameError("reward of periodic training", self.name, OFFERED)


@dataclass(frozen=True, eq=False)
class Log:
    """What an exploring policy wrote down at its ticks."""

    times_s: Floats  # (T,)
    counts: npt.NDArray[np.int64]  # (T,)
    rows: Singles  # (sum of counts, F + 1 + S)
    request: npt.NDArray[np.int64]  # (sum of counts,)

    @property
    def tick(self) -> npt.NDArray[np.int64]:
        """Tick of each row."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def explore(
    policy: RelmasPolicy, episode: Episode, how: Exploration, rng: np.random.Generator
) -> tuple[Log, Any]:
    """Run an episode; returns the log and the engine's outcome. Raises PolicyError if the log would not hold it."""
    problem = episode.problem
    layers = int(np.diff(problem.graph.offset)[problem.jobs.model_of[problem.jobs.pair]].sum())
    width = inputs(policy.actor.lanes, policy.actor.promises) + 1 + policy.actor.lanes
    ticks, room = 8 * layers + 64, 24 * layers + 4096
    noise = how.sigma * rng.standard_normal(NOISE)
    times_s, counts = np.empty(ticks), np.empty(ticks, np.int64)
    rows, request = np.empty((room, width), np.float32), np.empty(room, np.int64)
    block = policy.block
    block[MODE], block[KEEP], block[NOISE_USED] = TEACH if how.teacher else EXPLORE, how.keep, 0
    block[COUNTERS + LOGGED_TICKS] = block[COUNTERS + LOGGED_ROWS] = 0
    policy.log = (noise, times_s, counts, rows, request)
    try:
        outcome = simulate_problem(problem, policy, replace(episode.options, record="all"))
    finally:
        block[MODE], policy.log = SERVE, ()
    t, r = int(block[COUNTERS + LOGGED_TICKS]), int(block[COUNTERS + LOGGED_ROWS])
    if t == 0:
        raise PolicyError(f"episode '{episode.name}' has no tick at which anything waits; give it requests")
    return Log(times_s[:t].copy(), counts[:t].copy(), rows[:r].copy(), request[:r].copy()), outcome


def transitions(
    policy: RelmasPolicy, episode: Episode, how: Exploration, rewarded: Rewarded, rng: np.random.Generator
) -> Transitions:
    """Run an episode and reward each period."""
    log, outcome = explore(policy, episode, how, rng)
    late = np.full(len(episode.problem.jobs.pair), len(log.times_s), np.int64)
    hopeless = log.rows[:, HOPELESS] > 0.0
    np.minimum.at(late, log.request[hopeless], log.tick[hopeless])
    table = tallies(outcome, log.times_s, late)
    rewards = find_reward(rewarded.name)(table[:-1], table[1:], rewarded.settings)
    start = np.concatenate([[0], np.cumsum(log.counts)])
    gaps_s = np.diff(np.append(log.times_s, max(outcome.end_s, log.times_s[-1])))
    unit_s = policy.period_s if policy.period_s > 0.0 else float(policy.block[LAYER_S])
    return Transitions(
        log.rows, start, (rewarded.scale * rewards).astype(np.float32), (gaps_s / unit_s).astype(np.float32)
    )

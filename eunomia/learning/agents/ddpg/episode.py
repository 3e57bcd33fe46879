"""Training episodes: run the engine with an exploring policy, make transitions of what happened, keep the last ones."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import PolicyError
from eunomia.inference.outcome import Outcome
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.ddpg.decide import EXPLORE, LOGGED, SERVE, TEACH, Singles
from eunomia.learning.agents.ddpg.features import JOB, inputs
from eunomia.learning.agents.ddpg.policy import RelmasPolicy
from eunomia.learning.agents.ddpg.tally import tallies
from eunomia.learning.episodes import Episode
from eunomia.learning.rewards import RewardSettings
from eunomia.learning.rewards import reward as find_reward

HOPELESS = JOB.index("hopeless")
NOISE = 1 << 18  # numbers drawn per episode, used in turn and again from the start


@dataclass(frozen=True)
class Exploration:
    """a <- clip(a + sigma N(0, 1), -1, 1); ``teacher`` acts in the LSTM's place."""

    sigma: float = 0.2
    teacher: bool = False


@dataclass(frozen=True)
class Rewarded:
    """``scale`` times a named reward of learning/rewards.py: R1, R2, R5 or R6.

    R3 and R4 need features of the event-driven observation.
    """

    name: str = "R2"
    settings: RewardSettings = field(default_factory=RewardSettings)
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Log:
    """What an exploring policy wrote down at its T ticks."""

    times_s: Floats  # (T,)
    counts: Ints  # (T,)
    rows: Singles  # (sum of counts, F + 1 + S)
    request: Ints  # (sum of counts,)


@dataclass(frozen=True, eq=False)
class Transitions:
    """T consecutive ticks. ``rows`` (sum of n, F + 1 + S): features and the action taken; ``start`` (T + 1,).

    The state after tick t is tick t + 1; after the last one the episode is over.
    """

    rows: Singles
    start: Ints
    rewards: Singles  # (T,)
    gaps: Singles  # (T,) time to the next decision, in T_s, or mean layer times without a period

    def __len__(self) -> int:
        return len(self.rewards)

    def at(self, tick: int) -> Singles:
        """(n, F + 1 + S) rows of a tick; none after the last one."""
        return self.rows[self.start[tick] : self.start[min(tick + 1, len(self))]]

    def returns(self, gamma: float) -> Singles:
        """(T,) G_t = r_t + gamma^gap_t G_{t+1}, G_T = 0."""
        return discounted(self.rewards, gamma**self.gaps)


@dataclass(frozen=True, eq=False)
class Batch:
    """B transitions, padded to the longest list among them. ``count``: sub-jobs before the padding."""

    seen: Singles  # (B, n, F)
    action: Singles  # (B, n, 1 + S)
    count: Ints  # (B,)
    reward: Singles  # (B,)
    gap: Singles  # (B,) time to the next decision
    then: Singles  # (B, m, F)
    then_count: Ints  # (B,); 0 = the episode is over
    returns: Singles  # (B,) discounted sum of what was really earned from here to the end of the episode


def explore(
    policy: RelmasPolicy, episode: Episode, how: Exploration, rng: np.random.Generator
) -> tuple[Log, Outcome]:
    """Run an episode; returns the log and the engine's outcome. Raises PolicyError if the log would not hold it."""
    problem, head = episode.problem, policy.head
    layers = int(np.diff(problem.graph.offset)[problem.jobs.model_of[problem.jobs.pair]].sum())
    width = inputs(policy.lanes, policy.promises) + 1 + policy.lanes
    ticks, room = 8 * layers + 64, 24 * layers + 4096
    times_s, counts = np.empty(ticks), np.empty(ticks, np.int64)
    rows, request = np.empty((room, width), np.float32), np.empty(room, np.int64)
    policy.log = (how.sigma * rng.standard_normal(NOISE), times_s, counts, rows, request)
    head["mode"] = TEACH if how.teacher else EXPLORE
    for name in LOGGED:
        head[name] = 0
    try:
        outcome = simulate_problem(problem, policy, replace(episode.options, record="all"))
    finally:
        head["mode"], policy.log = SERVE, ()
    t, r = int(head["logged_ticks"][0]), int(head["logged_rows"][0])
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
    tick = np.repeat(np.arange(len(log.counts)), log.counts)
    np.minimum.at(late, log.request[hopeless], tick[hopeless])
    table = tallies(outcome, log.times_s, late)
    rewards = find_reward(rewarded.name)(table[:-1], table[1:], rewarded.settings)
    start = np.concatenate([[0], np.cumsum(log.counts)])
    gaps_s = np.diff(np.append(log.times_s, max(outcome.end_s, log.times_s[-1])))
    unit_s = policy.period_s if policy.period_s > 0.0 else float(policy.head["layer_s"][0])
    earned, gaps = (v.astype(np.float32) for v in (rewarded.scale * rewards, gaps_s / unit_s))
    return Transitions(log.rows, start, earned, gaps)


class Replay:
    """Keeps the newest episodes whose ticks fit into ``room``; the newest one always. ``width`` = F."""

    def __init__(self, room: int, width: int, gamma: float) -> None:
        self.room, self.width, self.gamma = room, width, gamma
        self.episodes: deque[tuple[int, Transitions, Singles]] = deque()  # number, episode, its returns

    def __len__(self) -> int:
        return sum(len(episode) for _, episode, _ in self.episodes)

    def add(self, number: int, episode: Transitions) -> None:
        """Take in one episode, forget the oldest ones that no longer fit."""
        self.episodes.append((number, episode, episode.returns(self.gamma)))
        while len(self.episodes) > 1 and len(self) > self.room:
            self.episodes.popleft()

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """Draw ``size`` ticks with replacement."""
        ends = np.cumsum([len(episode) for _, episode, _ in self.episodes])
        drawn = rng.integers(0, ends[-1], size)
        which = np.searchsorted(ends, drawn, side="right")
        tick = drawn - np.concatenate([[0], ends])[which]
        found = [(*self.episodes[e][1:], t) for e, t in zip(which.tolist(), tick.tolist(), strict=True)]
        earned = [(one.rewards[t], one.gaps[t], returns[t]) for one, returns, t in found]
        reward, gap, returns = np.array(earned, np.float32).T.copy()
        rows, count = _pad([one.at(t) for one, _, t in found])
        then, then_count = _pad([one.at(t + 1) for one, _, t in found])
        seen, action = rows[:, :, : self.width], rows[:, :, self.width :]
        return Batch(seen, action, count, reward, gap, then[:, :, : self.width], then_count, returns)


def discounted(rewards: Singles, factors: Singles) -> Singles:
    """(T,) G_t = r_t + f_t G_{t+1}, G_T = 0."""
    returns, following = np.empty(len(rewards)), 0.0
    for t in range(len(rewards) - 1, -1, -1):
        following = float(rewards[t]) + float(factors[t]) * following
        returns[t] = following
    return returns.astype(np.float32)


def _pad(lists: list[Singles]) -> tuple[Singles, Ints]:
    count = np.array([len(rows) for rows in lists], np.int64)
    padded = np.zeros((len(lists), max(int(count.max()), 1), lists[0].shape[1]), np.float32)
    for n, rows in enumerate(lists):
        padded[n, : len(rows)] = rows
    return padded, count

"""Training episodes: run the engine with an exploring policy, credit what happened to ticks, keep the last ones.

A trace is played several times under other noise (common random numbers). ``credit`` decides what a rollout earns:

    request   each request, when it leaves: (hit - its hits in the other rollouts, mean) 2 / n
    period    a named reward of each period; its return less that of the other rollouts at the same time, mean

so that a rollout alone earns the reward itself. The discount is one per second: exp(-dt / (horizon x the longest
relative deadline)). A goal of the critic is what was earned in ``ahead`` horizons, and its own value from there on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eunomia.config.algorithm import RelmasAlgorithm
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.outcome import Outcome
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.ddpg.act import SCORES
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
    """a <- clip(a + sigma N(0, 1), -1, 1)."""

    sigma: float = 0.2
    teacher: bool = False  # acts in the LSTM's place
    coherent: bool = False  # a request keeps its noise for life
    every: int = 1  # ticks per one that is logged


@dataclass(frozen=True, eq=False)
class Log:
    """What an exploring policy wrote down at its T ticks."""

    times_s: Floats  # (T,)
    counts: Ints  # (T,)
    rows: Singles  # (sum of counts, F + 2 + S)
    request: Ints  # (sum of counts,)


@dataclass(frozen=True, eq=False)
class Transitions:
    """T consecutive ticks. ``rows`` (sum of n, F + 2 + S): features and the action taken; ``start`` (T + 1,)."""

    rows: Singles
    start: Ints
    rewards: Singles  # (T,)
    gaps: Singles  # (T,) time to the next tick, in horizons
    returns: Singles  # (T,) discounted sum of rewards to the end, less the baseline

    def __len__(self) -> int:
        return len(self.rewards)

    def at(self, tick: int) -> Singles:
        """(n, F + 2 + S) rows of a tick; none after the last one."""
        return self.rows[self.start[tick] : self.start[min(tick + 1, len(self))]]

    def later(self, ahead: float) -> tuple[Ints, Singles, Singles]:
        """(T,) first tick at least ``ahead`` horizons later (T = the end), what is earned until then, discount then."""
        at = np.concatenate([[0.0], np.cumsum(self.gaps, dtype=float)])
        ticks = np.arange(len(self))
        after = np.clip(np.searchsorted(at, at[:-1] + ahead), ticks + 1, len(self))
        factor = np.exp(at[:-1] - at[after]).astype(np.float32)
        return after, self.returns - factor * np.append(self.returns, np.float32(0.0))[after], factor


@dataclass(frozen=True, eq=False)
class Batch:
    """B transitions, padded to the longest list among them. ``count``: sub-jobs before the padding."""

    seen: Singles  # (B, n, F)
    action: Singles  # (B, n, 2 + S)
    count: Ints  # (B,)
    reward: Singles  # (B,) earned until ``then``
    factor: Singles  # (B,) discount of ``then``
    then: Singles  # (B, m, F)
    then_count: Ints  # (B,); 0 = the episode is over
    returns: Singles  # (B,) discounted sum of what was really earned from here to the end of the episode


def explore(
    policy: RelmasPolicy, episode: Episode, how: Exploration, rng: np.random.Generator
) -> tuple[Log, Outcome]:
    """Run an episode; returns the log and the engine's outcome. Raises PolicyError if the log would not hold it."""
    problem, head = episode.problem, policy.head
    layers = int(np.diff(problem.graph.offset)[problem.jobs.model].sum())
    lanes = len(problem.type_of)
    width = inputs(lanes, policy.promises) + SCORES + lanes
    ticks, room = 8 * layers // how.every + 64, 24 * layers // how.every + 4096
    times_s, counts = np.empty(ticks), np.empty(ticks, np.int64)
    rows, request = np.empty((room, width), np.float32), np.empty(room, np.int64)
    policy.log = (how.sigma * rng.standard_normal(NOISE), times_s, counts, rows, request)
    head["mode"] = TEACH if how.teacher else EXPLORE
    head["coherent"], head["every"], head["ticks"] = how.coherent, how.every, 0
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


def credited(
    episode: Episode, played: Sequence[tuple[Log, Outcome]], how: RelmasAlgorithm
) -> list[Transitions]:
    """Rollouts of one trace, each against the mean of the others."""
    dated = episode.problem.jobs.relative_deadline_s
    unit_s = how.horizon * float(dated[np.isfinite(dated)].max(initial=1e-9))
    apart = how.credit == "request" and how.reward == "R1"
    hits = np.array([outcome.results["outcome"] == HIT for _, outcome in played], float)
    others = (hits.sum(axis=0) - hits) / max(len(played) - 1, 1)
    found: list[tuple[Log, Floats, Floats, Floats]] = []
    for (log, outcome), hit, other in zip(played, hits, others, strict=True):
        gaps = np.diff(np.append(log.times_s, max(outcome.end_s, log.times_s[-1]))) / unit_s
        if apart and len(played) > 1:
            rewards = how.scale * _outcomes(log, outcome, 2.0 * (hit - other) / max(len(hit), 1))
        else:
            rewards = how.scale * _periods(log, outcome, how)
        found.append((log, rewards, gaps, discounted(rewards, np.exp(-gaps)).astype(float)))
    made = []
    for k, (log, rewards, gaps, returns) in enumerate(found):
        rest = [one for n, one in enumerate(found) if n != k and not apart]
        base = [np.interp(log.times_s, theirs.times_s, earned) for theirs, _, _, earned in rest]
        start = np.concatenate([[0], np.cumsum(log.counts)])
        kept = (rewards, gaps, returns - (np.mean(base, axis=0) if base else 0.0))
        made.append(Transitions(log.rows, start, *(each.astype(np.float32) for each in kept)))
    return made


def _outcomes(log: Log, outcome: Outcome, worth: Floats) -> Floats:
    """(T,) the worth of every request in the period in which it leaves; after the last tick it is the last one's."""
    gone_s, ticks = np.nan_to_num(outcome.results["finish_s"], nan=np.inf), len(log.times_s)
    period = np.clip(np.searchsorted(log.times_s, gone_s) - 1, 0, ticks - 1)
    return np.asarray(np.bincount(period, weights=worth, minlength=ticks), np.float64)


def _periods(log: Log, outcome: Outcome, how: RelmasAlgorithm) -> Floats:
    """(T,) the named reward of every period."""
    late = np.full(len(outcome.results), len(log.times_s), np.int64)
    hopeless = log.rows[:, HOPELESS] > 0.0
    tick = np.repeat(np.arange(len(log.counts)), log.counts)
    np.minimum.at(late, log.request[hopeless], tick[hopeless])
    table = tallies(outcome, log.times_s, late)
    return find_reward(how.reward)(table[:-1], table[1:], RewardSettings(spread=how.spread))


Kept = tuple[int, Transitions, tuple[Ints, Singles, Singles]]  # number, rollout, what is later


class Replay:
    """Keeps the newest rollouts whose ticks fit into ``room``; the newest one always. ``width`` = F."""

    def __init__(self, room: int, width: int, ahead: float) -> None:
        self.room, self.width, self.ahead = room, width, ahead
        self.episodes: deque[Kept] = deque()

    def __len__(self) -> int:
        return sum(len(episode) for _, episode, _ in self.episodes)

    def add(self, number: int, episode: Transitions) -> None:
        """Take in one rollout, forget the oldest ones that no longer fit."""
        self.episodes.append((number, episode, episode.later(self.ahead)))
        while len(self.episodes) > 1 and len(self) > self.room:
            self.episodes.popleft()

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """Draw ``size`` ticks with replacement."""
        ends = np.cumsum([len(episode) for _, episode, _ in self.episodes])
        drawn = rng.integers(0, ends[-1], size)
        which = np.searchsorted(ends, drawn, side="right")
        tick = drawn - np.concatenate([[0], ends])[which]
        found = [(*self.episodes[e][1:], t) for e, t in zip(which.tolist(), tick.tolist(), strict=True)]
        earned = [(later[1][t], later[2][t], one.returns[t]) for one, later, t in found]
        reward, factor, returns = np.array(earned, np.float32).T.copy()
        rows, count = _pad([one.at(t) for one, _, t in found])
        then, then_count = _pad([one.at(int(later[0][t])) for one, later, t in found])
        seen, action = rows[:, :, : self.width], rows[:, :, self.width :]
        return Batch(seen, action, count, reward, factor, then[:, :, : self.width], then_count, returns)


def discounted(rewards: Floats | Singles, factors: Floats | Singles) -> Singles:
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

"""Rewards R1 to R6 by name, from what happened between two decisions of an episode.

A miss is charged when it becomes inevitable (a waiting request turns hopeless, or is dropped), not when the late
request finishes; the sum over an episode is the same. With expected requests n of an episode:

    R1  (hits - misses) / n
    R2  R1 - lambda * integral of max(0, D - B) / B dt / duration
    R3  R2 + eta * change of the mean laxity ratio of the feasible waiting requests
    R4  R1 + gamma Phi' - Phi, Phi = - share of feasible waiting requests that are crowded (0 at the end)
    R5  sum over outcomes [w_h hit - w_m miss (1 + kappa shortfall of its pair)] / n + w_t * change of attainment
    R6  - sum of response / iso of the finished / n - phi * change of the standard deviation over tenants of hit rates

Changes, not levels, in R5 and R6: summed over an episode they give its final attainment and spread, however often the
policy is asked.

Deviations: L9 of docs/deviations.d/learning.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import UnknownNameError

# Columns of a tally (E, len(TALLY)): sums since the start of the episode, or values now.
TALLY = ("hits", "misses", "short_misses", "slowdown", "overload_s", "laxity_ratio", "crowded", "attainment", "spread",
         "duration_s", "requests")  # fmt: skip
HITS, MISSES, SHORT_MISSES, SLOWDOWN, OVERLOAD, LAXITY_RATIO = range(6)
CROWDED, ATTAINMENT, SPREAD, DURATION, REQUESTS = range(6, len(TALLY))


@dataclass(frozen=True)
class RewardSettings:
    """Weights of the rewards' terms. ``gamma`` is that of the trainer."""

    overload: float = 0.1  # lambda
    laxity: float = 0.05  # eta
    gamma: float = 0.997
    hit: float = 1.0  # w_h
    miss: float = 1.0  # w_m
    tenants: float = 1.0  # w_t
    kappa: float = 2.0
    spread: float = 1.0  # phi


Reward = Callable[[Floats, Floats, RewardSettings], Floats]


def r1(before: Floats, after: Floats, settings: RewardSettings) -> Floats:
    """Hits minus misses, over the expected number of requests."""
    change = after - before
    return (change[:, HITS] - change[:, MISSES]) / after[:, REQUESTS]


def r2(before: Floats, after: Floats, settings: RewardSettings) -> Floats:
    """R1 minus the time with more demand than bandwidth, weighted by its excess."""
    excess = (after - before)[:, OVERLOAD] / after[:, DURATION]
    return r1(before, after, settings) - settings.overload * excess


def r3(before: Floats, after: Floats, settings: RewardSettings) -> Floats:
    """R2 plus the change of laxity ratios."""
    return r2(before, after, settings) + settings.laxity * (after - before)[:, LAXITY_RATIO]


def r4(before: Floats, after: Floats, settings: RewardSettings) -> Floats:
    """R1 with a potential: fewer crowded requests are better. Keeps the optimal policy."""
    return r1(before, after, settings) - settings.gamma * after[:, CROWDED] + before[:, CROWDED]


def r5(before: Floats, after: Floats, settings: RewardSettings) -> Floats:
    """Hits, misses weighted by the shortfall of their pair, and attainment."""
    change = after - before
    charged = change[:, MISSES] + settings.kappa * change[:, SHORT_MISSES]
    base = (settings.hit * change[:, HITS] - settings.miss * charged) / after[:, REQUESTS]
    return base + settings.tenants * change[:, ATTAINMENT]


def r6(before: Floats, after: Floats, settings: RewardSettings) -> Floats:
    """Slowdown of the finished, and spread over tenants."""
    change = after - before
    return -change[:, SLOWDOWN] / after[:, REQUESTS] - settings.spread * change[:, SPREAD]


REWARDS: dict[str, Reward] = {"R1": r1, "R2": r2, "R3": r3, "R4": r4, "R5": r5, "R6": r6}


def reward(name: str) -> Reward:
    """A reward by name; raises UnknownNameError."""
    if name not in REWARDS:
        raise UnknownNameError("reward", name, REWARDS)
    return REWARDS[name]


def no_tally(rows: int) -> Floats:
    """Tallies at the start of ``rows`` episodes."""
    return np.zeros((rows, len(TALLY)))

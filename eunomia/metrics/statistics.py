"""Estimates over replications: means with Student-t or bootstrap intervals, paired by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError

FEWEST = 3  # replications for an interval in tables: with 2, Student's t is 12.7 times the standard error


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over ``n`` replications and its confidence interval; nan bounds = no interval (n < 2).

    ``format(estimate, ".1%")`` gives ``71.2 % +- 1.1 (n=5)``; any other float format works too.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def has_interval(self) -> bool:
        """Whether there were at least two replications."""
        return not math.isnan(self.low)

    @property
    def alone(self) -> Estimate:
        """The same mean as one sample, without interval: replications that only repeat one another."""
        return Estimate(self.mean, math.nan, math.nan, min(self.n, 1))

    @property
    def is_shown(self) -> bool:
        """Whether the interval is worth printing: from FEWEST replications on."""
        return self.has_interval and self.n >= FEWEST

    @property
    def half_width(self) -> float:
        """Half the width of the interval; nan without one."""
        return (self.high - self.low) / 2.0

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0; False without an interval."""
        return self.has_interval and (self.low > 0.0 or self.high < 0.0)

    def __format__(self, spec: str) -> str:
        if self.n == 0:
            return "no data (n=0)"
        spec = spec or ".4g"
        scale, unit, digits = (100.0, " %", spec[:-1] + "f") if spec.endswith("%") else (1.0, "", spec)
        mean = f"{self.mean * scale:{digits}}{unit}"
        if not self.has_interval:
            return f"{mean} (n={self.n}, no interval)"
        below, above = self.mean - self.low, self.high - self.mean
        if math.isclose(below, above, rel_tol=1e-6, abs_tol=1e-12 * max(1.0, abs(self.mean))):
            return f"{mean} +- {self.half_width * scale:{digits.lstrip('+')}} (n={self.n})"
        return f"{mean} [{self.low * scale:{digits}}, {self.high * scale:{digits}}] (n={self.n})"

    def __str__(self) -> str:
        return format(self, "")


NO_DATA = Estimate(math.nan, math.nan, math.nan, 0)


def mean(values: npt.ArrayLike) -> float:
    """Arithmetic mean; nan, without a warning, of nothing."""
    array = np.asarray(values)
    return float(array.mean()) if array.size else math.nan


def nearest_rank(values: Floats, percentile: float) -> float:
    """The ceil(p/100 * n)-th smallest value, always one that occurred; nan of nothing.

    The same expression as in the engine's indicators, so that both name the same value.
    """
    if not len(values):
        return math.nan
    rank = max(math.ceil(percentile / 100.0 * len(values)), 1)
    return float(np.partition(values, rank - 1)[rank - 1])


def interval(values: Sequence[float] | Floats, confidence: float = 0.95) -> Estimate:
    """Mean over replications with the Student-t interval mean +- t(n-1) * s / sqrt(n).

    nan values (a metric that one run could not give) are left out, and n says so. Assumes
    independent replications of roughly normal means; too narrow for shares near 0 or 1 with few
    seeds, where the bounds may even leave [0, 1].
    """
    array = _finite(values)
    n = len(array)
    if n == 0:
        return NO_DATA
    centre = float(array.mean())
    if n == 1:
        return Estimate(centre, math.nan, math.nan, 1)
    half = t_quantile(_upper(confidence), n - 1) * float(array.std(ddof=1)) / math.sqrt(n)
    return Estimate(centre, centre - half, centre + half, n)


def bootstrap(
    values: Sequence[float] | Floats,
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 10_000,
) -> Estimate:
    """Mean over replications with the percentile-bootstrap interval (Efron and Tibshirani 1993, chapter 13).

    Keeps to the range of the values and may be lopsided; too narrow for fewer than about 10 seeds.
    """
    array = _finite(values)
    n = len(array)
    if n < 2:
        return interval(array, confidence)
    means = array[rng.integers(0, n, (resamples, n))].mean(axis=1)
    tail = 100.0 * (1.0 - _upper(confidence))
    return Estimate(float(array.mean()), nearest_rank(means, tail), nearest_rank(means, 100.0 - tail), n)


def paired_difference(
    ours: Sequence[float] | Floats, theirs: Sequence[float] | Floats, confidence: float = 0.95
) -> Estimate:
    """Mean of ours[i] - theirs[i], where both saw the same random numbers (seed i).

    Differences of runs on one trace vary less than the runs: the interval is narrower than that of
    two independent means. Seeds that either side lacks (nan) are left out.
    """
    own, rival = _aligned(ours, theirs)
    return interval(own - rival, confidence)


def paired_ratio(
    ours: Sequence[float] | Floats, theirs: Sequence[float] | Floats, confidence: float = 0.95
) -> Estimate:
    """Geometric mean of ours[i] / theirs[i] with the t interval of the logarithms; positive values only.

    Seeds where either side is nan or not positive are left out, and n says so. The interval is not
    symmetric about the mean.
    """
    own, rival = _aligned(ours, theirs)
    usable = (own > 0.0) & (rival > 0.0)
    logs = interval(np.log(own[usable]) - np.log(rival[usable]), confidence)
    return (
        Estimate(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high), logs.n) if logs.n else NO_DATA
    )


@lru_cache(maxsize=256)
def t_quantile(probability: float, df: float) -> float:
    """Quantile of Student's t distribution: the t with P(T <= t) = probability, to about 1e-12 relative.

    Inverts the distribution function, an incomplete beta integral, by bisection.
    """
    if not 0.0 < probability < 1.0 or not df > 0.0:
        raise ConfigError(
            f"t quantile of probability {probability} with {df} degrees of freedom does not exist"
        )
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -t_quantile(1.0 - probability, df)
    tail = 1.0 - probability
    low, high = 0.0, 1.0
    while _t_upper_tail(high, df) > tail:
        low, high = high, 2.0 * high
    while high - low > 1e-14 * high:
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if _t_upper_tail(middle, df) > tail else (low, middle)
    return (low + high) / 2.0


def _t_upper_tail(t: float, df: float) -> float:
    """P(T > t) for t >= 0: half the regularised incomplete beta I_x(df/2, 1/2) at x = df / (df + t^2)."""
    return 0.5 * _incomplete_beta(df / (df + t * t), t * t / (df + t * t), df / 2.0, 0.5)


def _incomplete_beta(x: float, y: float, a: float, b: float) -> float:
    """I_x(a, b) with y = 1 - x (given apart, lest it cancel), by Lentz's continued fraction (DLMF 8.17.22)."""
    if x <= 0.0:
        return 0.0
    if y <= 0.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(y, x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y)
    return math.exp(front) / (a * _continued_fraction(x, a, b))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), d_2m = m(b-m)x / ((a+2m-1)(a+2m)), d_2m+1 = -(a+m)(a+b+m)x / ((a+2m)(a+2m+1))."""
    tiny = 1e-300
    value, c, d = 1.0, 1.0, 0.0
    for step in range(1, 1000):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / ((1.0 + term * d) or tiny)
        c = (1.0 + term / c) or tiny
        value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value


def _upper(confidence: float) -> float:
    """Probability below the upper bound of a two-sided interval."""
    if not 0.0 < confidence < 1.0:
        raise ConfigError(f"confidence is {confidence}; it must lie between 0 and 1, such as 0.95")
    return 0.5 + confidence / 2.0


def _finite(values: Sequence[float] | Floats) -> Floats:
    array = np.asarray(values, np.float64)
    return array[~np.isnan(array)]


def _aligned(ours: Sequence[float] | Floats, theirs: Sequence[float] | Floats) -> tuple[Floats, Floats]:
    own, rival = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if own.shape != rival.shape:
        raise ConfigError(
            f"paired comparison of {own.size} with {rival.size} runs; both need one run per seed, in the same order"
        )
    both = ~(np.isnan(own) | np.isnan(rival))
    return own[both], rival[both]

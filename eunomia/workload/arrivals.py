"""When requests come: open arrival processes.

Each process is a frozen dataclass. ``times(rng, duration_s)`` returns sorted float64 seconds in [0,
duration_s), drawn without a Python loop per request; ``mean_rate_per_s`` is its long-run mean. The random
processes draw in blocks of fixed size, so a longer run begins with the same arrivals. Processes that wait for
answers are in ``closed_loop``; those that pace themselves by the isolated time of what they send are in
``paced``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.workload.quantity import not_negative, positive, share

BLOCK = 1024  # draws at a time; even; part of the seeded stream, so changing it changes every run


@runtime_checkable
class ArrivalProcess(Protocol):
    """What ``generate`` asks of an open arrival process."""

    @property
    def mean_rate_per_s(self) -> float:
        """Long-run mean arrivals per second."""

    def times(self, rng: np.random.Generator, duration_s: float) -> Floats:
        """Arrival times in [0, duration_s), ascending."""


def cumulate(draw_gaps_s: Callable[[int], Floats], duration_s: float, start_s: float = 0.0) -> Floats:
    """Event times ``start_s + gap + gap + ...`` below ``duration_s``; gaps are drawn block by block."""
    blocks: list[Floats] = []
    last_s = start_s
    while last_s < duration_s:
        block = last_s + np.cumsum(draw_gaps_s(BLOCK))
        blocks.append(block)
        last_s = float(block[-1])
    times = np.concatenate(blocks) if blocks else np.empty(0)
    return times[: np.searchsorted(times, duration_s)]


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent exponential gaps of mean ``1 / rate_per_s``.

    Counts in any window have variance = mean. Real traffic is burstier: see ``Mmpp``.
    """

    rate_per_s: float

    def __post_init__(self) -> None:
        positive("poisson rate_per_s", self.rate_per_s)

    @property
    def mean_rate_per_s(self) -> float:
        """Long-run mean arrivals per second."""
        return self.rate_per_s

    def times(self, rng: np.random.Generator, duration_s: float) -> Floats:
        """Arrival times in [0, duration_s), ascending."""
        return cumulate(lambda size: rng.exponential(1.0 / self.rate_per_s, size), duration_s)


@dataclass(frozen=True, slots=True)
class Mmpp:
    """Markov-modulated Poisson process with two states, calm and burst.

    Stays in each state for an exponential time of the given mean; arrivals are Poisson at that state's
    rate. Starts in equilibrium. Source: Fischer and Meier-Hellstern, Performance Evaluation 18, 1993.
    """

    calm_rate_per_s: float
    burst_rate_per_s: float
    mean_calm_s: float
    mean_burst_s: float

    def __post_init__(self) -> None:
        not_negative("mmpp calm_rate_per_s", self.calm_rate_per_s)
        not_negative("mmpp burst_rate_per_s", self.burst_rate_per_s)
        positive("mmpp mean_calm_s", self.mean_calm_s)
        positive("mmpp mean_burst_s", self.mean_burst_s)
        if self.calm_rate_per_s == self.burst_rate_per_s == 0.0:
            raise ConfigError("mmpp has rate 0 in both states; at least one rate must be positive")

    @property
    def burst_share(self) -> float:
        """Share of time spent in bursts."""
        return self.mean_burst_s / (self.mean_burst_s + self.mean_calm_s)

    @property
    def mean_rate_per_s(self) -> float:
        """Long-run mean arrivals per second."""
        p = self.burst_share
        return (1.0 - p) * self.calm_rate_per_s + p * self.burst_rate_per_s

    def index_of_dispersion(self, window_s: float) -> float:
        """Variance over mean of the number of arrivals in a window (1 for Poisson).

        1 + 2 p (1-p) (difference of rates)^2 / (rate * s) * (1 - (1 - exp(-s t)) / (s t)). p is the burst
        share, t the window and s = 1/mean_calm_s + 1/mean_burst_s.
        """
        p, s = self.burst_share, 1.0 / self.mean_calm_s + 1.0 / self.mean_burst_s
        spread = (self.burst_rate_per_s - self.calm_rate_per_s) ** 2 * p * (1.0 - p)
        settled = 1.0 + math.expm1(-s * window_s) / (s * window_s)
        return 1.0 + 2.0 * spread / (self.mean_rate_per_s * s) * settled

    def times(self, rng: np.random.Generator, duration_s: float) -> Floats:
        """Arrival times in [0, duration_s), ascending.

        Unit-rate Poisson arrivals on the axis of expected counts, mapped back to time.
        """
        state_rng, count_rng = rng.spawn(2)
        starts_in_burst = bool(state_rng.random() < self.burst_share)
        stays = np.array([self.mean_calm_s, self.mean_burst_s])
        rates = np.array([self.calm_rate_per_s, self.burst_rate_per_s])
        alternating = (np.arange(BLOCK) + starts_in_burst) % 2  # BLOCK is even, so blocks join
        switches_s = cumulate(lambda size: state_rng.exponential(stays[alternating]), duration_s)
        edges_s = np.concatenate([[0.0], switches_s, [duration_s]])
        states = (np.arange(len(edges_s) - 1) + starts_in_burst) % 2
        expected = np.concatenate([[0.0], np.cumsum(np.diff(edges_s) * rates[states])])
        counts = cumulate(lambda size: count_rng.exponential(1.0, size), float(expected[-1]))
        times = np.asarray(np.interp(counts, expected, edges_s), np.float64)
        return np.minimum(times, np.nextafter(duration_s, 0.0))


def bursty(rate_per_s: float, burstiness: float = 4.0, mean_burst_s: float = 1.0) -> Mmpp:
    """An MMPP of mean ``rate_per_s`` whose bursts run at ``burstiness`` times that mean.

    Half of all requests come in bursts: the burst share of time is 1 / (2 burstiness). With
    ``burstiness = 1`` it is a Poisson process.
    """
    positive("bursty rate_per_s", rate_per_s)
    positive("bursty mean_burst_s", mean_burst_s)
    if not (math.isfinite(burstiness) and burstiness >= 1.0):
        raise ConfigError(f"burstiness is {burstiness}; it is peak over mean rate and must be at least 1")
    burst_share = 1.0 / (2.0 * burstiness)
    return Mmpp(
        calm_rate_per_s=0.5 * rate_per_s / (1.0 - burst_share),
        burst_rate_per_s=burstiness * rate_per_s,
        mean_calm_s=mean_burst_s * (1.0 - burst_share) / burst_share,
        mean_burst_s=mean_burst_s,
    )


def thin(
    rng: np.random.Generator, duration_s: float, peak_per_s: float, rate_at: Callable[[Floats], Floats]
) -> Floats:
    """Poisson arrivals of varying rate: candidates at the peak rate, kept with chance rate / peak.

    Source: Lewis and Shedler, Naval Research Logistics 26, 1979.
    """
    time_rng, keep_rng = rng.spawn(2)
    candidates_s = Poisson(peak_per_s).times(time_rng, duration_s)
    return candidates_s[keep_rng.random(len(candidates_s)) * peak_per_s < rate_at(candidates_s)]


@dataclass(frozen=True, slots=True)
class Diurnal:
    """Poisson arrivals whose rate swings as a sine.

    rate(t) = rate_per_s * (1 + amplitude * cos(2 pi (t - peak_s) / period_s)).
    """

    rate_per_s: float  # mean over a whole period
    amplitude: float = 0.5  # share of the mean, 0..1
    period_s: float = 86_400.0
    peak_s: float = 0.0  # when the rate is highest

    def __post_init__(self) -> None:
        positive("diurnal rate_per_s", self.rate_per_s)
        positive("diurnal period_s", self.period_s)
        share("diurnal amplitude", self.amplitude)
        if not math.isfinite(self.peak_s):
            raise ConfigError(f"diurnal peak_s is {self.peak_s}; it must be finite")

    @property
    def mean_rate_per_s(self) -> float:
        """Long-run mean arrivals per second (over whole periods)."""
        return self.rate_per_s

    @property
    def peak_per_s(self) -> float:
        """Highest rate."""
        return self.rate_per_s * (1.0 + self.amplitude)

    def rate_at(self, time_s: Floats) -> Floats:
        """Rate at each time, arrivals per second."""
        turn = 2.0 * np.pi * (time_s - self.peak_s) / self.period_s
        return np.asarray(self.rate_per_s * (1.0 + self.amplitude * np.cos(turn)), np.float64)

    def times(self, rng: np.random.Generator, duration_s: float) -> Floats:
        """Arrival times in [0, duration_s), ascending."""
        return thin(rng, duration_s, self.peak_per_s, self.rate_at)


@dataclass(frozen=True)
class Profile:
    """Poisson arrivals whose rate follows steps of equal length, repeated: hours of a day, say.

    ``weights`` are relative; the mean over a period is ``rate_per_s`` whatever their sum.
    """

    rate_per_s: float
    weights: tuple[float, ...]
    period_s: float = 86_400.0

    def __post_init__(self) -> None:
        positive("profile rate_per_s", self.rate_per_s)
        positive("profile period_s", self.period_s)
        object.__setattr__(self, "weights", tuple(float(w) for w in self.weights))
        for weight in self.weights:
            not_negative("profile weight", weight)
        if not any(self.weights):
            raise ConfigError("profile needs at least one positive weight")

    @property
    def mean_rate_per_s(self) -> float:
        """Long-run mean arrivals per second (over whole periods)."""
        return self.rate_per_s

    @property
    def rates_per_s(self) -> Floats:
        """Rate in each step."""
        weights = np.array(self.weights)
        return np.asarray(self.rate_per_s * weights / weights.mean(), np.float64)

    @property
    def peak_per_s(self) -> float:
        """Highest rate."""
        return float(self.rates_per_s.max())

    def rate_at(self, time_s: Floats) -> Floats:
        """Rate at each time, arrivals per second."""
        steps = len(self.weights)
        step = np.floor(time_s / self.period_s * steps).astype(np.int64) % steps
        return np.asarray(self.rates_per_s[step], np.float64)

    def times(self, rng: np.random.Generator, duration_s: float) -> Floats:
        """Arrival times in [0, duration_s), ascending."""
        return thin(rng, duration_s, self.peak_per_s, self.rate_at)


@dataclass(frozen=True, slots=True)
class Periodic:
    """One request every ``period_s`` from ``offset_s`` on, each late by a uniform 0..``jitter_s``.

    Camera frames, for instance.
    """

    period_s: float
    jitter_s: float = 0.0
    offset_s: float = 0.0

    def __post_init__(self) -> None:
        positive("periodic period_s", self.period_s)
        not_negative("periodic jitter_s", self.jitter_s)
        not_negative("periodic offset_s", self.offset_s)

    @property
    def mean_rate_per_s(self) -> float:
        """Long-run mean arrivals per second."""
        return 1.0 / self.period_s

    def times(self, rng: np.random.Generator, duration_s: float) -> Floats:
        """Arrival times in [0, duration_s), ascending."""
        frames = max(0, math.ceil((duration_s - self.offset_s) / self.period_s))
        times = self.offset_s + self.period_s * np.arange(frames, dtype=np.float64)
        if self.jitter_s:
            times = np.sort(times + rng.uniform(0.0, self.jitter_s, frames))
        return times[times < duration_s]


@dataclass(frozen=True, eq=False)
class Replay:
    """Given times, replayed: skip the first ``skip_s`` of trace time, then divide by ``speedup``.

    With ``loop`` the trace starts over, one mean gap after its last arrival, as often as needed. Looped
    copies are equal, so a statistic over many loops has fewer degrees of freedom than it seems. With
    ``window = "random"`` a trace longer than the run is entered at a uniformly drawn time, so seeds see
    different pieces. They overlap, unless the trace is many times longer: their spread is then too small.
    Otherwise nothing is random. A longer run enters elsewhere.
    """

    arrival_s: Floats  # ascending, seconds
    speedup: float = 1.0
    loop: bool = False
    skip_s: float = 0.0
    window: Literal["start", "random"] = "start"

    def __post_init__(self) -> None:
        times = np.ascontiguousarray(self.arrival_s, np.float64)
        object.__setattr__(self, "arrival_s", times)
        positive("replay speedup", self.speedup)
        not_negative("replay skip_s", self.skip_s)
        if not len(times):
            raise ConfigError("replay has no arrival times")
        if not np.isfinite(times).all() or times.min() < 0.0 or (np.diff(times) < 0.0).any():
            raise ConfigError("replay times must be finite, at least 0 and ascending")
        if not len(self.base_s):
            raise ConfigError(f"replay skips {self.skip_s} s, but the trace ends at {times[-1]} s")
        if self.loop and not self.loop_s > 0.0:
            raise ConfigError("replay cannot loop: the trace has no two arrivals at different times")

    @property
    def base_s(self) -> Floats:
        """Times of one pass, seconds of the replay."""
        first = np.searchsorted(self.arrival_s, self.skip_s)
        return (self.arrival_s[first:] - self.skip_s) / self.speedup

    @property
    def loop_s(self) -> float:
        """Length of one pass: span plus one mean gap, and the silence before the first arrival."""
        base = self.base_s
        if len(base) < 2:
            return 0.0
        span = float(base[-1] - base[0])
        return float(base[-1]) + span / (len(base) - 1) if span > 0.0 else 0.0

    @property
    def mean_rate_per_s(self) -> float:
        """Mean arrivals per second over one pass; 0 for a single arrival."""
        return len(self.base_s) / self.loop_s if self.loop_s else 0.0

    def varies(self, duration_s: float) -> bool:
        """Whether two seeds see different arrivals in a run of that length."""
        return self.window == "random" and bool(self.base_s[-1] > duration_s)

    def times(self, rng: np.random.Generator, duration_s: float) -> Floats:
        """Arrival times in [0, duration_s), ascending."""
        base = self.base_s
        if self.varies(duration_s):
            start_s = float(rng.uniform(0.0, float(base[-1]) - duration_s))
            first, end = np.searchsorted(base, [start_s, start_s + duration_s])
            return np.minimum(base[first:end] - start_s, np.nextafter(duration_s, 0.0))
        if self.loop:
            passes = math.ceil(duration_s / self.loop_s)
            base = (self.loop_s * np.arange(passes)[:, None] + base[None, :]).ravel()
        return base[: np.searchsorted(base, duration_s)]

"""Streams that send the next request about when the last should be done: MoCA's and AuRORA's artifacts.

Nearly closed loops on an open clock: the gap after a request is its isolated time, scaled and jittered,
whatever really happened to it. They need the isolated times of the models, in seconds on the platform
under test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError
from eunomia.workload.arrivals import BLOCK
from eunomia.workload.quantity import not_negative, positive


@runtime_checkable
class Paced(Protocol):
    """What ``generate`` asks of a process whose gaps depend on the models drawn."""

    @property
    def streams(self) -> int:
        """Number of independent streams."""

    @property
    def limit(self) -> int | None:
        """Requests in all; None = as many as fit."""

    def mean_gap_s(self, chance: Floats, iso_s: Floats) -> float:
        """Mean gap of one stream."""

    def gaps_s(self, rng: np.random.Generator, picks: Ints, chance: Floats, iso_s: Floats) -> Floats:
        """Gap after each of the drawn models ``picks``."""


def expected_dispatches(process: Paced, chance: Floats, iso_s: Floats, duration_s: float) -> float:
    """Mean number of requests; raises ConfigError when the gaps are all 0."""
    mean_gap_s = process.mean_gap_s(chance, iso_s)
    if not mean_gap_s > 0.0:
        raise ConfigError(
            "paced arrivals never advance: the jitter exceeds every isolated time times cap; "
            "lower the jitter or raise cap"
        )
    expected = process.streams * (1.0 + duration_s / mean_gap_s)
    return expected if process.limit is None else min(expected, float(process.limit))


def dispatch(
    process: Paced,
    pick_rng: np.random.Generator,
    gap_rng: np.random.Generator,
    chance: Floats,  # (models,) probabilities
    iso_s: Floats,  # (models,) isolated times
    duration_s: float,
) -> tuple[Floats, Ints]:
    """Arrival times, ascending, and the model drawn for each. Every stream starts at 0."""
    parts = [
        _one_stream(process, pick, gap, chance, iso_s, duration_s)
        for pick, gap in zip(pick_rng.spawn(process.streams), gap_rng.spawn(process.streams), strict=True)
    ]
    times = np.concatenate([t for t, _ in parts])
    picks = np.concatenate([p for _, p in parts])
    order = np.argsort(times, kind="stable")[: process.limit]
    return times[order], picks[order]


def _one_stream(
    process: Paced,
    pick_rng: np.random.Generator,
    gap_rng: np.random.Generator,
    chance: Floats,
    iso_s: Floats,
    duration_s: float,
) -> tuple[Floats, Ints]:
    now_s, sent = 0.0, 0
    times: list[Floats] = []
    picks: list[Ints] = []
    while now_s < duration_s and (process.limit is None or sent < process.limit):
        pick = pick_rng.choice(len(chance), BLOCK, p=chance).astype(np.int64)
        ends = now_s + np.cumsum(process.gaps_s(gap_rng, pick, chance, iso_s))
        times.append(np.concatenate([[now_s], ends[:-1]]))
        picks.append(pick)
        now_s, sent = float(ends[-1]), sent + BLOCK
    all_times = np.concatenate(times)
    kept = int(np.searchsorted(all_times, duration_s))
    return all_times[:kept], np.concatenate(picks)[:kept]


@dataclass(frozen=True, slots=True)
class MocaStreams:
    """gap = isolated time of the model just sent * cap - jitter_s * U{0..19}, never below 0.

    Source: MoCA's artifact (MOCA branch of ucb-bar/gemmini-rocc-tests), where the jitter is 45,000
    cycles at 1 GHz and a run has 200-250 requests (``limit``). The floor at 0 is ours: on faster
    hardware the literal gap can be negative. Where the jitter rivals the isolated times the load is
    far above ``1 / cap`` per stream; scale ``jitter_s`` with the hardware then.
    """

    cap: float
    streams: int = 4
    jitter_s: float = 45e-6
    limit: int | None = None  # requests in all; None = as many as fit

    def __post_init__(self) -> None:
        positive("moca cap", self.cap)
        not_negative("moca jitter_s", self.jitter_s)
        _check_counts("moca", self.streams, self.limit)

    def mean_gap_s(self, chance: Floats, iso_s: Floats) -> float:
        """Mean gap of one stream: exact, over models and the 20 jitter steps."""
        steps = self.jitter_s * np.arange(20)
        gaps = np.maximum(0.0, iso_s[:, None] * self.cap - steps[None, :])  # (models, 20)
        return float(chance @ gaps.mean(axis=1))

    def gaps_s(self, rng: np.random.Generator, picks: Ints, chance: Floats, iso_s: Floats) -> Floats:
        """Gap after each drawn model."""
        jitter = self.jitter_s * rng.integers(0, 20, len(picks))
        return np.asarray(np.maximum(0.0, iso_s[picks] * self.cap - jitter), np.float64)


@dataclass(frozen=True, slots=True)
class AuroraStreams:
    """gap = mean isolated time of the set * (cap + 0.01 * U{0..40}).

    Source: AuRORA's artifact (aurora-rocc-tests-ae): 4 streams, cap about 0.75..0.94, 200 requests.
    """

    cap: float = 0.85
    streams: int = 4
    jitter_steps: int = 40
    limit: int | None = None

    def __post_init__(self) -> None:
        positive("aurora cap", self.cap)
        not_negative("aurora jitter_steps", self.jitter_steps)
        _check_counts("aurora", self.streams, self.limit)

    def mean_gap_s(self, chance: Floats, iso_s: Floats) -> float:
        """Mean gap of one stream."""
        return float(chance @ iso_s) * (self.cap + 0.01 * self.jitter_steps / 2.0)

    def gaps_s(self, rng: np.random.Generator, picks: Ints, chance: Floats, iso_s: Floats) -> Floats:
        """Gap after each drawn model; the same distribution for all."""
        steps = rng.integers(0, self.jitter_steps + 1, len(picks)).astype(np.float64)
        return float(chance @ iso_s) * (self.cap + 0.01 * steps)


def _check_counts(name: str, streams: int, limit: int | None) -> None:
    if streams < 1:
        raise ConfigError(f"{name} streams is {streams}; it must be at least 1")
    if limit is not None and limit < 1:
        raise ConfigError(f"{name} limit is {limit} requests; it must be at least 1")

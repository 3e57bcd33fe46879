"""Streams in, one request table out: draws, merges and sorts, reproducibly.

Every stream has its own random numbers, derived from (seed, tenant, stream name, purpose) by SHA-256. So
adding or removing a tenant leaves the others' requests as they were.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError
from eunomia.workload.arrivals import ArrivalProcess, Diurnal, Mmpp, Periodic, Poisson, Profile, Replay
from eunomia.workload.closed_loop import ClosedLoop
from eunomia.workload.paced import Paced, dispatch, expected_dispatches
from eunomia.workload.processes import Arrivals
from eunomia.workload.quantity import positive
from eunomia.workload.requests import RequestTable
from eunomia.workload.stream import Stream
from eunomia.workload.tenant import Agreement

MAX_REQUESTS = 20_000_000
FIRST_STATED = 2**64  # seeds of runs end at 2**63
DRAWN = (
    Poisson,
    Mmpp,
    Diurnal,
    Profile,
    Periodic,
    Paced,
    ClosedLoop,
)  # whose every draw differs, or is announced


def stream_rng(seed: int, *names: str) -> np.random.Generator:
    """A generator for one purpose: the same (seed, names) give the same numbers on any machine."""
    if seed < 0:
        raise ConfigError(f"seed is {seed}; it must be at least 0")
    digest = hashlib.sha256("\x1f".join(names).encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))


@dataclass(frozen=True, slots=True)
class Rows:
    """Requests in any order; ``after`` points into these rows, -1 = open loop."""

    pair: Ints
    arrival_s: Floats
    relative_deadline_s: Floats
    priority: Floats
    deferrable: npt.NDArray[np.bool_]
    after: Ints


def generate(
    streams: Sequence[Stream],
    duration_s: float,
    seed: int = 0,
    *,
    iso_best_s: Mapping[str, float] | None = None,  # isolated time per model on its best type
    max_requests: int = MAX_REQUESTS,
) -> RequestTable:
    """All requests that arrive in [0, duration_s), sorted by arrival; ties keep the order of the streams.

    Raises ConfigError when more than ``max_requests`` are expected, or when a rule needs an isolated time
    that ``iso_best_s`` lacks. It also refuses two streams of a tenant with one name, or with different
    promises for one model.
    """
    positive("duration_s", duration_s)
    _check_names(streams)
    agreements = _agreements(streams)
    mixes = [_Mix.of(stream, agreements, iso_best_s) for stream in streams]
    expected = sum(mix.expected_requests(duration_s) for mix in mixes)
    if expected > max_requests:
        raise ConfigError(
            f"about {expected:.3g} requests in {duration_s:g} s, but at most {max_requests} are allowed; "
            "shorten duration_s or lower the rates"
        )
    stated = Stated(tuple(streams), duration_s, iso_best_s)
    return assemble([mix.draw(duration_s, seed) for mix in mixes], agreements, stated)


@dataclass(frozen=True, eq=False)
class Stated:
    """Streams as their owners state them. Replayed times, and processes that are not ours, become Poisson arrivals.

    A trace is the future itself: of it only the mean rate is used. Does badly where it comes in bursts.
    """

    streams: tuple[Stream, ...]
    duration_s: float
    iso_best_s: Mapping[str, float] | None = None
    most: int | None = None  # requests of a trace

    def draw(self, number: int) -> RequestTable:
        """Another trace, under a seed above all that a run can have."""
        streams = [replace(stream, arrivals=_unread(stream.arrivals)) for stream in self.streams]
        made = generate(streams, self.duration_s, FIRST_STATED + number, iso_best_s=self.iso_best_s)
        return made.first(self.most)

    def first(self, most: int) -> Stated:
        """The same streams, whose traces end after so many requests."""
        return replace(self, most=most)


def _unread(process: Arrivals) -> Arrivals:
    """The process, or Poisson arrivals of its mean rate where its times may be those of a recording."""
    if isinstance(process, DRAWN):
        return process
    assert isinstance(process, ArrivalProcess), "all others are drawn"
    return Poisson(max(process.mean_rate_per_s, 1e-9))


def assemble(
    parts: Sequence[Rows], agreements: tuple[Agreement, ...], stated: Stated | None = None
) -> RequestTable:
    """One sorted table; ties keep the order of ``parts``, closed-loop rows go behind all others."""
    if not parts:
        return RequestTable(agreements, np.empty(0, np.int64), np.empty(0), np.empty(0), stated=stated)
    starts = np.cumsum([0, *(len(part.pair) for part in parts[:-1])])
    moved = [np.where(p.after >= 0, p.after + start, -1) for p, start in zip(parts, starts, strict=True)]
    after = np.concatenate(moved)
    arrival_s = np.concatenate([part.arrival_s for part in parts])
    closed = after >= 0
    open_rows = np.flatnonzero(~closed)
    by_time = open_rows[np.argsort(arrival_s[open_rows], kind="stable")]
    order = np.concatenate([by_time, np.flatnonzero(closed)])
    place = np.empty(len(order), np.int64)  # old row -> new row
    place[order] = np.arange(len(order))
    return RequestTable(
        agreements,
        np.concatenate([part.pair for part in parts])[order],
        arrival_s[order],
        np.concatenate([part.relative_deadline_s for part in parts])[order],
        np.concatenate([part.priority for part in parts])[order],
        np.concatenate([part.deferrable for part in parts])[order],
        np.where(closed, place[after], -1)[order],
        stated=stated,
    )


@dataclass(frozen=True, slots=True)
class _Mix:
    """A stream with its models' chances, isolated times, pair numbers and deadlines worked out."""

    stream: Stream
    pairs: Ints  # (draws,) index into the agreements
    chance: Floats  # (draws,) probabilities
    iso_s: Floats | None  # (draws,) None when no isolated time is needed
    relative_s: Floats  # (draws,) deadline after arrival
    paced: Paced | None  # the arrivals, where they are paced: a look at a protocol costs more than most draws

    @classmethod
    def of(
        cls, stream: Stream, agreements: tuple[Agreement, ...], iso_best_s: Mapping[str, float] | None
    ) -> _Mix:
        """Works out the numbers; raises ConfigError where an isolated time is missing."""
        iso = iso_best_s or {}
        paced = stream.arrivals if isinstance(stream.arrivals, Paced) else None
        models = [draw.agreement.model for draw in stream.draws]
        iso_s = None
        if stream.mix == "work" or paced is not None:
            missing = [model for model in models if model not in iso]
            if missing:
                raise ConfigError(
                    f"tenant '{stream.tenant}' needs the isolated time of model '{missing[0]}'; "
                    "it was not given"
                )
            iso_s = np.array([positive(f"isolated time of model '{m}'", iso[m]) for m in models])
        relative_s = np.full(len(models), math.inf)
        if stream.window is None:
            due = zip(stream.draws, models, strict=True)
            relative_s = np.array([draw.deadline.relative_s(model, iso.get(model)) for draw, model in due])
        pairs = [agreements.index(draw.agreement) for draw in stream.draws]
        return cls(stream, np.array(pairs, np.int64), stream.chances(iso_s), iso_s, relative_s, paced)

    def expected_requests(self, duration_s: float) -> float:
        """Mean number of requests, or an upper bound on it."""
        process = self.stream.arrivals
        if isinstance(process, ClosedLoop):
            return process.expected_requests(duration_s)
        if self.paced is not None:
            assert self.iso_s is not None, "worked out for paced arrivals"
            return expected_dispatches(self.paced, self.chance, self.iso_s, duration_s)
        if isinstance(process, Replay) and not process.loop:
            return float(len(process.base_s))
        return cast("ArrivalProcess", process).mean_rate_per_s * duration_s

    def draw(self, duration_s: float, seed: int) -> Rows:
        """The stream's requests."""
        arrival_s, pick, after = self._when_and_which(duration_s, seed)
        count, stream = len(pick), self.stream
        relative_s = self.relative_s[pick]
        if stream.window is not None:
            relative_s = stream.window.draw_s(self._rng(seed, "windows"), count)
        priority = np.array([draw.agreement.priority for draw in stream.draws], np.float64)[pick]
        if stream.priorities is not None:
            priority = stream.priorities.draw(self._rng(seed, "priorities"), count)
        deferrable = np.full(count, stream.window is not None)
        return Rows(self.pairs[pick], arrival_s, relative_s, priority, deferrable, after)

    def _when_and_which(self, duration_s: float, seed: int) -> tuple[Floats, Ints, Ints]:
        """Arrival (or think) times, picked draws, and what each row waits for."""
        process = self.stream.arrivals
        time_rng, pick_rng = self._rng(seed, "arrivals"), self._rng(seed, "models")
        if self.paced is not None:
            assert self.iso_s is not None, "worked out for paced arrivals"
            times, pick = dispatch(self.paced, pick_rng, time_rng, self.chance, self.iso_s, duration_s)
            return times, pick, np.full(len(times), -1, np.int64)
        if isinstance(process, ClosedLoop):
            times, after = process.chains(time_rng, duration_s)
        else:
            times = cast("ArrivalProcess", process).times(time_rng, duration_s)
            after = np.full(len(times), -1, np.int64)
        return times, pick_rng.choice(len(self.chance), len(times), p=self.chance).astype(np.int64), after

    def _rng(self, seed: int, purpose: str) -> np.random.Generator:
        return stream_rng(seed, self.stream.tenant, self.stream.name, purpose)


def _check_names(streams: Sequence[Stream]) -> None:
    seen: set[tuple[str, str]] = set()
    for stream in streams:
        key = (stream.tenant, stream.name)
        if key in seen:
            raise ConfigError(
                f"tenant '{stream.tenant}' has two streams named '{stream.name}'; "
                "give them different names, or they would send the same requests"
            )
        seen.add(key)


def _agreements(streams: Sequence[Stream]) -> tuple[Agreement, ...]:
    """The (tenant, model) pairs, in order of first mention."""
    found: dict[tuple[str, str], Agreement] = {}
    for draw in (draw for stream in streams for draw in stream.draws):
        agreement = draw.agreement
        known = found.setdefault((agreement.tenant, agreement.model), agreement)
        if known != agreement:
            raise ConfigError(
                f"tenant '{agreement.tenant}' has two different agreements for model '{agreement.model}'"
            )
    return tuple(found.values())

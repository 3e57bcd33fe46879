"""Samples to numbers: per stream, over all, percentiles from an HDR histogram."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NotRequired, TypedDict

import numpy as np

from eunomia.core.arrays import Flags, Floats
from eunomia.serving.load.plan import LoadStream
from eunomia.serving.load.run import OK, Samples

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0)
LARGEST_US = 600_000_000  # ten minutes
LATE_MS, LATE_SHARE, FEW_LOST = (
    1.0,
    0.1,
    0.005,
)  # of a generator: from there on a figure is not the server's alone


class Numbers(TypedDict):
    """Of one stream, or of all."""

    sent: int
    answered: int
    hits: int
    hit_rate: float  # nan where nothing was sent
    latency_ms: dict[str, float]  # by percentile, as ``p99``; empty without answers
    errors: dict[str, int]  # the ten most common


class StreamResult(Numbers):
    """Of one stream."""

    tenant: str
    model: str
    deadline_ms: float


class Worst(TypedDict):
    """The stream of the least hit rate."""

    tenant: str
    model: str
    hit_rate: float


class Lag(TypedDict):
    """How late the generator sent, by percentile. ``hits_lost``: late answers, in time since they were really sent."""

    p50: float
    p95: float
    p99: float
    max: float
    hits_lost: int


class Result(TypedDict):
    """A load, as it is kept and printed; ``seed``, ``url`` and ``guessed_shapes`` are added by who sent it."""

    streams: list[StreamResult]
    total: Numbers
    wall_s: float
    measured_s: float
    goodput_per_s: float
    offered_per_s: float
    worst: Worst | None
    generator_lag_ms: Lag
    ended_early: bool  # by Ctrl-C: all figures are of what was sent until then
    seed: NotRequired[int]
    url: NotRequired[str]
    guessed_shapes: NotRequired[dict[str, dict[str, list[int]]]]  # free sizes set to 1, by network and input


def summarise(samples: Samples, streams: Sequence[LoadStream], warmup_s: float = 0.0) -> Result:
    """What to print and to keep: sent, answered, hits (within the deadline from the intended time), latencies.

    Requests whose intended time lies in the warm-up do not count. A request without an answer is a miss.
    """
    counted = samples.schedule.time_s >= warmup_s
    rows: list[StreamResult] = []
    for n, stream in enumerate(streams):
        mine = counted & (samples.schedule.stream == n)
        rows.append(
            {
                "tenant": stream.tenant,
                "model": stream.model,
                "deadline_ms": stream.deadline_s * 1e3,
                **_numbers(samples, mine, np.full(mine.sum(), stream.deadline_s)),
            }
        )
    deadlines = np.array([s.deadline_s for s in streams])[samples.schedule.stream[counted]]
    length_s = max(float(samples.schedule.time_s[-1]) - warmup_s, 1e-9)
    total = _numbers(samples, counted, deadlines)
    worst = min((r for r in rows if r["sent"]), key=lambda r: r["hit_rate"], default=None)
    return {
        "streams": rows,
        "total": total,
        "wall_s": samples.wall_s,
        "measured_s": length_s,
        "goodput_per_s": total["hits"] / length_s,
        "offered_per_s": total["sent"] / length_s,
        "worst": {"tenant": worst["tenant"], "model": worst["model"], "hit_rate": worst["hit_rate"]}
        if worst
        else None,
        "generator_lag_ms": _lag(samples, counted, deadlines),
        "ended_early": samples.early,
    }


def _lag(samples: Samples, counted: Flags, deadline_s: Floats) -> Lag:
    """``deadline_s``: of those counted."""
    lag_s = samples.lag_s[counted] if counted.any() else samples.lag_s
    p50, p95, p99, most = (float(value) * 1e3 for value in np.percentile(lag_s, (50, 95, 99, 100)))
    latency_s = samples.latency_s[counted]
    lost = (latency_s > deadline_s) & (latency_s - samples.lag_s[counted] <= deadline_s)
    return {"p50": p50, "p95": p95, "p99": p99, "max": most, "hits_lost": int(lost.sum())}


def lateness(result: Result) -> str:
    """What a late generator did to the figures, which are then not the server's; empty where it was on time."""
    lag, total, latency = result["generator_lag_ms"], result["total"], result["total"]["latency_ms"]
    late = [(name, value) for name, value in (("p50", lag["p50"]), ("p95", lag["p95"]), ("p99", lag["p99"]))]
    moved = [name for name, ms in late if latency and ms > max(LATE_MS, LATE_SHARE * latency[name])]
    lost = lag["hits_lost"]
    if lost > FEW_LOST * total["sent"]:
        moved.append(f"the hit rate ({lost} more would be hits)")
    if not moved:
        return ""
    *others, last = moved
    return (
        f"the generator itself was late, by up to {lag['max']:.0f} ms: that is part of "
        f"{', '.join(others) + ' and ' if others else ''}{last}, which are not the server's alone; give the generator "
        "a core or a machine of its own, or lower the rates"
    )


def _numbers(samples: Samples, mine: Flags, deadline_s: Floats) -> Numbers:
    latency_s = samples.latency_s[mine]
    answered = ~np.isnan(latency_s)
    hits = int((latency_s <= deadline_s).sum())
    errors = Counter(
        error for error, wanted in zip(samples.error, mine, strict=True) if wanted and error != OK
    )
    sent = int(mine.sum())
    return {
        "sent": sent,
        "answered": int(answered.sum()),
        "hits": hits,
        "hit_rate": hits / sent if sent else math.nan,
        "latency_ms": percentiles_ms(latency_s[answered]),
        "errors": dict(errors.most_common(10)),
    }


def percentiles_ms(latency_s: Floats) -> dict[str, float]:
    """From an HDR histogram with three significant digits; empty without answers."""
    from hdrh.histogram import HdrHistogram

    if not len(latency_s):
        return {}
    histogram = HdrHistogram(1, LARGEST_US, 3)
    for value in latency_s:
        histogram.record_value(min(max(int(value * 1e6), 1), LARGEST_US))
    return {f"p{p:g}": histogram.get_value_at_percentile(p) / 1e3 for p in PERCENTILES}

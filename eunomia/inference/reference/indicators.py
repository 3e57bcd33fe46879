"""Service-level indicators of one (tenant, model) pair, recomputed from its whole history at every reading."""

from __future__ import annotations

import math
from typing import NamedTuple

from eunomia.workload.tenant import Slo


class Departure(NamedTuple):
    """One request that has left: finished or dropped."""

    time_s: float
    response_s: float
    hit: bool
    dropped: bool


class Reading(NamedTuple):
    """The indicator, how many requests it rests on, and the signed shortfall; sli is nan without data."""

    sli: float
    samples: int
    gap: float


def read(slo: Slo | None, history: list[Departure], now_s: float, ewma: float | None) -> Reading:
    """The pair's indicator now. Pairs without an SLO are measured by hit rate over 100 requests, gap 0."""
    measured = slo or Slo(0.0)
    values = _values(measured, history, now_s)
    if not values:
        return Reading(math.nan, 0, 0.0)
    sli = _indicator(measured, values, history, now_s, ewma)
    return Reading(sli, len(values), slo.gap(sli) if slo else 0.0)


def _values(slo: Slo, history: list[Departure], now_s: float) -> list[float]:
    """What the window holds, oldest first."""
    finished = [d for d in history if not d.dropped]
    if slo.kind == "throughput":
        return [1.0 for d in finished if d.time_s > now_s - slo.window_s]
    if slo.kind == "hit_rate":
        return [float(d.hit) for d in history[-slo.window_requests :]]
    if slo.kind == "drop_rate":
        return [float(d.dropped) for d in history[-slo.window_requests :]]
    return [d.response_s for d in finished[-slo.window_requests :]]


def _indicator(
    slo: Slo, values: list[float], history: list[Departure], now_s: float, ewma: float | None
) -> float:
    if slo.kind == "throughput":
        return len(values) / min(slo.window_s, max(now_s, 1e-9))
    if slo.kind == "latency_percentile":
        return sorted(values)[max(1, math.ceil(slo.percentile / 100.0 * len(values))) - 1]
    if slo.kind == "latency_mean" or ewma is None:
        return sum(values) / len(values)
    outcomes = [float(d.dropped if slo.kind == "drop_rate" else d.hit) for d in history]
    average = outcomes[0]
    for value in outcomes[1:]:
        average = (1.0 - ewma) * average + ewma * value
    return average

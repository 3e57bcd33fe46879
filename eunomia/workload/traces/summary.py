"""A trace in a few numbers: what ``eunomia trace`` prints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eunomia.workload.traces.trace import OPTIONAL, Trace


@dataclass(frozen=True, slots=True)
class TenantSummary:
    """One tenant of a trace."""

    tenant: str
    rows: int
    share: float  # of all rows
    mean_rate_per_s: float  # over the span of the whole trace


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """One numeric column: how many rows have a value, and its percentiles (linear interpolation)."""

    column: str
    known: int
    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """Rows, span, rate, burstiness and the tenants of a trace.

    ``burstiness`` is the squared coefficient of variation of the gaps, variance / mean^2: 0 for a
    clock, 1 for Poisson, above 1 for bursts; nan with fewer than two gaps or gaps that are all 0. A
    trace with slow swings of its rate has a high value even if it is calm at every moment.
    """

    format: str
    path: str
    rows: int
    span_s: float
    mean_rate_per_s: float
    burstiness: float
    models: tuple[str, ...]
    tenants: tuple[TenantSummary, ...]  # most rows first
    columns: tuple[ColumnSummary, ...]
    source: str
    licence: str
    notes: tuple[str, ...]


def describe(trace: Trace) -> TraceSummary:
    """Summarise a trace."""
    rows = np.bincount(trace.tenant, minlength=len(trace.tenants))
    order = np.argsort(-rows, kind="stable")
    span_s = trace.span_s
    tenants = tuple(
        TenantSummary(
            trace.tenants[k],
            int(rows[k]),
            float(rows[k] / len(trace)),
            float(rows[k] / span_s) if span_s else 0.0,
        )
        for k in order
    )
    columns = tuple(_column(trace, name) for name in OPTIONAL if getattr(trace, name) is not None)
    return TraceSummary(
        trace.format,
        trace.path,
        len(trace),
        span_s,
        trace.mean_rate_per_s,
        _burstiness(trace),
        trace.models,
        tenants,
        columns,
        trace.source,
        trace.licence,
        trace.notes,
    )


def _burstiness(trace: Trace) -> float:
    gaps_s = np.diff(trace.arrival_s)
    if len(gaps_s) < 2 or not gaps_s.any():
        return math.nan
    return float(gaps_s.var() / gaps_s.mean() ** 2)


def _column(trace: Trace, name: str) -> ColumnSummary:
    values = np.asarray(getattr(trace, name), np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return ColumnSummary(name, 0, math.nan, math.nan, math.nan, math.nan)
    p50, p90, p99 = np.percentile(values, [50, 90, 99])
    return ColumnSummary(name, len(values), float(values.mean()), float(p50), float(p90), float(p99))

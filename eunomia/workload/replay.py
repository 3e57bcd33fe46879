"""A trace whose rows name their tenants and models, turned into requests row by row."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from eunomia.core.errors import ConfigError
from eunomia.workload.deadlines import DeadlineRule
from eunomia.workload.generate import Rows, assemble
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from eunomia.workload.traces.trace import Trace


def replay(
    trace: Trace,
    duration_s: float = math.inf,
    *,
    agreements: Mapping[tuple[str, str], Agreement] | None = None,
    deadline: DeadlineRule | None = None,
    iso_best_s: Mapping[str, float] | None = None,
) -> RequestTable:
    """One request per row that arrives before ``duration_s``; scale the trace first (``at_rate``, ``faster``).

    A (tenant, model) pair without an entry in ``agreements`` gets one without an SLO. Deadlines and
    priorities of the trace win; ``deadline`` fills in where it has none. Measured durations and token
    counts are not used: the cost table says how long a model takes here. Raises ConfigError for rows
    without a model.
    """
    trace = trace.select(slice(0, int(np.searchsorted(trace.arrival_s, duration_s))))
    if (trace.model < 0).any():
        raise ConfigError(
            f"{trace.path}: {int((trace.model < 0).sum())} rows name no model; choose one with with_model"
        )
    codes = trace.tenant.astype(np.int64) * max(1, len(trace.models)) + trace.model
    present, pair = np.unique(codes, return_inverse=True)
    names = [
        (trace.tenants[code // len(trace.models)], trace.models[code % len(trace.models)]) for code in present
    ]
    promised = agreements or {}
    pairs = tuple(promised.get(name, Agreement(*name)) for name in names)
    relative_s = np.full(len(trace), math.inf)
    if deadline is not None:
        iso = iso_best_s or {}
        relative_s = np.array([deadline.relative_s(model, iso.get(model)) for _, model in names])[pair]
    if trace.relative_deadline_s is not None:
        relative_s = np.where(np.isfinite(trace.relative_deadline_s), trace.relative_deadline_s, relative_s)
    priority = trace.priority
    if priority is None:
        priority = np.array([agreement.priority for agreement in pairs], np.float64)[pair]
    rows = Rows(
        pair.astype(np.int64),
        trace.arrival_s,
        relative_s,
        priority,
        np.zeros(len(trace), np.bool_),
        np.full(len(trace), -1, np.int64),
    )
    return assemble([rows], pairs)

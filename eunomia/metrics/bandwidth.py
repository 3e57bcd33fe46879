"""Demand for memory bandwidth over time, from the intervals in which layers ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.metrics.columns import Subjobs

TOLERANCE = 1e-9  # relative: a demand equal to the limit but for rounding is not above it


@dataclass(frozen=True)
class Demand:
    """A step function: demand is ``bytes_s[i]`` from ``time_s[i]`` for ``length_s[i]`` seconds."""

    time_s: Floats  # (steps,)
    length_s: Floats  # (steps,) positive; the steps fill the interval without gaps
    bytes_s: Floats  # (steps,) sum of isolated demands of the layers running, nan if a cost is missing


def demand_over_time(subjobs: Subjobs, start_s: float, end_s: float) -> Demand:
    """D(t) on [start_s, end_s]: one sort of all starts and ends, one running sum."""
    begin = np.clip(subjobs.start_s, start_s, end_s)
    stop = np.clip(subjobs.end_s, start_s, end_s)
    runs = stop > begin
    demand = subjobs.demand_bytes_s[runs]
    edge_s = np.concatenate([[start_s], begin[runs], stop[runs], [end_s]])
    change = np.concatenate([[0.0], demand, -demand, [0.0]])
    order = np.argsort(edge_s, kind="stable")
    edge_s = edge_s[order]
    level = np.maximum(np.cumsum(change[order])[:-1], 0.0)  # rounding may leave -1e-6 when all is idle
    length_s = np.diff(edge_s)
    steps = length_s > 0.0
    return Demand(edge_s[:-1][steps], length_s[steps], level[steps])


def saturation(demand: Demand, bandwidth_bytes_s: float) -> float:
    """Share of the measured time with D > B; D(t) = sum of the demands b of the layers that run at t; 0 if B = inf.

    Misleads: real traffic comes in bursts.
    """
    total_s = float(demand.length_s.sum())
    if total_s <= 0.0 or np.isnan(demand.bytes_s).any():
        return float("nan")
    above = demand.bytes_s > bandwidth_bytes_s * (1.0 + TOLERANCE)
    return float(demand.length_s[above].sum()) / total_s


def use(demand: Demand, bandwidth_bytes_s: float) -> float:
    """Time average of min(D, B) / B; 0 if B = inf.

    Misleads: `moca_literal` grants less than B, so use is overstated.
    """
    return _mean_over_time(demand, np.minimum(demand.bytes_s, bandwidth_bytes_s) / bandwidth_bytes_s)


def pressure(demand: Demand, bandwidth_bytes_s: float) -> float:
    """Mean over time of D / B; above 1 when layers ask for more than there is, on average."""
    return _mean_over_time(demand, demand.bytes_s / bandwidth_bytes_s)


def _mean_over_time(demand: Demand, values: Floats) -> float:
    total_s = float(demand.length_s.sum())
    return float(values @ demand.length_s) / total_s if total_s > 0.0 else float("nan")

"""Which requests count: warm-up left out, and requests whose fate is unknown left out too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.metrics.columns import UNFINISHED, Requests, Tables


@dataclass(frozen=True)
class Measured:
    """What the metrics are computed on.

    ``requests`` are those that arrived in [start_s, end_s) and whose fate is known; ``everyone`` is
    the whole table, needed for departures and backlogs; ``horizon_s`` is the last instant that the
    records know of; ``censored`` are those left out because their fate is unknown.
    """

    requests: Requests
    everyone: Requests
    start_s: float
    end_s: float
    horizon_s: float
    censored: Requests

    @property
    def length_s(self) -> float:
        """T, the measured time."""
        return self.end_s - self.start_s

    @property
    def departed(self) -> Requests:
        """Requests of the whole run that finished within [start_s, end_s]."""
        finish_s = self.everyone.finish_s
        return self.everyone.where(
            self.everyone.finished & (finish_s >= self.start_s) & (finish_s <= self.end_s)
        )


def measured(tables: Tables, warmup_s: float = 0.0, end_s: float | None = None) -> Measured:
    """Choose the requests that count.

    They arrive within [warmup_s, end_s); ``end_s`` is the end of the run, by default the last arrival, finish
    or drop on record (which then counts in). A request that arrived in time and left after ``end_s`` keeps
    its outcome. An unfinished one is a miss when its deadline has passed by the last instant on record.
    Otherwise it is *censored*, that is left out: whether it would be a hit is unknown. Unfinished requests
    without a deadline are always censored. Raises ConfigError when nothing is left to measure.
    """
    everyone = Requests.read(tables["requests"])
    last_s = max(_largest(everyone.arrival_s), _largest(everyone.finish_s), 0.0)
    stop_s = last_s if end_s is None else float(end_s)
    if not 0.0 <= warmup_s <= stop_s:
        raise ConfigError(
            f"warm-up is {warmup_s} s and measuring ends at {stop_s} s; the warm-up must lie in 0..{stop_s} s"
        )
    horizon_s = max(last_s, stop_s)
    arrived = everyone.arrival_s >= warmup_s
    arrived &= everyone.arrival_s <= stop_s if end_s is None else everyone.arrival_s < stop_s
    unknown = (everyone.outcome == UNFINISHED) & ~(everyone.deadline_s < horizon_s)
    return Measured(
        requests=everyone.where(arrived & ~unknown),
        everyone=everyone,
        start_s=float(warmup_s),
        end_s=stop_s,
        horizon_s=horizon_s,
        censored=everyone.where(arrived & unknown),
    )


def _largest(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if len(finite) else -np.inf

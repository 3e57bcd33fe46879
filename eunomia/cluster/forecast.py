"""Room for arrivals that are expected but not here yet (Gavel's extension list: arrival forecasting).

A wrapper around any policy of shares: it adds ``jobs`` phantom rows of one kind to the view and cuts them
from the answer. So the programme reckons with the contention that is coming. Their share stays unpromised;
the rounds give it to whoever is there. Does badly when the forecast is wrong: then shares are less unequal
than the policy's own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from eunomia.cluster.problem import ClusterProblem
from eunomia.contract.allocation import Allocation, Allocator, ClusterView, Holdings, Needs
from eunomia.core.errors import ConfigError

ROWS = (
    "throughput",
    "scale",
    "weight",
    "arrival_s",
    "total_steps",
    "steps_left",
    "attained_s",
    "isolated_s",
    "deadline_s",
    "held",
    "first_start_s",
    "row",
    "tenant",
    "app",
)


@dataclass(frozen=True, slots=True)
class Forecast:
    """How many jobs of one kind are expected to be present beside those that are."""

    jobs: float
    job_type: str
    scale_factor: int = 1
    weight: float = 1.0


class WithForecast:
    """The inner policy, called with the present jobs and the expected ones."""

    def __init__(self, inner: Allocator, forecast: Forecast, problem: ClusterProblem) -> None:
        if inner.needs.answer != "shares" or inner.needs.elastic or inner.needs.pairs:
            raise ConfigError(
                "a forecast needs a policy that answers with shares of single jobs at fixed scale factors"
            )
        self._inner, self._forecast = inner, forecast
        self._count = max(1, round(forecast.jobs))
        self._row = problem.table.row(forecast.job_type, forecast.scale_factor, "forecast")
        self._speed = np.nan_to_num(problem.alone[self._row])

    @property
    def needs(self) -> Needs:
        """As the inner policy's."""
        return self._inner.needs

    def reset(self, seed: int) -> None:
        """Reset the inner policy."""
        self._inner.reset(seed)

    def allocate(self, view: ClusterView) -> Allocation:
        """The inner answer without the phantoms' rows."""
        answer = self._inner.allocate(self._crowded(view))
        assert answer.shares is not None
        return replace(answer, shares=answer.shares[: len(view)])

    def _crowded(self, view: ClusterView) -> ClusterView:
        count, types = self._count, len(view.cluster.types)
        steps = float(np.median(view.steps_left)) if len(view) else 1.0
        phantom = {
            "throughput": np.tile(self._speed, (count, 1)),
            "scale": np.full(count, self._forecast.scale_factor, np.int64),
            "weight": np.full(count, self._forecast.weight),
            "arrival_s": np.full(count, view.now_s),
            "total_steps": np.full(count, steps),
            "steps_left": np.full(count, steps),
            "attained_s": np.zeros((count, types)),
            "isolated_s": np.zeros(count),
            "deadline_s": np.full(count, np.inf),
            "held": np.zeros((count, types), np.int64),
            "first_start_s": np.full(count, np.nan),
            "row": np.full(count, self._row),
            "tenant": np.zeros(count, np.int64),
            "app": np.arange(count) + 10**9,
        }
        joined = {name: np.concatenate([getattr(view, name), phantom[name]]) for name in ROWS}
        same = {f.name: getattr(view, f.name) for f in fields(view) if f.name not in ROWS}
        same["key"] = np.concatenate([view.key, np.arange(count) + 10**9])
        same["holdings"] = Holdings(view.holdings.job, view.holdings.server, view.holdings.count)
        same["traits"] = {
            name: np.append(values, np.full(count, np.nan)) for name, values in view.traits.items()
        }
        return ClusterView(**{**same, **joined})

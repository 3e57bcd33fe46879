"""Which policy, and which setting: a sweep in order of one metric, ties and runner-up named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate, interval, paired_difference
from eunomia.report.leaders import Leaders, in_short, leaders, listed, ranked, runner_up
from eunomia.report.table import Table
from eunomia.report.units import counted, estimate_text, value_text
from eunomia.study.compare import AnyComparison, metric_of
from eunomia.study.wing import AnyWing, wing_of

TOLD = 6  # settings that the sentences name; the report has all
BESIDE = ("slo_attainment", "response_p99_s", "energy_per_request_j")  # what stands beside the ranked figure


@dataclass(frozen=True)
class Overall:
    """Policies over all settings of a sweep: for each seed the mean over the settings where every policy has data."""

    points: Sequence[AnyComparison]

    @property
    def finished(self) -> list[str]:
        """Policies with a result at some setting."""
        return [p for p in self.points[0].policies if any(p in point.finished for point in self.points)]

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean over settings, and over seeds with its interval; without one where they draw nothing anywhere."""
        found = interval(self._values(policy, metric))
        return found.alone if self._alike([policy], metric) else found

    def difference(self, policy: str, rival: str, metric: str) -> Estimate:
        """Policy minus rival, seed by seed; without an interval where both draw nothing at any setting."""
        found = paired_difference(self._values(policy, metric), self._values(rival, metric))
        return found.alone if self._alike([policy, rival], metric) else found

    def _alike(self, policies: Sequence[str], metric: str) -> bool:
        return all(policy in point.alike for point in self.complete(metric) for policy in policies)

    def complete(self, metric: str) -> list[AnyComparison]:
        """The settings where every policy has this figure on every seed."""
        each = [(point, [point.values(policy, metric) for policy in self.finished]) for point in self.points]
        return [point for point, values in each if not np.isnan(values).any()]

    def _values(self, policy: str, metric: str) -> list[float]:
        values = [point.values(policy, metric) for point in self.complete(metric)]
        return np.mean(values, axis=0).tolist() if values else [math.nan]


@dataclass(frozen=True)
class Ranking:
    """A sweep in order of ``name``; ``labels`` are its settings, ``points`` their comparisons."""

    wing: AnyWing
    name: str
    labels: Sequence[str]
    points: Sequence[AnyComparison]

    @classmethod
    def of(
        cls, wing: str, name: str | None, labels: Sequence[str], points: Sequence[AnyComparison]
    ) -> Ranking:
        """By a metric, or by the wing's own. Raises UnknownNameError."""
        found = wing_of(wing)
        metric_of(found, name or found.chart)
        kept = [(text, point) for text, point in zip(labels, points, strict=True) if point.answers]
        return cls(found, name or found.chart, [text for text, _ in kept], [point for _, point in kept])

    @property
    def metric(self) -> Metric:
        """What is ranked by."""
        return self.wing.metrics[self.name]

    @property
    def beside(self) -> list[str]:
        """Other figures of the tables: those with data."""
        known = [n for n in (self.wing.chart, *BESIDE) if n in self.wing.metrics and n != self.name]
        return [
            name
            for name in dict.fromkeys(known)
            if any(not math.isnan(p.estimate(x, name).mean) for p in self.points for x in p.finished)
        ]

    @cached_property
    def each(self) -> list[Leaders | None]:
        """The leaders at each setting."""
        return [leaders(point, self.name, self.metric) for point in self.points]

    def policies(self) -> Table:
        """A row per policy, best mean over the settings first: mean, worst setting, where it led."""
        overall = Overall(self.points)
        rows = []
        for policy in ranked(overall, self.name, self.metric):
            worst, where = self._worst(policy)
            level = [_level(led) for led in self.each if led is not None and policy in _level(led)]
            alone = sum(len(names) == 1 for names in level)
            rows.append(
                (
                    policy,
                    where,
                    estimate_text(self.metric, overall.estimate(policy, self.name)),
                    value_text(self.metric, worst),
                    str(alone),
                    str(len(level) - alone),
                    *(
                        value_text(self.wing.metrics[n], overall.estimate(policy, n).mean)
                        for n in self.beside
                    ),
                )
            )
        heads = [f"{self.metric.heading}, all settings", "worst", "ahead", "level"]
        more = [self.wing.metrics[name].heading for name in self.beside]
        return Table(("policy", "worst at", *heads, *more), tuple(rows), 2)

    def settings(self) -> Table:
        """A row per setting, in order of its best policy's figure, with the absolute figures of that policy."""
        sign = 1.0 if self.metric.better == "lower" else -1.0
        found = [
            (sign * point.estimate(led.best, self.name).mean, text, point, led)
            for text, point, led in zip(self.labels, self.points, self.each, strict=True)
            if led is not None
        ]
        rows = []
        for place, (_, text, point, led) in enumerate(sorted(found, key=lambda entry: entry[0]), start=1):
            figures = [
                value_text(self.wing.metrics[name], point.estimate(led.best, name).mean)
                for name in self.beside
            ]
            level = listed(_level(led)[1:]) if len(_level(led)) > 1 else "-"
            best = estimate_text(self.metric, point.estimate(led.best, self.name))
            rows.append((str(place), text, led.best, level, best, *figures))
        heads = [self.metric.heading, *(self.wing.metrics[name].heading for name in self.beside)]
        return Table(("place", "setting", "best policy", "level with it", *heads), tuple(rows), 4)

    def sentences(self) -> list[str]:
        """The order over all settings, ties and runner-up first; then the leaders of each setting."""
        overall = Overall(self.points)
        led = leaders(overall, self.name, self.metric)
        if led is None:
            return [f"No setting has {self.metric.label} of every policy: there is no ranking."]
        used, total = len(overall.complete(self.name)), len(self.points)
        over = counted(used, "setting") if used == total else f"{used} of {total} settings"
        text = estimate_text(self.metric, overall.estimate(led.best, self.name))
        said = [f"Ranked by {self.metric.label}, mean over {over}: {listed(led.top)} with {text}."]
        if len(self.points) > 1:
            said += runner_up(overall, led, self.metric)
        told = list(zip(self.labels, self.points, strict=True))[:TOLD]
        said += [f"{text}: {in_short(point, self.name, self.metric)}" for text, point in told]
        left = len(self.points) - len(told)
        return [*said, *([f"... {left} more settings in the report"] if left > 0 else [])]

    def _worst(self, policy: str) -> tuple[float, str]:
        """A policy's worst figure of any setting, and where."""
        sign = -1.0 if self.metric.better == "lower" else 1.0
        means = [point.estimate(policy, self.name).mean for point in self.points]
        known = [
            (sign * mean, text) for mean, text in zip(means, self.labels, strict=True) if not math.isnan(mean)
        ]
        worst, where = min(known, default=(math.nan, "-"))
        return sign * worst, where


def _level(led: Leaders) -> list[str]:
    """Who shares the first place: with few seeds, equal means alone."""
    return [*led.top, *(() if led.few else led.level)]

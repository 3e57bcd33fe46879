"""What the elastic pool and deferrable jobs give: one table of figures per method, over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate, interval, paired_ratio
from eunomia.report.charts import bars
from eunomia.report.table import Table
from eunomia.report.units import counted, estimate_text
from eunomia.study.result import Result, Row

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

Figures = dict[str, float]


@dataclass(frozen=True, repr=False)
class Worlds(Result):
    """Figures by method and seed; every method met the same jobs of a seed."""

    name: str
    seeds: tuple[int, ...]
    figures: dict[str, tuple[Figures, ...]]  # method -> one per seed
    headline: str  # the figure by which methods are compared with the first
    metrics: Mapping[str, Metric]  # the figures of the table, in their order

    @property
    def methods(self) -> list[str]:
        """In the order of the request."""
        return list(self.figures)

    def estimate(self, method: str, figure: str) -> Estimate:
        """Mean over seeds with its 95 % interval."""
        return interval([found[figure] for found in self.figures[method]])

    def against_first(self, method: str) -> Estimate | None:
        """Headline figure over that of the first method, paired by seed; None for the first, or where one is 0."""
        first = self.methods[0]
        ours, theirs = (self._headlines(name) for name in (method, first))
        if method == first or min([*ours, *theirs]) <= 0.0:
            return None
        return paired_ratio(ours, theirs)

    @property
    def title(self) -> str:
        """Name of the world, and how much was compared."""
        return f"{self.name}: {counted(len(self.methods), 'method')}, {counted(len(self.seeds), 'seed')}"

    def table(self, short: bool = False) -> Table:
        """One row per method: its figures, and the headline over that of the first method."""
        head = (
            *(m.heading for m in self.metrics.values()),
            f"{self.metrics[self.headline].heading} / {self.methods[0]}",
        )
        rows = (
            (method, *(estimate_text(self.metrics[f], self.estimate(method, f), short) for f in self.metrics),
             self._ratio(method))
            for method in self.methods
        )  # fmt: skip
        return Table(("policy", *head), tuple(rows))

    def _ratio(self, method: str) -> str:
        found = self.against_first(method)
        if found is None:
            return ""
        span = f" [{found.low:.3f}, {found.high:.3f}]" if found.has_interval else ""
        return f"{found.mean:.3f}{span}"

    def footnotes(self) -> list[str]:
        """How the numbers are to be read."""
        if len(self.seeds) < 2:
            return []
        return [f"mean of {len(self.seeds)} seeds, ±: half the 95 % interval; every row met the same jobs"]

    def rows(self) -> list[Row]:
        """One row per method and seed."""
        return [
            {"policy": method, "seed": seed, **found}
            for method, runs in self.figures.items()
            for seed, found in zip(self.seeds, runs, strict=True)
        ]

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A bar per method for a figure, by default the headline."""
        name = metric or self.headline
        label = self.metrics[name].label if name in self.metrics else name
        bars(axes, {method: self.estimate(method, name) for method in self.methods}, label)

    def _headlines(self, method: str) -> Sequence[float]:
        return [found[self.headline] for found in self.figures[method]]

    def as_table(self) -> dict[str, object]:
        """Plain data, for JSON; a figure without a value is None."""
        return {
            "name": self.name,
            "seeds": list(self.seeds),
            "methods": {
                method: {name: [_plain(found[name]) for found in runs] for name in runs[0]}
                for method, runs in self.figures.items()
            },
        }


def _plain(value: float) -> float | None:
    return None if value != value else value

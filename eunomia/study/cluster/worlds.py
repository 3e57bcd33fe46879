"""What the elastic pool and deferrable jobs give: one table of figures per method, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eunomia.metrics.statistics import Estimate, interval, paired_ratio

Figures = dict[str, float]


@dataclass(frozen=True)
class Worlds:
    """Figures by method and seed; every method met the same jobs of a seed."""

    name: str
    seeds: tuple[int, ...]
    figures: dict[str, tuple[Figures, ...]]  # method -> one per seed
    headline: str  # the figure by which methods are compared with the first

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

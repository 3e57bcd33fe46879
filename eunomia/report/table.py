"""Tables as values: plain text or Markdown; the command line colours them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate
from eunomia.report.units import estimate_text


class Estimates(Protocol):
    """A comparison: figures of policies over seeds."""

    @property
    def policies(self) -> Sequence[str]:
        """Names of the policies."""
        ...

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean of a metric over seeds, with its interval."""
        ...


@dataclass(frozen=True)
class Table:
    """Cells as text; the first columns are aligned left, the others right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1  # columns of names, flushed left

    @property
    def right(self) -> range:
        """Columns of numbers, flushed right."""
        return range(self.left, len(self.header))

    @property
    def widths(self) -> list[int]:
        """Characters of the longest cell of each column."""
        lines = (self.header, *self.rows)
        return [max(len(line[i]) for line in lines) for i in range(len(self.header))]

    @property
    def width(self) -> int:
        """Characters of a line of ``text``."""
        return sum(self.widths) + 2 * (len(self.header) - 1)

    def text(self) -> str:
        """Aligned plain text, two spaces between columns."""
        lines, widths = (self.header, *self.rows), self.widths
        return "".join(
            "  ".join(
                c.ljust(w) if i < self.left else c.rjust(w)
                for i, (c, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            + "\n"
            for line in lines
        )

    def markdown(self) -> str:
        """A Markdown table; bars in names are escaped."""
        rule = ("---:" if column in self.right else "---" for column in range(len(self.header)))
        escaped = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in line] for line in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in (self.header, tuple(rule), *escaped))


def estimates_table(result: Estimates, metrics: Mapping[str, Metric], short: bool = False) -> Table:
    """One row per policy, one column per metric with data: the mean, and half its 95 % interval unless ``short``.

    A cost that is 0 for every policy has no column.
    """
    known = [name for name, metric in metrics.items() if _has_data(result, name, metric)]
    rows = (
        (policy, *(estimate_text(metrics[name], result.estimate(policy, name), short) for name in known))
        for policy in result.policies
    )
    return Table(("policy", *(metrics[name].heading for name in known)), tuple(rows))


def _has_data(result: Estimates, name: str, metric: Metric) -> bool:
    means = [result.estimate(policy, name).mean for policy in result.policies]
    return any(not math.isnan(mean) and not (metric.unit == "cost" and mean == 0.0) for mean in means)

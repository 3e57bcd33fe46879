"""Tables as values: plain text or Markdown; the command line colours them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate
from eunomia.report.units import estimate_text

GAIN = "gain"  # the column of paired differences to the baseline, in points
Gain = Callable[[str], Estimate | None]


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

    def parts(self, width: int) -> list[Table]:
        """The table as tables that fit into ``width``, each with the columns of names; one column at least in each."""
        widths, parts = self.widths, [[*range(self.left)]]
        for column in self.right:
            taken = sum(widths[c] + 2 for c in parts[-1])
            if len(parts[-1]) > self.left and taken + widths[column] > width:
                parts.append([*range(self.left)])
            parts[-1].append(column)
        return [
            Table(
                tuple(self.header[c] for c in part),
                tuple(tuple(row[c] for c in part) for row in self.rows),
                self.left,
            )
            for part in parts
        ]

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


def columns_of(result: Estimates, metrics: Mapping[str, Metric]) -> list[str]:
    """The columns of a comparison, in the terminal and in the report: each metric with data.

    A cost that is 0 for every policy has no column. ``gain`` follows the hit rate of several policies.
    """
    known = [name for name, metric in metrics.items() if _has_data(result, name, metric)]
    if "hit_rate" in known and len(result.policies) > 1:
        known.insert(known.index("hit_rate") + 1, GAIN)
    return known


def estimates_table(
    result: Estimates, metrics: Mapping[str, Metric], short: bool = False, gain: Gain | None = None
) -> Table:
    """One row per policy, the columns of ``columns_of``: the mean, and half its 95 % interval unless ``short``.

    ``gain``: the difference in hit rate of a policy to the baseline, None for the baseline itself.
    """
    names = [name for name in columns_of(result, metrics) if name != GAIN or gain is not None]

    def cell(policy: str, name: str) -> str:
        if name == GAIN and gain is not None:
            return gain_text(gain(policy), short)
        return estimate_text(metrics[name], result.estimate(policy, name), short)

    headings = (GAIN if name == GAIN else metrics[name].heading for name in names)
    rows = ((policy, *(cell(policy, name) for name in names)) for policy in result.policies)
    return Table(("policy", *headings), tuple(rows))


def gain_text(gain: Estimate | None, short: bool = False) -> str:
    """``+3.1 ±1.2``: a difference of shares in points; ``-`` without data, and for the baseline."""
    if gain is None or not gain.n:
        return "-"
    spread = f" ±{100 * gain.half_width:.1f}" if gain.is_shown and not short else ""
    return f"{100 * gain.mean:+.1f}{spread}"


def _has_data(result: Estimates, name: str, metric: Metric) -> bool:
    means = [result.estimate(policy, name).mean for policy in result.policies]
    return any(not math.isnan(mean) and not (metric.unit == "cost" and mean == 0.0) for mean in means)

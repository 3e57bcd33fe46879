"""Tables as values: plain text, Markdown or JSON; the command line colours them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from eunomia.metrics.statistics import Estimate
from eunomia.metrics.summary import METRICS
from eunomia.report.assessment import HEADLINES, interval_text, metric_text

TITLES = {
    "hit_rate": "in time", "slo_attainment": "SLOs met", "worst_tenant": "worst tenant", "jain_hit_rate": "Jain",
    "response_p99_s": "p99 response", "energy_per_request_j": "energy/request", "utilisation": "busy",
    "decisions_per_request": "decisions/request",
}  # fmt: skip


class Estimates(Protocol):
    """A comparison: an Assessment, or the result of ``eunomia.compare``."""

    @property
    def policies(self) -> Sequence[str]:
        """Names of the policies."""
        ...

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean of a metric over seeds, with its interval."""
        ...


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column is aligned left, the others right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """Aligned plain text, two spaces between columns."""
        lines = (self.header, *self.rows)
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        return "".join(
            "  ".join(
                c.ljust(w) if i == 0 else c.rjust(w)
                for i, (c, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            + "\n"
            for line in lines
        )

    def markdown(self) -> str:
        """A Markdown table; bars in names are escaped."""
        rule = ("---", *("---:" for _ in self.header[1:]))
        escaped = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in line] for line in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in (self.header, rule, *escaped))


def summary_table(result: Estimates, metrics: Sequence[str] = HEADLINES) -> Table:
    """One row per policy, best hit rate first: mean and half the 95 % interval of each metric with data."""
    known = [m for m in metrics if any(not math.isnan(result.estimate(p, m).mean) for p in result.policies)]
    header = ("policy", *(TITLES.get(name, METRICS[name].label) for name in known))
    rows = [(p, *(_cell(name, result.estimate(p, name)) for name in known)) for p in ranked(result)]
    return Table(header, tuple(rows))


def ranked(result: Estimates, metric: str = "hit_rate") -> list[str]:
    """Policies from best to worst mean; those without data stand last."""
    sign = 1.0 if METRICS[metric].better == "lower" else -1.0
    value = {policy: sign * result.estimate(policy, metric).mean for policy in result.policies}
    return sorted(value, key=lambda policy: (math.isnan(value[policy]), value[policy]))


def summary_json(result: Estimates, metrics: Sequence[str] | None = None) -> str:
    """Numbers for machines: policy -> metric -> mean, low, high, n, unit; null = no data."""
    names = list(METRICS) if metrics is None else list(metrics)
    table = {p: {name: _numbers(name, result.estimate(p, name)) for name in names} for p in ranked(result)}
    return json.dumps(table, indent=2, allow_nan=False) + "\n"


def _cell(name: str, estimate: Estimate) -> str:
    return f"{metric_text(name, estimate.mean)} {interval_text(name, estimate)}".rstrip()


def _numbers(name: str, estimate: Estimate) -> dict[str, Any]:
    bounds = {key: getattr(estimate, key) for key in ("mean", "low", "high")}
    finite = {key: value if math.isfinite(value) else None for key, value in bounds.items()}
    return {**finite, "n": estimate.n, "unit": METRICS[name].unit}

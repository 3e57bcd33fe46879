"""A learned policy against others on one scenario, by common random numbers, with what its guards did.

Every number is the metric of ``eunomia run``, by the same functions: what a run accepts can be evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eunomia.config import Scenario
from eunomia.contract.traits import COUNTS
from eunomia.core.arrays import Floats
from eunomia.core.data import Data
from eunomia.learning.load import load_policy
from eunomia.metrics.statistics import Estimate, interval
from eunomia.metrics.table import METRICS
from eunomia.report.charts import bars
from eunomia.report.table import Table
from eunomia.report.units import counted, value_text
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.inference.run import SCENARIOS, ScenarioLike, run_cell
from eunomia.study.result import Result, Row
from eunomia.study.run import seeds_from

if TYPE_CHECKING:
    from eunomia.report.charts import Axes


@dataclass(frozen=True, eq=False)
class Line:
    """One policy: means over seeds. ``gain`` is the learned policy's hit rate minus this one's, paired by seed.

    ``kept`` is the same of attainment; None without promises.
    """

    name: str
    hit_rate: float
    attainment: float  # nan without promises
    shortfall: float
    worst: float  # shortfall of the worst pair
    gain: Estimate | None
    kept: Estimate | None


def in_points(difference: Estimate | None) -> str:
    """A paired difference in points, with its interval where there are several seeds."""
    if difference is None:
        return ""
    spread = f" ±{100 * difference.half_width:.2f}" if difference.has_interval else ""
    return f"{100 * difference.mean:+.2f}{spread}"


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """All lines, the learned policy first, and what its guards counted."""

    name: str
    seeds: int
    lines: tuple[Line, ...]
    counts: dict[str, int]

    @property
    def promised(self) -> bool:
        """Whether the scenario promises anything that can be judged here."""
        return not math.isnan(self.lines[0].attainment)

    @property
    def title(self) -> str:
        """Which policy was evaluated, and on how much."""
        rivals = counted(len(self.lines) - 1, "policy", "policies")
        return f"{self.name} against {rivals}, {counted(self.seeds, 'seed')}"

    def table(self, short: bool = False) -> Table:
        """One row per policy: its metrics, and by how much the learned one is ahead of it, in points."""
        head = ["policy", METRICS["hit_rate"].heading, f"{self.name} minus it"]
        rows = [[line.name, _share(line.hit_rate), in_points(line.gain)] for line in self.lines]
        if self.promised:
            attainment = METRICS["slo_attainment"].heading
            head += [attainment, f"{attainment}, minus it", "SLO shortfall", "worst shortfall"]
            rows = [
                [
                    *row,
                    _share(line.attainment),
                    in_points(line.kept),
                    _share(line.shortfall),
                    _share(line.worst),
                ]
                for row, line in zip(rows, self.lines, strict=True)
            ]
        return Table(tuple(head), tuple(tuple(row) for row in rows))

    def footnotes(self) -> list[str]:
        """How to read the table, and what the guards did."""
        counts = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        return ["minus it: paired by seed, in points", f"guards: {counts or 'none of its own'}"]

    def rows(self) -> list[Row]:
        """One row per policy."""
        return list(self.facts()["lines"])

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A bar per rival: by how many points of hit rate the learned policy is ahead."""
        bars(axes, {line.name: line.gain for line in self.lines if line.gain is not None}, "gain in hit rate")
        axes.axhline(0.0, color="black", linewidth=1.0)

    def facts(self) -> Data:
        """As plain data."""
        lines = [
            {
                "policy": line.name,
                "hit_rate": line.hit_rate,
                "attainment": line.attainment,
                "shortfall": line.shortfall,
                "worst_shortfall": line.worst,
                "attainment_gain": line.kept.mean if line.kept else None,
                "gain": line.gain.mean if line.gain else None,
                "gain_half_width": line.gain.half_width if line.gain and line.gain.has_interval else None,
            }
            for line in self.lines
        ]
        return {"policy": self.name, "seeds": self.seeds, "lines": lines, "guards": self.counts}


def _share(value: float) -> str:
    return value_text(METRICS["hit_rate"], value)


def evaluate(
    policy: str | Path,
    scenario: ScenarioLike,
    against: Sequence[PolicyLike] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
) -> Evaluation:
    """Run a learned policy and others on the same requests. Raises RecordError for an unusable checkpoint.

    ``against`` and ``seeds`` default to the scenario's [compare].
    """
    checked = SCENARIOS.checked(scenario, overrides)
    count = checked.compare.seeds if seeds is None else seeds
    learned, numbers = load_policy(policy), seeds_from(checked.seed, count)
    table = {learned.name: measure_policy(learned, checked, numbers)}
    counts = dict(COUNTS.of(learned))  # policies in Python have no guards of their own
    for rival in against or checked.compare.policies:
        table.setdefault(policy_name(rival), measure_policy(resolve_policy(rival), checked, numbers))
    ours, our_met = table[learned.name][:2]
    lines = []
    for name, (hits, met, short, worst) in table.items():
        own = name == learned.name
        gain = None if own else interval((ours - hits).tolist())
        kept = None if own or np.isnan(met).any() else interval((our_met - met).tolist())
        share, attained, missing, most = (float(values.mean()) for values in (hits, met, short, worst))
        lines.append(Line(name, share, attained, missing, most, gain, kept))
    return Evaluation(learned.name, count, tuple(lines), counts)


def measure_policy(policy: PolicyLike, scenario: Scenario, seeds: Sequence[int]) -> Floats:
    """(4, seeds): hit rate, SLO attainment, mean and worst shortfall; nan where nothing is promised."""
    rows = []
    for seed in seeds:
        result = run_cell(scenario, policy, seed, "requests")
        shortfalls = [pair["shortfall"] for pair in result.pairs if pair["slo_kind"] is not None]
        named = [result.metrics[name] for name in ("hit_rate", "slo_attainment", "slo_shortfall")]
        rows.append([*named, max(shortfalls, default=math.nan)])
    return np.array(rows).T

"""A learned policy against others on one scenario, by common random numbers, with what its guards did.

Every number is the metric of ``eunomia run``, by the same functions: what a run accepts can be evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.config import Scenario
from eunomia.contract.traits import COUNTS
from eunomia.learning.load import load_policy
from eunomia.learning.policy.weights import Floats
from eunomia.metrics.statistics import Estimate, interval
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.run import run_cell, seeds_from


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
    spread = f" +-{100 * difference.half_width:.2f}" if difference.has_interval else ""
    return f"{100 * difference.mean:+.2f}{spread}"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All lines, the learned policy first, and what its guards counted."""

    name: str
    seeds: int
    lines: tuple[Line, ...]
    counts: dict[str, int]

    @property
    def promised(self) -> bool:
        """Whether the scenario promises anything that can be judged here."""
        return not math.isnan(self.lines[0].attainment)

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        lines = [
            {"policy": line.name, "hit_rate": line.hit_rate, "attainment": line.attainment, "shortfall": line.shortfall,
             "worst_shortfall": line.worst, "attainment_gain": line.kept.mean if line.kept else None,
             "gain": line.gain.mean if line.gain else None,
             "gain_half_width": line.gain.half_width if line.gain and line.gain.has_interval else None}
            for line in self.lines
        ]  # fmt: skip
        return {"policy": self.name, "seeds": self.seeds, "lines": lines, "guards": self.counts}


def evaluate(policy: str | Path, scenario: Scenario, against: Sequence[PolicyLike], seeds: int) -> Evaluation:
    """Run all policies on the same ``seeds`` traces. Raises RecordError for a checkpoint that cannot be used."""
    learned, numbers = load_policy(policy), seeds_from(scenario.seed, seeds)
    table = {learned.name: _measure(learned, scenario, numbers)}
    counts = dict(COUNTS.of(learned))  # policies in Python have no guards of their own
    for rival in against:
        table.setdefault(policy_name(rival), _measure(resolve_policy(rival), scenario, numbers))
    ours, our_met = table[learned.name][:2]
    lines = []
    for name, (hits, met, short, worst) in table.items():
        own = name == learned.name
        gain = None if own else interval((ours - hits).tolist())
        kept = None if own or np.isnan(met).any() else interval((our_met - met).tolist())
        share, attained, missing, most = (float(values.mean()) for values in (hits, met, short, worst))
        lines.append(Line(name, share, attained, missing, most, gain, kept))
    return Evaluation(learned.name, seeds, tuple(lines), counts)


def _measure(policy: PolicyLike, scenario: Scenario, seeds: Sequence[int]) -> Floats:
    """(4, seeds): hit rate, SLO attainment, mean and worst shortfall; nan where nothing is promised."""
    rows = []
    for seed in seeds:
        result = run_cell(scenario, policy, seed, "requests")
        shortfalls = [pair["shortfall"] for pair in result.pairs if pair["slo_kind"] is not None]
        named = [result.metrics[name] for name in ("hit_rate", "slo_attainment", "slo_shortfall")]
        rows.append([*named, max(shortfalls, default=math.nan)])
    return np.array(rows).T

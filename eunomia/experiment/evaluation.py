"""A learned policy against others on one scenario, by common random numbers, with what its guards did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.config import Scenario
from eunomia.experiment.learning import scenario_episode
from eunomia.experiment.policy import PolicyLike, policy_name, resolve_policy
from eunomia.experiment.run import seeds_from
from eunomia.inference.learning.policy.weights import Floats
from eunomia.inference.learning.serving import load_policy
from eunomia.inference.learning.training.episodes import Episode
from eunomia.inference.learning.training.objectives import attainment, hit_rate, shortfall
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.statistics import Estimate, interval


@dataclass(frozen=True, eq=False)
class Line:
    """One policy: means over seeds; ``gain`` is the learned policy's hit rate minus this one's, paired by seed."""

    name: str
    hit_rate: float
    attainment: float  # nan without promises
    shortfall: float
    gain: Estimate | None

    def gain_text(self) -> str:
        """The paired difference in points, with its interval where there are several seeds."""
        if self.gain is None:
            return ""
        spread = f" +-{100 * self.gain.half_width:.2f}" if self.gain.has_interval else ""
        return f"{100 * self.gain.mean:+.2f}{spread}"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All lines, the learned policy first, and what its guards counted."""

    name: str
    seeds: int
    lines: tuple[Line, ...]
    counts: dict[str, int]

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        lines = [
            {"policy": line.name, "hit_rate": line.hit_rate, "attainment": line.attainment, "shortfall": line.shortfall,
             "gain": line.gain.mean if line.gain else None,
             "gain_half_width": line.gain.half_width if line.gain and line.gain.has_interval else None}
            for line in self.lines
        ]  # fmt: skip
        return {"policy": self.name, "seeds": self.seeds, "lines": lines, "guards": self.counts}


def evaluate(policy: str | Path, scenario: Scenario, against: Sequence[PolicyLike], seeds: int) -> Evaluation:
    """Run all policies on the same ``seeds`` traces. Raises RecordError for a checkpoint that cannot be used."""
    learned = load_policy(policy)
    episodes = [scenario_episode(scenario, seed) for seed in seeds_from(scenario.seed, seeds)]
    table = {learned.name: _measure(learned, episodes)}
    counts = learned.counts
    for rival in against:
        table.setdefault(policy_name(rival), _measure(resolve_policy(rival), episodes))
    ours = table[learned.name][0]
    lines = []
    for name, (hits, met, short) in table.items():
        gain = None if name == learned.name else interval((ours - hits).tolist())
        lines.append(Line(name, float(hits.mean()), float(met.mean()), float(short.mean()), gain))
    return Evaluation(learned.name, seeds, tuple(lines), counts)


def _measure(policy: Any, episodes: Sequence[Episode]) -> Floats:
    """(3, episodes): hit rate, attainment, mean shortfall."""
    columns = []
    for episode in episodes:
        results = simulate_problem(episode.problem, policy, episode.options).results
        promised = bool((episode.problem.jobs.slo_kind >= 0).any())
        columns.append([
            hit_rate(results, episode), attainment(results, episode) if promised else math.nan,
            -shortfall(results, episode) if promised else math.nan,
        ])  # fmt: skip
    return np.array(columns).T

"""Mixes of tenants that no policy was trained on, and the traces of the tenants' study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.inference.contest import SETS, lanes, scenario, tenant
from eunomia.config import Scenario
from eunomia.learning.episodes import Episode
from eunomia.study.learning.scenarios import scenario_episode
from eunomia.workload.sets import workload_set

LEVELS = {"tight": 2.4, "usual": 3.0, "loose": 3.6}  # isolated times until the deadline: QoS-H, M, L at 3
LOADS = (0.85, 1.0, 1.15, 1.3)
TARGETS = (0.5, 0.95)
REQUESTS = 400
MIXES = 21


@dataclass(frozen=True)
class Place:
    """A mix at one load. ``equal``: the deployment of the shipped relmas, everybody promised the same."""

    number: int
    load: float
    equal: bool = False

    @property
    def kind(self) -> str:
        """Which set its networks come from."""
        return "mixed" if self.equal else tuple(SETS)[self.number % len(SETS)]

    @property
    def contention(self) -> str:
        """Alternates from mix to mix."""
        return "proportional" if self.equal or self.number // len(SETS) % 2 == 0 else "max_min"

    def tenants(self) -> list[dict[str, Any]]:
        """2 to 6 tenants: networks, deadlines and shares of the traffic are drawn from the mix's number."""
        rng = np.random.default_rng([self.number, 0x7E4A])
        models = workload_set(SETS[self.kind][0]).models
        made = []
        for t in range(int(rng.integers(2, 7))):
            size = int(rng.integers(2, min(len(models), 4) + 1))
            chosen = sorted(rng.choice(len(models), size, replace=False))
            level = str(rng.choice(list(LEVELS)))
            rate_per_s = round(float(rng.uniform(50.0, 200.0)), 1)
            drawn = [dict(zip(("model", "draw"), models[m], strict=True)) for m in chosen]
            facts = [{**one, "deadline_factor": LEVELS[level]} for one in drawn]
            made.append(tenant(f"{level} {t}", rate_per_s, models=facts))
        return made

    def scenario(self) -> Scenario:
        """Eight accelerators at 18 GB/s; six at 32 GB/s for equal targets."""
        platform = lanes(3, 32.0) if self.equal else lanes(4, 18.0, self.contention)
        return scenario(f"{self.kind} {self.number}", self.tenants(), platform, self.load, SETS[self.kind][1])

    def episode(self, seed: int) -> Episode:
        """One trace with a target for every (tenant, network) pair: its own, or 0.8 for all."""
        made = scenario_episode(self.scenario(), seed, REQUESTS)
        low, high = (0.8, 0.8) if self.equal else TARGETS
        return made.with_targets(low, high, np.random.default_rng([self.number, seed, 77]))


PLACES = tuple(Place(number, load) for number in range(MIXES) for load in LOADS)
EQUAL_PLACES = tuple(Place(100 + number, load, True) for number in range(8) for load in LOADS)

"""Mixes of tenants that no policy was trained on, and the traces of the tenants' study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eunomia.config import Scenario
from eunomia.config.load import scenario_from
from eunomia.learning.episodes import Episode
from eunomia.study.learning.training import scenario_episode
from eunomia.workload.sets import workload_set

SETS = {"light": ("moca-light", 0.25), "heavy": ("moca-heavy", 2.0), "mixed": ("moca-mixed", 1.0)}
LEVELS = {"tight": 2.4, "usual": 3.0, "loose": 3.6}  # isolated times until the deadline: QoS-H, M, L at 3
LOADS = (0.85, 1.0, 1.15, 1.3)
TARGETS = (0.5, 0.95)
REQUESTS = 400
MIXES = 21
EIGHT = [{"type": "simba", "count": 4}, {"type": "eyeriss", "count": 4}]
SIX = [
    {"type": "simba", "count": 3},
    {"type": "eyeriss", "count": 3},
]  # what the shipped relmas was trained for


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
            rate = float(rng.uniform(50.0, 200.0))
            made.append({
                "name": f"{level} {t}", "arrivals": {"process": "poisson", "rate_per_s": round(rate, 1)},
                "models": [{"model": models[m][0], "draw": models[m][1], "deadline_factor": LEVELS[level]}
                           for m in chosen],
            })  # fmt: skip
        return made

    def scenario(self) -> Scenario:
        """Eight accelerators at 18 GB/s; six at 32 GB/s for equal targets."""
        platform = {
            "accelerators": SIX if self.equal else EIGHT, "contention": self.contention,
            "dram_bandwidth_gb_s": 32.0 if self.equal else 18.0,
        }  # fmt: skip
        return scenario_from(
            {"name": f"{self.kind} {self.number}", "duration_s": SETS[self.kind][1], "load": self.load,
             "platform": platform, "tenant": self.tenants(), "engine": {"late": "drop"}}
        )  # fmt: skip

    def episode(self, seed: int) -> Episode:
        """One trace with a target for every (tenant, network) pair: its own, or 0.8 for all."""
        made = scenario_episode(self.scenario(), seed, REQUESTS)
        low, high = (0.8, 0.8) if self.equal else TARGETS
        return made.with_targets(low, high, np.random.default_rng([self.number, seed, 77]))


PLACES = tuple(Place(number, load) for number in range(MIXES) for load in LOADS)
EQUAL_PLACES = tuple(Place(100 + number, load, True) for number in range(8) for load in LOADS)

"""A small deployment with scarce bandwidth, whose episodes take milliseconds."""

from __future__ import annotations

import numpy as np

from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import build_problem
from eunomia.learning.episodes import Episode
from eunomia.learning.loop import Trained
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo
from tests.inference.strategies import ToyPlatform, layers, toy_table

OPTIONS = EngineOptions(late="drop", record="requests")
BANDWIDTH = 2.0


def episode(seed: int, requests: int = 120, load: float = 1.1, options: EngineOptions = OPTIONS) -> Episode:
    """Three chains of other lengths and demands on two types, Poisson arrivals, three tenants."""
    rng = np.random.default_rng([seed, 7])
    nets = [
        DnnModel(f"net{m}", layers(n), tuple((i, i + 1) for i in range(n - 1)))
        for m, n in enumerate((3, 6, 9))
    ]
    costs = np.random.default_rng(1)
    latency = costs.uniform(0.5, 1.5, (18, 2))
    table = toy_table(nets, ("a", "b"), latency, latency * costs.uniform(0.0, 1.6, (18, 2)))
    platform = ToyPlatform(("a", "b"), np.array([0, 0, 1, 1]), BANDWIDTH, "proportional")
    pairs = tuple(Agreement(f"tenant{t}", f"net{m}", Slo(0.5 + 0.15 * t)) for t in range(3) for m in range(3))
    pair = rng.integers(0, len(pairs), requests)
    size = np.array([3, 6, 9])[pair % 3]
    arrival_s = np.cumsum(rng.exponential(6.0 * 0.5 / load, requests))
    table_ = RequestTable(pairs, pair, arrival_s, size * rng.uniform(1.5, 4.0, requests))
    return Episode(build_problem(table_, table, platform, options), options, f"toy {seed}")


class ToySampler:
    """Episodes of the small deployment."""

    def training(self, generation: int, count: int) -> list[Episode]:
        return [episode(1000 * generation + i + 100) for i in range(count)]

    def validation(self) -> list[Episode]:
        return [episode(seed) for seed in range(4)]


def gain_of(done: Trained) -> float:
    """Mean paired difference of a training's best policy to its start, on validation."""
    return float((done.values - done.start_values).mean())

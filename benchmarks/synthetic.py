"""Synthetic work for speed tests: five layer kinds on four accelerator types, chains or graphs, closed or open."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eunomia.hardware.table import CostTable
from eunomia.workload.model import DnnModel, Layer
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo

Floats = npt.NDArray[np.float64]
KINDS, TYPES, LANES, CLIENTS = 5, 4, 8, 50
LINK_BYTES_S = 16e9


@dataclass(frozen=True)
class Platform:
    """Two accelerators of each of four types behind one memory."""

    types: tuple[str, ...] = tuple(f"type{t}" for t in range(TYPES))
    type_of: npt.NDArray[np.int64] = field(default_factory=lambda: np.arange(LANES) // 2)
    dram_bytes_s: float = 24e9
    contention: str = "proportional"


def networks(branching: bool) -> list[DnnModel]:
    """Eight networks of 8 to 36 layers. ``branching``: each fourth layer forks into two branches that join again."""
    models = []
    for m in range(8):
        count = 8 + 4 * m
        layers = tuple(Layer(f"layer{i}", "elementwise") for i in range(count))
        edges = [(i, i + 1) for i in range(count - 1)]
        if branching:  # 0 -> 1, 0 -> 2, {1, 2} -> 3 in every group of four
            edges = [(i + a, i + b) for i in range(0, count, 4) for a, b in ((0, 1), (0, 2), (1, 3), (2, 3))]
            edges += [(i - 1, i) for i in range(4, count, 4)]
        models.append(DnnModel(f"net{m}", layers, tuple(edges)))
    return models


def cost_table(models: list[DnnModel], seed: int = 0) -> CostTable:
    """Each layer is of one of five kinds; a kind prefers one type and suffers up to 4x on the others."""
    rng = np.random.default_rng(seed)
    kind_s = rng.uniform(1.0, 4.0, (KINDS, TYPES)) * rng.uniform(50e-6, 150e-6, (KINDS, 1))
    rows = sum(len(model.layers) for model in models)
    latency = kind_s[rng.integers(0, KINDS, rows)] * rng.uniform(0.5, 1.5, (rows, 1))
    demand = rng.uniform(1e9, 10e9, (rows, TYPES))
    return CostTable(
        models=tuple(models),
        types=Platform().types,
        compute_s=latency,
        buffer_s=0.5 * latency,
        dram_bytes=demand * latency,
        energy_j=1e-3 * rng.uniform(0.5, 2.0, (rows, TYPES)),
        link_bytes_s=np.full(TYPES, LINK_BYTES_S),
    )


def agreements(models: list[DnnModel], with_slos: bool) -> tuple[Agreement, ...]:
    """One tenant per network."""
    slo = Slo(0.9, window_requests=100) if with_slos else None
    return tuple(Agreement(f"tenant{m}", model.name, slo) for m, model in enumerate(models))


def _requests(
    table: CostTable, count: int, seed: int, with_slos: bool
) -> tuple[tuple[Agreement, ...], npt.NDArray[np.int64], Floats]:
    """Agreements, the pair of each request, and relative deadlines of 20 to 60 isolated times."""
    rng = np.random.default_rng(seed)
    pairs = agreements(list(table.models), with_slos)
    pair = rng.integers(0, len(pairs), count)
    isolated = np.array([table.isolated_s(m) for m in range(len(table.models))])
    return pairs, pair, isolated[pair] * rng.uniform(20.0, 60.0, count)


def closed_loop(table: CostTable, count: int, seed: int = 1, with_slos: bool = False) -> RequestTable:
    """Fifty clients, each sending its next request as soon as the last one is done."""
    pairs, pair, deadline = _requests(table, count, seed, with_slos)
    after = np.arange(count) - CLIENTS
    return RequestTable(pairs, pair, np.zeros(count), deadline, after=np.where(after < 0, -1, after))


def poisson(table: CostTable, count: int, rate: float, seed: int = 2) -> RequestTable:
    """Open arrivals of the given rate per second."""
    pairs, pair, deadline = _requests(table, count, seed, False)
    arrival = np.cumsum(np.random.default_rng(seed).exponential(1.0 / rate, count))
    return RequestTable(pairs, pair, arrival, deadline)


def layer_count(table: CostTable, requests: RequestTable) -> int:
    """Layers in all requests together."""
    sizes = np.array([len(model.layers) for model in table.models])
    return int(sizes[requests.pair].sum())

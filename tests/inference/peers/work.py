"""The work of a closed loop of chains as plain Python lists, for simulators that are not built on arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.synthetic import Platform
from eunomia.hardware.table import CostTable
from eunomia.workload.requests import RequestTable


@dataclass(frozen=True)
class PlainWork:
    """A closed loop of chains: what the peers read."""

    cost_s: list[list[float]]  # [row][accelerator]
    demand: list[list[float]]  # [row][accelerator]
    fastest: list[list[int]]  # [row] accelerators, least cost first
    first_row: list[int]  # [request]
    last_row: list[int]  # [request]
    relative_deadline_s: list[float]
    clients: int
    bandwidth: float


def plain_work(table: CostTable, requests: RequestTable, platform: Platform) -> PlainWork:
    """The work of ``closed_loop`` for a peer."""
    cost = table.latency_s[:, platform.type_of]
    offsets = table.offsets[requests.pair]
    return PlainWork(
        cost_s=cost.tolist(),
        demand=table.demand_bytes_s[:, platform.type_of].tolist(),
        fastest=np.argsort(cost, axis=1, kind="stable").tolist(),
        first_row=offsets.tolist(),
        last_row=(table.offsets[requests.pair + 1] - 1).tolist(),
        relative_deadline_s=requests.relative_deadline_s.tolist(),
        clients=int((requests.after < 0).sum()),
        bandwidth=platform.dram_bytes_s,
    )

"""Small clusters with figures that can be checked by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.job import TrainingJob
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.contract.cluster import Cluster

SPEEDS = {"a": {"fast": 2.0, "slow": 1.0}, "b": {"fast": 4.0, "slow": 1.0}}


def table(scales: tuple[int, ...] = (1, 2, 4)) -> ThroughputTable:
    """Two job types that scale perfectly; spread over servers they run at half the speed."""
    keys = tuple((name, scale) for name in SPEEDS for scale in scales)
    alone = np.array([[SPEEDS[name][t] * scale for t in ("fast", "slow")] for name, scale in keys])
    beside = np.full((len(keys), len(keys), 2), 0.0)
    for r, (_, scale) in enumerate(keys):
        for q, (_, other) in enumerate(keys):
            if scale == other:
                beside[r, q] = 0.6 * alone[r]
    return ThroughputTable(keys, ("fast", "slow"), alone, alone / 2.0, beside)


def job(
    name: str, steps: float, kind: str = "a", scale: int = 1, at: float = 0.0, **more: object
) -> TrainingJob:
    return TrainingJob(name, kind, steps, scale, at, **more)  # type: ignore[arg-type]


def problem(*jobs: TrainingJob, fast: int = 2, slow: int = 2, per_server: int = 2) -> ClusterProblem:
    return build_problem(
        jobs, Cluster.of({"fast": fast, "slow": slow}, per_server, {"fast": 3.6, "slow": 0.0}), table()
    )


@dataclass
class Shares:
    """Fixed shares by job key; None = an even split."""

    of: dict[int, tuple[float, float]] = field(default_factory=dict)
    needs: Needs = Needs()

    def reset(self, seed: int) -> None:
        pass

    def allocate(self, view: ClusterView) -> Allocation:
        even = view.cluster.counts / max(len(view) * view.scale.max(initial=1), view.cluster.counts.sum())
        shares = np.array([self.of.get(int(key), tuple(even)) for key in view.key]).reshape(len(view), -1)
        return Allocation(shares=np.where(view.runnable, shares, 0.0))


@dataclass
class First:
    """Whole devices in order of arrival, on the first type with room."""

    needs: Needs = Needs(answer="devices", every_event=True)

    def reset(self, seed: int) -> None:
        pass

    def allocate(self, view: ClusterView) -> Allocation:
        devices, free = np.zeros(view.throughput.shape, np.int64), view.capacity.copy()
        for m in range(len(view)):
            for j in np.flatnonzero((view.throughput[m] > 0.0) & (free >= view.scale[m])):
                devices[m, j] = view.scale[m]
                free[j] -= view.scale[m]
                break
        return Allocation(devices=devices)

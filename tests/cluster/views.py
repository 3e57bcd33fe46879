"""Cluster views for tests and measurements: from a few numbers, or drawn at random from a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eunomia.cluster.job import TrainingJob
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.allocation import ClusterView, Holdings
from eunomia.contract.cluster import Cluster

NOBODY = np.zeros(0, np.int64)


def view_of(cluster: Cluster, speed: Sequence[Sequence[float]] | np.ndarray, **facts: Any) -> ClusterView:
    """A view at 1000 s of jobs with these throughputs; everything else has a default."""
    throughput = np.asarray(speed, float).reshape(-1, len(cluster.types))
    jobs = len(throughput)
    steps = facts.pop("steps_left", np.full(jobs, 1000.0))
    given: dict[str, Any] = {
        "now_s": 1000.0,
        "cluster": cluster,
        "key": np.arange(jobs),
        "throughput": throughput,
        "scale": np.ones(jobs, np.int64),
        "weight": np.ones(jobs),
        "arrival_s": np.linspace(0.0, 900.0, jobs),
        "total_steps": np.asarray(steps, float) * 2.0,
        "steps_left": np.asarray(steps, float),
        "attained_s": np.zeros(throughput.shape),
        "isolated_s": np.zeros(jobs),
        "deadline_s": np.full(jobs, np.inf),
        "held": np.zeros(throughput.shape, np.int64),
        "holdings": Holdings(NOBODY, NOBODY, NOBODY),
        "first_start_s": np.full(jobs, np.nan),
        "up": cluster.server_size,
        "row": np.arange(jobs),
        "tenant": np.zeros(jobs, np.int64),
        "app": np.arange(jobs),
    }
    given |= {name: np.asarray(value) if isinstance(value, list) else value for name, value in facts.items()}
    return ClusterView(**given)


def random_view(
    table: ThroughputTable, cluster: Cluster, jobs: int, seed: int, pairs: bool = False, **facts: Any
) -> ClusterView:
    """Jobs drawn from the table that can run somewhere, with random weights, ages and steps left."""
    rng = np.random.default_rng(seed)
    columns = table.columns(cluster)
    scale = np.array([key[1] for key in table.keys])
    fits = ((table.alone[:, columns] > 0.0) & (scale[:, None] <= cluster.counts)).any(axis=1)
    row = rng.choice(np.flatnonzero(fits), jobs)
    drawn = [TrainingJob(str(m), *_key(table, r), arrival_s=float(m)) for m, r in enumerate(row.tolist())]
    speed = table.matrix(drawn, cluster)
    given: dict[str, Any] = {
        "scale": scale[row],
        "weight": rng.choice([1.0, 1.0, 2.0, 5.0], jobs),
        "steps_left": speed.max(axis=1) * rng.uniform(600.0, 36_000.0, jobs),
        "isolated_s": rng.uniform(0.0, 500.0, jobs),
        "row": row,
        "beside": table.beside_of(cluster) if pairs else None,
    }
    return view_of(cluster, speed, **(given | facts))


def _key(table: ThroughputTable, row: int) -> tuple[str, float, int]:
    name, scale = table.keys[row]
    return name, 1000.0, scale

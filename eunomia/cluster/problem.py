"""Jobs, cluster and throughputs as checked arrays: what every mode of the simulator starts from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eunomia.cluster.job import TrainingJob, unique_jobs
from eunomia.cluster.throughput import ThroughputTable, label
from eunomia.contract.cluster import Cluster
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError, PlatformError

MODEL_GIB = "model_gib"  # trait: memory of a model that is split evenly over the job's workers


@dataclass(frozen=True, eq=False)
class ClusterProblem:
    """N jobs in order of arrival, J device types; the key of a job is its row here."""

    jobs: tuple[TrainingJob, ...]
    cluster: Cluster
    table: ThroughputTable
    row: Ints  # (N,) row of the table
    speed: Floats  # (N, J) true steps/s, consolidated; 0 = cannot run there
    spread_speed: Floats  # (N, J) true steps/s with the workers spread over servers
    alone: Floats  # (R, J) the table over the cluster's types; nan = not measured
    beside: Floats | None  # (R, R, J)
    scale: Ints  # (N,)
    arrival_s: Floats  # (N,)
    total_steps: Floats  # (N,)
    weight: Floats  # (N,)
    deadline_s: Floats  # (N,) inf = none
    tenants: tuple[str, ...]
    tenant: Ints  # (N,)
    tenant_weight: Floats  # (tenants,)
    app: Ints  # (N,)
    traits: dict[str, Floats]  # (N,) each, nan = the job does not say

    def __len__(self) -> int:
        return len(self.jobs)

    @cached_property
    def scales(self) -> Ints:
        """Scale factors in the table, ascending: what elastic policies choose from."""
        return np.unique(np.array([scale for _, scale in self.table.keys], np.int64))

    @cached_property
    def row_at(self) -> Ints:
        """Row of the table of each job at each of ``scales`` within its range, shape (N, K); -1 = not allowed."""
        rows = np.full((len(self.jobs), len(self.scales)), -1, np.int64)
        found = {key: number for number, key in enumerate(self.table.keys)}
        for m, job in enumerate(self.jobs):
            low, high = job.scale_range
            for k, scale in enumerate(self.scales.tolist()):
                if low <= scale <= high:
                    rows[m, k] = found.get((job.job_type, scale), -1)
        return rows

    @cached_property
    def alone_spread(self) -> Floats:
        """(R, J) steps/s of the table with the workers spread over servers; as consolidated where not measured."""
        alone = np.nan_to_num(self.alone)
        if self.table.spread is None:
            return alone
        spread = self.table.spread[:, self.table.columns(self.cluster)]
        return np.where(np.isnan(spread) | (spread <= 0.0), alone, spread)

    @cached_property
    def spread_unmeasured(self) -> tuple[int, int]:
        """Entries (row, type) that gangs of these jobs use: without a measured speed when spread, and in all."""
        rows = np.unique(self.row[self.scale > 1])
        used = np.nan_to_num(self.alone[rows]) > 0.0
        if self.table.spread is None:
            return int(used.sum()), int(used.sum())
        spread = np.nan_to_num(self.table.spread[rows][:, self.table.columns(self.cluster)])
        return int((used & (spread <= 0.0)).sum()), int(used.sum())

    @cached_property
    def memory_gib(self) -> Floats:
        """Memory that one worker needs, shape (N,); 0 = says nothing."""
        return np.array([job.memory_gib or 0.0 for job in self.jobs])

    def fits(self, keys: Ints, scale: Ints) -> npt.NDArray[np.bool_]:
        """Whether jobs fit on each type with ``scale`` workers: memory and number of devices, shape (n, J)."""
        need = self.memory_gib[keys]
        if MODEL_GIB in self.traits:
            need = np.fmax(need, self.traits[MODEL_GIB][keys] / scale)
        return np.asarray(
            (need[:, None] <= self.cluster.memory_gib) & (scale[:, None] <= self.cluster.counts)
        )


def build_problem(
    jobs: Iterable[TrainingJob],
    cluster: Cluster,
    table: ThroughputTable,
    tenant_weights: dict[str, float] | None = None,
    cross_type: bool = False,
) -> ClusterProblem:
    """Check jobs against cluster and table. ``cross_type``: a gang may be larger than any single type.

    Raises ConfigError for no jobs, ids that occur twice or weights of unknown tenants. Raises PlatformError,
    with job and type, for a missing throughput and for a job that fits nowhere.
    """
    ordered = unique_jobs(jobs)
    if not ordered:
        raise ConfigError("there are no jobs to simulate")
    counts = cluster.with_counts({}) if not cross_type else _pooled(cluster)
    speed = table.matrix(ordered, counts)
    spread = table.spread_matrix(ordered, counts)
    tenants = tuple(dict.fromkeys(job.tenant for job in ordered))
    weights = tenant_weights or {}
    for name, value in weights.items():
        if name not in tenants:
            raise ConfigError(
                f"a weight is given for tenant '{name}', which has no job; tenants: {', '.join(tenants)}"
            )
        if not value > 0.0:
            raise ConfigError(f"the weight of tenant '{name}' is {value}; it must be greater than 0")
    place = {name: number for number, name in enumerate(tenants)}
    apps: dict[str, int] = {}
    app = [apps.setdefault(job.app_id or f"job {job.job_id}", len(apps)) for job in ordered]
    names = dict.fromkeys(name for job in ordered for name in job.traits)
    problem = ClusterProblem(
        jobs=ordered,
        cluster=cluster,
        table=table,
        row=table.rows(ordered),
        speed=speed,
        spread_speed=spread,
        alone=table.alone[:, table.columns(cluster)],
        beside=table.beside_of(cluster),
        scale=np.array([job.scale_factor for job in ordered], np.int64),
        arrival_s=np.array([job.arrival_s for job in ordered], np.float64),
        total_steps=np.array([job.total_steps for job in ordered], np.float64),
        weight=np.array([job.weight for job in ordered], np.float64),
        deadline_s=np.array([np.inf if j.deadline_s is None else j.deadline_s for j in ordered]),
        tenants=tenants,
        tenant=np.array([place[job.tenant] for job in ordered], np.int64),
        tenant_weight=np.array([weights.get(name, 1.0) for name in tenants]),
        app=np.array(app, np.int64),
        traits={name: np.array([job.traits.get(name, np.nan) for job in ordered]) for name in names},
    )
    return _split_models(problem) if MODEL_GIB in problem.traits else problem


def _pooled(cluster: Cluster) -> Cluster:
    """Every type as large as the whole cluster: what a gang over types may count on."""
    total = int(cluster.counts.sum())
    return cluster.with_counts(dict.fromkeys(cluster.names, total))


def _split_models(problem: ClusterProblem) -> ClusterProblem:
    """No speed where a worker's part of the model does not fit; PlatformError for a model that fits nowhere."""
    fits = problem.fits(np.arange(len(problem)), problem.scale)
    for array in (problem.speed, problem.spread_speed):
        array[~fits] = 0.0
    for m in np.flatnonzero(~(problem.speed > 0.0).any(axis=1)).tolist():
        job = problem.jobs[m]
        part = problem.traits[MODEL_GIB][m] / job.scale_factor
        raise PlatformError(
            f"job '{job.job_id}' ({label((job.job_type, job.scale_factor))}) needs {part:g} "
            "GiB per worker and fits on no "
            f"device type; more workers, or a type with more memory, would do"
        )
    return problem

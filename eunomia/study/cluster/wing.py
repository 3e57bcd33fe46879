"""The wing that schedules training jobs, as runs, comparisons and sweeps see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from eunomia.config.cluster import ClusterConfig, with_cluster_values
from eunomia.core.records import Comparison
from eunomia.metrics.cluster import CLUSTER_METRICS, HEADLINES
from eunomia.study.batch import BatchOptions
from eunomia.study.cluster.build import AllocatorLike, allocator_name, resolve_allocator
from eunomia.study.cluster.comparison import ClusterComparison
from eunomia.study.cluster.run import CLUSTERS, ClusterLike, ClusterRunResult, run_cluster
from eunomia.study.compare import CompareResult, compare_in
from eunomia.study.run import Reader
from eunomia.study.sweep import SweepResult, sweep_in
from eunomia.study.wing import Table, Wing, wing_of


class ClusterWing(Wing[ClusterConfig, AllocatorLike]):
    """Cluster configurations: training jobs on devices of several types."""

    name = "cluster"
    metrics = CLUSTER_METRICS
    headlines = HEADLINES
    chart = "jct_mean_s"
    grid_section = "study"
    result = ClusterComparison
    measures_all = False

    @property
    def reader(self) -> Reader[ClusterConfig]:
        """How files of this wing are read."""
        return CLUSTERS

    def changed(self, config: ClusterConfig, setting: Table) -> ClusterConfig:
        """A copy with some values changed, by key path. Raises ConfigError."""
        return with_cluster_values(config, setting)

    def grid(self, config: ClusterConfig) -> Mapping[str, Sequence[object]]:
        """The section [study]."""
        return config.study

    def policy_name(self, policy: AllocatorLike) -> str:
        """What a policy is called in tables and folders."""
        return allocator_name(policy)

    def check_policy(self, policy: AllocatorLike) -> None:
        """Raises UnknownNameError, ConfigError."""
        resolve_allocator(policy)

    def run(self, config: ClusterConfig, policy: AllocatorLike, seed: int, full: bool) -> ClusterRunResult:
        """Simulate once; without ``full``, the table of jobs alone is kept."""
        return run_cluster(config, policy, seed, record="all" if full else "jobs")

    def simulate(
        self, config: ClusterConfig, policy: AllocatorLike | None = None, seed: int | None = None
    ) -> ClusterRunResult:
        """One run with every table."""
        return run_cluster(config, policy, seed)

    def publish(self, comparison: Comparison, folder: Path) -> dict[str, str]:
        """``report.html``."""
        from eunomia.report.cluster.html import cluster_page
        from eunomia.report.page import write_page

        write_page(folder / "report.html", cluster_page(comparison))
        return {"report": str(folder / "report.html"), "data": str(folder)}


def compare_cluster(
    config: ClusterLike,
    policies: Sequence[AllocatorLike] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
    **options: Unpack[BatchOptions],
) -> CompareResult[ClusterConfig]:
    """Every policy on the same jobs, seed by seed; ``options``: eunomia.study.batch.BatchOptions."""
    return compare_in(wing_of("cluster"), config, policies, seeds, overrides, **options)


def sweep_cluster(
    config: ClusterLike,
    grid: Mapping[str, Sequence[object]] | None = None,
    policies: Sequence[AllocatorLike] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
    **options: Unpack[BatchOptions],
) -> SweepResult[ClusterConfig]:
    """Compare at every point of ``grid`` (default: the file's [study]); ``options``: BatchOptions."""
    return sweep_in(wing_of("cluster"), config, grid, policies, seeds, overrides, **options)

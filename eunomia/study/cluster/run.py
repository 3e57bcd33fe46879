"""One run of a cluster experiment: a configuration, a policy, a seed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eunomia.cluster.live_search import LiveSearch
from eunomia.cluster.options import Recording
from eunomia.cluster.policies.themis.tuner import SuccessiveHalving
from eunomia.cluster.simulate import ClusterRun, simulate_cluster
from eunomia.cluster.tabulate import facts_of, tables_of
from eunomia.cluster.tuned_mode import simulate_tuned
from eunomia.config.cluster import ClusterConfig, cluster_from, cluster_table, load_cluster
from eunomia.contract.allocation import Allocator
from eunomia.core.data import Data
from eunomia.core.records import RunRecords
from eunomia.metrics.cluster import CLUSTER_METRICS, job_columns, summarise_cluster
from eunomia.report.charts import distribution
from eunomia.report.table import Table
from eunomia.report.units import value_text
from eunomia.study.cluster.build import AllocatorLike, Prepared, allocator_name, build_policy, prepare_cluster
from eunomia.study.result import Row, RunResult
from eunomia.study.run import blame, provenance, seeds_from

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

ClusterLike = ClusterConfig | str | Path | Data


@dataclass(frozen=True, repr=False, kw_only=True)
class ClusterRunResult(RunResult[ClusterConfig]):
    """What one run of a cluster gave; ``metrics``: docs/cluster.md."""

    @property
    def remarks(self) -> list[str]:
        """What a user should know: reader's assumptions, fallbacks, relaxed objectives, dropped jobs."""
        manifest = self.records.manifest
        said = [
            f"{text} ({times} times)" if times > 1 else text for text, times in manifest["remarks"].items()
        ]
        return [*manifest["trace_remarks"], *said]

    @property
    def example(self) -> str:
        """The first one on record."""
        return str(self.records["jobs"]["job"][0].as_py())

    def answer(self) -> Data:
        """Metrics, None for nan, and remarks."""
        finite = {name: value if math.isfinite(value) else None for name, value in self.metrics.items()}
        return {"metrics": finite, "remarks": self.remarks}

    @property
    def title(self) -> str:
        """Configuration, policy and seed."""
        return f"{self.config.name}: policy {self.policy}, seed {self.seed}"

    def table(self, short: bool = False) -> Table:
        """Every metric that the run has."""
        rows = (
            (CLUSTER_METRICS[name].label, value_text(CLUSTER_METRICS[name], value))
            for name, value in self.metrics.items()
            if not math.isnan(value)
        )
        return Table(("metric", "value"), tuple(rows))

    def rows(self) -> list[Row]:
        """One row per metric."""
        return [
            {
                "policy": self.policy,
                "seed": self.seed,
                "metric": name,
                "value": value,
                "unit": CLUSTER_METRICS[name].unit,
            }
            for name, value in self.metrics.items()
        ]

    def draw(self, axes: Axes, metric: str | None) -> None:
        """The distribution of completion times."""
        end_s = float(self.records.manifest["end_s"])
        distribution(axes, job_columns(self.records["jobs"], end_s).jct_s, "completion time, s")


def as_cluster(config: ClusterLike, overrides: Iterable[str] = ()) -> ClusterConfig:
    """A ClusterConfig from itself, a file or a dictionary. Raises ConfigError."""
    if isinstance(config, ClusterConfig):
        return cluster_from(cluster_table(config), overrides)
    if isinstance(config, dict):
        return cluster_from(config, overrides)
    return load_cluster(config, overrides)


def run_cluster(
    config: ClusterLike,
    policy: AllocatorLike | None = None,
    seed: int | None = None,
    overrides: Iterable[str] = (),
    record: Recording = "all",
) -> ClusterRunResult:
    """Simulate one experiment under one policy; nothing is written.

    ``policy``: a name, ``name(setting=value)``, ``FILE.py:CLASS`` or an allocator; None means the configuration's.
    ``seed``: None means the configuration's; equal seeds give equal jobs, failures and noise under every policy.
    ``record``: ``all`` keeps every choice, ``leases`` who held what, ``jobs`` neither.
    """
    checked = as_cluster(config, overrides)
    chosen = policy or checked.policy or checked.compare.policies[0]
    number = seeds_from(checked.seed if seed is None else seed)[0]
    ready = prepare_cluster(checked, number, record)
    allocator = build_policy(checked, chosen, ready.problem)
    name = allocator_name(chosen)
    with blame(name):
        run, said = _simulated(checked, ready, allocator, name)
    tables, facts = tables_of(run), facts_of(run)
    first, last = checked.measure or (0, None)
    metrics = summarise_cluster(tables, facts, first, last)
    manifest = {
        "name": checked.name,
        **facts,
        "trace_remarks": [*ready.remarks, *said],
        "config": cluster_table(checked),
        "metrics": {name: value if math.isfinite(value) else None for name, value in metrics.items()},
        **provenance(),
    }
    return ClusterRunResult(
        config=checked, policy=name, seed=number, records=RunRecords(tables, manifest), metrics=metrics
    )


def _simulated(
    config: ClusterConfig, ready: Prepared, allocator: Allocator, policy: str
) -> tuple[ClusterRun, list[str]]:
    """The run, and what its tuner did, if it has one."""
    if config.tuner is None:
        return simulate_cluster(ready.problem, allocator, ready.options, policy), []
    search = LiveSearch(SuccessiveHalving(config.tuner.eta), config.tuner.noise)
    tuned = simulate_tuned(ready.problem, allocator, search, ready.options, policy)
    stopped, budget = tuned.stopped, ready.problem.total_steps
    text = f"the tuner stopped {int(stopped.sum())} of {len(stopped)} jobs before their end"
    if stopped.any():
        done = float((tuned.steps_done / budget)[stopped].mean())
        text += f", on average after {done:.0%} of their steps"
    return tuned.run, [text]

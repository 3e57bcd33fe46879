"""One run of a cluster experiment: a configuration, a policy, a seed."""

from __future__ import annotations

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
from eunomia.study.cluster.build import AllocatorLike, Prepared, allocator_name, build_policy, prepare_cluster
from eunomia.study.result import RunResult
from eunomia.study.run import Reader, blame, finite, policy_of, provenance, seed_of

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

ClusterLike = ClusterConfig | str | Path | Data
CLUSTERS = Reader(ClusterConfig, cluster_table, cluster_from, load_cluster)


@dataclass(frozen=True, repr=False, kw_only=True)
class ClusterRunResult(RunResult[ClusterConfig]):
    """What one run of a cluster gave; ``metrics``: docs/cluster.md."""

    known = CLUSTER_METRICS

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
        return {"metrics": finite(self.metrics), "remarks": self.remarks}

    def table(self, short: bool = False) -> Table:
        """Every metric that the run has."""
        return Table(("metric", "value"), tuple(self.lines(self.metrics)))

    def draw(self, axes: Axes, metric: str | None) -> None:
        """The distribution of completion times."""
        end_s = float(self.records.manifest["end_s"])
        distribution(axes, job_columns(self.records["jobs"], end_s).jct_s, "completion time, s")


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
    checked = CLUSTERS.checked(config, overrides)
    wanted, number = policy_of(checked) if policy is None else policy, seed_of(checked, seed)
    return run_prepared(checked, prepare_cluster(checked, number, record), wanted, number)


def run_prepared(
    checked: ClusterConfig, ready: Prepared, wanted: AllocatorLike, seed: int
) -> ClusterRunResult:
    """The same with jobs and options at hand; ``checked`` is what the records say of them."""
    allocator, name = build_policy(checked, wanted, ready.problem), allocator_name(wanted)
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
        "metrics": finite(metrics),
        **provenance(),
    }
    return ClusterRunResult(
        config=checked, policy=name, seed=seed, records=RunRecords(tables, manifest), metrics=metrics
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

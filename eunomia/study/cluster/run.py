"""One run of a cluster experiment: a configuration, a policy, a seed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eunomia.cluster.live_search import LiveSearch
from eunomia.cluster.options import Recording
from eunomia.cluster.policies.themis.tuner import SuccessiveHalving
from eunomia.cluster.simulate import ClusterRun, simulate_cluster
from eunomia.cluster.tabulate import facts_of, tables_of
from eunomia.cluster.tuned_mode import simulate_tuned
from eunomia.config.cluster import ClusterConfig, cluster_from, cluster_table, load_cluster
from eunomia.contract.allocation import Allocator
from eunomia.core.records import RunRecords, write_run
from eunomia.metrics.cluster import summarise_cluster
from eunomia.study.cluster.build import Prepared, build_policy, prepare_cluster
from eunomia.study.run import blame, provenance, seeds_from

ClusterLike = ClusterConfig | str | Path | dict[str, Any]


@dataclass(frozen=True)
class ClusterResult:
    """What one run gave: ``records`` (tables and manifest) and ``metrics`` by name (docs/cluster.md)."""

    config: ClusterConfig
    policy: str
    seed: int
    records: RunRecords
    metrics: dict[str, float]  # nan where the run has no such number

    @property
    def remarks(self) -> list[str]:
        """What a user should know: reader's assumptions, fallbacks, relaxed objectives, dropped jobs."""
        manifest = self.records.manifest
        said = [
            f"{text} ({times} times)" if times > 1 else text for text, times in manifest["remarks"].items()
        ]
        return [*manifest["trace_remarks"], *said]

    def write(self, directory: str | Path, overwrite: bool = False) -> RunRecords:
        """Write tables and manifest to ``directory``, whole or not at all."""
        return write_run(directory, self.records.tables, self.records.manifest, overwrite=overwrite)


def as_cluster(config: ClusterLike, overrides: Iterable[str] = ()) -> ClusterConfig:
    """A ClusterConfig from itself, a file or a dictionary. Raises ConfigError."""
    if isinstance(config, ClusterConfig):
        return cluster_from(cluster_table(config), overrides)
    if isinstance(config, dict):
        return cluster_from(config, overrides)
    return load_cluster(config, overrides)


def run_cluster(
    config: ClusterLike,
    policy: str | None = None,
    seed: int | None = None,
    overrides: Iterable[str] = (),
    record: Recording = "all",
) -> ClusterResult:
    """Simulate one experiment under one policy; nothing is written.

    ``policy``: a name, ``name(setting=value)`` or ``FILE.py:CLASS``; None means the configuration's. ``seed``: None
    means the configuration's; equal seeds give equal jobs, failures and noise under every policy. ``record``: ``all``
    keeps every choice, ``leases`` who held what, ``jobs`` neither.
    """
    checked = as_cluster(config, overrides)
    chosen = policy or checked.policy or checked.compare.policies[0]
    number = seeds_from(checked.seed if seed is None else seed)[0]
    ready = prepare_cluster(checked, number, record)
    allocator = build_policy(checked, chosen, ready.problem)
    with blame(chosen):
        run, said = _simulated(checked, ready, allocator, chosen)
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
    return ClusterResult(checked, chosen, number, RunRecords(tables, manifest), metrics)


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

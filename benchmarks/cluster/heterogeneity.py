"""What knowing the throughputs is worth. Parts: flow, steady, static.

Gavel's setting (OSDI 2020): 36 V100, 36 P100, 36 K80, its measured throughputs and its generators: ``flow``
continuous arrivals at six loads, ``steady`` four times as many jobs at loads below and above the one at which the
agnostic policy saturates, single- and multi-GPU, ``static`` all jobs at time 0 for makespan. Realistic mode: 30 s per
move, servers of 4 GPUs, slowdown by spread from the table. Policies of a row meet the same jobs; 5 seeds, 95 %
intervals of the paired ratio. Finished runs are kept in runs/: a stopped command goes on where it was. Needs the
shared data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.page import shared
from benchmarks.table import Cell, Options, Table, scaled, table
from eunomia.cluster.tabulate import offered_load
from eunomia.config.cluster import ClusterConfig, cluster_from
from eunomia.engines.processes import Outcome
from eunomia.metrics.statistics import Estimate, interval
from eunomia.study.cluster import sweep_cluster
from eunomia.study.cluster.build import prepare_cluster
from eunomia.study.compare import CompareResult
from eunomia.study.sweep import SweepResult

FAIR = ("max_min_fairness", "max_min_fairness_perf")
FINISH = ("finish_time_fairness", "finish_time_fairness_perf")
MAKESPAN = ("min_total_duration", "min_total_duration_perf")


@dataclass(frozen=True)
class Part:
    """One table: a generator, the settings that vary, and the pairs of policies (agnostic, aware)."""

    key: str
    varied: tuple[float, ...]  # mean gaps in seconds, or numbers of jobs
    pairs: tuple[tuple[str, str], ...] = (FAIR,)
    jobs: int = 1200
    kind: str = "continuous"
    measured: tuple[int, int] | None = (500, 800)
    multi_gpu: bool = True

    @property
    def static(self) -> bool:
        """Whether all jobs come at time 0."""
        return self.kind == "static"

    def scenario(self, gap_s: float = 3600.0) -> dict[str, Any]:
        """The experiment."""
        generate = {"jobs": self.jobs, "kind": self.kind, "mean_gap_s": gap_s, "multi_gpu": self.multi_gpu}
        return {
            "name": f"heterogeneity {self.key}",
            "device": [{"type": t, "count": 36, "per_server": 4} for t in ("v100", "p100", "k80")],
            "throughputs": {"gavel": str(shared() / "gavel" / "simulation_throughputs.json")},
            "generate": generate,
            "simulation": {"restart": {"save_s": 10.0, "load_s": 10.0, "warmup_s": 10.0}},
            **({"measure": list(self.measured)} if self.measured else {}),
        }

    def load(self, gap_s: float, seeds: int) -> float:
        """Offered load, mean over the seeds: work at proportional-share speed over capacity."""
        given = cluster_from(self.scenario(gap_s))
        return float(np.mean([offered_load(prepare_cluster(given, seed).problem) for seed in range(seeds)]))


PARTS = (
    Part("flow", (7200.0, 3600.0, 2400.0, 1500.0, 1000.0, 750.0), (FAIR, FINISH), 300, measured=(100, 250)),
    Part("steady single", (1000.0, 750.0, 600.0, 450.0), multi_gpu=False),
    Part("steady multi", (2400.0, 1600.0, 1200.0)),
    Part("static", (100, 200, 300, 500), (FAIR, MAKESPAN, ("fifo", MAKESPAN[1])), 100, "static", None),
)


def gain(result: CompareResult[ClusterConfig], pair: tuple[str, str], metric: str) -> Estimate:
    """agnostic / aware, paired by seed."""
    blind, aware = (np.array(result.values(policy, metric)) for policy in pair)
    return interval(blind / aware)


def rows(
    part: Part, result: SweepResult[ClusterConfig], leading: Sequence[tuple[Cell, ...]]
) -> Iterator[list[Cell]]:
    """One row per setting and pair: of the first metric the figures in hours and their ratio, then other ratios."""
    metrics = ["makespan_s"] if part.static else ["jct_mean_s", "makespan_s"]
    for point, first in zip(result.points, leading, strict=True):
        for pair in part.pairs:
            hours = [scaled(point.estimate(policy, metrics[0]), 1 / 3600.0) for policy in pair]
            gains = [gain(point, pair, metric) for metric in metrics]
            unfinished = sum(point.estimate(policy, "unfinished").mean for policy in pair)
            yield [*first, pair[0], hours[0], pair[1], hours[1], *gains, unfinished]


def measured(part: Part, seeds: int, workers: int) -> Table:
    """Run what is not finished yet."""
    policies = list(dict.fromkeys(policy for pair in part.pairs for policy in pair))
    varied = {"generate.jobs" if part.static else "generate.mean_gap_s": list(part.varied)}
    folder = f"runs/heterogeneity-{part.key.replace(' ', '-')}-{seeds}"
    found = sweep_cluster(
        part.scenario(), varied, policies, seeds, directory=folder, workers=workers, on_done=_tell
    )
    first: list[tuple[Cell, ...]] = [(n,) for n in part.varied]
    columns = "{}agnostic; h|.2f; aware of throughputs; h|.2f; ratio|.2f{}; unfinished|g"
    if part.static:
        return table(part.key, columns.format("jobs; ", ""), rows(part, found, first))
    first = [(gap_s, part.load(gap_s, seeds)) for gap_s in part.varied]
    columns = columns.format("mean gap, s|g; load|.2f; ", "; ratio of makespans|.2f")
    return table(part.key, columns, rows(part, found, first))


def _tell(outcome: Outcome) -> None:
    print(outcome.cell.name, outcome.failure or "done", flush=True)


def measure(options: Options) -> Iterator[Table]:
    """All parts; the quick run has 30 jobs, one setting and two seeds."""
    for part in PARTS:
        if options.wants(part.key) or options.wants(part.key.split()[0]):
            if options.quick:
                window = None if part.static else (5, 25)
                part = replace(
                    part, jobs=30, measured=window, varied=(30,) if part.static else part.varied[:1]
                )
            yield measured(part, len(options.seeds_or(5, 2)), options.workers)

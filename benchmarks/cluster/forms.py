"""Themis' forms over the default, each on all workloads of ``themis-workloads``: no choice of a best one per workload.

Geometric means over the workloads of the ratios of mean completion and of worst rho, intervals over the workloads.
Takes the runs of ``themis-workloads`` from runs/ where they are there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.cluster.workloads import DEFAULT, FAMILY, WORKLOADS, measured
from benchmarks.table import Cell, Options, Table, table
from eunomia.metrics.statistics import paired_ratio

MEASURES = ("completion_h", "max_rho", "p90_rho")


def measure(options: Options) -> Iterator[Table]:
    """One table, 3 seeds; the quick run has one workload and two forms."""
    names = list(WORKLOADS)[3:4] if options.quick else list(WORKLOADS)
    mean: dict[str, dict[str, list[float]]] = {}
    for form in [DEFAULT, "strawman"] if options.quick else FAMILY:
        mean[form] = {name: [] for name in MEASURES}
        for workload in names:
            seeds = range(1) if "trace A" in workload else options.seeds_or(3)
            found = measured(workload, form, seeds)
            for name in MEASURES:
                mean[form][name].append(float(np.mean(found[name])))
    rows: list[list[Cell]] = []
    for form, own in mean.items():
        if form != DEFAULT:
            rows.append([form, *(paired_ratio(own[name], mean[DEFAULT][name]) for name in MEASURES)])
    columns = (
        "form; completion over the default's|.3f; worst rho over it|.3f; 90th percentile of rho over it|.3f"
    )
    yield table("all", columns, rows)

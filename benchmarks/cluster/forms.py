"""Themis' forms over the default, each on all workloads of ``themis-workloads``: no choice of a best one per workload.

``all``: geometric means over the workloads of the ratios of mean completion and of worst rho, intervals over the
workloads; takes the runs of ``themis-workloads`` from runs/ where they are there. ``leases``: shorter ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.cluster.apps import fairness
from benchmarks.cluster.themis import OPTIONS
from benchmarks.cluster.workloads import DEFAULT, FAMILY, WORKLOADS, measured
from benchmarks.kept import kept
from benchmarks.table import Cell, Options, Table, by_name, means, table
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.simulate import simulate_cluster
from eunomia.metrics.statistics import paired_ratio

MEASURES = ("completion_h", "max_rho", "p90_rho")
LEASED = [name for name in WORKLOADS if name.startswith("Philly") or "load 1.3, 8 + 8" in name]


def _leased(workload: str, lease_s: float, seed: int) -> dict[str, float]:
    policy = allocator("themis", lease_s=lease_s)
    return fairness(simulate_cluster(WORKLOADS[workload](seed), policy, OPTIONS.with_seed(seed), "themis"))


def leases(seeds: range) -> Table:
    """The default with leases of 20, 10 and 5 minutes, where jobs last minutes and where they last hours."""
    rows: list[list[Cell]] = []
    for workload in LEASED:
        for lease_s in (1200.0, 600.0, 300.0):
            what = {"workload": workload, "lease_s": lease_s}
            runs = [
                kept("themis-leases", {**what, "seed": s}, partial(_leased, workload, lease_s, s))
                for s in seeds
            ]
            rows.append([workload, lease_s / 60.0, *means(by_name(runs), *MEASURES, "moves")])
    columns = (
        "workload; lease, min|.0f; completion, h|.2f; worst rho|.2f; 90th percentile|.2f; moves per job|.1f"
    )
    return table("leases", columns, rows)


def measure(options: Options) -> Iterator[Table]:
    """3 seeds; the quick run has one workload and two forms."""
    if options.only and options.wants("leases"):
        yield leases(options.seeds_or(3))
        return
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

"""HTAS: cost and delay of an elastic pool in four arrival patterns. Parts: patterns, errors, ablations, cycle.

Baseline: least-requested packing with the smallest flavour that fits all that waits, the same autoscaler otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from benchmarks.table import Cell, Options, Table, table
from eunomia.cluster.environments.elastic_pool import Flavour
from eunomia.cluster.environments.elastic_pool_run import (
    PATTERNS,
    PoolOptions,
    PoolResult,
    arrivals,
    run_pool,
)
from eunomia.metrics.statistics import interval

# cores, GiB, price
SIZES = ((2, 4, 0.05), (2, 8, 0.06), (4, 8, 0.10), (4, 16, 0.12), (8, 16, 0.20), (8, 32, 0.23))
CATALOGUE = tuple(Flavour(f"{c} cores, {m} GiB", float(c), float(m), price) for c, m, price in SIZES)
HTAS, BASE = PoolOptions(), PoolOptions(scheduler="least_requested")
ABLATIONS = {
    "HTAS": HTAS,
    "without time bins (best fit)": replace(HTAS, bins=False),
    "without migration": replace(HTAS, migrate=False),
    "one flavour": replace(HTAS, flavours="one"),
    "half of all migrations fail": replace(HTAS, migrate_fails=0.5),
}
STEADY = ("stable", "on_off")
COLUMNS = (
    "; cost|.2f; saved|.1%; mean wait, s|.0f; longest wait, s|.0f; turnaround, s|.0f; decision, ms|.2f; "
    "machine hours|.1f; migrations|.1f; unfinished"
)


@cache
def runs(pattern: str, options: PoolOptions, seeds: range, error: float = 0.0) -> list[PoolResult]:
    """One pattern, all seeds. ``error``: run times are believed as run * (1 + error * U(-1, 1))."""
    made = [arrivals(pattern, seed, error=error) for seed in seeds]  # type: ignore[arg-type]
    return [run_pool(jobs, CATALOGUE, replace(options, seed=s)) for s, jobs in zip(seeds, made, strict=True)]


def row(label: str, found: list[PoolResult], base: list[PoolResult]) -> list[Cell]:
    """Figures, and the cost saved against the baseline on the same jobs."""
    saved = interval([1.0 - r.cost / b.cost for r, b in zip(found, base, strict=True)])
    waits = [(r.wait_s.mean(), max(r.wait_s), r.turnaround_s.mean(), r.decision_ms.mean()) for r in found]
    measures = [(*mine, r.machine_h, r.migrations) for mine, r in zip(waits, found, strict=True)]
    figures = [interval(column) for column in np.array(measures, float).T]
    cost, unfinished = interval([r.cost for r in found]), sum(r.unfinished for r in found)
    return [label, cost, None if found is base else saved, *figures, unfinished]


def measure(options: Options) -> Iterator[Table]:
    """Four tables; the quick run has one seed."""
    seeds = options.seeds_or(10)
    base = {pattern: runs(pattern, BASE, seeds) for pattern in PATTERNS}

    def against(label: str, pattern: str, pool: PoolOptions, error: float = 0.0) -> list[Cell]:
        return row(f"{pattern}{label}", runs(pattern, pool, seeds, error), base[pattern])

    ways = ((": least requested", BASE), (": HTAS", HTAS))
    yield table("patterns", COLUMNS, [against(label, p, pool) for p in PATTERNS for label, pool in ways])
    wrong = [against(f", error {e:.0%}", p, HTAS, e) for p in STEADY for e in (0.0, 0.25, 0.5, 1.0)]
    yield table("errors", f"HTAS{COLUMNS}", wrong)
    parts = [against(f": {label}", p, pool) for p in STEADY for label, pool in ABLATIONS.items()]
    yield table("ablations", COLUMNS, parts)
    every = (60.0, 120.0, 300.0, 600.0)
    cycle = [against(f", autoscaling every {s:.0f} s", "stable", replace(HTAS, scale_s=s)) for s in every]
    yield table("cycle", f"HTAS{COLUMNS}", cycle)

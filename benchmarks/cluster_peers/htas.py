"""HTAS: cost and delay in four arrival patterns against least-requested packing; estimates in error; ablations."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cluster_peers.report import cell, machine, table
from eunomia.cluster.environments.elastic_pool import Flavour
from eunomia.cluster.environments.elastic_pool_run import (
    PATTERNS,
    PoolOptions,
    PoolResult,
    arrivals,
    run_pool,
)
from eunomia.metrics.statistics import paired_difference

SEEDS = range(10)
CATALOGUE = (
    Flavour("2 cores, 4 GiB", 2.0, 4.0, 0.05),
    Flavour("2 cores, 8 GiB", 2.0, 8.0, 0.06),
    Flavour("4 cores, 8 GiB", 4.0, 8.0, 0.10),
    Flavour("4 cores, 16 GiB", 4.0, 16.0, 0.12),
    Flavour("8 cores, 16 GiB", 8.0, 16.0, 0.20),
    Flavour("8 cores, 32 GiB", 8.0, 32.0, 0.23),
)
HTAS = PoolOptions()
BASE = PoolOptions(scheduler="least_requested")
ABLATIONS = (
    ("HTAS", HTAS),
    ("without time bins (best fit)", replace(HTAS, bins=False)),
    ("without migration", replace(HTAS, migrate=False)),
    ("one flavour", replace(HTAS, flavours="one")),
    ("half of all migrations fail", replace(HTAS, migrate_fails=0.5)),
)


def _runs(pattern: str, options: PoolOptions, error: float = 0.0) -> list[PoolResult]:
    made = [arrivals(pattern, seed, error=error) for seed in SEEDS]  # type: ignore[arg-type]
    return [run_pool(jobs, CATALOGUE, replace(options, seed=s)) for s, jobs in zip(SEEDS, made, strict=True)]


def _line(label: str, runs: list[PoolResult], base: list[PoolResult]) -> list[str]:
    saved = paired_difference([-r.cost / b.cost for r, b in zip(runs, base, strict=True)], [-1.0] * len(runs))
    unfinished = sum(r.unfinished for r in runs)
    return [
        label, cell([r.cost for r in runs]),
        f"{100 * saved.mean:.1f} ± {100 * saved.half_width:.1f} %" if runs is not base else "",
        cell([r.wait_s.mean() for r in runs], 0), cell([float(max(r.wait_s)) for r in runs], 0),
        cell([r.turnaround_s.mean() for r in runs], 0), cell([r.decision_ms.mean() for r in runs]),
        cell([r.machine_h for r in runs], 1), cell([r.migrations for r in runs], 1), str(unfinished),
    ]  # fmt: skip


COLUMNS = ("cost", "saved", "mean wait, s", "longest wait, s", "turnaround, s", "decision, ms", "machine hours",
           "migrations", "unfinished")  # fmt: skip


def study() -> str:
    """The whole part of the page."""
    base = {pattern: _runs(pattern, BASE) for pattern in PATTERNS}
    lines = []
    for pattern in PATTERNS:
        lines += [_line(f"{pattern}: least requested", base[pattern], base[pattern])]
        lines += [_line(f"{pattern}: HTAS", _runs(pattern, HTAS), base[pattern])]
    errors = [
        _line(f"{pattern}, error {error:.0%}", _runs(pattern, HTAS, error), base[pattern])
        for pattern in ("stable", "on_off")
        for error in (0.0, 0.25, 0.5, 1.0)
    ]
    parts = [
        _line(f"{pattern}: {label}", _runs(pattern, options), base[pattern])
        for pattern in ("stable", "on_off")
        for label, options in ABLATIONS
    ]
    slow = [
        _line(
            f"stable, autoscaling every {s:.0f} s", _runs("stable", replace(HTAS, scale_s=s)), base["stable"]
        )
        for s in (60.0, 120.0, 300.0, 600.0)
    ]
    return TEXT.format(
        machine=machine(), seeds=len(SEEDS), main=table(("", *COLUMNS), lines),
        errors=table(("HTAS", *COLUMNS), errors), parts=table(("", *COLUMNS), parts),
        slow=table(("HTAS", *COLUMNS), slow),
    )  # fmt: skip


TEXT = """## HTAS: an elastic pool of priced machines

`python -m benchmarks.cluster_peers htas --write` ({machine}). {seeds} seeds, 300 jobs in two hours, of 1 to 12
minutes, one in ten a service that stays; six flavours; machines boot in 120 s, scheduling every 20 s, autoscaling
every 300 s, paid by the second. Baseline: least-requested packing with the smallest flavour that fits all that
waits, the same autoscaler otherwise. `saved`: cost against the baseline on the same jobs, paired. `wait`: arrival
to start, the scheduling delay that the saving costs; `decision`: wall time of one scheduling point, on a busy
machine.

{main}

Run times believed with an error (run * (1 + error * U(-1, 1))):

{errors}

What each part brings:

{parts}

The autoscaling cycle (the length of a time bin, too; the baseline keeps 300 s):

{slow}
"""

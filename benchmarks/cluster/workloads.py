"""Themis' default beside every other form of it on a dozen workloads with gangs: completion and worst rho.

Drawn ones (``ordinary`` single-job apps and ``searches``, at other loads, gangs and clusters than the page of gangs
has), Gavel's generator and trace A, and windows of Philly with its gangs as they are. Needs the shared data; finished
runs are kept in runs/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.cluster.apps import Setting, fairness, problem, sensitive_table
from benchmarks.cluster.gangs import FORMS, SEARCHES, Ordinary
from benchmarks.cluster.scenes import generated, philly_window, trace_a
from benchmarks.cluster.themis import OPTIONS
from benchmarks.kept import kept
from benchmarks.table import Cell, Options, Table, by_name, table
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.metrics.statistics import interval, paired_difference, paired_ratio

Figures = dict[str, list[float]]
FAMILY = {label: form for label, form in FORMS.items() if "lottery" not in label}
DEFAULT = "Themis"
NEAR = 1.02  # mean completion over the best of the family's
COLUMNS = (
    "workload; completion, h|.2f; quickest other form; default over it|.3f; worst rho|.2f; fairest other form; "
    "its worst rho|.2f; default's less its|+.2f"
)


def searches(setting: Setting, share: float) -> Callable[[int], ClusterProblem]:
    """Searches on one type, ``share`` of the models at half speed when spread."""
    return partial(problem, sensitive_table(share), setting)


def ordinary(load: float, **counts: int) -> Callable[[int], ClusterProblem]:
    """Single-job apps with gangs of 1 to 8."""
    return Ordinary(150, load, counts or {"fast": 16, "slow": 32}).problem


SMALL = Setting(apps=60, load=1.2, trials=(1, 2, 4), gangs=(1, 2, 4), hours=(0.5, 8.0))
WORKLOADS: dict[str, Callable[[int], ClusterProblem]] = {
    "single jobs, load 0.8, 16 + 32": ordinary(0.8),
    "single jobs, load 1.1, 16 + 32": ordinary(1.1),
    "single jobs, load 2.0, 16 + 32": ordinary(2.0),
    "single jobs, load 1.3, 8 + 8": ordinary(1.3, fast=8, slow=8),
    "single jobs, load 1.3, 32 + 8": ordinary(1.3, fast=32, slow=8),
    "Gavel's jobs of hours, gap 800 s, 8 + 8 + 8": lambda seed: generated(
        100, 800.0, (8, 8, 8), False, seed, "hours"
    ),
    "searches of 1 to 23, load 1.0": searches(replace(SEARCHES, load=1.0), 0.4),
    "searches of 1 to 4, load 1.2": searches(SMALL, 0.4),
    "searches of 1 to 4, gangs of 4, load 1.5": searches(replace(SMALL, load=1.5, gangs=(4,)), 0.8),
    "searches of 1 to 4, 32 devices, no cost of spread": searches(replace(SMALL, devices=32), 0.0),
    "Philly, 200 jobs, load 1.1, 8 + 8 + 8": lambda seed: philly_window(2 + seed),
    "Philly later, 200 jobs, load 1.1, 8 + 8 + 8": lambda seed: philly_window(46 + seed),
    "Gavel's trace A, 8 + 8 + 8": lambda seed: trace_a(),
}


def measured(workload: str, form: str, seeds: range) -> Figures:
    """Fairness of one form on every seed; kept on disk."""
    name, given = FAMILY[form]

    def one(seed: int) -> dict[str, float]:
        run = simulate_cluster(
            WORKLOADS[workload](seed), allocator(name, **given), OPTIONS.with_seed(seed), name
        )
        return fairness(run)

    what = {"workload": workload, "form": form}
    return by_name([kept("themis-workloads", {**what, "seed": s}, partial(one, s)) for s in seeds])


def line(workload: str, found: dict[str, Figures]) -> list[Cell]:
    """The default beside whichever other form is quickest, and whichever is fairest, on average."""
    own, others = found[DEFAULT], {form: one for form, one in found.items() if form != DEFAULT}
    quick = min(others, key=lambda form: float(np.mean(others[form]["completion_h"])))
    fair = min(others, key=lambda form: float(np.mean(others[form]["max_rho"])))
    ratio = paired_ratio(own["completion_h"], others[quick]["completion_h"])
    less = paired_difference(own["max_rho"], others[fair]["max_rho"])
    rho = interval(own["max_rho"]), interval(others[fair]["max_rho"])
    return [workload, interval(own["completion_h"]), quick, ratio, rho[0], fair, rho[1], less]


def verdict(rows: list[list[Cell]]) -> Iterator[str]:
    """In how many workloads the default is within 2 % of the quickest, and in how many nobody is surely fairer."""
    ratios, less = [row[3] for row in rows], [row[7] for row in rows]
    near = sum(one.mean <= NEAR for one in ratios)  # type: ignore[union-attr]
    first = sum(one.mean <= 0.0 for one in less)  # type: ignore[union-attr]
    beaten = sum(one.low > 0.0 for one in less)  # type: ignore[union-attr]
    yield (
        f"Within 2 % of the quickest form, or quicker, on {near} of {len(rows)} workloads; least worst rho on {first}, "
        f"not told apart from the least on {len(rows) - first - beaten}, surely not the least on {beaten}."
    )


def measure(options: Options) -> Iterator[Table]:
    """One table, 3 seeds; the quick run has one workload and two forms."""
    rows = []
    for workload in list(WORKLOADS)[3:4] if options.quick else WORKLOADS:
        forms = [DEFAULT, "strawman"] if options.quick else list(FAMILY)
        seeds = range(1) if "trace A" in workload else options.seeds_or(3)
        rows.append(line(workload, {form: measured(workload, form, seeds) for form in forms}))
    yield table("all", COLUMNS, rows, verdict(rows))

"""Results of the cluster wing as tables for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from eunomia.cli.console import say
from eunomia.cli.tables import print_table

if TYPE_CHECKING:
    from eunomia.study.cluster import ClusterComparison, ClusterResult, WhatIf

COMPARED = {
    "jct_mean_s": "average JCT", "jct_p99_s": "p99 JCT", "makespan_s": "makespan", "rho_mean": "rho",
    "rho_max": "worst rho", "unfair": "unfair", "busy": "busy", "useful": "useful", "cost": "cost",
    "slo_attainment": "deadlines", "preemptions": "preempted", "unfinished": "unfinished",
}  # fmt: skip


def print_cluster_run(result: ClusterResult) -> None:
    """All figures of one run."""
    from eunomia.metrics.cluster import CLUSTER_METRICS
    from eunomia.report.cluster.words import metric_text

    say(f"{result.config.name}: {result.policy}, seed {result.seed}")
    rows = [
        [CLUSTER_METRICS[name].label, metric_text(name, value)]
        for name, value in result.metrics.items()
        if not math.isnan(value)
    ]
    print_table(("", ""), rows, right=(1,))


def print_cluster_comparison(result: ClusterComparison) -> None:
    """One row per setting and policy: means over seeds with half their 95 % interval."""
    from eunomia.report.cluster.words import estimate_text

    places = [(s, p) for s in range(len(result.settings)) for p in result.policies]
    shown = [
        name
        for name in COMPARED
        if any(
            (e := result.estimate(p, name, s)).n and not (name == "cost" and e.mean == 0.0) for s, p in places
        )
    ]
    keys = list(result.settings[0])
    rows = [
        [
            *(str(result.settings[s][key]) for key in keys),
            p,
            *(estimate_text(m, result.estimate(p, m, s)) for m in shown),
        ]
        for s, p in places
    ]
    headers = (*keys, "policy", *(COMPARED[name] for name in shown))
    print_table(headers, rows, right=range(len(keys) + 1, len(headers)))
    if len(result.seeds) > 1:
        say(
            f"mean of {len(result.seeds)} seeds, ± half the 95 % interval; JCT: completion time of finished jobs"
        )


def print_what_if(result: WhatIf) -> None:
    """Before and after, and the change in per cent."""
    from eunomia.metrics.cluster import CLUSTER_METRICS
    from eunomia.report.cluster.words import duration, metric_text

    say(f"{result.before.config.name}: {result.before.policy}, seed {result.before.seed}")
    for text in result.changes:
        say(f"  {text}")
    say()
    rows = [
        [
            CLUSTER_METRICS[name].label,
            metric_text(name, before),
            metric_text(name, after),
            _change(before, after),
        ]
        for name, before, after in result.rows()
        if not (math.isnan(before) and math.isnan(after))
    ]
    rows += [
        [f"average completion time of '{name}'", duration(before), duration(after), _change(before, after)]
        for name, before, after in (result.tenants() if len(result.tenants()) > 1 else [])
    ]
    print_table(("", "before", "after", "change"), rows, right=(1, 2, 3))


def _change(before: float, after: float) -> str:
    if math.isnan(before) or math.isnan(after) or before == after:
        return "" if before != after else "="
    return f"{100.0 * (after / before - 1.0):+.1f} %" if before else f"{after - before:+.4g}"

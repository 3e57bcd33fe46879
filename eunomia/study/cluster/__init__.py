"""Cluster experiments: run, compare, sweep and what-if; the one place that wires the cluster wing together."""

from __future__ import annotations

from eunomia.study.cluster.run import ClusterRunResult, run_cluster
from eunomia.study.cluster.whatif import Change, WhatIf, what_if
from eunomia.study.cluster.wing import compare_cluster, sweep_cluster

__all__ = [
    "Change",
    "ClusterRunResult",
    "WhatIf",
    "compare_cluster",
    "run_cluster",
    "sweep_cluster",
    "what_if",
]

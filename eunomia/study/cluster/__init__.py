"""Cluster experiments: run, compare, study and what-if; the one place that wires the cluster wing together."""

from __future__ import annotations

from eunomia.study.cluster.compare import ClusterComparison, compare_cluster, study_cluster
from eunomia.study.cluster.run import ClusterResult, run_cluster
from eunomia.study.cluster.whatif import WhatIf, what_if

__all__ = [
    "ClusterComparison", "ClusterResult", "WhatIf", "compare_cluster", "run_cluster", "study_cluster", "what_if",
]  # fmt: skip

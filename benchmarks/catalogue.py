"""Every benchmark by name: where it is and what it measures. ``python -m benchmarks --list`` prints it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

from benchmarks.table import Options, Table

Benchmark = Callable[[Options], Iterator[Table]]

BENCHMARKS: dict[str, tuple[str, str]] = {  # name -> (module, what it measures)
    "cluster": (
        "cluster.simulator",
        "parity of the cluster simulator with Gavel on trace A, speed on Philly",
    ),
    "cluster-parity": ("cluster.parity", "compatible mode against a second implementation of Gavel's rules"),
    "cluster-solver": ("cluster.solver", "time of the cluster programmes beside cvxpy and ECOS"),
    "heterogeneity": ("cluster.heterogeneity", "what knowing the throughputs is worth in Gavel's setting"),
    "themis": ("cluster.themis", "finish-time fairness of apps: Themis, its parts and its peers"),
    "elastic": ("cluster.elastic", "elastic jobs: who chooses the number of workers"),
    "pool": ("cluster.pool", "HTAS: cost and delay of an elastic pool of priced machines"),
    "deferrable-jobs": ("cluster.deferrable", "OSDEC: deferrable jobs in what is left over"),
    "learned-order": ("cluster.order", "a learned order of cluster jobs on production traces"),
    "colocation": ("cluster.colocation", "placing by predicted interference: Horus and Co-scheML"),
}


def find(name: str) -> Benchmark:
    """The function ``measure`` of a benchmark's module, loaded now."""
    found: Benchmark = importlib.import_module(f"benchmarks.{BENCHMARKS[name][0]}").measure
    return found

"""Does batching across a tenant's requests pay?

One tenant, eight users in a closed loop, each network alone, ``max_batch`` 1, 4 and 8: a run of blocks takes what waits
when it starts. Three servers run at once and are asked in turn, so that what else the machine does hits all alike.
Requests per second, and latency.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import NETWORKS, serving
from benchmarks.serving.load import Stream, closed_rate
from benchmarks.table import Cell, Options, Table
from eunomia.metrics.statistics import interval

SIZES, USERS = (1, 4, 8), 8
TENANTS = {"default": {"promise": [{"model": "*", "deadline_ms": 10_000.0}]}}


def measure(options: Options) -> Iterator[Table]:
    """A row per network and size."""
    bench = Bench("batching", options)
    seconds, turns = (2.0, 1) if options.quick else (5.0, 5)
    found: dict[tuple[str, int], list[float]] = {(m, b): [] for m in NETWORKS for b in SIZES}
    with contextlib.ExitStack() as stack:
        lives = {size: stack.enter_context(serving(TENANTS, max_batch=size)) for size in SIZES}
        for _ in range(turns):
            for model, size in found:
                found[model, size].append(closed_rate(lives[size], Stream("default", model), seconds, USERS))
            bench.look()
    rows: list[list[Cell]] = []
    for (model, size), rates in found.items():
        gain = interval(np.divide(rates, found[model, 1]))
        latency_ms = float(np.mean([USERS * 1e3 / rate for rate in rates]))
        rows.append([f"{model}, max_batch {size}", float(np.mean(rates)), latency_ms, gain])
    columns = (
        f"{USERS} users of one tenant; requests/s|.1f; mean latency, ms|.0f; throughput over batch 1|.1%"
    )
    yield bench.table("all", columns, rows)

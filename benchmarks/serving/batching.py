"""Does batching across a tenant's requests pay?

One tenant, eight users in a closed loop, each network alone, ``max_batch`` 1, 4 and 8: a run of blocks takes what waits
when it starts. Three servers run at once and are asked in turn, so that what else the machine does hits all alike.
Requests per second, and latency.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import numpy as np

from benchmarks.serving.clients import Stock, closed_loop
from benchmarks.serving.command import part
from benchmarks.serving.live import NETWORKS, Live, server_table, serving
from benchmarks.serving.machine import Watch, cores, pin
from benchmarks.serving.page import table
from benchmarks.table import Options, Table
from eunomia.metrics.statistics import interval

SIZES = (1, 4, 8)
USERS = 8


def rate(live: Live, model: str, seconds: float) -> tuple[float, float]:
    """Requests per second and median latency in milliseconds of eight users."""

    async def ask() -> tuple[float, float]:
        async with Stock(live, "grpc", "default") as client:
            loop = await closed_loop(client, model, USERS, seconds)
            return loop.rate, USERS / loop.rate * 1e3

    return asyncio.run(ask())


def run(seconds: float, seeds: int, watch: Watch) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """Every network at every size, in turn."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {(m, b): [] for m in NETWORKS for b in SIZES}
    promise = {"promise": [{"model": "*", "deadline_ms": 10_000.0}]}
    with contextlib.ExitStack() as stack:
        lives = {
            b: stack.enter_context(serving(server_table(cores(), {"default": promise}, max_batch=b), cores().front))
            for b in SIZES
        }  # fmt: skip
        for _ in range(seeds):
            for model in NETWORKS:
                for size, live in lives.items():
                    found[model, size].append(rate(live, model, seconds))
            watch.look()
    return found


def report(found: dict[tuple[str, int], list[tuple[float, float]]]) -> list[str]:
    """A row per network and size."""
    rows = []
    for (model, size), runs in found.items():
        alone = found[model, 1]
        gain = interval([a[0] / b[0] for a, b in zip(runs, alone, strict=True)])
        rows.append([f"{model}, max_batch {size}", f"{np.mean([r[0] for r in runs]):.1f}",
                     f"{np.mean([r[1] for r in runs]):.0f}", f"{gain:.1%}"])  # fmt: skip
    return table(
        [f"{USERS} users of one tenant", "requests/s", "mean latency, ms", "throughput over batch 1"], rows
    )


def measure(options: Options) -> Iterator[Table]:
    """One part of the page of the live server."""
    pin(cores().front)
    watch = Watch()
    found = run(*((2.0, 1) if options.quick else (5.0, 5)), watch)
    yield part(["", *report(found)], watch)

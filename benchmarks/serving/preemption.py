"""How soon does an urgent request start behind a long network? ``python -m benchmarks.serving.preemption``.

Bulk keeps ResNet-50 running without a break; urgent sends MobileNetV2 with a deadline a hundred times nearer, 5 a
second. The server's own queue times (arrival to the first block) are read from its recording of requests; beside
them the same with networks that are never cut, where an urgent request waits for the whole network. ``--small``,
``--write`` as elsewhere.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.serving.clients import Stock, closed_loop
from benchmarks.serving.live import Live, server_table, serving
from benchmarks.serving.machine import Cores, Watch, cores, pin
from benchmarks.serving.offered import Stream, offered
from benchmarks.serving.page import machine_line, table, write_part

URGENT = Stream("urgent", "mobilenet-v2", 5.0, 1000.0)
TENANTS = {
    "urgent": {"promise": [{"model": "*", "deadline_ms": 1000.0}]},
    "bulk": {"promise": [{"model": "*", "deadline_ms": 100_000.0}]},
}
BLOCKS_MS = (1.0, 2.5, 5.0, 1000.0)
MEDIAN_MS, P99_MS = 2.0, 5.0


@dataclass(frozen=True)
class Scale:
    """Seconds of load for each block length."""

    seconds: float = 60.0


SMALL = Scale(6.0)


@dataclass(frozen=True)
class Waits:
    """Queue times of urgent requests, and what bulk got meanwhile."""

    queue_ms: list[float]
    bulk_per_s: float
    blocks: int


async def _load(live: Live, seconds: float) -> float:
    async with Stock(live, "http", "bulk") as bulk:
        closed = asyncio.create_task(closed_loop(bulk, "resnet50", 3, seconds))
        await offered(live.grpc, [URGENT], seconds, 0)
        return (await closed).rate


def measure(where: Cores, block_ms: float, scale: Scale) -> Waits:
    """One block length."""
    with serving(server_table(where, TENANTS, policy="edf", block_ms=block_ms), where.front) as live:
        rate = asyncio.run(_load(live, scale.seconds))
        recorded = live.get("/v2/eunomia/twin")
    queue_ms = [r[7] * 1e3 for r in recorded["requests"] if r[1] == "urgent"]
    return Waits(queue_ms, rate, len(recorded["networks"]["resnet50"]))


def report(found: dict[float, Waits]) -> list[str]:
    """One line per block length."""
    rows = []
    for block_ms, waits in found.items():
        median, p99 = np.percentile(waits.queue_ms, [50, 99])
        name = "whole network" if block_ms > 100 else f"{block_ms:g} ms"
        rows.append([name, waits.blocks, len(waits.queue_ms), f"{median:.2f}",
                     f"{p99:.2f}", f"{max(waits.queue_ms):.2f}", f"{waits.bulk_per_s:.1f}",
                     "yes" if median < MEDIAN_MS and p99 < P99_MS else "no"])  # fmt: skip
    head = ["block length", "blocks of ResNet-50", "urgent requests", "until the first block: median ms", "p99",
            "slowest", "bulk, requests/s", "median < 2, p99 < 5"]  # fmt: skip
    return table(head, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    watch, where = Watch(), cores()
    pin(where.front)
    lengths = (2.5, 1000.0) if options.small else BLOCKS_MS
    found = {}
    for block_ms in lengths:
        found[block_ms] = measure(where, block_ms, SMALL if options.small else Scale())
        watch.look()
    lines = [machine_line(), watch.verdict, "", *report(found)]
    print("\n".join(lines))
    if options.write:
        write_part("preemption", "An urgent request behind a long network", lines)


if __name__ == "__main__":
    main()

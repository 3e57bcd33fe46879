"""How soon does an urgent request start behind a long network?

Bulk keeps ResNet-50 running without a break; urgent sends MobileNetV2 with a deadline a hundred times nearer, 10 a
second, 40 to 160 ms apart, so that none waits for another urgent one. The queue times (arrival to the first block, by
the device's watch) are read from the server's recording of requests; beside them the same with networks that are never
cut, where an urgent request waits for the whole network, and an urgent request every 12 s. The first one that the
server ever sees meets a network in one piece; it stands apart, and counts in p99. About 4 minutes. ``--small``,
``--resume``, ``--write`` as elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.serving.clients import Stock, closed_loop
from benchmarks.serving.command import part
from benchmarks.serving.live import Live, server_table, serving
from benchmarks.serving.machine import Cores, Watch, cores, pin
from benchmarks.serving.offered import Stream, offered
from benchmarks.serving.page import table
from benchmarks.serving.pieces import Pieces
from benchmarks.table import Options, Table
from eunomia.metrics.statistics import interval
from eunomia.workload.arrivals import Periodic

URGENT = Stream("urgent", "mobilenet-v2", 10.0, 1000.0, arrivals=Periodic(0.1, jitter_s=0.06))
TENANTS = {
    "urgent": {"promise": [{"model": "*", "deadline_ms": 1000.0}]},
    "bulk": {"promise": [{"model": "*", "deadline_ms": 100_000.0}]},
}
RARE = Stream("urgent", "mobilenet-v2", 1 / 12, 1000.0, arrivals=Periodic(12.0, jitter_s=1.0))
BLOCKS_MS = (1.0, 1.5, 2.0, 3.0, 1000.0)
DEFAULT_MS = 1.5
MEDIAN_MS, P99_MS = 2.0, 5.0


@dataclass(frozen=True)
class Scale:
    """Seconds of load for each block length and seed, and seeds."""

    seconds: float = 6.0
    seeds: int = 5


SMALL = Scale(3.0, 1)
RARELY, RARELY_SMALL = Scale(72.0, 1), Scale(14.0, 1)


@dataclass(frozen=True)
class Waits:
    """Queue times of urgent requests by seed, and what bulk got meanwhile."""

    queue_ms: list[list[float]]
    bulk_per_s: list[float]
    blocks: int
    first_ms: float  # of the first urgent request that the server ever saw


async def _load(live: Live, urgent: Stream, seconds: float, seed: int) -> float:
    async with Stock(live, "http", "bulk") as bulk:
        closed = asyncio.create_task(closed_loop(bulk, "resnet50", 3, seconds))
        await offered(live.grpc, [urgent], seconds, seed)
        return (await closed).rate


def measured(where: Cores, block_ms: float, urgent: Stream, scale: Scale) -> Waits:
    """One block length."""
    queue_ms: list[list[float]] = []
    rates: list[float] = []
    with serving(server_table(where, TENANTS, policy="edf", block_ms=block_ms), where.front) as live:
        asyncio.run(_load(live, URGENT, 1.0, 0))
        first, _ = _urgent(live)
        seen = len(first)
        for seed in range(scale.seeds):
            rates.append(asyncio.run(_load(live, urgent, scale.seconds, seed)))
            waits, blocks = _urgent(live)
            queue_ms.append(waits[seen:])
            seen = len(waits)
    return Waits(queue_ms, rates, blocks, first[0])


def _urgent(live: Live) -> tuple[list[float], int]:
    """Queue times of all urgent requests so far, in order of their answers; and blocks of the long network."""
    recorded = live.get("/v2/eunomia/twin")
    waits = [r[7] * 1e3 for r in recorded["requests"] if r[1] == "urgent"]
    return waits, len(recorded["networks"]["resnet50"])


def report(found: dict[str, Waits]) -> list[str]:
    """One line per block length."""
    rows = []
    for name, waits in found.items():
        all_ms = np.concatenate([*waits.queue_ms, [waits.first_ms]])
        median = interval([float(np.median(one)) for one in waits.queue_ms])
        p99 = float(np.percentile(all_ms, 99))
        rows.append([name, waits.blocks, len(all_ms), f"{median:.2f}", f"{p99:.2f}",
                     f"{max(map(max, waits.queue_ms)):.2f}", f"{waits.first_ms:.1f}",
                     f"{interval(waits.bulk_per_s):.1f}",
                     "yes" if median.mean < MEDIAN_MS and p99 < P99_MS else "no"])  # fmt: skip
    head = ["block length", "blocks of ResNet-50", "urgent requests", "until the first block: median ms",
            "p99 with the first", "slowest but the first", "the first ever", "bulk, requests/s",
            "median < 2, p99 < 5"]  # fmt: skip
    return table(head, rows)


def measure(options: Options) -> Iterator[Table]:
    """One part of the page of the live server."""
    watch, where, pieces = Watch(), cores(), Pieces("preemption", resume="resume" in options.given)
    pin(where.front)
    scale = SMALL if options.quick else Scale()
    found = {}
    rarely = RARELY_SMALL if options.quick else RARELY
    cases = {
        "whole network" if ms > 100 else f"{ms:g} ms": (ms, URGENT, scale)
        for ms in ((DEFAULT_MS, 1000.0) if options.quick else BLOCKS_MS)
    }
    cases[f"{DEFAULT_MS:g} ms, one urgent request in 12 s"] = DEFAULT_MS, RARE, rarely
    for name, case in cases.items():
        found[name] = pieces.do(name, Waits, lambda: measured(where, *case))  # noqa: B023
        watch.look()
    pieces.finish()
    yield part(["", *report(found)], watch)

"""How soon does an urgent request start behind a long network?

Bulk keeps ResNet-50 running without a break; urgent sends MobileNetV2 with a deadline a hundred times nearer, 10 a
second, 40 to 160 ms apart, so that none waits for another urgent one. The queue times (arrival to the first block, by
the device's watch) are read from the server's recording of requests; beside them the same with networks that are never
cut, where an urgent request waits for the whole network, and an urgent request every 12 s. The first one that the
server ever sees meets a network in one piece; it stands apart, and counts in p99. About 4 minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import LARGE_NET, SMALL_NET, Live, serving
from benchmarks.serving.load import Stream, client, closed_loop, offered
from benchmarks.table import Cell, Options, Table
from eunomia.engines.processes import Result
from eunomia.metrics.statistics import interval
from eunomia.workload.arrivals import Periodic

URGENT = Stream("urgent", SMALL_NET, arrivals=Periodic(0.1, jitter_s=0.06))
RARE = Stream("urgent", SMALL_NET, arrivals=Periodic(12.0, jitter_s=1.0))
BULK = Stream("bulk", LARGE_NET)
DEADLINES_MS = {"urgent": 1000.0, "bulk": 100_000.0}
TENANTS = {name: {"promise": [{"model": "*", "deadline_ms": ms}]} for name, ms in DEADLINES_MS.items()}
BLOCKS_MS = (1.0, 1.5, 2.0, 3.0, 1000.0)
DEFAULT_MS = 1.5
MEDIAN_MS, P99_MS = 2.0, 5.0


async def loaded(live: Live, urgent: Stream, seconds: float, seed: int) -> float:
    """Bulk requests answered per second meanwhile."""
    async with client(live.http, "http", [BULK]) as bulk:
        closed = asyncio.create_task(closed_loop(bulk, 3, seconds))
        await offered(live.grpc, [urgent], seconds, seed)
        return (await closed).rate


def waits_ms(live: Live) -> list[float]:
    """Queue times of all urgent requests so far, in order of their answers."""
    return [request[7] * 1e3 for request in live.recording()["requests"] if request[1] == "urgent"]


def waited(block_ms: float, urgent: Stream, seconds: float, seeds: int) -> Result:
    """One block length: queue times of urgent requests by seed, the very first apart, and what bulk got."""
    with serving(TENANTS, policy="edf", block_ms=block_ms) as live:
        asyncio.run(loaded(live, URGENT, 1.0, 0))
        first, *before = waits_ms(live)
        seen, queue_ms, rates = 1 + len(before), [], []
        for seed in range(seeds):
            rates.append(asyncio.run(loaded(live, urgent, seconds, seed)))
            found = waits_ms(live)
            queue_ms.append(found[seen:])
            seen = len(found)
        blocks = len(live.recording()["networks"][LARGE_NET])
    return {"first_ms": first, "queue_ms": queue_ms, "bulk_per_s": rates, "blocks": blocks}


def row(name: str, found: Result) -> list[Cell]:
    """One line per block length."""
    queue_ms, first_ms = found["queue_ms"], found["first_ms"]
    every = np.concatenate([*queue_ms, [first_ms]])
    median, p99 = interval([float(np.median(one)) for one in queue_ms]), float(np.percentile(every, 99))
    slowest, bulk = max(map(max, queue_ms)), interval(found["bulk_per_s"])
    fine = median.mean < MEDIAN_MS and p99 < P99_MS
    return [name, found["blocks"], len(every), median, p99, slowest, first_ms, bulk, fine]


def measure(options: Options) -> Iterator[Table]:
    """The quick run has two block lengths."""
    bench = Bench("preemption", options)
    (seconds, seeds), rarely_s = ((3.0, 1), 14.0) if options.quick else ((6.0, 5), 72.0)
    lengths = (DEFAULT_MS, 1000.0) if options.quick else BLOCKS_MS
    cases = {"whole network" if ms > 100 else f"{ms:g} ms": (ms, URGENT, seconds, seeds) for ms in lengths}
    cases[f"{DEFAULT_MS:g} ms, one urgent request in 12 s"] = (DEFAULT_MS, RARE, rarely_s, 1)
    rows = [row(name, bench.piece(partial(waited, *case), case=name)) for name, case in cases.items()]
    columns = (
        "block length; blocks of ResNet-50; urgent requests; until the first block: median ms|.2f; "
        "p99 with the first|.2f; slowest but the first|.2f; the first ever|.1f; bulk, requests/s|.1f; "
        "median < 2, p99 < 5"
    )
    yield bench.table("all", columns, rows)

"""What does the server cost, against a bare ONNX Runtime loop? Parts: throughput, latency (measured together).

Throughput: four requests under way at any time, against the bare loop on the same core; slices of both alternate, and
the ratio is taken slice by slice. Latency: one request under way; the median, less that of the bare loop, is what
the server and its stock client add; beside it the same client at a server that computes nothing (empty.py).
Processor times per request come from /proc and do not depend on what else the machine does. About 8 minutes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.serving.bare import Bare
from benchmarks.serving.bench import Bench
from benchmarks.serving.empty import Empty, empty_server
from benchmarks.serving.live import NETWORKS, Live, serving
from benchmarks.serving.load import TRANSPORTS, Closed, Stream, client, closed_loop
from benchmarks.serving.machine import cpu_time
from benchmarks.table import Cell, Options, Table, by_name, table
from eunomia.engines.processes import Result
from eunomia.metrics.statistics import interval

TARGET = {"resnet50": 0.95, "mobilenet-v2": 0.90}
ADDED_MS = 1.0
USERS = 4
Slices = dict[str, list[float]]  # measures by name, a value for each slice


def asked_of(*facts: Any) -> Result:
    """``sliced`` in an event loop of its own."""
    return asyncio.run(sliced(*facts))


async def sliced(
    live: Live, empty: Empty, bare: Bare, asked: tuple[str, str, int], slices: int, seconds: float
) -> Result:
    """Alternating slices: bare, an empty server (for one user), served. ``asked``: network, transport, users."""
    model, transport, users = asked
    found = []
    side, stream = "grpc" if transport == "grpc" else "http", [Stream("default", model)]
    async with (
        client(getattr(live, side), transport, stream) as full,
        client(getattr(empty, side), transport, stream) as nothing,
    ):
        await closed_loop(full, users, 0.2)
        for _ in range(slices):
            alone = bare.measure(seconds)
            empty_ms = await waited_less(empty, closed_loop(nothing, 1, seconds / 2)) if users == 1 else 0.0
            before = [cpu_time(pid) for pid in (live.pid, *live.workers)]
            served = await closed_loop(full, users, seconds)
            after = [cpu_time(pid) for pid in (live.pid, *live.workers)]
            used_ms = [
                (b - a).ran_s / len(served.latency_s) * 1e3 for a, b in zip(before, after, strict=True)
            ]
            slice = {
                "ratio": served.rate / (alone["runs"] / alone["wall_s"]),
                "bare_ms": float(np.median(alone["durations_s"])) * 1e3,
                "bare_cpu_ms": alone["cpu_s"] / alone["runs"] * 1e3,
                "front_cpu_ms": used_ms[0],
                "worker_cpu_ms": used_ms[1],
                "served_ms": float(np.median(served.latency_s)) * 1e3,
                "empty_ms": empty_ms,
            }
            found.append(slice)
    return by_name(found)


async def waited_less(empty: Empty, loop: Coroutine[Any, Any, Closed]) -> float:
    """What client and libraries take [ms]: the latency of an empty server less its own wait."""
    empty.waited_s()
    idle = await loop
    return float(np.median(np.array(idle.latency_s) - empty.waited_s())) * 1e3


def run(bench: Bench, slices: int, seconds: float) -> dict[tuple[str, str, int], Slices]:
    """Every network and transport, with one user and with four; over HTTP with networks that are always cut too."""
    found: dict[tuple[str, str, int], Slices] = {}
    for kind, transports, changes in (("", TRANSPORTS, {}), (", always cut", ("http",), {"calm_ms": 0.0})):
        with serving({"default": {}}, **changes) as live:
            for model in NETWORKS:
                with Bare(model) as bare:
                    wait_s = float(np.median(bare.measure(0.5)["durations_s"]))
                    with empty_server(wait_s) as empty:
                        for asked in itertools.product([model], transports, (1, USERS)):
                            work = partial(asked_of, live, empty, bare, asked, slices, seconds)
                            what = {"asked": asked, "kind": kind, "slices": slices}
                            found[model, asked[1] + kind, asked[2]] = bench.piece(work, **what)
    return found


def throughput(model: str, s: Slices) -> list[Cell]:
    """Four users: rate and processor time over those of the bare loop."""
    bare, worker, front = (float(np.median(s[f"{who}_cpu_ms"])) for who in ("bare", "worker", "front"))
    ratio = interval(s["ratio"])
    return [ratio, TARGET[model], ratio.mean >= TARGET[model], bare / worker, front]


def latency(s: Slices) -> list[Cell]:
    """One user: what is added to the time of the bare loop."""
    added, empty = np.subtract(s["served_ms"], s["bare_ms"]), np.array(s["empty_ms"])
    medians = [float(np.median(s["bare_ms"])), float(np.median(s["served_ms"]))]
    return [*medians, *map(interval, (added, empty, added - empty)), bool(added.mean() <= ADDED_MS)]


def measure(options: Options) -> Iterator[Table]:
    """Two tables."""
    bench = Bench("cost", options)
    found = run(bench, *((2, 0.5) if options.quick else (12, 1.0)))
    columns = "four users; of the bare loop|.1%; target|.0%; met; by processor time|.1%; "
    columns += "front end, CPU ms per request|.2f"
    rows = [[f"{m}, {t}", *throughput(m, s)] for (m, t, users), s in found.items() if users == USERS]
    yield table("throughput", columns, rows)
    columns = (
        "one user, 600 KB; bare, median ms|.2f; served, median ms|.2f; added, ms|.2f; an empty server alone, ms|.2f; "
        "added beyond that, ms|.2f; added at most 1 ms"
    )
    rows = [[f"{m}, {t}", *latency(s)] for (m, t, users), s in found.items() if users == 1]
    yield bench.table("latency", columns, rows)

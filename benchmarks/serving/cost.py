"""What does the server cost, against a bare ONNX Runtime loop?

Throughput: four requests under way at any time, against the bare loop on the same core; slices of both alternate, and
the ratio is taken slice by slice. Latency: one request under way; the median, less that of the bare loop, is what
the server and its stock client add; beside it the same client at a server that computes nothing (empty.py).
Processor times per request come from /proc and do not depend on what else the machine does. About 8 minutes.
``--small`` is a quick run, ``--resume`` goes on with one that was cut off, ``--write`` puts the result into
results/serving.md.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.serving.bare import Bare
from benchmarks.serving.clients import TRANSPORTS, Stock, closed_loop
from benchmarks.serving.command import part
from benchmarks.serving.empty import Empty, empty_server
from benchmarks.serving.live import CACHE, NETWORKS, Live, server_table, serving
from benchmarks.serving.machine import Cores, Watch, cores, cpu_time, pin
from benchmarks.serving.page import table
from benchmarks.serving.pieces import Pieces
from benchmarks.table import Options, Table
from eunomia.metrics.statistics import interval
from eunomia.serving.models.builtin import builtin_file

TARGET = {"resnet50": 0.95, "mobilenet-v2": 0.90}
ADDED_MS = 1.0
USERS = 4


@dataclass(frozen=True)
class Scale:
    """How much work: slices of this many seconds, so many of them."""

    slices: int = 12
    seconds: float = 1.0


SMALL = Scale(2, 0.5)


@dataclass(frozen=True)
class Slice:
    """One pair of slices, bare and served."""

    ratio: float  # throughput
    bare_ms: float  # median run
    bare_cpu_ms: float
    worker_cpu_ms: float
    front_cpu_ms: float
    latency_ms: float  # median, as the client sees it
    empty_ms: float = float("nan")  # median of one user at a server that waits as long as a run


@dataclass(frozen=True)
class Slices:
    """All of one network, transport and number of users."""

    of: list[Slice]


Found = dict[tuple[str, str, int], list[Slice]]


def measured(
    live: Live, empty: Empty, bare: Bare, model: str, transport: str, users: int, scale: Scale
) -> list[Slice]:
    """Alternating slices of all."""
    return asyncio.run(_measure(live, empty, bare, model, transport, users, scale))


async def _measure(
    live: Live, empty: Empty, bare: Bare, model: str, transport: str, users: int, scale: Scale
) -> list[Slice]:
    slices = []
    async with (
        Stock(live, transport, "default") as client,
        Stock(empty, transport, "default", "empty") as nothing,
    ):
        await closed_loop(client, model, users, 0.2)
        for _ in range(scale.slices):
            alone = bare.measure(scale.seconds)
            empty_ms = await _empty(empty, nothing, model, scale.seconds / 2) if users == 1 else float("nan")
            before = [cpu_time(live.pid), *map(cpu_time, live.workers)]
            served = await closed_loop(client, model, users, scale.seconds)
            after = [cpu_time(live.pid), *map(cpu_time, live.workers)]
            front, worker = (
                (b - a).ran_s / len(served.latency_s) * 1e3 for a, b in zip(before, after, strict=True)
            )
            slices.append(Slice(
                served.rate / (alone["runs"] / alone["wall_s"]), float(np.median(alone["durations_s"])) * 1e3,
                alone["cpu_s"] / alone["runs"] * 1e3, worker, front, float(np.median(served.latency_s)) * 1e3,
                empty_ms,
            ))  # fmt: skip
    return slices


async def _empty(empty: Empty, client: Stock, model: str, seconds: float) -> float:
    """What client and libraries take [ms]."""
    empty.waited_s()
    idle = await closed_loop(client, model, 1, seconds)
    return float(np.median(np.array(idle.latency_s) - empty.waited_s())) * 1e3


def run(scale: Scale, where: Cores, pieces: Pieces) -> Found:
    """Every network and transport, with one user and with four; over HTTP with networks that are always cut too."""
    pin(where.front)
    found: Found = {}
    for kind, transports, changes in (("", TRANSPORTS, {}), (", always cut", ("http",), {"calm_ms": 0.0})):
        with serving(server_table(where, {"default": {}}, **changes), where.front) as live:
            for model in NETWORKS:
                bare = Bare(builtin_file(model, CACHE), where.device)
                wait_s = float(np.median(bare.measure(0.5)["durations_s"]))
                try:
                    with empty_server(where.front, wait_s) as empty:
                        for transport, users in itertools.product(transports, (1, USERS)):
                            found[model, transport + kind, users] = pieces.do(
                                f"{model}, {transport}{kind}, {users}", Slices,
                                lambda: Slices(measured(live, empty, bare, model, transport, users, scale)),  # noqa: B023
                            ).of  # fmt: skip
                finally:
                    bare.close()
    return found


def report(found: Found) -> list[str]:
    """Two tables: throughput, and latency."""
    return [*_throughput(found), "", *_latency(found)]


def _throughput(found: Found) -> list[str]:
    rows: list[list[str]] = []
    for (model, transport, users), slices in found.items():
        if users == USERS:
            ratio = interval([s.ratio for s in slices])
            own = np.median([s.worker_cpu_ms for s in slices]) / np.median([s.bare_cpu_ms for s in slices])
            front = np.median([s.front_cpu_ms for s in slices])
            rows.append([f"{model}, {transport}", f"{ratio:.1%}", f"{TARGET[model]:.0%}",
                         "yes" if ratio.mean >= TARGET[model] else "no", f"{1 / own:.1%}", f"{front:.2f}"])  # fmt: skip
    head = [
        "four users",
        "of the bare loop",
        "target",
        "met",
        "by processor time",
        "front end, CPU ms per request",
    ]
    note = (
        '"By processor time": a bare run over all that the worker does per request, looking for work included. The '
        "only tenant is in no hurry, so that networks run in one piece; where somebody may be preferred, they run as "
        'in the rows "always cut".'
    )
    return [*table(head, rows), "", note]


def _latency(found: Found) -> list[str]:
    rows: list[list[str]] = []
    for (model, transport, users), slices in found.items():
        if users == 1:
            added = interval([s.latency_ms - s.bare_ms for s in slices])
            empty = interval([s.empty_ms for s in slices])
            own = interval([s.latency_ms - s.bare_ms - s.empty_ms for s in slices])
            rows.append([f"{model}, {transport}", f"{np.median([s.bare_ms for s in slices]):.2f}",
                         f"{np.median([s.latency_ms for s in slices]):.2f}", f"{added:.2f}",
                         f"{empty:.2f}", f"{own:.2f}",
                         "yes" if added.mean <= ADDED_MS else "no"])  # fmt: skip
    head = ["one user, 600 KB", "bare, median ms", "served, median ms", "added, ms",
            "an empty server alone, ms", "added beyond that, ms", "added at most 1 ms"]  # fmt: skip
    note = (
        '"An empty server": the same stock client at the same libraries with nothing behind them but a wait about as '
        "long as the bare run, less what it really waited; median."
    )
    return [*table(head, rows), "", note]


def measure(options: Options) -> Iterator[Table]:
    """One part of the page of the live server."""
    watch, pieces = Watch(), Pieces("cost", resume="resume" in options.given)
    found = run(SMALL if options.quick else Scale(), cores(), pieces)
    pieces.finish()
    yield part(["", *report(found)], watch)

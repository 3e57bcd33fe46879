"""What a device on Ray adds to a request, and what a lost node costs.

Two servers with the same networks are up together, one with its worker process, one with a Ray actor on the same core.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tritonclient.utils import InferenceServerException

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import NETWORKS, SMALL_NET, Live, serving
from benchmarks.serving.load import Closed, Stream, client, closed_loop
from benchmarks.serving.machine import cores, pin
from benchmarks.table import Cell, Options, Table
from eunomia.metrics.statistics import interval

TENANTS = {"default": {"promise": [{"model": "*", "deadline_ms": 60_000.0}]}}
USERS = (1, 4)
RESOURCE = "npu"


@dataclass
class Nodes:
    """A cluster of this machine; nodes with a device run on the device's core."""

    cluster: Any
    workers: list[Any] = field(default_factory=list)

    def add(self) -> None:
        """One more."""
        pin(cores().device)
        self.workers.append(self.cluster.add_node(num_cpus=1, resources={RESOURCE: 1}))
        pin(cores().front)

    def lose(self) -> None:
        """The oldest, at once, with all its processes."""
        self.cluster.remove_node(self.workers.pop(0), allow_graceful=False)


@contextlib.contextmanager
def nodes() -> Iterator[Nodes]:
    """A head without work and one node."""
    from ray.cluster_utils import Cluster

    made = Nodes(Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}))
    try:
        made.add()
        yield made
    finally:
        made.cluster.shutdown()


def measure(options: Options) -> Iterator[Table]:
    """Latency and throughput, then the lost node."""
    bench = Bench("ray", options)
    seconds, turns = (1.0, 2) if options.quick else (2.5, 6)
    with nodes() as found:
        far = [{"name": "far", "on": "ray", "address": found.cluster.address, "resource": RESOURCE}]
        with serving(TENANTS) as here, serving(TENANTS, device=far) as there:
            yield added(bench, (here, there), seconds, turns)
            yield lost(bench, found, there, 4.0 if options.quick else 10.0)


def added(bench: Bench, lives: tuple[Live, Live], seconds: float, turns: int) -> Table:
    """A row per network and number of users."""
    rows: list[list[Cell]] = []
    for model in NETWORKS:
        for users in USERS:
            blocks: list[tuple[Closed, Closed]] = []
            for turn in range(turns):
                order = (0, 1) if turn % 2 else (1, 0)
                pair = {n: block(lives[n], model, seconds, users) for n in order}
                blocks.append((pair[0], pair[1]))
                bench.look()
            cells: list[Cell] = [f"{model}, {users} user" + "s" * (users > 1)]
            for p in (50, 99):
                ms = np.array([[np.percentile(one.latency_s, p) * 1e3 for one in pair] for pair in blocks])
                cells += [float(ms[:, 0].mean()), interval(ms[:, 1] - ms[:, 0])]
            rates = np.array([[one.rate for one in pair] for pair in blocks])
            rows.append([*cells, float(rates[:, 0].mean()), interval(rates[:, 1] / rates[:, 0])])
    columns = (
        "closed loop; median with a process, ms|.2f; added on Ray, ms|.2f; p99 with a process, ms|.2f; "
        "added to p99 on Ray, ms|.2f; requests/s with a process|.1f; throughput on Ray over that|.1%"
    )
    return bench.table("added", columns, rows)


def block(live: Live, model: str, seconds: float, users: int) -> Closed:
    """One block over gRPC, after a warm second part of it."""

    async def alone() -> Closed:
        async with client(live.grpc, "grpc", [Stream("default", model)]) as found:
            await closed_loop(found, users, 0.1 * seconds)
            return await closed_loop(found, users, seconds)

    return asyncio.run(alone())


def lost(bench: Bench, found: Nodes, live: Live, seconds: float) -> Table:
    """Four users, and a node that dies in the middle; a spare one is there."""
    found.add()
    pin(cores().front)
    seen, slowest_s = asyncio.run(through(live, seconds, found.lose))
    refused = seen.pop("no device answers", 0)
    answered = seen.pop("", 0)
    lost = sum(seen.values())
    row: list[Cell] = [lost + answered + refused, answered, refused, lost, slowest_s]
    columns = (
        "sent; answered; refused at once, no device|d; accepted and without a result|d; "
        "longest time to an answer, s|.1f"
    )
    return bench.table("lost", columns, [row], [f"Other errors: {dict(seen)}."] if seen else [])


async def through(live: Live, seconds: float, fault: Callable[[], None]) -> tuple[Counter[str], float]:
    """Closed loops with a fault a quarter into them: results by the server's sentence, "" = answered."""
    seen, slowest_s = Counter[str](), 0.0
    async with client(live.grpc, "grpc", [Stream("default", SMALL_NET)], timeout_s=90.0) as found:

        async def user() -> None:
            nonlocal slowest_s
            while time.perf_counter() - began_s < seconds:
                sent_s = time.perf_counter()
                try:
                    await found.send(0)
                    seen[""] += 1
                    slowest_s = max(slowest_s, time.perf_counter() - sent_s)
                except InferenceServerException as error:
                    seen[str(error.message())] += 1
                    await asyncio.sleep(0.1)

        async def lose() -> None:
            await asyncio.sleep(seconds / 4.0)
            await asyncio.to_thread(fault)

        began_s = time.perf_counter()
        await asyncio.gather(lose(), *(user() for _ in range(max(USERS))))
    return seen, slowest_s

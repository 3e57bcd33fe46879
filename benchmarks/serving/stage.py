"""What the faults, the connections and the soak share: a server with a ledger and a database, and a steady load."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.serving.live import OPERATOR, Live, started, write_server
from benchmarks.serving.strange import SIDE, packed, write_networks
from benchmarks.serving.wall_clock import WallClockJumps
from eunomia.serving.observe.journal import read_lines
from tests.serving.postgres import Postgres

T = TypeVar("T")
SHAPE = [1, 3, SIDE, SIDE]
BACK_S = 2.0  # a lost worker serves again by then


@dataclass
class Count:
    """Answers of the steady load, by what they say."""

    sent: int = 0
    answered: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    silent: int = 0
    latency_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Scale:
    """Requests per second, and seconds before and after the fault."""

    rate_per_s: float = 40.0
    before_s: float = 3.0
    after_s: float = 7.0


SMALL = Scale(10.0, 1.0, 4.0)


@dataclass
class Stage:
    """A server with a ledger and a database in a folder of its own."""

    folder: Path
    live: Live
    scale: Scale
    count: Count = field(default_factory=Count)
    notes: list[str] = field(default_factory=list)
    fine: bool = True
    wall: WallClockJumps | None = None
    database: Postgres | None = None

    def demand(self, what: bool, text: str) -> None:
        """Note a fact that must hold."""
        self.fine &= what
        self.notes.append(text if what else f"**{text}: NO**")

    def ledger(self) -> list[tuple[float, str, str, str, float, float]]:
        """All lines of the journal of the steady load's network: stamp, tenant, network, outcome."""
        paths = sorted((self.folder / "ledger").glob("journal-*.log"))
        return [line for path in paths for line in read_lines(path) if line[2] == "small"]

    async def call(self, path: str, content: Any = None, method: str | None = None) -> tuple[int, Any]:
        """One request of the operator, off the event loop."""
        return await asyncio.to_thread(self.live.ask, path, content, method=method)

    async def ask(self, model: str, values: list[Any], datatype: str) -> tuple[int, Any]:
        """One inference with one input x."""
        body = {"inputs": [{"name": "x", "datatype": datatype, "shape": [len(values)], "data": values}]}
        return await self.call(f"/v2/models/{model}/infer", body)


@contextlib.contextmanager
def stage(scale: Scale, environment: Mapping[str, str] | None = None, **changes: Any) -> Iterator[Stage]:
    """Start the server, its file changed by ``changes``; end it after the block."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        networks: list[dict[str, Any]] = []
        for network, file in write_networks(folder).items():
            shapes = {"shapes": {"x": [1]}} if network in ("log", "index") else {}
            networks.append({"name": network, "onnx": str(file), **shapes})
        facts = {"ledger_dir": str(folder / "ledger"), "database": f"sqlite:///{folder / 'tenants.db'}"}
        path = folder / "server.toml"
        write_server(path, {}, network=networks, arena_mib=64.0, **(facts | changes))
        with started(path, environment) as live:
            yield Stage(folder, live, scale)


# --- the steady load -----------------------------------------------------------------------------------


async def steady(s: Stage, seconds: float) -> None:
    """Requests at an even pace over HTTP, whatever becomes of them."""
    import aiohttp

    body, header = packed("image", np.random.default_rng(0).random(SHAPE, np.float32))
    headers = OPERATOR | header

    async def one() -> None:
        s.count.sent += 1
        began = time.perf_counter()
        try:
            async with session.post(url, data=body, headers=headers) as answer:
                content = await answer.json()
                if answer.status == 200:
                    s.count.answered += 1
                    s.count.latency_s.append(time.perf_counter() - began)
                else:
                    s.count.reasons[content.get("reason", str(answer.status))] += 1
        except TimeoutError:
            s.count.silent += 1
        except aiohttp.ClientError as error:
            s.count.reasons[type(error).__name__] += 1

    url = f"http://{s.live.http}/v2/models/small/infer"
    limits = aiohttp.ClientTimeout(total=30.0)
    async with aiohttp.ClientSession(timeout=limits, connector=aiohttp.TCPConnector(limit=0)) as session:
        tasks, began = [], time.perf_counter()
        for n in range(int(seconds * s.scale.rate_per_s)):
            await asyncio.sleep(max(0.0, began + n / s.scale.rate_per_s - time.perf_counter()))
            tasks.append(asyncio.create_task(one()))
        await asyncio.gather(*tasks)


async def under_load(s: Stage, fault: Callable[[], Awaitable[T]]) -> T:
    """The steady load, with the fault in its midst; what the fault returns."""
    load = asyncio.create_task(steady(s, s.scale.before_s + s.scale.after_s))
    await asyncio.sleep(s.scale.before_s)
    found = await fault()
    await load
    return found


async def worker_back(s: Stage, old: int) -> float:
    """Seconds until another worker process has loaded its networks and answers."""
    began = time.perf_counter()
    while time.perf_counter() - began < 60.0:
        status, state = await s.call("/v2/eunomia/state")
        devices = state["devices"] if status == 200 else []
        if devices and all(device["alive"] and device["pid"] != old for device in devices):
            return time.perf_counter() - began
        await asyncio.sleep(0.02)
    return float("inf")

"""What the faults, the connections and the soak share: a server with a ledger and a database, and a steady load."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.broken import Postgres, WallClockJumps
from benchmarks.serving.live import CACHE, Live, start, stop, toml
from benchmarks.serving.machine import cores
from benchmarks.serving.strange import SIDE, write_networks
from eunomia.serving.observe.ledger import read_lines
from eunomia.serving.tenants.grants import hash_key

KEY = "eun_benchmark-operator"
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


@contextlib.contextmanager
def stage(scale: Scale, environment: Mapping[str, str] | None = None, **changes: Any) -> Iterator[Stage]:
    """Start the server, its file changed by ``changes``; end it after the block."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        networks = write_networks(folder)
        path = folder / "server.toml"
        path.write_text(toml({
            "http_port": 0, "grpc_port": 0, "cache_dir": str(CACHE), "ledger_dir": str(folder / "ledger"),
            "arena_mib": 64.0,
            "database": f"sqlite:///{folder / 'tenants.db'}", **changes,
            "device": [{"name": "core", "cores": [cores().device]}],
            "network": [{"name": n, "onnx": str(p), "shapes": {"x": [1]} if n in ("log", "index") else {}}
                        for n, p in networks.items()],
            "tenant": [{"name": "operator", "role": "admin", "key_sha256": [hash_key(KEY)]}],
        }))  # fmt: skip
        live = start(path, cores().front, environment)
        try:
            yield Stage(folder, live, scale)
        finally:
            stop(live)


# --- the steady load -----------------------------------------------------------------------------------


async def steady(s: Stage, seconds: float) -> None:
    """Requests at an even pace over HTTP, whatever becomes of them."""
    import aiohttp

    body = np.random.default_rng(0).random(SHAPE, np.float32).tobytes()
    header = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": SHAPE,
                                     "parameters": {"binary_data_size": len(body)}}]}).encode()  # fmt: skip
    headers = {"authorization": f"Bearer {KEY}", "Inference-Header-Content-Length": str(len(header))}

    async def one() -> None:
        s.count.sent += 1
        began = time.perf_counter()
        try:
            async with session.post(url, data=header + body, headers=headers) as answer:
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


async def under_load(s: Stage, fault: Callable[[], Awaitable[None]]) -> None:
    """The steady load, with the fault in its midst."""
    load = asyncio.create_task(steady(s, s.scale.before_s + s.scale.after_s))
    await asyncio.sleep(s.scale.before_s)
    await fault()
    await load


def call(
    live: Live, path: str, body: Any = None, timeout_s: float = 30.0, method: str | None = None
) -> tuple[int, Any]:
    """One JSON request with the operator's key."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://{live.http}{path}", data, {"authorization": f"Bearer {KEY}"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


async def ask(s: Stage, model: str, values: list[Any], datatype: str) -> tuple[int, Any]:
    """One inference with one input x, off the event loop."""
    body = {"inputs": [{"name": "x", "datatype": datatype, "shape": [len(values)], "data": values}]}
    return await asyncio.to_thread(call, s.live, f"/v2/models/{model}/infer", body)


async def worker_back(s: Stage, old: int) -> float:
    """Seconds until another worker process has loaded its networks and answers."""
    began = time.perf_counter()
    while time.perf_counter() - began < 60.0:
        status, state = await asyncio.to_thread(call, s.live, "/v2/eunomia/state")
        alive = status == 200 and all(device["alive"] for device in state["devices"])
        if alive and s.live.workers and s.live.workers[0] != old:
            return time.perf_counter() - began
        await asyncio.sleep(0.02)
    return float("inf")


def ledger_lines(folder: Path) -> list[list[Any]]:
    """All lines of the journal."""
    return [line for path in sorted((folder / "ledger").glob("journal-*.log")) for line in read_lines(path)]

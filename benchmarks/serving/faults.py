"""What does the server do when things break, under load? ``python -m benchmarks.serving.faults``.

A tenant sends small pictures all the time; meanwhile one thing breaks. Counted: requests sent, answered, refused or
failed with a reason, and those without any answer (there must be none), how soon a lost worker serves again, and
whether the ledger holds exactly one line per accepted request. ``--only NAME`` runs some, ``--connections`` sets how
many slow connections, ``--soak MINUTES`` adds a run that kills a worker every 20 s and watches memory. ``--small``,
``--write`` as elsewhere.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import sqlite3
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.live import CACHE, Live, start, stop, toml
from benchmarks.serving.machine import Watch, cores, memory_bytes
from benchmarks.serving.page import machine_line, table, write_part
from benchmarks.serving.strange import SIDE, write_networks
from eunomia.serving.ledger import read_lines
from eunomia.serving.tenants.grants import hash_key

KEY = "eun_benchmark-operator"
SHAPE = [1, 3, SIDE, SIDE]
BACK_S = 2.0


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

    def demand(self, what: bool, text: str) -> None:
        """Note a fact that must hold."""
        self.fine &= what
        self.notes.append(text if what else f"**{text}: NO**")


@contextlib.contextmanager
def stage(scale: Scale) -> Iterator[Stage]:
    """Start the server; end it after the block."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        networks = write_networks(folder)
        path = folder / "server.toml"
        path.write_text(toml({
            "http_port": 0, "grpc_port": 0, "cache_dir": str(CACHE), "ledger_dir": str(folder / "ledger"),
            "arena_mib": 64.0,
            "database": f"sqlite:///{folder / 'tenants.db'}", "device": [{"name": "core", "cores": [cores().device]}],
            "network": [{"name": n, "onnx": str(p), "shapes": {"x": [1]} if n in ("log", "index") else {}}
                        for n, p in networks.items()],
            "tenant": [{"name": "operator", "role": "admin", "key_sha256": [hash_key(KEY)]}],
        }))  # fmt: skip
        live = start(path, cores().front)
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


# --- the faults ----------------------------------------------------------------------------------------


async def worker_killed(s: Stage) -> None:
    """kill -9 of the worker, three times."""

    async def fault() -> None:
        for _ in range(3):
            old = s.live.workers[0]
            os.kill(old, signal.SIGKILL)
            back_s = await worker_back(s, old)
            s.demand(back_s <= BACK_S, f"back after {back_s:.2f} s")

    await under_load(s, fault)
    s.demand(s.count.answered == s.count.sent, "every request answered")


async def server_killed(s: Stage) -> None:
    """kill -9 of the server; the journal afterwards."""

    async def fault() -> None:
        workers = s.live.workers
        s.live.process.kill()
        s.live.process.wait()
        await asyncio.sleep(1.0)
        left = [pid for pid in workers if memory_bytes(pid)]
        s.demand(not left, "no worker process is left behind")

    await under_load(s, fault)
    written = sum(line[3] in ("hit", "late") for line in ledger_lines(s.folder))
    s.demand(written >= s.count.answered, f"ledger: {written} lines for {s.count.answered} answers")
    again = start(s.folder / "server.toml", cores().front)
    try:
        s.demand(call(again, "/v2/models/small")[0] == 200, "serves again after a start")
    finally:
        stop(again)


async def database_lost(s: Stage) -> None:
    """The file of tenants is overwritten with rubbish."""

    async def fault() -> None:
        for file in s.folder.glob("tenants.db*"):
            file.write_bytes(b"rubbish " * 1000)
        status, _ = await asyncio.to_thread(
            call, s.live, "/v2/eunomia/tenants/new", {"weight": 2.0}, 30.0, "PUT"
        )
        s.demand(status == 503, f"a change is refused with {status}")

    await under_load(s, fault)
    s.demand(s.count.answered == s.count.sent, "every request answered by the last known keys")


async def database_locked(s: Stage) -> None:
    """Another program holds the database."""
    holder = sqlite3.connect(s.folder / "tenants.db")

    async def fault() -> None:
        holder.execute("BEGIN EXCLUSIVE")

    await under_load(s, fault)
    holder.rollback()
    holder.close()
    s.demand(s.count.answered == s.count.sent, "every request answered")


async def network_fails(s: Stage) -> None:
    """A network fails on its input."""

    async def fault() -> None:
        answers = [await ask(s, "index", [99], "INT64") for _ in range(5)]
        s.demand(all(status == 500 for status, _ in answers), f"each told: {answers[0][1]['error'][:70]}")

    await under_load(s, fault)
    s.demand(s.count.answered == s.count.sent, "every other request answered")


async def network_hangs(s: Stage) -> None:
    """A network that would run for days."""

    async def fault() -> None:
        old, began = s.live.workers[0], time.perf_counter()
        status, content = await ask(s, "turns", [10**13], "INT64")
        s.demand(status == 500, f"stopped after {time.perf_counter() - began:.1f} s: {content['error'][:70]}")
        back_s = await worker_back(s, old)
        s.notes.append(f"worker back {back_s:.2f} s later")

    await under_load(s, fault)
    s.demand(s.count.answered == s.count.sent, "every other request answered")


async def network_rubbish(s: Stage) -> None:
    """Not a number, and far more output than there is memory for."""

    async def fault() -> None:
        status, content = await ask(s, "log", [-1.0], "FP32")
        s.demand(status == 200 and content["outputs"][0]["data"] == [None], "NaN is null in JSON")
        status, content = await ask(s, "size", [50_000_000], "INT64")
        s.demand(status in (429, 500, 503), f"200 MB of output: {content['error'][:70]}")

    await under_load(s, fault)
    s.demand(s.count.answered == s.count.sent, "every other request answered")


async def disk_full(s: Stage) -> None:
    """The journal cannot grow; after a while it can again."""

    async def fault() -> None:
        size = sum(p.stat().st_size for p in (s.folder / "ledger").glob("journal-*.log"))
        resource.prlimit(s.live.pid, resource.RLIMIT_FSIZE, (size + 200, resource.RLIM_INFINITY))
        await asyncio.sleep(s.scale.after_s / 3)
        resource.prlimit(s.live.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    await under_load(s, fault)
    s.demand(s.count.reasons["unavailable"] > 0, "new requests refused with 503 meanwhile")
    late = s.count.latency_s and s.count.answered + s.count.reasons["unavailable"] == s.count.sent
    s.demand(bool(late), "all others answered")


async def slow_connections(s: Stage, connections: int = 2000) -> None:
    """Connections that send half a header, or a header and a few bytes of a large body, and then nothing."""
    host, port = s.live.http.split(":")
    held: list[socket.socket] = []
    head = (
        f"POST /v2/models/small/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
        "Content-Length: 600000\r\n\r\n"
    ).encode()

    async def fault() -> None:
        before = memory_bytes(s.live.pid)
        for n in range(connections):
            with contextlib.suppress(OSError):
                line = socket.create_connection((host, int(port)), 5.0)
                line.sendall(head[: 30 + n % 20] if n % 2 else head + b"{" * (n % 1000))
                held.append(line)
            if n % 20 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(1.0)
        grown = (memory_bytes(s.live.pid) - before) / max(len(held), 1)
        s.demand(len(held) == connections, f"{len(held)} connections held, {grown / 1024:.0f} KiB each")

    await under_load(s, fault)
    for line in held:
        line.close()
    s.demand(s.count.answered == s.count.sent, "every other request answered")


FAULTS: dict[str, tuple[str, Callable[[Stage], Coroutine[Any, Any, None]]]] = {
    "worker": ("kill -9 of the worker", worker_killed),
    "server": ("kill -9 of the server", server_killed),
    "database": ("the database is lost", database_lost),
    "lock": ("the database is locked", database_locked),
    "fails": ("a network fails", network_fails),
    "hangs": ("a network hangs", network_hangs),
    "rubbish": ("a network returns rubbish", network_rubbish),
    "disk": ("the disk is full", disk_full),
    "slow": ("slow and half-open connections", slow_connections),
}


def run_one(name: str, scale: Scale) -> list[str]:
    """One fault on a fresh server, as a line of the table."""
    title, fault = FAULTS[name]
    with stage(scale) as s:
        asyncio.run(fault(s))
        s.demand(s.count.silent == 0, "no request without an answer")
        if name != "server":
            state = call(s.live, "/v2/eunomia/state")
            s.demand(state[0] == 200, "server alive")
            stop(s.live)
            small = sum(line[2] == "small" and line[3] in ("hit", "late") for line in ledger_lines(s.folder))
            s.demand(small == s.count.answered, f"ledger: {small} lines for {s.count.answered} answers")
    reasons = ", ".join(f"{reason} {n}" for reason, n in s.count.reasons.items()) or "none"
    return [title, str(s.count.sent), str(s.count.answered), reasons, str(s.count.silent), "; ".join(s.notes),
            "yes" if s.fine else "no"]  # fmt: skip


def soak(minutes: float, scale: Scale) -> list[str]:
    """Load, a killed worker every 20 s, and memory of the front end and of the worker."""
    with stage(scale) as s:
        rows: list[tuple[int, int]] = []

        async def disturb() -> None:
            until = time.perf_counter() + minutes * 60 - 10
            while time.perf_counter() < until:
                await asyncio.sleep(20.0)
                rows.append((memory_bytes(s.live.pid), memory_bytes(s.live.workers[0])))
                old = s.live.workers[0]
                os.kill(old, signal.SIGKILL)
                await worker_back(s, old)

        async def both() -> None:
            await asyncio.gather(steady(s, minutes * 60), disturb())

        asyncio.run(both())
        third = max(len(rows) // 3, 1)
        first, last = np.mean(rows[:third], axis=0) / 2**20, np.mean(rows[-third:], axis=0) / 2**20
    failed = sum(s.count.reasons.values())
    return [
        "",
        f"Soak of {minutes:g} minutes at {scale.rate_per_s:g} requests/s with {len(rows)} killed workers: "
        f"{s.count.sent} sent, {s.count.answered} answered, {failed} failed, {s.count.silent} without an answer. "
        f"Memory of the front end {first[0]:.0f} MiB in the first third, {last[0]:.0f} MiB in the last; "
        f"worker {first[1]:.0f} and {last[1]:.0f} MiB.",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", action="append", choices=sorted(FAULTS))
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--soak", type=float, metavar="MINUTES", default=0.0)
    options = parser.parse_args(arguments)
    scale, watch = SMALL if options.small else Scale(), Watch()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    FAULTS["slow"] = (
        f"{options.connections:,} {FAULTS['slow'][0]}",
        lambda s: slow_connections(s, options.connections),
    )
    rows = []
    for name in options.only or FAULTS:
        rows.append(run_one(name, scale))
        print(" | ".join(rows[-1]), flush=True)
        watch.look()
    head = ["fault", "sent", "answered", "told why not", "no answer", "what was seen", "as promised"]
    lines = [machine_line(), watch.verdict, "", *table(head, rows)]
    if options.soak:
        lines += soak(options.soak, scale)
    print("\n".join(lines))
    if options.write:
        write_part("faults", "Faults under load", lines)


if __name__ == "__main__":
    main()

"""10,000 slow, silent and half-open connections, under load:

A quarter of them says nothing at all, a quarter half a header, a quarter a header and a few bytes of a large body, and
a quarter opens the port of gRPC and says nothing. Meanwhile a tenant sends small pictures at an even pace. Counted:
its answers and their times before, during and after; what the connections cost the front end in memory; how many the
server has ended when its limits (here 10 s for a header, 10 s for a body) have passed. ``--set connections=N``.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.machine import memory_bytes
from benchmarks.serving.stage import Count, Scale, Stage, stage, steady
from benchmarks.table import Cell, Options, Table
from tests.serving.live import ADMIN

LIMIT_S = 10.0
KINDS = ("says nothing", "half a header", "part of a body", "silent on gRPC")
HEAD = (
    f"POST /v2/models/small/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n"
    "Content-Length: 600000\r\n\r\n"
).encode()
ENDED = 'connections_ended{reason="'


def said(n: int) -> bytes:
    """What the n-th connection sends."""
    return (b"", HEAD[: 30 + n % 20], HEAD + b"{" * (n % 1000), b"")[n % len(KINDS)]


async def open_all(s: Stage, count: int) -> list[socket.socket]:
    """Open them as fast as the server takes them, without stopping the load."""
    loop, held = asyncio.get_running_loop(), []
    for n in range(count):
        host, port = (s.live.grpc if n % len(KINDS) == 3 else s.live.http).split(":")
        line = socket.socket()
        line.setblocking(False)
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(loop.sock_connect(line, (host, int(port))), 20.0)
            await loop.sock_sendall(line, said(n))
            held.append(line)
    return held


def ended(lines: Sequence[socket.socket]) -> int:
    """How many the other side has closed."""
    gone = 0
    for line in lines:
        try:
            while content := line.recv(4096):
                del content
            gone += 1
        except BlockingIOError:
            continue
        except OSError:
            gone += 1
    return gone


async def phase(s: Stage, seconds: float, until: asyncio.Task[object] | None = None) -> Count:
    """The steady load alone, counted by itself; for ``seconds``, again until a task is done."""
    s.count = Count()
    await steady(s, seconds)
    while until is not None and not until.done():
        await steady(s, seconds)
    return s.count


async def run(s: Stage, count: int, seconds: float) -> list[list[Cell]]:
    """Before, while they are opened and held, and after."""
    rows: list[list[Cell]] = []
    base = memory_bytes(s.live.pid)

    def row(name: str, c: Count, note: str) -> None:
        ms = np.percentile(c.latency_s or [np.nan], (50, 99)) * 1e3
        memory = (memory_bytes(s.live.pid) - base) / 2**20
        rows.append([name, c.sent, c.answered, c.silent, *ms.tolist(), memory, note])

    row("before", await phase(s, seconds), "")
    began = time.perf_counter()
    opened = asyncio.create_task(open_all(s, count))
    opening = await phase(s, 1.0, opened)
    held, took_s = await opened, time.perf_counter() - began
    row("while they open", opening, f"{len(held)} opened in {took_s:.1f} s")
    row("while they stand", await phase(s, seconds), f"{ended(held)} ended so far")
    await phase(s, LIMIT_S + 3.0)
    passed = await phase(s, seconds)
    row("when their time has passed", passed, f"{ended(held)} of {len(held)} ended by the server")
    for line in held:
        line.close()
    status, _ = await s.call("/v2/eunomia/state")
    row("after", await phase(s, seconds), "server alive" if status == 200 else "**server does not answer**")
    return rows


def measure(options: Options) -> Iterator[Table]:
    """A row for each phase; the quick run has 500 connections."""
    count, seconds = (500, 3.0) if options.quick else (int(options.given.get("connections", 10_000)), 10.0)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    bench = Bench("connections", options)
    with stage(Scale(20.0), head_s=LIMIT_S, body_s=LIMIT_S) as s:
        rows = asyncio.run(run(s, count, seconds))
        found = {name.partition(ENDED)[2][:-2]: n for name, n in s.live.metrics().items() if ENDED in name}
    note = ", ".join(f"{reason} {number:.0f}" for reason, number in found.items())
    columns = "; sent; answered; no answer; p50, ms|.0f; p99, ms|.0f; front end's memory, MiB|+.0f; "
    yield bench.table("all", columns, rows, [f"The server's own count of ends: {note}."])

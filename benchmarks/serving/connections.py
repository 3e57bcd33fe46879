"""10,000 slow, silent and half-open connections, under load:

A quarter of them says nothing at all, a quarter half a header, a quarter a header and a few bytes of a large body, and
a quarter opens the port of gRPC and says nothing. Meanwhile a tenant sends small pictures at an even pace. Counted:
its answers and their times before, during and after; what the connections cost the front end in memory; how many the
server has ended when its limits (here 10 s for a header, 10 s for a body) have passed. ``--connections N``,
``--small`` (500), ``--write`` as elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.serving.command import part
from benchmarks.serving.machine import Watch, memory_bytes
from benchmarks.serving.page import table
from benchmarks.serving.stage import KEY, Count, Scale, Stage, call, stage, steady
from benchmarks.table import Options, Table

LIMIT_S = 10.0
KINDS = ("says nothing", "half a header", "part of a body", "silent on gRPC")
HEAD = (
    f"POST /v2/models/small/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: 600000\r\n\r\n"
).encode()


def said(n: int) -> bytes:
    """What the n-th connection sends."""
    return (b"", HEAD[: 30 + n % 20], HEAD + b"{" * (n % 1000), b"")[n % len(KINDS)]


async def open_all(s: Stage, count: int) -> list[socket.socket]:
    """Open them as fast as the server takes them, without stopping the load."""
    host, port = s.live.http.split(":")
    grpc_port = s.live.grpc.split(":")[1]
    loop, held = asyncio.get_running_loop(), []
    for n in range(count):
        line = socket.socket()
        line.setblocking(False)
        with contextlib.suppress(OSError, TimeoutError):
            target = grpc_port if n % len(KINDS) == 3 else port
            await asyncio.wait_for(loop.sock_connect(line, (host, int(target))), 20.0)
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


async def phase(s: Stage, seconds: float) -> Count:
    """The steady load alone, counted by itself."""
    s.count = Count()
    await steady(s, seconds)
    return s.count


async def run(s: Stage, count: int, seconds: float) -> list[list[str]]:
    """Before, while they are opened and held, and after."""
    rows, base = [], memory_bytes(s.live.pid)

    def row(name: str, c: Count, note: str) -> None:
        ms = [float(np.percentile(c.latency_s, q)) * 1e3 if c.latency_s else float("nan") for q in (50, 99)]
        memory = (memory_bytes(s.live.pid) - base) / 2**20
        rows.append([name, str(c.sent), str(c.answered), str(c.silent), f"{ms[0]:.0f}", f"{ms[1]:.0f}",
                     f"{memory:+.0f}", note])  # fmt: skip

    row("before", await phase(s, seconds), "")
    opened = asyncio.create_task(open_all(s, count))
    began = time.perf_counter()
    parts = []
    while not opened.done():
        parts.append(await phase(s, 1.0))
    held, took_s = await opened, time.perf_counter() - began
    row("while they open", merged(parts), f"{len(held)} opened in {took_s:.1f} s")
    row("while they stand", await phase(s, seconds), f"{ended(held)} ended so far")
    await phase(s, LIMIT_S + 3.0)
    row(
        "when their time has passed",
        await phase(s, seconds),
        f"{ended(held)} of {len(held)} ended by the server",
    )
    for line in held:
        line.close()
    status, _ = await asyncio.to_thread(call, s.live, "/v2/eunomia/state")
    row("after", await phase(s, seconds), "server alive" if status == 200 else "**server does not answer**")
    return rows


def merged(parts: Sequence[Count]) -> Count:
    """Sums of several counts."""
    whole = Count()
    for one in parts:
        whole.sent, whole.answered, whole.silent = (
            whole.sent + one.sent, whole.answered + one.answered, whole.silent + one.silent
        )  # fmt: skip
        whole.latency_s += one.latency_s
        whole.reasons += one.reasons
    return whole


def call_metrics(s: Stage) -> str:
    """Connections that the server has ended, by reason."""
    import urllib.request

    request = urllib.request.Request(
        f"http://{s.live.http}/metrics", headers={"authorization": f"Bearer {KEY}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        found = [line for line in answer.read().decode().splitlines() if "connections_ended{" in line]
    return ", ".join(line.partition("{")[2].replace("}", "").replace("reason=", "") for line in found)


def measure(options: Options) -> Iterator[Table]:
    """One part of the page of the live server."""
    count, seconds = (500, 3.0) if options.quick else (int(options.given.get("connections", 10_000)), 10.0)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    watch = Watch()
    with stage(Scale(20.0), head_s=LIMIT_S, body_s=LIMIT_S) as s:
        rows = asyncio.run(run(s, count, seconds))
        metrics = call_metrics(s)
    watch.look()
    head = ["", "sent", "answered", "no answer", "p50, ms", "p99, ms", "front end's memory, MiB", ""]
    yield part(["", *table(head, rows), "", f"The server's own count of ends: {metrics}."], watch)

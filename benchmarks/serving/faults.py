"""What does the server do when things break, under load?

A tenant sends small pictures all the time; meanwhile one thing breaks. Counted: requests sent, answered, refused or
failed with a reason, and those without any answer (there must be none), how soon a lost worker serves again, and
whether the ledger holds exactly one line per accepted request. ``--only NAME`` runs some. Slow connections and the
soak have commands of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from textwrap import shorten
from typing import Any

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import start, stop
from benchmarks.serving.machine import memory_bytes
from benchmarks.serving.stage import BACK_S, SMALL, Scale, Stage, stage, under_load, worker_back
from benchmarks.serving.wall_clock import WallClockJumps
from benchmarks.table import Cell, Options, Table
from tests.serving.postgres import postgres

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
    s.all_answered("every request")


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
    written = sum(line[3] in ("hit", "late") for line in s.ledger())
    s.demand(written >= s.count.answered, f"ledger: {written} lines for {s.count.answered} answers")
    again = start(s.folder / "server.toml")
    try:
        s.demand(again.call("/v2/models/small")[0] == 200, "serves again after a start")
    finally:
        stop(again)


async def database_lost(s: Stage) -> None:
    """The file of tenants is overwritten with rubbish."""

    async def fault() -> None:
        for file in s.folder.glob("tenants.db*"):
            file.write_bytes(b"rubbish " * 1000)
        status, _ = await s.call("/v2/eunomia/tenants/new", {"weight": 2.0}, "PUT")
        s.demand(status == 503, f"a change is refused with {status}")

    await under_load(s, fault)
    s.all_answered("every request, by the last known keys,")


async def database_locked(s: Stage) -> None:
    """Another program holds the database."""
    holder = sqlite3.connect(s.folder / "tenants.db")

    async def fault() -> None:
        holder.execute("BEGIN EXCLUSIVE")

    await under_load(s, fault)
    holder.rollback()
    holder.close()
    s.all_answered("every request")


async def network_fails(s: Stage) -> None:
    """A network fails on its input."""

    async def fault() -> None:
        answers = [await s.ask("index", [99], "INT64") for _ in range(5)]
        s.demand(
            all(status == 500 for status, _ in answers), f"each told: {shorten(answers[0][1]['error'], 70)}"
        )

    await under_load(s, fault)
    s.all_answered("every other request")


async def network_hangs(s: Stage) -> None:
    """A network that would run for days."""

    async def fault() -> None:
        old, began = s.live.workers[0], time.perf_counter()
        status, content = await s.ask("turns", [10**13], "INT64")
        s.demand(
            status == 500,
            f"stopped after {time.perf_counter() - began:.1f} s: {shorten(content['error'], 70)}",
        )
        back_s = await worker_back(s, old)
        s.notes.append(f"worker back {back_s:.2f} s later")

    await under_load(s, fault)
    s.all_answered("every other request")


async def network_rubbish(s: Stage) -> None:
    """Not a number, and far more output than there is memory for."""

    async def fault() -> None:
        status, content = await s.ask("log", [-1.0], "FP32")
        s.demand(status == 200 and content["outputs"][0]["data"] == [None], "NaN is null in JSON")
        status, content = await s.ask("size", [50_000_000], "INT64")
        s.demand(status in (429, 500, 503), f"200 MB of output: {shorten(content['error'], 70)}")

    await under_load(s, fault)
    s.all_answered("every other request")


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


async def clock_jumps(s: Stage) -> None:
    """The wall clock steps a day ahead, two days back, and home, while the clock that only rises goes on."""
    wall = s.wall
    assert wall is not None

    async def fault() -> None:
        for seconds in (86_400.0, -86_400.0, 0.0):
            wall.jump(seconds)
            await asyncio.sleep(s.scale.after_s / 6)

    await under_load(s, fault)
    s.all_answered("every request")
    stamps = np.array([line[0] for line in s.ledger()])
    s.demand(
        float(np.ptp(stamps)) > 1.5 * 86_400.0, "the server's wall clock did jump (stamps in the ledger)"
    )
    late = sum(line[3] != "hit" for line in s.ledger())
    s.demand(late == 0, "no deadline was missed or given up for it")


async def postgres_killed(s: Stage) -> None:
    """kill -9 of every process of PostgreSQL that serves a connection: it restarts, and the server comes back to it."""
    database = s.database
    assert database is not None

    async def fault() -> None:
        killed = database.kill_connections()
        s.demand(killed > 0, f"{killed} connections killed")
        began, statuses = time.perf_counter(), Counter[int]()
        while statuses[200] == 0 and time.perf_counter() - began < 20.0:
            status, _ = await s.call("/v2/eunomia/tenants/new", {"weight": 2.0}, "PUT")
            statuses[status] += 1
            await asyncio.sleep(0.05)
        back_s = time.perf_counter() - began
        s.demand(
            statuses[200] == 1,
            f"changes are taken again after {back_s:.2f} s, {statuses[503]} refused before",
        )

    await under_load(s, fault)
    s.all_answered("every request, by the last known keys,")


@contextlib.contextmanager
def prepared(name: str, scale: Scale) -> Iterator[Stage | None]:
    """The server that a fault needs; None where this machine lacks what it takes."""
    with contextlib.ExitStack() as stack:
        wall = WallClockJumps.build() if name == "clock" else None
        database = stack.enter_context(postgres()) if name == "postgres" else None
        if {"clock": wall, "postgres": database}.get(name, scale) is None:
            yield None
            return
        more = {"database": database.url} if database else {}
        s = stack.enter_context(stage(scale, wall.environment if wall else None, **more))
        s.wall, s.database = wall, database
        yield s


FAULTS: dict[str, tuple[str, Callable[[Stage], Coroutine[Any, Any, None]]]] = {
    "worker": ("kill -9 of the worker", worker_killed),
    "server": ("kill -9 of the server", server_killed),
    "database": ("the database is lost", database_lost),
    "lock": ("the database is locked", database_locked),
    "fails": ("a network fails", network_fails),
    "hangs": ("a network hangs", network_hangs),
    "rubbish": ("a network returns rubbish", network_rubbish),
    "disk": ("the disk is full", disk_full),
    "clock": ("the wall clock jumps by a day, and back", clock_jumps),
    "postgres": ("kill -9 of the database's connections", postgres_killed),
}


def run_one(name: str, scale: Scale) -> list[Cell]:
    """One fault on a fresh server, as a line of the table."""
    title, fault = FAULTS[name]
    with prepared(name, scale) as s:
        if s is None:
            return [title, *[None] * 4, "not run: this machine lacks a C compiler or PostgreSQL", None]
        asyncio.run(fault(s))
        s.demand(s.count.silent == 0, "no request without an answer")
        if name != "server":
            s.demand(s.live.call("/v2/eunomia/state")[0] == 200, "server alive")
            stop(s.live)
            small = sum(line[3] in ("hit", "late") for line in s.ledger())
            s.demand(small == s.count.answered, f"ledger: {small} lines for {s.count.answered} answers")
    c = s.count
    reasons = ", ".join(f"{reason} {n}" for reason, n in c.reasons.items()) or "none"
    return [title, c.sent, c.answered, reasons, c.silent, "; ".join(s.notes), s.fine]


def measure(options: Options) -> Iterator[Table]:
    """A row for each fault."""
    bench, rows = Bench("faults", options), []
    for name in options.chosen(FAULTS):
        rows.append(run_one(name, SMALL if options.quick else Scale()))
        print(*rows[-1], sep=" | ", flush=True)
        bench.look()
    columns = "fault; sent; answered; told why not; no answer; what was seen; as promised"
    yield bench.table("all", columns, rows)

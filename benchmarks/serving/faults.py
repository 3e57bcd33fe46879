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
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import started
from benchmarks.serving.machine import memory_bytes
from benchmarks.serving.stage import BACK_S, SMALL, Scale, Stage, stage, under_load, worker_back
from benchmarks.serving.wall_clock import WallClockJumps
from benchmarks.table import Cell, Options, Table
from tests.serving.postgres import postgres

After = Callable[[], object] | None  # what is left to do or to check when the load has ended
Fault = Callable[[Stage], Coroutine[Any, Any, After]]
LEFT_S = 20.0  # until a lost database takes changes again


async def worker_killed(s: Stage) -> After:
    """kill -9 of the worker, three times."""
    for _ in range(3):
        old = s.live.workers[0]
        os.kill(old, signal.SIGKILL)
        back_s = await worker_back(s, old)
        s.demand(back_s <= BACK_S, f"back after {back_s:.2f} s")
    return None


async def server_killed(s: Stage) -> After:
    """kill -9 of the server; the journal afterwards."""
    workers = Path(f"/proc/{s.live.pid}/task/{s.live.pid}/children").read_text().split()
    s.live.process.kill()
    s.live.process.wait()
    await asyncio.sleep(1.0)
    s.demand(not any(memory_bytes(int(pid)) for pid in workers), "no worker process is left behind")
    return partial(started_again, s)


def started_again(s: Stage) -> None:
    """The ledger is whole, and the server serves."""
    written = sum(line[3] in ("hit", "late") for line in s.ledger())
    s.demand(written >= s.count.answered, f"ledger: {written} lines for {s.count.answered} answers")
    with started(s.folder / "server.toml") as again:
        s.demand(again.ask("/v2/models/small")[0] == 200, "serves again after a start")


async def changed(s: Stage) -> int:
    """Status of a change of tenants."""
    status, _ = await s.call("/v2/eunomia/tenants/new", {"weight": 2.0}, "PUT")
    return status


async def database_lost(s: Stage) -> After:
    """The file of tenants is overwritten with rubbish."""
    for file in s.folder.glob("tenants.db*"):
        file.write_bytes(b"rubbish " * 1000)
    status = await changed(s)
    s.demand(status == 503, f"a change is refused with {status}")
    return None


async def database_locked(s: Stage) -> After:
    """Another program holds the database."""
    holder = sqlite3.connect(s.folder / "tenants.db")
    holder.execute("BEGIN EXCLUSIVE")
    return holder.close


async def network_fails(s: Stage) -> After:
    """A network fails on its input."""
    answers = [await s.ask("index", [99], "INT64") for _ in range(5)]
    s.demand(all(status == 400 for status, _ in answers), f"each told: {shorten(answers[0][1]['error'], 70)}")
    return None


async def network_hangs(s: Stage) -> After:
    """A network that would run for days."""
    old, began = s.live.workers[0], time.perf_counter()
    status, content = await s.ask("turns", [10**13], "INT64")
    took_s = time.perf_counter() - began
    s.demand(status == 413, f"ended after {took_s:.1f} s: {shorten(content['error'], 70)}")
    s.demand(s.live.workers[0] == old, "its process stays")
    return None


async def network_rubbish(s: Stage) -> After:
    """Not a number, and far more output than there is memory for."""
    status, content = await s.ask("log", [-1.0], "FP32")
    s.demand(status == 200 and content["outputs"][0]["data"] == [None], "NaN is null in JSON")
    status, content = await s.ask("size", [50_000_000], "INT64")
    s.demand(status == 413, f"200 MB of output: {shorten(content['error'], 70)}")
    return None


async def disk_full(s: Stage) -> After:
    """The journal cannot grow; after a while it can again."""
    size, no_limit = sum(p.stat().st_size for p in s.folder.glob("ledger/*.log")), resource.RLIM_INFINITY
    resource.prlimit(s.live.pid, resource.RLIMIT_FSIZE, (size + 200, no_limit))
    await asyncio.sleep(s.scale.after_s / 3)
    resource.prlimit(s.live.pid, resource.RLIMIT_FSIZE, (no_limit, no_limit))
    return partial(refused_meanwhile, s)


def refused_meanwhile(s: Stage) -> None:
    """Requests that cannot be written down are refused, all others answered."""
    refused = s.count.reasons["unavailable"]
    s.demand(refused > 0, "new requests refused with 503 meanwhile")
    s.demand(0 < s.count.answered == s.count.sent - refused, "all others answered")


async def clock_jumps(s: Stage) -> After:
    """The wall clock steps a day ahead, two days back, and home, while the clock that only rises goes on."""
    assert s.wall is not None
    for seconds in (86_400.0, -86_400.0, 0.0):
        s.wall.jump(seconds)
        await asyncio.sleep(s.scale.after_s / 6)
    return partial(jumped, s)


def jumped(s: Stage) -> None:
    """The stamps of the ledger jump, and nothing else."""
    stamps = np.array([line[0] for line in s.ledger()])
    far = float(np.ptp(stamps)) > 1.5 * 86_400.0
    s.demand(far, "the server's wall clock did jump (stamps in the ledger)")
    s.demand(all(line[3] == "hit" for line in s.ledger()), "no deadline was missed or given up for it")


async def postgres_killed(s: Stage) -> After:
    """kill -9 of every process of PostgreSQL that serves a connection: it restarts, and the server comes back to it."""
    assert s.database is not None
    killed = s.database.kill_connections()
    s.demand(killed > 0, f"{killed} connections killed")
    began, statuses = time.perf_counter(), Counter[int]()
    while statuses[200] == 0 and time.perf_counter() - began < LEFT_S:
        statuses[await changed(s)] += 1
        await asyncio.sleep(0.05)
    back_s = time.perf_counter() - began
    taken = f"changes are taken again after {back_s:.2f} s, {statuses[503]} refused before"
    s.demand(statuses[200] == 1, taken)
    return None


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


FAULTS: dict[str, tuple[str, Fault, str]] = {  # title, what happens, and which requests are all answered
    "worker": ("kill -9 of the worker", worker_killed, "every request"),
    "server": ("kill -9 of the server", server_killed, ""),
    "database": ("the database is lost", database_lost, "every request, by the last known keys,"),
    "lock": ("the database is locked", database_locked, "every request"),
    "fails": ("a network fails", network_fails, "every other request"),
    "hangs": ("a network hangs", network_hangs, "every other request"),
    "rubbish": ("a network returns rubbish", network_rubbish, "every other request"),
    "disk": ("the disk is full", disk_full, ""),
    "clock": ("the wall clock jumps by a day, and back", clock_jumps, "every request"),
    "postgres": (
        "kill -9 of the database's connections",
        postgres_killed,
        "every request, by the last known keys,",
    ),
}


def run_one(name: str, scale: Scale) -> list[Cell]:
    """One fault on a fresh server, as a line of the table."""
    title, fault, answered = FAULTS[name]
    with prepared(name, scale) as s:
        if s is None:
            return [title, *[None] * 4, "not run: this machine lacks a C compiler or PostgreSQL", None]
        after = asyncio.run(under_load(s, lambda: fault(s)))
        c = s.count
        if answered:
            s.demand(c.answered == c.sent, f"{answered} answered")
        if after is not None:
            after()
        s.demand(c.silent == 0, "no request without an answer")
        if name != "server":
            s.demand(s.live.ask("/v2/eunomia/state")[0] == 200, "server alive")
            s.live.process.terminate()
            s.live.process.wait()
            small = sum(line[3] in ("hit", "late") for line in s.ledger())
            s.demand(small == c.answered, f"ledger: {small} lines for {c.answered} answers")
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

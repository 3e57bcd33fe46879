"""Half an hour of load with killed workers, and memory all the while:

Small pictures at an even pace; a worker is killed every 20 s; every 30 s a network is loaded anew, a slow connection
is opened and a policy is put in. Memory of the front end and of the worker (anonymous pages) every 5 s, drawn in
docs/images/serving-soak.svg. Judged: every request one answer, one line of the ledger for each, and the front end's
memory: the slope of a line through the second half of the run. ``--set minutes=M``; the quick run has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.machine import CpuTime, cpu_time, memory_bytes
from benchmarks.serving.stage import BACK_S, Scale, Stage, stage, steady, worker_back
from benchmarks.table import Cell, Options, Table
from eunomia.report.charts import new_axes

PLOT = Path(__file__).parents[2] / "docs" / "images" / "serving-soak.svg"
EVERY_S, KILL_S, CHANGE_S = 5.0, 20.0, 30.0
GROWTH_MIB_PER_HOUR = 20.0  # of the front end; less counts as bounded
Sample = tuple[float, float, float]  # seconds, MiB of the front end, MiB of the worker
Away = tuple[float, CpuTime]  # seconds without a worker; what the new one ran, and waited for a core


async def sample(s: Stage, samples: list[Sample]) -> None:
    """Read memory until cancelled."""
    began = time.perf_counter()
    while True:
        workers = s.live.workers
        worker = memory_bytes(workers[0]) / 2**20 if workers else 0.0
        samples.append((time.perf_counter() - began, memory_bytes(s.live.pid) / 2**20, worker))
        await asyncio.sleep(EVERY_S)


async def kill_workers(s: Stage, until: float) -> list[Away]:
    """kill -9 again and again; how long each was away."""
    away: list[Away] = []
    while time.perf_counter() + KILL_S < until:
        await asyncio.sleep(KILL_S)
        old = s.live.workers[0]
        os.kill(old, signal.SIGKILL)
        back_s = await worker_back(s, old)
        away.append((back_s, cpu_time(s.live.workers[0]) if s.live.workers else CpuTime(0.0, 0.0)))
    return away


async def change(s: Stage, until: float) -> int:
    """Networks, policies and half-open connections come and go; how many rounds."""
    host, port = s.live.http.split(":")
    rounds = 0
    while time.perf_counter() + CHANGE_S < until:
        await asyncio.sleep(CHANGE_S)
        policy = ("edf+f", "weighted_fair")[rounds % 2]
        await s.call("/v2/repository/models/log/load", {})
        await s.call("/v2/eunomia/policy", {"name": policy}, "PUT")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5.0) as line:
            line.sendall(b"POST /v2/models/small/infer HTTP/1.1\r\n")
        rounds += 1
    return rounds


async def run(s: Stage, seconds: float) -> tuple[list[Sample], list[Away], int]:
    """Everything at once."""
    samples: list[Sample] = []
    watcher = asyncio.create_task(sample(s, samples))
    until = time.perf_counter() + seconds - 10.0
    _, away, rounds = await asyncio.gather(steady(s, seconds), kill_workers(s, until), change(s, until))
    watcher.cancel()
    return samples, away, rounds


def slope_mib_per_hour(samples: Sequence[Sample]) -> float:
    """Of the front end over the second half; nan with fewer than three samples."""
    half = np.array([(t, front) for t, front, _ in samples[len(samples) // 2 :]])
    return float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) * 3600.0 if len(half) > 2 else float("nan")


def drawn(samples: Sequence[Sample]) -> str:
    """Memory over time, as SVG."""
    axes, text = new_axes(), io.StringIO()
    minutes, front, worker = np.array(samples).T / [[60.0], [1.0], [1.0]]
    axes.plot(minutes, front, label="front end")
    axes.plot(minutes, worker, label=f"worker (killed every {KILL_S:.0f} s)")
    axes.set(xlabel="minutes", ylabel="memory of its own, MiB", ylim=(0.0, None))
    axes.legend()
    axes.get_figure().savefig(text, format="svg", metadata={"Date": None})  # type: ignore[union-attr]
    return text.getvalue()


def facts(s: Stage, samples: Sequence[Sample], away: Sequence[Away], rounds: int) -> list[list[Cell]]:
    """What was counted, and whether it is as promised."""
    c, front = s.count, [mib for _, mib, _ in samples]
    back_s, ran_s, waited_s = np.array([(t, cpu.ran_s, cpu.waited_s) for t, cpu in away]).reshape(-1, 3).T
    slope, worst_s = slope_mib_per_hour(samples), float(back_s.max(initial=0.0))
    written = sum(line[3] in ("hit", "late") for line in s.ledger())
    reasons = ", ".join(f"{reason} {n}" for reason, n in c.reasons.items())
    failed = f"{c.reasons.total()} failed with a reason" + f" ({reasons})" * bool(reasons)
    older = " (older ones are in its snapshot)" * (written != c.answered)
    middle = [float(np.median(values)) if len(values) else np.nan for values in (back_s, ran_s, waited_s)]
    ran = f"ran {middle[1]:.2f} s, waited {middle[2]:.2f} s for a core (medians)"
    back = f"{middle[0]:.2f} s (median), {worst_s:.2f} s at worst; target {BACK_S:g} s"
    memory = f"{front[0]:.0f} MiB at the start, {max(front):.0f} at most, {front[-1]:.0f} at the end"
    memory += f"; {slope:+.1f} MiB an hour over the second half"
    return [
        ["killed workers", len(away), None],
        ["rounds of networks, connections and policies", rounds, None],
        ["requests", f"{c.sent} sent, {c.answered} answered, {failed}, {c.silent} silent", c.silent == 0],
        ["worker back", back, worst_s <= BACK_S],
        ["the new worker by then", ran, None],
        ["ledger", f"{written} lines for {c.answered} answers in its journal{older}", None],
        ["memory of the front end", memory, not slope > GROWTH_MIB_PER_HOUR],
    ]


def measure(options: Options) -> Iterator[Table]:
    """Facts, and a picture of the memory."""
    minutes = 1.0 if options.quick else float(options.given.get("minutes", 30.0))
    bench = Bench("soak", options)
    with stage(Scale(rate_per_s=20.0)) as s:
        samples, away, rounds = asyncio.run(run(s, minutes * 60.0))
        rows = facts(s, samples, away, rounds)
    columns = f"{minutes:g} minutes at {s.scale.rate_per_s:g} requests/s; what was seen; as promised"
    made = bench.table("all", columns, rows, [f"![memory](../docs/images/{PLOT.name})"])
    yield replace(made, files={f"docs/images/{PLOT.name}": drawn(samples)})

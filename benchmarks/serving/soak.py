"""Half an hour of load with killed workers, and memory all the while:

Small pictures at an even pace; a worker is killed every 20 s; every 30 s a network is loaded anew, a slow connection
is opened and a policy is put in. Memory of the front end and of the worker (anonymous pages) every 5 s, drawn in
docs/images/serving-soak.svg. Judged: every request one answer, one line of the ledger for each, and the front end's
memory: the slope of a line through the second half of the run. ``--minutes M``, ``--small`` (1 minute), ``--write``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.serving.command import part
from benchmarks.serving.machine import CpuTime, Watch, cpu_time, memory_bytes
from benchmarks.serving.stage import BACK_S, Scale, Stage, call, ledger_lines, stage, steady, worker_back
from benchmarks.table import Options, Table

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
        await asyncio.to_thread(call, s.live, "/v2/repository/models/log/load", {})
        await asyncio.to_thread(call, s.live, "/v2/eunomia/policy", {"name": policy}, 30.0, "PUT")
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


def median(values: Sequence[float]) -> float:
    """nan of nothing."""
    return float(np.median(values)) if values else float("nan")


def svg(samples: Sequence[Sample]) -> str:
    """Two lines over time."""
    width, height, left, below = 720, 260, 50, 30
    data = np.array(samples)
    end_s, top = max(float(data[-1, 0]), 1.0), max(float(data[:, 1:].max()) * 1.1, 1.0)

    def points(column: int) -> str:
        x = left + data[:, 0] / end_s * (width - left - 10)
        y = height - below - data[:, column] / top * (height - below - 10)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    ticks = ""
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = f"{height - below - share * (height - below - 10):.0f}"
        ticks += f'<text x="{left - 6}" y="{y}" text-anchor="end">{share * top:.0f}</text>'
        ticks += f'<line x1="{left}" x2="{width - 10}" y1="{y}" y2="{y}" stroke="#ddd"/>'
    for share in (0.0, 0.5, 0.95):
        x = f"{left + share * (width - left - 10):.0f}"
        ticks += f'<text x="{x}" y="{height - 10}" text-anchor="middle">{share * end_s / 60:.0f} min</text>'
    box = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}><title>Memory during the soak, MiB</title>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{ticks}'
        f'<polyline points="{points(1)}" fill="none" stroke="#0b6e99" stroke-width="1.5"/>'
        f'<polyline points="{points(2)}" fill="none" stroke="#c2570c" stroke-width="1.5"/>'
        f'<text x="{left + 8}" y="20" fill="#0b6e99">front end, MiB</text>'
        f'<text x="{left + 110}" y="20" fill="#c2570c">worker, MiB (killed every {KILL_S:.0f} s)</text></svg>\n'
    )


def report(
    s: Stage, samples: Sequence[Sample], away: Sequence[Away], rounds: int, minutes: float
) -> list[str]:
    """Counts and verdicts."""
    c, failed = s.count, sum(s.count.reasons.values())
    written = sum(line[2] == "small" and line[3] in ("hit", "late") for line in ledger_lines(s.folder))
    slope, worst = slope_mib_per_hour(samples), max((back for back, _ in away), default=float("nan"))
    bounded = not slope > GROWTH_MIB_PER_HOUR
    return [
        f"{minutes:g} minutes at {s.scale.rate_per_s:g} requests/s, {len(away)} killed workers, {rounds} rounds of "
        f"changes: {c.sent} sent, {c.answered} answered, {failed} failed with a reason "
        f"({', '.join(f'{r} {n}' for r, n in c.reasons.items()) or 'none'}), {c.silent} without an answer.",
        f"Worker back after {median([back for back, _ in away]):.2f} s (median), {worst:.2f} s at worst "
        f"(target {BACK_S:g} s: {'met' if worst <= BACK_S else '**not met**'}); the new process ran "
        f"{median([cpu.ran_s for _, cpu in away]):.2f} s of it and waited "
        f"{median([cpu.waited_s for _, cpu in away]):.2f} s for a core (medians).",
        f"Ledger: {written} lines for {c.answered} answers in its journal"
        f"{'.' if written == c.answered else ' (older ones are in its snapshot).'}",
        f"Front end {samples[0][1]:.0f} MiB at the start, {max(f for _, f, _ in samples):.0f} at most, "
        f"{samples[-1][1]:.0f} at the end; {slope:+.1f} MiB an hour over the second half: "
        f"{'bounded' if bounded else '**it grows**'}.",
    ]  # fmt: skip


def measure(options: Options) -> Iterator[Table]:
    """One part of the page of the live server."""
    minutes, watch = 1.0 if options.quick else float(options.given.get("minutes", 30.0)), Watch()
    with stage(Scale(rate_per_s=20.0)) as s:
        samples, away, rounds = asyncio.run(run(s, minutes * 60.0))
        lines = report(s, samples, away, rounds, minutes)
    watch.look()
    made = part(["", *lines, "", f"![memory](../docs/images/{PLOT.name})"], watch)
    yield replace(made, files={f"docs/images/{PLOT.name}": svg(samples)})

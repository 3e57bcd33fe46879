"""Load with killed workers, floods, reloads and upgrades, half an hour of it, and memory all the while:

Small pictures at an even pace; a worker is killed every 20 s; every 30 s a network gets a newer version, a slow
connection is opened, a policy is put in, and another tenant floods for 5 s, with inputs of all sizes. In the first half
a new process takes over the sockets every minute. Memory of the front end and of the worker (anonymous pages) every
5 s, drawn in docs/images/serving-soak.svg. Judged: every request one answer, one line of the ledger for each whichever
process gave it, 99 % of the answers within a second, each older process gone by itself, and the front end's memory: the
slope of a line through the second half of the run, which one process serves. ``--set minutes=M``: 10 show most, 120 are
the full soak; the quick run has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import started
from benchmarks.serving.machine import CpuTime, cpu_time, memory_bytes
from benchmarks.serving.stage import BACK_S, SHAPE, Scale, Stage, stage, steady, worker_back
from benchmarks.serving.strange import packed
from benchmarks.table import Cell, Options, Table
from eunomia.report.charts import new_axes
from eunomia.serving.observe.ledger import Ledger
from eunomia.serving.tenants.grants import hash_key
from tests.serving.live import ADMIN, SILVER
from tests.serving.process import ports

PLOT = Path(__file__).parents[2] / "docs" / "images" / "serving-soak.svg"
EVERY_S, KILL_S, CHANGE_S, FLOOD_S, UPGRADE_S = 5.0, 20.0, 30.0, 5.0, 60.0
CROWD = 8  # of the tenant that floods
HIT_S, LATE_S, SERVED = 0.05, 1.0, 0.99  # a worker that is killed is away for a third of a second
TENANTS = [
    {"name": "operator", "role": "admin", "key_sha256": [hash_key(ADMIN)],
     "objectives": [{"model": "*", "deadline_ms": HIT_S * 1e3}]},
    {"name": "bronze", "key_sha256": [hash_key(SILVER)], "objectives": [{"model": "*", "deadline_ms": 1000.0}]},
]  # fmt: skip
GONE_S = 60.0  # with the time to drain
GROWTH_MIB_PER_HOUR = 20.0  # of the front end; less counts as bounded
Sample = tuple[float, float, float]  # seconds, MiB of the front end, MiB of the worker
Handover = tuple[float, float]  # seconds until the new process served, and until the old one was gone
Away = tuple[float, CpuTime]  # seconds without a worker; what the new one ran, and waited for a core


async def sample(s: Stage, samples: list[Sample], bench: Bench) -> None:
    """Read memory, and how busy the machine is, until cancelled."""
    began = time.perf_counter()
    while True:
        workers = s.live.workers
        worker = memory_bytes(workers[0]) / 2**20 if workers else 0.0
        samples.append((time.perf_counter() - began, memory_bytes(s.live.pid) / 2**20, worker))
        bench.look()
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


async def flood(s: Stage, seconds: float) -> Counter[int]:
    """Another tenant's crowd, as fast as it is answered; what it was told."""
    import aiohttp

    told, rng, end_s = Counter[int](), np.random.default_rng(0), time.perf_counter() + seconds

    async def one() -> None:
        while time.perf_counter() < end_s:
            size = int(2.0 ** rng.uniform(0.0, 17.0))
            model, name, shape = ("small", "image", SHAPE) if size % 2 else ("versions", "x", [size])
            body, header = packed(name, rng.random(shape, np.float32))
            headers = {"authorization": f"Bearer {SILVER}"} | header
            url = f"http://{s.live.http}/v2/models/{model}/infer"
            with contextlib.suppress(aiohttp.ClientError):
                async with session.post(url, data=body, headers=headers) as answer:
                    await answer.read()
                    told[answer.status] += 1

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(one() for _ in range(CROWD)))
    return told


async def upgrade(s: Stage, seconds: float, servers: contextlib.ExitStack) -> list[Handover]:
    """For the first half, a new process takes over again and again; inf = the old one has not left by itself."""
    found, until = list[Handover](), time.perf_counter() + seconds / 2.0
    pause_s = min(UPGRADE_S, seconds / 6.0)
    while time.perf_counter() + pause_s < until:
        await asyncio.sleep(pause_s)
        old, began = s.live, time.perf_counter()
        taking = started(s.folder / "server.toml", more=["--takeover"])
        s.live = await asyncio.to_thread(servers.enter_context, taking)
        served_s = time.perf_counter() - began
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(old.process.wait, GONE_S)
        gone = old.process.poll() == 0
        found.append((served_s, time.perf_counter() - began if gone else float("inf")))
    return found


async def change(s: Stage, until: float, models: Path) -> tuple[int, Counter[int]]:
    """Versions, policies, half-open connections and floods come and go; how many rounds, what the flood was told."""
    host, port = s.live.http.split(":")
    rounds, told = 0, Counter[int]()
    while time.perf_counter() + CHANGE_S + FLOOD_S < until or not rounds:
        put_version(models / "versions", s.folder / "log.onnx", rounds + 1)
        await s.call("/v2/repository/models/versions/load", {})
        told += await flood(s, FLOOD_S)
        await asyncio.sleep(CHANGE_S - FLOOD_S)
        policy = ("edf+f", "weighted_fair")[rounds % 2]
        await s.call("/v2/eunomia/policy", {"name": policy}, "PUT")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5.0) as line:
            line.sendall(b"POST /v2/models/small/infer HTTP/1.1\r\n")
        rounds += 1
    return rounds, told


def put_version(versions: Path, network: Path, number: int) -> None:
    """A newer version of the same network; the one before the last goes."""
    (versions / str(number)).mkdir(parents=True)
    shutil.copy(network, versions / str(number) / "model.onnx")
    shutil.rmtree(versions / str(number - 2), ignore_errors=True)


async def run(
    s: Stage, seconds: float, models: Path, servers: contextlib.ExitStack, bench: Bench
) -> tuple[list[Sample], list[Away], list[Handover], tuple[int, Counter[int]]]:
    """Everything at once."""
    samples: list[Sample] = []
    watcher = asyncio.create_task(sample(s, samples, bench))
    until = time.perf_counter() + seconds - 10.0
    _, away, handed, changed = await asyncio.gather(
        steady(s, seconds), kill_workers(s, until), upgrade(s, seconds, servers), change(s, until, models)
    )
    watcher.cancel()
    return samples, away, handed, changed


def written(s: Stage) -> int:
    """Answers to the steady load that a ledger finds which opens what the processes have left so far."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(s.folder / "ledger", Path(folder) / "ledger")
        ledger = Ledger(copy)
        outcomes = ledger.usage["operator", "small"].outcomes
        ledger.close()
    return sum(outcomes.get(outcome, 0) for outcome in ("hit", "late"))


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


def facts(
    s: Stage,
    samples: Sequence[Sample],
    away: Sequence[Away],
    handed: Sequence[Handover],
    changed: tuple[int, Counter[int]],
) -> list[list[Cell]]:
    """What was counted, and whether it is as promised."""
    rounds, told = changed
    hits, served = (
        sum(t <= most for t in s.count.latency_s) / max(s.count.sent, 1) for most in (HIT_S, LATE_S)
    )
    c, front = s.count, [mib for _, mib, _ in samples]
    back_s, ran_s, waited_s = np.array([(t, cpu.ran_s, cpu.waited_s) for t, cpu in away]).reshape(-1, 3).T
    slope, worst_s = slope_mib_per_hour(samples), float(back_s.max(initial=0.0))
    lines = written(s)
    reasons = ", ".join(f"{reason} {n}" for reason, n in c.reasons.items())
    failed = f"{c.reasons.total()} failed with a reason" + f" ({reasons})" * bool(reasons)
    middle = [float(np.median(values)) if len(values) else np.nan for values in (back_s, ran_s, waited_s)]
    ran = f"ran {middle[1]:.2f} s, waited {middle[2]:.2f} s for a core (medians)"
    back = f"{middle[0]:.2f} s (median), {worst_s:.2f} s at worst; target {BACK_S:g} s"
    memory = f"{front[0]:.0f} MiB at the start, {max(front):.0f} at most, {front[-1]:.0f} at the end"
    memory += f"; {slope:+.1f} MiB an hour over the second half"
    return [
        ["killed workers", len(away), None],
        ["a new process takes over", upgraded(handed), all(gone_s < GONE_S for _, gone_s in handed)],
        ["rounds of versions, floods, connections and policies", rounds, None],
        ["the flood was told", ", ".join(f"{status} x {n}" for status, n in told.most_common()), None],
        ["requests", f"{c.sent} sent, {c.answered} answered, {failed}, {c.silent} silent", c.silent == 0],
        ["answered within 50 ms and within a second", f"{hits:.2%}, {served:.2%}", served >= SERVED],
        ["worker back", back, worst_s <= BACK_S],
        ["the new worker by then", ran, None],
        ["ledger", f"{lines} lines for {c.answered} answers", lines == c.answered],
        ["memory of the front end", memory, not slope > GROWTH_MIB_PER_HOUR],
    ]


def upgraded(handed: Sequence[Handover]) -> str:
    """How often, and how long it took."""
    if not handed:
        return "0 times"
    served_s, gone_s = np.array(handed).T
    times = (
        f"{np.median(served_s):.1f} s until it serves, {gone_s.max():.1f} at most until the old one is gone"
    )
    return f"{len(handed)} times: {times}"


def measure(options: Options) -> Iterator[Table]:
    """Facts, and a picture of the memory."""
    minutes = 1.0 if options.quick else float(options.given.get("minutes", 30.0))
    bench, (http, grpc) = Bench("soak", options), ports().values()
    with (
        tempfile.TemporaryDirectory() as folder,
        stage(Scale(rate_per_s=20.0), tenant=TENANTS, models_dir=folder, http_port=http, grpc_port=grpc) as s,
        contextlib.ExitStack() as servers,
    ):
        found = asyncio.run(run(s, minutes * 60.0, Path(folder), servers, bench))
        rows = facts(s, *found)
    columns = f"{minutes:g} minutes at {s.scale.rate_per_s:g} requests/s; what was seen; as promised"
    made = bench.table("all", columns, rows, [f"![memory](../docs/images/{PLOT.name})"])
    yield replace(made, files={f"docs/images/{PLOT.name}": drawn(found[0])})

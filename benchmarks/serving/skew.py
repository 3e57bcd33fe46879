"""Two live servers behind a real HAProxy on a real PostgreSQL: do shares hold through kills and without the database?

Heavy (weight 4) enters everywhere, light (weight 1) at the first server alone; both always have requests waiting at the
devices, which share a core: front ends, proxy and clients have the other, so that nobody waits in front of a server.
``--set policy=NAME``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import LARGE_NET, started, write_server
from benchmarks.serving.load import IMAGE
from benchmarks.serving.strange import packed
from benchmarks.table import Cell, Options, Table
from eunomia.engines.deploy.proxy import haproxy
from eunomia.serving.tenants.grants import hash_key
from tests.serving.postgres import Postgres, postgres

WEIGHTS, USERS = {"heavy": 4.0, "light": 1.0}, 12
PHASES: tuple[str, ...] = ("settling", "all is well", "no database", "it is back", "first killed")
PHASES += ("started, 10 s", "after that")
Answers = list[tuple[float, str, int]]  # when, tenant, status


def measure(options: Options) -> Iterator[Table]:
    """With the exchange and without."""
    bench, phase_s = Bench("skew", options), 3.0 if options.quick else 20.0
    rows: list[list[Cell]] = []
    for shared in (True, False):
        for phase, counts in played(phase_s, shared, options.given.get("policy", "weighted_fair")).items():
            ratio = counts["heavy"] / max(counts["light"], 1)
            rows.append([phase, "yes" if shared else "no", ratio, *counts.values()])
        bench.look()
    yield bench.table("skew", "phase; shared; heavy : light|.2f; heavy|,; light|,; other|d", rows)


def ports(count: int) -> list[int]:
    """Free ones."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def played(phase_s: float, shared: bool, policy: str) -> dict[str, dict[str, int]]:
    """Answers by phase and tenant; "other": what was no answer."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database, found = stack.enter_context(postgres()), ports(6)
        if database is None or (program := shutil.which("haproxy", path="/usr/sbin:/usr/bin")) is None:
            raise SystemExit("needs HAProxy and PostgreSQL (Debian: apt-get install haproxy postgresql)")
        files = [folder / f"{n}.toml" for n in range(2)]
        for n, path in enumerate(files):
            more = {"database": database.url, "replicas": {"name": f"r{n}"}} if shared else {}
            place = {"http_port": found[2 * n], "grpc_port": found[2 * n + 1]}
            keyed = {
                name: {"weight": weight, "key_sha256": [hash_key(name)], "max_concurrency": 64}
                for name, weight in WEIGHTS.items()
            }
            write_server(path, keyed, policy=policy, **place, **more)
        hosts = [f"127.0.0.1:{found[2 * n]}:{found[2 * n + 1]}" for n in range(2)]
        (folder / "haproxy.cfg").write_text(skewed(haproxy(hosts, found[4], found[5])))
        live = [stack.enter_context(contextlib.ExitStack()) for _ in files]
        servers = [own.enter_context(started(path)) for own, path in zip(live, files, strict=True)]
        proxy = subprocess.Popen([program, "-f", folder / "haproxy.cfg"])
        stack.callback(proxy.wait)
        stack.callback(proxy.kill)
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise SystemExit(f"HAProxy ended with {proxy.wait(1.0)}")

        def act(phase: str) -> None:
            if phase in ("no database", "it is back"):
                freeze(database, signal.SIGSTOP if phase == "no database" else signal.SIGCONT)
            elif phase == "first killed":
                servers[0].process.kill()
            elif phase == "started, 10 s":
                servers[0] = live[0].enter_context(started(files[0]))

        return asyncio.run(load(f"http://127.0.0.1:{found[4]}", phase_s, act))


def skewed(text: str) -> str:
    """The rendered configuration, with light at the first server while that is ready."""
    first, second = (
        line for line in text.splitlines() if line.startswith("    server") and "proto" not in line
    )
    rule = "    use_backend light if { req.hdr(authorization) -m str 'Bearer light' }\n"
    text = text.replace("    default_backend http\n", rule + "    default_backend http\n")
    return f"""{text}
backend light
    option httpchk GET /v2/health/ready
    default-server check inter 500ms fall 2 rise 2
{first}
{second} backup
"""


def freeze(database: Postgres, how: signal.Signals) -> None:
    """All processes of PostgreSQL stand still, or go on."""
    main = int((database.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    for pid in (main, *map(int, children)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)


async def load(url: str, phase_s: float, act: object) -> dict[str, dict[str, int]]:
    """Closed loops of both tenants through the phases; ``act`` is called where one begins."""
    body, header = packed("image", IMAGE)
    answers, ends = Answers(), dict[str, float]()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def user(tenant: str) -> None:
            headers = {"authorization": f"Bearer {tenant}"} | header
            while True:
                try:
                    sent = http.post(f"{url}/v2/models/{LARGE_NET}/infer", data=body, headers=headers)
                    async with sent as answer:
                        await answer.read()
                        status = answer.status
                except aiohttp.ClientError:
                    status = 0
                answers.append((time.monotonic(), tenant, status))
                await asyncio.sleep(0.0 if status == 200 else 0.05)

        users = [asyncio.create_task(user(tenant)) for tenant in WEIGHTS for _ in range(USERS)]
        for phase in PHASES:
            await asyncio.to_thread(act, phase)  # type: ignore[arg-type]
            await asyncio.sleep(min(phase_s, 10.0) if phase in ("settling", "started, 10 s") else phase_s)
            ends[phase] = time.monotonic()
        for one in users:
            one.cancel()
    counts = {phase: {**dict.fromkeys(WEIGHTS, 0), "other": 0} for phase in PHASES}
    for at, tenant, status in answers:
        phase = next((name for name, end in ends.items() if at <= end), PHASES[-1])
        counts[phase][tenant if status == 200 else "other"] += 1
    return counts

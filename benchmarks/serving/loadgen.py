"""MLPerf's LoadGen, a client that none of us wrote, against the server. Parts: alone, tenants.

``alone``: one tenant with mobilenet-v2. Scenario Server (Poisson): the highest rate that LoadGen calls VALID, found by
halving, with the 99th percentile within 100 ms; MultiStream: eight pictures at once. Beside it the same network in
LoadGen's own process without any server, on the same core. ``tenants``: a LoadGen for each of three tenants at once,
scenario Server, each with its own bound; a query that the server refuses or fails counts as late. Needs the package
mlcommons-loadgen, in this environment or under ``--set loadgen=FOLDER``. About 20 minutes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.page import ROOT
from benchmarks.serving.bench import Bench
from benchmarks.serving.fidelity import SHARES, promises, streams
from benchmarks.serving.live import SMALL_NET, serving
from benchmarks.serving.loadgen_client import Query
from benchmarks.serving.peers import bare_seconds
from benchmarks.table import Cell, Options, Table
from eunomia.core.errors import ConfigError
from eunomia.engines.processes import Result

BOUND_MS = 100.0
SURE = 700  # queries, of which LoadGen believes a 99th percentile
HALVINGS = 5
LOADS = (0.7, 1.0)
POLICIES = ("fair_edf", "weighted_fair", "edf+f", "fcfs")
ALONE = (
    "what answers; highest VALID rate, 1/s|.1f; its p50, ms|.1f; its p99, ms|.1f; eight at once, p99, ms|.0f"
)
TENANTS = (
    "of the device's capacity|.0%; policy; gold p99, ms (50)|.0f; silver (100)|.0f; bronze (400)|.0f; "
    "bounds kept; refused|,; answered, 1/s|.1f"
)


def run(queries: Sequence[Query], folder: str = "") -> list[Result]:
    """All at once, a process each."""
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "benchmarks.serving.loadgen_client"]
    started = [
        subprocess.Popen(
            [*command, query.dump()], cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE
        )
        for query in queries
    ]
    said = [process.communicate()[0] for process in started]
    return [json.loads(one) for one in said]


def highest(query: Query, top_per_s: float, folder: str) -> Result:
    """The run at the highest rate that LoadGen calls valid, by halving between nothing and what cannot be."""
    low_per_s, high_per_s, best = 0.0, top_per_s, {"rate_per_s": 0.0, "p50_ms": None, "p99_ms": None}
    for _ in range(HALVINGS):
        rate_per_s = (low_per_s + high_per_s) / 2
        (found,) = run([replace(query, rate_per_s=rate_per_s)], folder)
        if found["valid"] and not found["failed"]:
            low_per_s, best = rate_per_s, found
        else:
            high_per_s = rate_per_s
    return best


def alone(url: str | None, seconds: float, count: int, top_per_s: float, folder: str) -> Result:
    """Both scenarios for one tenant."""
    query = Query(SMALL_NET, BOUND_MS, seconds, count, url=url)
    (eight,) = run([query], folder)
    return {"server": highest(query, top_per_s, folder), "eight_p99_ms": eight["p99_ms"]}


def together(url: str, seconds_of: dict[str, float], load: float, seconds: float, folder: str) -> Result:
    """Three tenants at once."""
    wanted = streams(seconds_of, load)
    queries = [
        Query(
            one.model, one.deadline_ms, seconds, rate_per_s=one.rate_per_s, url=url, tenant=one.tenant, seed=n
        )
        for n, one in enumerate(wanted)
    ]
    return dict(zip(SHARES, run(queries, folder), strict=True))


def row(load: float, policy: str, found: Result) -> list[Cell]:
    """One policy under one load."""
    each: list[Any] = [found[name] for name in SHARES]
    kept = sum(one["kept"] for one in each)
    failed, rate_per_s = (sum(one[key] for one in each) for key in ("failed", "rate_per_s"))
    p99_ms = [one["p99_ms"] for one in each]
    return [load, f"`{policy}`", *p99_ms, f"{kept} of {len(each)}", failed, rate_per_s]


def measure(options: Options) -> Iterator[Table]:
    """The parts."""
    folder = options.given.get("loadgen", "")
    if not folder and importlib.util.find_spec("mlperf_loadgen") is None:
        raise ConfigError("needs the package mlcommons-loadgen: pip install mlcommons-loadgen")
    bench = Bench("loadgen", options)
    seconds, count = (2.0, 20) if options.quick else (15.0, SURE)
    seconds_of = bench.piece(lambda: bare_seconds(2.0), bare=True)
    if options.wants("alone"):
        work = partial(
            alone, seconds=seconds, count=count, top_per_s=1.0 / seconds_of[SMALL_NET], folder=folder
        )
        found = {"the network alone": bench.piece(partial(work, None), alone="bare")}
        with serving({"gold": {}}) as live:
            found["the server"] = bench.piece(partial(work, live.grpc), alone="server")
        rows: list[list[Cell]] = []
        for name, one in found.items():
            best = one["server"]
            rows.append([name, best["rate_per_s"], best["p50_ms"], best["p99_ms"], one["eight_p99_ms"]])
        yield bench.table(
            "alone", ALONE, rows, [f"The bare loop runs {1 / seconds_of[SMALL_NET]:.1f} a second."]
        )
    if options.wants("tenants"):
        seconds, runs = 3.0 if options.quick else 60.0, []
        for policy in POLICIES:
            with serving(promises(), policy=policy) as live:
                for load in LOADS:
                    each = partial(together, live.grpc, seconds_of, load, seconds, folder)
                    runs.append((load, policy, bench.piece(each, load=load, policy=policy)))
        yield bench.table("tenants", TENANTS, [row(*one) for one in sorted(runs, key=lambda one: one[0])])

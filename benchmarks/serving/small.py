"""How many requests a second pass of a network that takes next to no time? What is measured is the server alone.

Four layers of 64 by 64 take 20 microseconds; most that a request takes is ours. Load comes from perf_analyzer, Triton's
own generator, a program in C++, on the core of the front end, which it shares; ``make test`` installs it. Windows of a
second and a half, 1, 8 and 32 users, HTTP and gRPC; percentiles are the generator's own, medians over the windows.
``--set before=FOLDER``: an older checkout in turn; ``--set windows=N`` of each row. About two minutes without.
"""

from __future__ import annotations

import contextlib
import csv
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import Live, serving
from benchmarks.serving.machine import cpu_time
from benchmarks.serving.strange import write_layers
from benchmarks.table import Cell, Options, Table
from eunomia.core.errors import ConfigError
from eunomia.engines.processes import Result
from eunomia.metrics.statistics import interval, paired_ratio
from tests.serving.test_perf_analyzer import LIBRARIES, PROGRAM

NAME, WIDTH = "layers", 64
TRANSPORTS, USERS, WINDOWS = ("http", "grpc"), (1, 8, 32), 6
WINDOW_MS = 500  # three of them in a row, at least, for a measurement
COLUMNS = (
    "transport; users; requests a second|.0f; median, ms|.2f; p99, ms|.2f; front end, CPU ms a request|.2f"
)
OLDER = "; before: requests a second|.0f; CPU ms|.2f; ratio of rates|.2f; ratio of CPU|.2f"


def counted(live: Live) -> int:
    """Requests that were answered."""
    found = live.ask(f"/v2/models/{NAME}/stats")[1]["model_stats"][0]["inference_stats"]
    return int(found["success"]["count"])


def window(live: Live, transport: str, users: int) -> Mapping[str, float]:
    """Rate, percentiles in ms, and the front end's processor time for each request."""
    assert PROGRAM is not None
    before, used = counted(live), cpu_time(live.pid)
    with tempfile.TemporaryDirectory() as folder:
        words = {
            "-m": NAME, "-i": transport, "-u": live.http if transport == "http" else live.grpc,
            "--concurrency-range": users, "--shape": f"x:1,{WIDTH}", "--measurement-interval": WINDOW_MS,
            "-s": 999, "-r": 3, "-f": Path(folder) / "found.csv",
        }  # fmt: skip
        given = [PROGRAM, *(str(word) for pair in words.items() for word in pair)]
        done = subprocess.run(given, env=LIBRARIES, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ConfigError(f"perf_analyzer failed: {(done.stderr or done.stdout)[-300:]}")
        (found,) = csv.DictReader((Path(folder) / "found.csv").read_text().splitlines())
    cpu_ms = (cpu_time(live.pid) - used).ran_s / (counted(live) - before) * 1e3
    median_ms, p99_ms = (float(found[f"{name} latency"]) / 1e3 for name in ("p50", "p99"))
    return {"rate": float(found["Inferences/Second"]), "p50": median_ms, "p99": p99_ms, "cpu": cpu_ms}


def windows(servers: Mapping[str, Live], transport: str, users: int, count: int) -> Result:
    """Each server in turn, the other way round every other time."""
    found: dict[str, list[Mapping[str, float]]] = {name: [] for name in servers}
    for live in servers.values():
        window(live, transport, users)  # what is slow once
    for turn in range(count):
        for name in sorted(servers, reverse=turn % 2 == 1):
            found[name].append(window(servers[name], transport, users))
    return found


def row(transport: str, users: int, found: Result) -> list[Cell]:
    """Means over the windows; ratios are of windows side by side."""
    now = {name: [one[name] for one in found["now"]] for name in found["now"][0]}
    cells: list[Cell] = [transport, users, interval(now["rate"])]
    cells += [float(np.median(now["p50"])), float(np.median(now["p99"])), interval(now["cpu"])]
    if "before" not in found:
        return cells
    rate, cpu = ([one[name] for one in found["before"]] for name in ("rate", "cpu"))
    return [
        *cells,
        interval(rate),
        interval(cpu),
        paired_ratio(now["rate"], rate),
        paired_ratio(now["cpu"], cpu),
    ]


def measure(options: Options) -> Iterator[Table]:
    """One table."""
    if PROGRAM is None:
        raise ConfigError("perf_analyzer is not installed; `make test` installs it (requirements/perf.txt)")
    bench = Bench("small", options)
    count = 2 if options.quick else int(options.given.get("windows", WINDOWS))
    with contextlib.ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / f"{NAME}.onnx"
        write_layers(path, WIDTH)
        network = [{"name": NAME, "onnx": str(path)}]
        servers = {"now": stack.enter_context(serving({"default": {}}, network=network))}
        if folder := options.given.get("before"):
            root = Path(folder).resolve()
            how = {"cwd": root, "environment": {"PYTHONPATH": str(root)}}
            servers["before"] = stack.enter_context(serving({"default": {}}, how, network=network))
        for live in servers.values():
            live.settle()
        rows = []
        for transport, users in product(TRANSPORTS, USERS):
            work = partial(windows, servers, transport, users, count)
            what = {"transport": transport, "users": users, "count": count, "before": sorted(servers)}
            rows.append(row(transport, users, bench.piece(work, **what)))
            print(transport, users, "done", flush=True)
        yield bench.table("all", COLUMNS + OLDER * ("before" in servers), rows)

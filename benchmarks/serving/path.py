"""Where does the time of one request go? Parts: stamps, added (``--set before=FOLDER``: an older checkout in turn).

Stamps: the server with a clock at its functions' doors (stamped.py), one user; medians over the requests of a slice.
Added: slices of a bare loop, an empty server, the older server and this one alternate, same stock client and core.
The addition is what the client sees less the bare loop. Sparse: 20 ms between an answer and the next request. About 6
minutes. ``--set model=NAME``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.bare import Bare
from benchmarks.serving.bench import Bench
from benchmarks.serving.cost import Slices, waited_less
from benchmarks.serving.empty import Empty, empty_server
from benchmarks.serving.live import SMALL_NET, Live, serving
from benchmarks.serving.load import Closed, Stream, client, closed_loop
from benchmarks.serving.machine import cpu_time
from benchmarks.table import Cell, Options, Table, by_name
from eunomia.engines.processes import Result
from eunomia.metrics.statistics import interval, paired_ratio

GOAL_MS = {"http": 0.3, "shared memory": 0.5, "grpc": 0.3}  # gRPC last: its calls have deadlines, others none
GOAL_P99_MS = 2.5
SPARSE_S = 0.02
Now = tuple[float, float]  # sent, answered
Step = tuple[float, float | None]  # until a stamp: wall time and the front end's processor time [ms]


# --- where it goes ------------------------------------------------------------------------------------------


def steps_of(model: str, seconds: float) -> dict[str, dict[str, Step]]:
    """For each transport: the median time from one stamp to the next, in their order."""
    asked: dict[str, list[Now]] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "stamps.json"
        how = {"module": "benchmarks.serving.stamped", "environment": {"STAMPS": str(place)}}
        with serving({"default": {}}, how) as live:
            for transport in GOAL_MS:
                asked[transport] = asyncio.run(one_user(live, transport, model, seconds))
        stamps = sorted(json.loads(place.read_text()), key=lambda stamp: stamp[1])
    return {transport: medians(times, stamps) for transport, times in asked.items()}


async def one_user(live: Live, transport: str, model: str, seconds: float) -> list[Now]:
    """When each request was sent and answered; the first ones are left out."""
    found: list[Now] = []
    url = live.grpc if transport == "grpc" else live.http
    async with client(url, transport, [Stream("default", model)]) as user:
        await closed_loop(user, 1, 0.3)
        until = time.monotonic() + seconds
        while (began := time.monotonic()) < until:
            await user.send(0)
            found.append((began, time.monotonic()))
    return found


def medians(times: Sequence[Now], stamps: Sequence[tuple[str, float, float | None]]) -> dict[str, Step]:
    """Steps between the stamps that most requests have."""
    at, seen = 0, list[dict[str, tuple[float, float | None]]]()
    for (sent_s, answered_s), (until_s, _) in zip(times, times[1:], strict=False):
        mine: dict[str, tuple[float, float | None]] = {"the client has its answer": (answered_s, None)}
        while at < len(stamps) and stamps[at][1] < until_s:
            name, *stamp = stamps[at]
            if stamp[0] is not None and stamp[0] >= sent_s:
                mine.setdefault(name.removesuffix(", grpc"), (stamp[0], stamp[1]))
            at += 1
        seen.append({"sent": (sent_s, None), **mine})
    names = {name for mine in seen for name in mine if sum(name in other for other in seen) > len(seen) / 2}
    whole = [mine for mine in seen if names <= set(mine)]
    order = sorted(
        names, key=lambda name: float(np.median([mine[name][0] - mine["sent"][0] for mine in whole]))
    )
    ours = [name for name in order if whole[0][name][1] is not None]
    found = {}
    for last, name in pairwise(order):
        ran = [last for last in ours[: ours.index(name)][-1:]] if name in ours else []
        found[name] = (
            float(np.median([mine[name][0] - mine[last][0] for mine in whole])) * 1e3,
            float(
                np.median([(mine[name][1] or 0.0) - (mine[one][1] or 0.0) for mine in whole for one in ran])
            )
            * 1e3
            if ran
            else None,
        )
    return found


# --- what is added ------------------------------------------------------------------------------------------


def added_of(*facts: Any) -> Result:
    """``added`` in an event loop of its own."""
    return asyncio.run(added(*facts))


async def added(
    servers: Mapping[str, Live],
    empty: Empty,
    bare: Bare,
    asked: tuple[str, str, float],
    slices: int,
    seconds: float,
) -> Result:
    """Alternating slices: bare, empty, every server. ``asked``: network, transport, pause [s]."""
    model, transport, pause_s = asked
    side, stream, found = "grpc" if transport == "grpc" else "http", [Stream("default", model)], []
    async with contextlib.AsyncExitStack() as stack:
        nothing = await stack.enter_async_context(client(getattr(empty, side), transport, stream))
        users = {
            name: await stack.enter_async_context(client(getattr(live, side), transport, stream))
            for name, live in servers.items()
        }
        for user in users.values():
            await closed_loop(user, 1, 0.3)
        for turn in range(slices):
            one = {"bare": float(np.median(bare.measure(seconds / 2)["durations_s"])) * 1e3}
            one["empty"] = await waited_less(empty, loop_of(nothing, seconds / 2, pause_s))
            for name in sorted(users, reverse=turn % 2 == 1):
                pid = servers[name].pid
                cpu = cpu_time(pid)
                served = await loop_of(users[name], seconds, pause_s)
                one[f"{name} cpu"] = (cpu_time(pid) - cpu).ran_s / len(served.latency_s) * 1e3
                one[name] = float(np.median(served.latency_s)) * 1e3 - one["bare"]
                one[f"{name} p99"] = float(np.percentile(served.latency_s, 99)) * 1e3 - one["bare"]
            found.append(one)
    return by_name(found)


async def loop_of(user: Any, seconds: float, pause_s: float) -> Closed:
    """A closed loop of one user who waits between answer and request."""
    if not pause_s:
        return await closed_loop(user, 1, seconds)
    latency_s, began = list[float](), time.perf_counter()
    while time.perf_counter() - began < seconds:
        await asyncio.sleep(pause_s)
        start = time.perf_counter()
        await user.send(0)
        latency_s.append(time.perf_counter() - start)
    return Closed(time.perf_counter() - began, latency_s)


def row(what: str, transport: str, s: Slices) -> list[Cell]:
    """Medians and 95 % intervals over the slices; ratios slice by slice."""
    beyond = np.subtract(s["now"], s["empty"])
    tail = float(np.median(s["now p99"]))
    cells: list[Cell] = [what, interval(s["now"]), interval(s["empty"]), interval(beyond)]
    cells += [GOAL_MS[transport], bool(beyond.mean() <= GOAL_MS[transport]), tail, tail <= GOAL_P99_MS]
    cells.append(float(np.median(s["now cpu"])))
    if "before" not in s:
        return [*cells, None, None, None]
    cpu = paired_ratio(s["now cpu"], s["before cpu"])
    return [*cells, float(np.median(s["before cpu"])), cpu, paired_ratio(s["now"], s["before"])]


def measure(options: Options) -> Iterator[Table]:
    """Two tables."""
    bench, model = Bench("path", options), options.given.get("model", SMALL_NET)
    slices, seconds = (2, 0.5) if options.quick else (20, 1.0)
    if options.wants("stamps"):
        found = bench.piece(partial(steps_of, model, 4 * seconds), what=f"stamps {model}")  # type: ignore[arg-type]
        names = list(dict.fromkeys(name for steps in found.values() for name in steps))
        rows = [
            [name, *(cell for t in GOAL_MS for cell in found[t].get(name, (None, None)))] for name in names
        ]
        columns = "until; " + "; ".join(f"{t}, ms|.3f; CPU|.3f" for t in GOAL_MS)
        yield bench.table("stamps", columns, rows)
    if not options.wants("added"):
        return
    with contextlib.ExitStack() as stack:
        servers = {"now": stack.enter_context(serving({"default": {}}))}
        if folder := options.given.get("before"):
            root = Path(folder).resolve()
            older = serving({"default": {}}, {"cwd": root, "environment": {"PYTHONPATH": str(root)}})
            servers["before"] = stack.enter_context(older)
        bare = stack.enter_context(Bare(model))
        wait_s = float(np.median(bare.measure(0.5)["durations_s"]))
        empty = stack.enter_context(empty_server(wait_s))
        rows = []
        for transport in GOAL_MS:
            for pace, pause_s in (("", 0.0), (", sparse", SPARSE_S)):
                work = partial(added_of, servers, empty, bare, (model, transport, pause_s), slices, seconds)
                what = f"{model}, {transport}{pace}"
                rows.append(row(what, transport, bench.piece(work, what=what, before=sorted(servers))))
    columns = (
        "one user; added, ms|.2f; an empty server, ms|.2f; beyond it, ms|.2f; at most|.1f; met; p99 added, ms|.2f; "
        "at most 2.5 ms; front end, CPU ms|.2f; before|.2f; ratio of CPU|.2f; ratio of all added|.2f"
    )
    yield bench.table("added", columns, rows)

"""Where does the time of one request go? Parts: stamps, added, four, raw (3, 4, 4 and 2 minutes).

Stamps: the server with a clock at its functions' doors (stamped.py), one user; medians over the requests of a slice.
In the others short windows of a bare loop, an empty server and this one alternate, same client and core. The addition
is what the client sees less the bare loop. Added: one user of a stock client; ``--set before=FOLDER``: an older
checkout in turn. Four: one and four users at once; with four it holds their waiting for each other, as the empty server
also takes one request after the other. Raw: one user on a socket (raw.py). Sparse: 20 ms between an answer and the next
request. "After pauses": the bare loop's runs, with pauses as an empty server's device has them, less those without.
``--set model=NAME``, ``--set windows=N`` of each row.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.bare import Bare
from benchmarks.serving.bench import Bench
from benchmarks.serving.empty import Empty, empty_server
from benchmarks.serving.live import SMALL_NET, Live, serving
from benchmarks.serving.load import PictureClient, Stream, client, closed_loop
from benchmarks.serving.machine import cpu_time
from benchmarks.serving.raw import RawClient
from benchmarks.table import Cell, Options, Table, by_name
from eunomia.engines.processes import Result
from eunomia.metrics.statistics import interval, paired_ratio

GOAL_MS = {"http": 0.3, "shared memory": 0.5, "grpc": 0.3}  # gRPC last: its calls have deadlines, others none
RAW, RAW_GOAL_MS, GOAL_P99_MS = "a raw socket", 1.0, 2.5
SPARSE_S, WINDOW_S = 0.02, (0.4, 0.8)  # dense, sparse
PARTS: dict[str, tuple[tuple[str, ...], tuple[int, ...], int]] = {  # transports, users, windows
    "added": (tuple(GOAL_MS), (1,), 20),
    "four": (tuple(GOAL_MS), (1, 4), 12),
    "raw": ((RAW,), (1,), 30),
}
COLUMNS = (
    "; added, ms|.2f; an empty server, ms|.2f; beyond it, ms|.2f; at most|.1f; met; after pauses, ms|.2f; "
    "p99 added, ms|.2f; the empty server's|.2f; at most 2.5 ms; front end, CPU ms|.2f"
)
OLDER = "; before|.2f; ratio of CPU|.2f; ratio of all added|.2f"
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
            of_last = name.startswith("answer") and len(mine) == 1  # its client ran before it was stamped
            if stamp[0] is not None and stamp[0] >= sent_s and not of_last:
                mine.setdefault(name.removesuffix(", grpc"), (stamp[0], stamp[1]))
            at += 1
        seen.append({"sent": (sent_s, None), **mine})
    names = {name for mine in seen for name in mine if sum(name in other for other in seen) > len(seen) / 2}
    whole = [mine for mine in seen if names <= set(mine)]
    order = sorted(names, key=lambda name: apart_ms(whole, "sent", name, 0))
    ours, found = [name for name in order if whole[0][name][1] is not None], dict[str, Step]()
    for last, name in pairwise(order):
        ran = ours[: ours.index(name)][-1:] if name in ours else []
        found[name] = apart_ms(whole, last, name, 0), apart_ms(whole, ran[0], name, 1) if ran else None
    return found


def apart_ms(requests: Sequence[Mapping[str, Step]], first: str, last: str, clock: int) -> float:
    """The median time between two stamps, of the wall (0) or of the processor (1)."""
    steps_s = [(one[last][clock] or 0.0) - (one[first][clock] or 0.0) for one in requests]
    return float(np.median(steps_s)) * 1e3


# --- what is added ------------------------------------------------------------------------------------------


def windows_of(*facts: Any) -> Result:
    """``windows`` in an event loop of its own."""
    return asyncio.run(windows(*facts))


async def windows(
    servers: Mapping[str, Live], empty: Empty, bare: Bare, asked: tuple[str, str, int, float], count: int
) -> Result:
    """Latencies less a bare run [ms]; ``asked``: network, transport, users, pause [s].

    Each time the empty server's wait is set to the bare run of just now, less what it overslept last. Then the bare
    loop makes pauses, each as long as what the empty server added.
    """
    model, transport, users, pause_s = asked
    side, made = "grpc" if transport == "grpc" else "http", RawClient if transport == RAW else PictureClient
    found, late_s, seconds = list[dict[str, Any]](), 0.0, WINDOW_S[bool(pause_s)]
    async with contextlib.AsyncExitStack() as stack:
        clients = {}
        for name, live in {"empty": empty, **servers}.items():
            one = client(getattr(live, side), transport, [Stream("default", model)], made=made)
            clients[name] = await stack.enter_async_context(one)
            await closed_loop(clients[name], users, 0.3)
        for turn in range(count):
            bare_s = float(np.median(bare.measure(0.25)["durations_s"]))
            asked_s = max(bare_s - late_s, bare_s / 2)
            empty.waited_s(asked_s)
            slice: dict[str, Any] = {}
            for name in sorted(clients, reverse=turn % 2 == 1):
                before = cpu_time(servers[name].pid).ran_s if name in servers else 0.0
                seen_s = (await closed_loop(clients[name], users, seconds, pause_s)).latency_s
                if name in servers:
                    used_s = cpu_time(servers[name].pid).ran_s - before
                    slice[f"{name} cpu"] = used_s / len(seen_s) * 1e3
                    less_s: Any = bare_s
                else:
                    less_s = empty.waited_s()
                    late_s = float(np.median(less_s)) - asked_s
                slice[name] = ((np.array(seen_s) - less_s) * 1e3).tolist()
            rest_s = pause_s + float(np.median(slice["empty"])) * 1e-3
            rested_s = float(np.median(bare.measure(seconds, rest_s)["durations_s"]))
            slice["rested"] = (rested_s - bare_s) * 1e3
            found.append(slice)
    return by_name(found)


def row(what: str, asked: tuple[str, str, int, float], s: Mapping[str, Any]) -> list[Cell]:
    """Medians and 95 % intervals over the windows, window by window; percentiles over all requests.

    A client on raw sockets is judged by all that is added; with several users the addition at p99 is judged beyond the
    empty server, as part of it is their waiting for each other.
    """
    _, transport, users, _ = asked
    now, empty = ([float(np.median(window)) for window in s[name]] for name in ("now", "empty"))
    beyond, tails = np.subtract(now, empty), [p99(s["now"]), p99(s["empty"])]
    goal_ms = RAW_GOAL_MS if transport == RAW else GOAL_MS[transport]
    judged = np.mean(now if transport == RAW else beyond)
    tail_ms = tails[0] - tails[1] * (users > 1)
    cells: list[Cell] = [what, *map(interval, (now, empty, beyond)), goal_ms, bool(judged <= goal_ms)]
    cells += [interval(s["rested"]), *tails, tail_ms <= GOAL_P99_MS, float(np.median(s["now cpu"]))]
    if "before" not in s:
        return cells
    cpu, before = s["before cpu"], [float(np.median(window)) for window in s["before"]]
    return [*cells, float(np.median(cpu)), paired_ratio(s["now cpu"], cpu), paired_ratio(now, before)]


def p99(windows_ms: Sequence[Sequence[float]]) -> float:
    """Over all of them."""
    return float(np.percentile(np.concatenate(windows_ms), 99))


def measure(options: Options) -> Iterator[Table]:
    """A table for each part."""
    bench, model = Bench("path", options), options.given.get("model", SMALL_NET)
    if options.wants("stamps"):
        found = bench.piece(partial(steps_of, model, 2.0 if options.quick else 4.0), what=f"stamps {model}")
        names = list(dict.fromkeys(name for steps in found.values() for name in steps))
        rows = [[n, *(cell for t in GOAL_MS for cell in found[t].get(n, (None, None)))] for n in names]
        columns = "until; " + "; ".join(f"{t}, ms|.3f; CPU|.3f" for t in GOAL_MS)
        yield bench.table("stamps", columns, rows)
    if not (parts := options.chosen(PARTS)):
        return
    with contextlib.ExitStack() as stack:
        servers = {"now": stack.enter_context(serving({"default": {}}))}
        if folder := options.given.get("before"):
            root = Path(folder).resolve()
            older = serving({"default": {}}, {"cwd": root, "environment": {"PYTHONPATH": str(root)}})
            servers["before"] = stack.enter_context(older)
        for live in servers.values():
            live.settle()
        bare = stack.enter_context(Bare(model))
        wait_s = float(np.median(bare.measure(0.5)["durations_s"]))
        empty = stack.enter_context(empty_server(wait_s))
        for part in parts:
            transports, crowds, count = PARTS[part]
            count, rows = 2 if options.quick else int(options.given.get("windows", count)), []
            for transport, users, sparse in product(transports, crowds, (False, True)):
                what = f"{model}, {transport}, {users} user{'s' * (users > 1)}{', sparse' * sparse}"
                asked = model, transport, users, SPARSE_S * sparse
                work = partial(windows_of, servers, empty, bare, asked, count)
                kept = {"what": what, "count": count, "before": sorted(servers)}
                rows.append(row(what, asked, bench.piece(work, part=part, **kept)))
                print(what, "done", flush=True)
            yield bench.table(part, COLUMNS + OLDER * ("before" in servers), rows)

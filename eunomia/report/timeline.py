"""``timeline.json``: a run as a Chrome trace, for ui.perfetto.dev or chrome://tracing.

One track per accelerator, on which slices never overlap; counters for waiting layers, busy
accelerators and bandwidth; an arrow from layer to layer wherever a request changes accelerator;
marks where requests missed their deadlines. Times are microseconds with nanosecond digits, as the
Trace Event Format wants them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from eunomia.core.atomic import write_bytes
from eunomia.core.errors import RecordError
from eunomia.core.records import RunRecords
from eunomia.report.columns import Floats, Ints, floats, ints, words

ACCELERATORS, SYSTEM, REQUESTS = 1, 2, 3  # "processes" of the trace: groups of tracks
MAX_SLICES = 100_000
MAX_POINTS = 10_000  # per counter
LATEST_S = 9e9  # nanoseconds of 64 bits reach no further; what is later is drawn here
# names that Chrome's own viewer knows; Perfetto colours by slice name, which starts with the tenant
COLOURS = (
    "thread_state_running", "rail_animation", "rail_response", "thread_state_iowait", "cq_build_running",
    "thread_state_runnable", "rail_load", "heap_dump_stack_frame",
)  # fmt: skip


def write_timeline(
    path: str | Path, run: RunRecords, from_s: float = 0.0, to_s: float | None = None, limit: int = MAX_SLICES
) -> int:
    """Write the layers that overlap [from_s, to_s] (at most ``limit``, the earliest); returns their number.

    A path ending in ``.gz`` is compressed (both viewers open it). Raises RecordError when the run
    has no recorded layers, OutputError when the file cannot be written.
    """
    events, shown = timeline_events(run, from_s, to_s, limit)
    body = ",\n".join(events)
    about = json.dumps(_about(run, shown), ensure_ascii=False)
    text = f'{{"displayTimeUnit":"ms","otherData":{about},"traceEvents":[\n{body}\n]}}\n'
    content = text.encode("utf-8")
    if str(path).endswith(".gz"):
        content = gzip.compress(content, 6, mtime=0)  # no clock in the file: equal runs, equal bytes
    write_bytes(path, content)
    return shown


def timeline_events(
    run: RunRecords, from_s: float = 0.0, to_s: float | None = None, limit: int = MAX_SLICES
) -> tuple[list[str], int]:
    """All events as JSON texts, in order of time within each kind, and the number of slices."""
    if "subjobs" not in run.tables or run["subjobs"].num_rows == 0:
        raise RecordError("the run has no recorded layers to draw; run it with record = 'all'")
    layers = _Layers(run, from_s, np.inf if to_s is None else to_s, limit)
    events = [*_names(run), *_slices(layers), *_flows(layers), *_counters(run, layers), *_misses(run, layers)]
    return events, len(layers.start_ns)


class _Layers:
    """Columns of the layers shown, in order of start; times in integer nanoseconds."""

    def __init__(self, run: RunRecords, from_s: float, to_s: float, limit: int) -> None:
        table = run["subjobs"]
        start, end = floats(table, "start_s", np.inf), floats(table, "end_s", np.inf)
        last = max(end[np.isfinite(end)].max(initial=0.0), start[np.isfinite(start)].max(initial=0.0))
        end = np.where(np.isfinite(end), end, last)  # still running: until the end of the run
        rows = np.flatnonzero(np.isfinite(start) & (start <= to_s) & (end >= from_s))
        rows = rows[np.lexsort((ints(table, "accelerator")[rows], start[rows]))][:limit]
        self.start_ns, self.end_ns = _ns(start[rows]), _ns(end[rows])
        self.ready_ns = _ns(floats(table, "ready_s")[rows])
        self.lane, self.layer = ints(table, "accelerator")[rows], ints(table, "layer")[rows]
        self.request = ints(table, "request")[rows]
        self.work_s = floats(table, "work_s", 0.0)[rows]
        self.switch_s = floats(table, "switch_s", 0.0)[rows]
        requests = run["requests"]
        number = ints(requests, "request")
        order = np.argsort(number, kind="stable")
        place = order[np.searchsorted(number, self.request, sorter=order)]
        tenant, model = words(requests, "tenant"), words(requests, "model")
        self.tenant = [tenant[row] for row in place]
        self.model = [model[row] for row in place]
        kinds = words(run["accelerators"], "type")
        self.kind = [kinds[lane] for lane in self.lane]
        self.tenants = (
            list(dict.fromkeys(run["pairs"]["tenant"].to_pylist())) if "pairs" in run.tables else []
        )
        self.tenants = list(dict.fromkeys([*self.tenants, *tenant]))
        self.layer_names, self.demand = _layer_facts(run)
        self.until_ns = int(self.end_ns.max(initial=0))
        self.from_ns = int(self.start_ns.min(initial=self.until_ns))


def _layer_facts(run: RunRecords) -> tuple[dict[tuple[str, int], str], dict[tuple[str, int, str], float]]:
    """Names of layers, and bandwidth demand of each by accelerator type."""
    names: dict[tuple[str, int], str] = {}
    demand: dict[tuple[str, int, str], float] = {}
    if "costs" in run.tables:
        for row in run["costs"].to_pylist():
            names[row["model"], row["layer"]] = row["layer_name"] or f"layer {row['layer']}"
            demand[row["model"], row["layer"], row["type"]] = row["demand_bytes_s"] or 0.0
    return names, demand


def _names(run: RunRecords) -> Iterator[str]:
    """Metadata: what the tracks are called and in which order they stand."""
    groups = ((ACCELERATORS, "accelerators"), (SYSTEM, "system"), (REQUESTS, "deadlines missed"))
    for order, (pid, name) in enumerate(groups):
        yield _json({"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": name}})
        yield _json(
            {"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index", "args": {"sort_index": order}}
        )
    kinds = words(run["accelerators"], "type")
    for lane, name in enumerate(words(run["accelerators"], "name")):
        label = name if str(name).startswith(str(kinds[lane])) else f"{name} ({kinds[lane]})"
        yield _json(
            {"ph": "M", "pid": ACCELERATORS, "tid": lane + 1, "name": "thread_name", "args": {"name": label}}
        )
        yield _json(
            {
                "ph": "M",
                "pid": ACCELERATORS,
                "tid": lane + 1,
                "name": "thread_sort_index",
                "args": {"sort_index": lane},
            }
        )
    yield _json({"ph": "M", "pid": REQUESTS, "tid": 1, "name": "thread_name", "args": {"name": "missed"}})


def _slices(layers: _Layers) -> Iterator[str]:
    """One complete event per layer, by accelerator and time. What repeats is written once and kept."""
    heads: dict[tuple[str, str, int], str] = {}
    start, length = layers.start_ns, layers.end_ns - layers.start_ns
    work, switch = layers.work_s * 1e6, layers.switch_s * 1e6
    stretch = np.maximum(0.0, length / 1e3 - work - switch)
    waited = (start - layers.ready_ns) / 1e3
    order = np.lexsort((start, layers.lane))
    columns = (layers.request, layers.layer, layers.lane + 1, start, length, waited, work, stretch, switch)
    rows = zip(order.tolist(), *(column[order].tolist() for column in columns), strict=True)
    for i, request, layer, track, begin, lasts, waited_us, work_us, stretch_us, switch_us in rows:
        what = (layers.tenant[i], layers.model[i], layer)
        head = heads.get(what) or heads.setdefault(what, _slice_head(layers, *what))
        yield (
            f'{head},"request":"req-{request}","waited_us":{waited_us:.3f},"work_us":{work_us:.3f},'
            f'"contention_us":{stretch_us:.3f},"switch_us":{switch_us:.3f}}},'
            f'"tid":{track},"ts":{_micros(begin)},"dur":{_micros(lasts)}}}'
        )


def _slice_head(layers: _Layers, tenant: str, model: str, layer: int) -> str:
    """A slice event up to its first argument, which names the layer."""
    colour = COLOURS[layers.tenants.index(tenant) % len(COLOURS)]
    name = layers.layer_names.get((model, layer), f"layer {layer}")
    event = {"ph": "X", "pid": ACCELERATORS, "name": f"{tenant} {model}", "cat": tenant.replace(",", " ")}
    return _json({**event, "cname": colour, "args": {"layer": f"{layer}: {name}"}})[:-2]


def _flows(layers: _Layers) -> Iterator[str]:
    """Arrows along each request, from layer to layer where it changes accelerator; ids are request numbers."""
    head = f'{{"cat":"request","name":"request","pid":{ACCELERATORS}'
    middle = layers.start_ns + (layers.end_ns - layers.start_ns) // 2
    for first, steps in _journeys(layers):
        for place, i in enumerate(steps):
            phase = '"s"' if place == 0 else '"f","bp":"e"' if place == len(steps) - 1 else '"t","bp":"e"'
            yield (
                f'{head},"ph":{phase},"id":{layers.request[first]},"tid":{layers.lane[i] + 1},'
                f'"ts":{_micros(middle[i])}}}'
            )


def _journeys(layers: _Layers) -> Iterator[tuple[int, list[int]]]:
    """For each request that changes accelerator: the layers before and after each change, in order of time."""
    middle = layers.start_ns + (layers.end_ns - layers.start_ns) // 2
    order = np.lexsort((middle, layers.request))
    bounds = np.flatnonzero(np.diff(layers.request[order], prepend=-1, append=-2))
    for low, high in zip(bounds, bounds[1:], strict=False):
        mine = order[low:high]
        change = np.flatnonzero(np.diff(layers.lane[mine]))
        if len(change):
            steps = np.unique(np.concatenate([change, change + 1]))
            yield int(mine[0]), [int(i) for i in mine[steps]]


def _counters(run: RunRecords, layers: _Layers) -> Iterator[str]:
    """Waiting layers, busy accelerators, and bandwidth demand beside the limit."""
    limit = (run.manifest.get("engine") or {}).get("bandwidth_bytes_s")
    demand = np.array(
        [
            layers.demand.get((m, int(i), k), 0.0)
            for m, i, k in zip(layers.model, layers.layer, layers.kind, strict=True)
        ]
    )
    ones = np.ones(len(demand))
    waiting = _steps(np.maximum(layers.ready_ns, layers.from_ns), layers.start_ns, ones)
    busy = _steps(layers.start_ns, layers.end_ns, ones)
    asked = _steps(layers.start_ns, layers.end_ns, demand * 1e-9)
    for name, unit, steps in (
        ("layers waiting", "number", waiting),
        ("busy accelerators", "number", busy),
        ("bandwidth demand", "GB/s", asked),
    ):
        for at, value in steps:
            args = f'{{"{unit}":{value:g}}}'
            yield f'{{"ph":"C","pid":{SYSTEM},"tid":0,"name":"{name}","ts":{_micros(at)},"args":{args}}}'
    if limit is not None and np.isfinite(limit):
        for at in (layers.from_ns, layers.until_ns):
            head = {"ph": "C", "pid": SYSTEM, "tid": 0, "name": "bandwidth limit"}
            yield _timed(head, at, {"args": {"GB/s": float(limit) * 1e-9}})


def _steps(begin: Ints, end: Ints, weight: Floats) -> Iterator[tuple[int, float]]:
    """The running sum of ``weight`` over intervals, where it changes; of many changes the highest of each span."""
    at = np.concatenate([begin, end])
    change = np.concatenate([weight, -weight])
    order = np.argsort(at, kind="stable")
    instants, first = np.unique(at[order], return_index=True)
    if not len(first):
        return
    value = np.add.reduceat(change[order], first).cumsum()
    value[np.abs(value) < 1e-6] = 0.0  # rounding of sums of bandwidth
    kept = np.flatnonzero(np.diff(value, prepend=np.nan) != 0.0)
    if len(kept) > MAX_POINTS:
        spans = np.array_split(kept[:-1], MAX_POINTS)
        kept = np.array([*(span[np.argmax(value[span])] for span in spans), kept[-1]])
    yield from zip(instants[kept].tolist(), value[kept].tolist(), strict=True)


def _misses(run: RunRecords, layers: _Layers) -> Iterator[str]:
    """An instant for each missed deadline within the time shown."""
    requests = run["requests"]
    finish, deadline = floats(requests, "finish_s"), floats(requests, "deadline_s", np.inf)
    outcome, number = words(requests, "outcome"), ints(requests, "request")
    tenant = words(requests, "tenant")
    at = np.where(np.array(outcome) == "late", deadline, finish)
    for row in np.argsort(at, kind="stable").tolist():
        if outcome[row] not in ("late", "dropped") or not np.isfinite(at[row]):
            continue
        ns = int(_ns(at[row : row + 1])[0])
        if layers.from_ns <= ns <= layers.until_ns:
            name = f"{tenant[row]} {'missed' if outcome[row] == 'late' else 'dropped'}"
            head = {"ph": "i", "pid": REQUESTS, "tid": 1, "s": "t", "name": name}
            yield _timed(head, ns, {"args": {"request": f"req-{number[row]}", "tenant": tenant[row]}})


def _about(run: RunRecords, shown: int) -> dict[str, str]:
    total = run["subjobs"].num_rows
    return {
        "name": str(run.manifest.get("name", "")),
        "policy": run.policy,
        "seed": str(run.seed),
        "layers": f"{shown} of {total}",
        "producer": "eunomia",
    }


def _timed(head: Mapping[str, object], at_ns: int, tail: Mapping[str, object]) -> str:
    """An event at an instant."""
    return f'{_json(head)[:-1]},"ts":{_micros(at_ns)},{_json(tail)[1:]}'


def _micros(ns: int) -> str:
    """Microseconds as exact decimals: binary fractions would make neighbours overlap by a hair."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def _ns(seconds: Floats) -> Ints:
    return np.asarray(np.round(np.clip(seconds, -LATEST_S, LATEST_S) * 1e9), np.int64)


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

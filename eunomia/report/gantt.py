"""The layers of one window of each policy's run, packed into integers for the page."""

from __future__ import annotations

import numpy as np

from eunomia.core.data import Data
from eunomia.core.records import RunRecords
from eunomia.metrics.columns import HIT, OUTCOMES, Layers, Requests
from eunomia.metrics.holding import NEEDS, held_each
from eunomia.report.columns import Floats, Ints, floats, ints, words

MAX_INTERVALS = 5_000  # per policy
MAX_TOTAL = 24_000  # over all policies of the page
WAITING_POINTS = 400
LONGEST_S = 2**53 / 1e9  # 104 days: a script counts no further in whole nanoseconds


def gantt(runs: dict[str, RunRecords], requests: dict[str, Requests]) -> Data | None:
    """One window, the same for every policy: where most deadlines are missed. None if there is none to draw.

    Times are integer nanoseconds from the window's start.
    """
    if why_missing(runs):
        return None
    shown = {p: run for p, run in runs.items() if "subjobs" in run.tables and run["subjobs"].num_rows}
    limit = min(MAX_INTERVALS, MAX_TOTAL // len(shown))
    from_s, to_s, whole = _window(shown, requests, limit)
    lanes = words(next(iter(shown.values()))["accelerators"], "name")
    return {
        "from_s": from_s,
        "to_s": to_s,
        "whole": whole,
        "lanes": lanes,
        "policies": {p: _pack(run, from_s, to_s, limit) for p, run in shown.items()},
    }


def why_missing(runs: dict[str, RunRecords]) -> str:
    """Why there is no chart of layers, as a sentence; empty where there is one."""
    shown = [run for run in runs.values() if "subjobs" in run.tables and run["subjobs"].num_rows]
    if not shown:
        return "Layers were not recorded in this run."
    if max(map(_last_s, shown)) > LONGEST_S:
        return f"This run lasts longer than {LONGEST_S:.3g} s: too long to draw it to the nanosecond."
    return ""


def _last_s(run: RunRecords) -> float:
    return float(np.nanmax(floats(run["subjobs"], "end_s"), initial=0.0))


def _window(
    runs: dict[str, RunRecords], requests: dict[str, Requests], limit: int
) -> tuple[float, float, bool]:
    """The whole run if it is small enough, else the stretch of time with most misses."""
    last = max(map(_last_s, runs.values()))
    starts = [np.sort(floats(run["subjobs"], "start_s", np.inf)) for run in runs.values()]
    if max(map(len, starts)) <= limit:
        return 0.0, last, True
    length = last * 0.9 * limit / max(map(len, starts))
    missed = np.sort(np.concatenate([_missed_s(requests[p]) for p in runs]))
    ends = missed if len(missed) else np.array([last / 2])
    begins = np.clip(ends - length / 2, 0.0, max(0.0, last - length))
    counts = np.searchsorted(missed, begins + length) - np.searchsorted(missed, begins)
    crowded = np.max(
        [np.searchsorted(s, begins + length) - np.searchsorted(s, begins) for s in starts], axis=0
    )
    fits = np.flatnonzero(crowded <= limit)
    choice = fits[np.argmax(counts[fits])] if len(fits) else int(np.argmin(crowded))
    begin = float(begins[choice])
    return begin, begin + length, False


def _missed_s(requests: Requests) -> Floats:
    """Instants at which requests missed: their finish, drop or deadline."""
    missed = requests.outcome != HIT
    when = np.fmin(requests.finish_s, requests.deadline_s)[missed]
    return np.asarray(when[np.isfinite(when)], np.float64)


def _pack(run: RunRecords, from_s: float, to_s: float, limit: int) -> Data:
    table = run["subjobs"]
    start, end = floats(table, "start_s", np.inf), floats(table, "end_s", to_s)
    rows = np.flatnonzero((start < to_s) & (end > from_s) & np.isfinite(start))
    rows = rows[np.argsort(start[rows], kind="stable")]
    total, rows = len(rows), rows[:limit]
    request = ints(table, "request")[rows]
    jobs, index = np.unique(request, return_inverse=True)
    begin, finish = _ns(start[rows], from_s), _ns(end[rows], from_s)
    return {
        "total": table.num_rows,
        "left_out": total - len(rows),
        "start": np.diff(begin, prepend=0).tolist(),  # differences, in order of start
        "length": (finish - begin).tolist(),
        "lane": ints(table, "accelerator")[rows].tolist(),
        "layer": ints(table, "layer")[rows].tolist(),
        "job": index.tolist(),
        "waited": (begin - _ns(floats(table, "ready_s")[rows], from_s)).tolist(),
        "work": _ns(floats(table, "work_s", 0.0)[rows], 0.0).tolist(),
        "switch": _ns(floats(table, "switch_s", 0.0)[rows], 0.0).tolist(),
        "jobs": _jobs(run, jobs, from_s),
        "waiting": _waiting(run, from_s, to_s),
        "held": _held(run, from_s, to_s),
    }


def _held(run: RunRecords, from_s: float, to_s: float) -> float | None:
    """Of the time that layers waited that started in the window, the share in which an idle one would have done."""
    if any(name not in run.tables for name in NEEDS):
        return None
    layers = Layers.read(run.tables)
    rows = np.flatnonzero((layers.start_s >= from_s) & (layers.start_s < to_s))
    waited_s = float((layers.start_s[rows] - layers.ready_s[rows]).sum())
    if not waited_s:
        return None
    lanes = [layers.accelerator == n for n in range(layers.isolated_s.shape[1])]
    busy = [(layers.start_s[mine], layers.end_s[mine]) for mine in lanes]
    spans = (layers.start_s[rows], layers.end_s[rows])
    return float(held_each(spans, layers.ready_s[rows], layers.isolated_s[rows], busy).sum()) / waited_s


def _jobs(run: RunRecords, wanted: Ints, from_s: float) -> Data:
    """Facts of the requests that the window shows."""
    table = run["requests"]
    number = ints(table, "request")
    order = np.argsort(number, kind="stable")
    rows = order[np.searchsorted(number, wanted, sorter=order)] if len(wanted) else wanted
    picked = table.take(rows)
    instants = {name: floats(picked, f"{name}_s") for name in ("arrival", "deadline", "finish")}
    return {
        "request": ints(picked, "request").tolist(),
        "tenant": words(picked, "tenant"),
        "model": words(picked, "model"),
        "outcome": [OUTCOMES.index(name) for name in words(picked, "outcome")],
        **{name: _instants(times_s, from_s) for name, times_s in instants.items()},
    }


def _instants(seconds: Floats, from_s: float) -> list[int | None]:
    known = np.isfinite(seconds)
    ns = _ns(np.where(known, seconds, from_s), from_s)
    return [int(t) if k else None for t, k in zip(ns, known, strict=True)]


def _waiting(run: RunRecords, from_s: float, to_s: float) -> list[int]:
    """Layers waiting at evenly spaced instants: ready and not yet started (dropped ones left out)."""
    table = run["subjobs"]
    at = np.linspace(from_s, to_s, WAITING_POINTS)
    ready, start = np.sort(floats(table, "ready_s")), np.sort(floats(table, "start_s", np.inf))
    waiting = np.searchsorted(ready, at, side="right") - np.searchsorted(start, at, side="right")
    return [int(n) for n in waiting]


def _ns(seconds: Floats, from_s: float) -> Ints:
    return np.round((np.clip(seconds, -LONGEST_S, LONGEST_S) - from_s) * 1e9).astype(np.int64)

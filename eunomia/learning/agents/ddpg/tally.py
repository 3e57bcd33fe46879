"""What happened between ticks, as the tallies that learning/rewards.py turns into rewards; exact, from the records.

An event at time e belongs to the period that ends with the first tick at or after e: ends and arrivals come
before the tick of their instant. Row j of a table holds sums over all events up to tick j; the last row, one
after the last tick, holds all. A miss is charged at the first tick at which the request is hopeless, dropped
or late. Its weight is what the pair lacked then.
"""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.inference.kernel.layout import DROPPED, HIT, UNFINISHED, Records
from eunomia.inference.outcome import Outcome
from eunomia.inference.problem import Jobs
from eunomia.learning import rewards
from eunomia.learning.objectives import promised
from eunomia.metrics.indicators import TOLERANCE, sli
from eunomia.workload.tenant import Slo


def tallies(outcome: Outcome, times_s: Floats, late_tick: Ints) -> Floats:
    """(T + 1, TALLY). ``late_tick`` (n,): first tick that saw each request hopeless; T = none did."""
    results, jobs, ticks = outcome.results, outcome.problem.jobs, len(times_s)
    gone = results["outcome"] != UNFINISHED
    left = np.where(gone, np.searchsorted(times_s, np.nan_to_num(results["finish_s"], nan=np.inf)), ticks)
    hit = results["outcome"] == HIT
    charged = np.minimum(left, late_tick)[~hit]
    gaps = _gaps(results, jobs, left, times_s)
    gap = np.nan_to_num(np.maximum(0.0, gaps[np.maximum(charged - 1, 0), jobs.pair[~hit]]))
    iso_s = outcome.problem.graph.iso_best_s[jobs.model]
    slowdown = (results["finish_s"] - results["arrival_s"]) / iso_s
    done = gone & (results["outcome"] != DROPPED)
    table = rewards.no_tally(ticks + 1)
    for column, at, value in (
        (rewards.HITS, left[hit], np.ones(int(hit.sum()))), (rewards.MISSES, charged, np.ones(len(charged))),
        (rewards.SHORT_MISSES, charged, gap), (rewards.SLOWDOWN, left[done], slowdown[done]),
    ):  # fmt: skip
        table[:, column] = np.cumsum(np.bincount(at, weights=value, minlength=ticks + 1))
    table[:, rewards.OVERLOAD] = overload_until(outcome, np.append(times_s, np.inf))
    table[:, rewards.ATTAINMENT] = _attainment(gaps)
    table[:, rewards.SPREAD] = _spread(results, jobs, left, ticks)
    table[:, rewards.DURATION] = max(float(np.nanmax(results["arrival_s"], initial=0.0)), 1e-12)
    table[:, rewards.REQUESTS] = max(len(jobs.pair), 1)
    return table


def overload_until(outcome: Outcome, times_s: Floats) -> Floats:
    """Integral of max(0, D - B) / B from 0 to each time, D the true demand of what runs [s]."""
    runs, problem = outcome.subjobs, outcome.problem
    jobs, bandwidth = problem.jobs, problem.bandwidth_bytes_s
    row = problem.graph.offset[jobs.model[runs["request"]]] + runs["layer"]
    demand = problem.costs.demand_bytes_s[row, problem.type_of[runs["accelerator"]]]
    end_s = np.where(np.isnan(runs["end_s"]), outcome.end_s, runs["end_s"])
    at_s = np.concatenate([runs["start_s"], end_s])
    order = np.argsort(at_s, kind="stable")
    at_s, level = at_s[order], np.cumsum(np.concatenate([demand, -demand])[order])
    excess = np.maximum(0.0, level / bandwidth - 1.0)
    total = np.concatenate([[0.0], np.cumsum(excess[:-1] * np.diff(at_s))]) if len(at_s) else np.zeros(1)
    return np.interp(times_s, at_s, total) if len(at_s) else np.zeros(len(times_s))


def _gaps(results: Records, jobs: Jobs, left: Ints, times_s: Floats) -> Floats:
    """(T + 1, pairs) gap of each promised pair over its window, up to each tick; nan before its first outcome."""
    gaps = np.full((len(times_s) + 1, len(jobs.model_of)), np.nan)
    order = np.argsort(np.where(np.isnan(results["finish_s"]), np.inf, results["finish_s"]), kind="stable")
    order = order[results["outcome"][order] != UNFINISHED]
    for p in np.flatnonzero(jobs.slo_kind >= 0):
        slo, mine = promised(jobs, int(p)), order[jobs.pair[order] == p]
        if slo.kind not in ("hit_rate", "drop_rate"):
            mine = mine[results["outcome"][mine] != DROPPED]
        if slo.kind == "throughput":
            gaps[:, p] = _throughput_gaps(slo, results["finish_s"][mine], times_s)
            continue
        so_far = np.searchsorted(left[mine], np.arange(len(gaps)), side="right")
        values = np.array([slo.gap(value) for value in _windowed(slo, results[mine])])
        gaps[so_far > 0, p] = values[so_far[so_far > 0] - 1]
    return gaps


def _windowed(slo: Slo, rows: Records) -> Floats:
    """(n,) the indicator over the window that ends with each of the pair's n outcomes, in order."""
    n = np.arange(1, len(rows) + 1)
    window = np.minimum(n, max(slo.window_requests, 1))
    if slo.kind in ("hit_rate", "drop_rate"):
        good = rows["outcome"] == (HIT if slo.kind == "hit_rate" else DROPPED)
        sums = np.concatenate([[0], np.cumsum(good)])
        return np.asarray((sums[n] - sums[n - window]) / window, np.float64)
    outcome, response_s = rows["outcome"], rows["finish_s"] - rows["arrival_s"]
    return np.array([
        sli(slo, outcome[last - size : last], response_s[last - size : last], 0, 0.0)
        for last, size in zip(n, window, strict=True)
    ])  # fmt: skip


def _throughput_gaps(slo: Slo, finish_s: Floats, times_s: Floats) -> Floats:
    """(T + 1,) gap of a throughput at each tick, and after the last finish; nan where the window is empty."""
    at_s = np.append(times_s, max(float(finish_s.max(initial=0.0)), float(times_s[-1])))
    count = np.searchsorted(finish_s, at_s, "right") - np.searchsorted(finish_s, at_s - slo.window_s, "right")
    rate = count / np.minimum(slo.window_s, np.maximum(at_s, 1e-9))
    return np.where(count > 0, [slo.gap(float(value)) for value in rate], np.nan)


def _attainment(gaps: Floats) -> Floats:
    """(T + 1,) share of promised pairs with data that are at or above target."""
    known = ~np.isnan(gaps)
    met = known & (gaps <= TOLERANCE)
    return np.asarray(met.sum(axis=1) / np.maximum(known.sum(axis=1), 1), np.float64)


def _spread(results: Records, jobs: Jobs, left: Ints, ticks: int) -> Floats:
    """(T + 1,) standard deviation over tenants of their hit rates so far; tenants without outcomes are left out."""
    tenant, gone = jobs.tenant_of[jobs.pair], results["outcome"] != UNFINISHED
    hits, count = np.zeros((2, ticks + 1, int(jobs.tenant_of.max(initial=0)) + 1))
    np.add.at(count, (left[gone], tenant[gone]), 1.0)
    np.add.at(hits, (left[gone], tenant[gone]), results["outcome"][gone] == HIT)
    hits, count = hits.cumsum(axis=0), count.cumsum(axis=0)
    known = count > 0.0
    share = np.where(known, hits / np.maximum(count, 1.0), 0.0)
    n = np.maximum(known.sum(axis=1), 1)
    mean = share.sum(axis=1) / n
    return np.asarray(np.sqrt(np.maximum(0.0, (share**2).sum(axis=1) / n - mean**2)), np.float64)

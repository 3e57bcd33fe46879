"""Job and global features inside compiled code; ``plain`` is the reference form, ``table`` has the formulas."""

from __future__ import annotations

import math

import numpy as np

from eunomia.core.addresses import in_use, lent
from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.learning.observation import groups as g
from eunomia.learning.observation import table as f
from eunomia.learning.observation.groups import by_deadline, gather, sum_ahead

TINY_S = 1e-15


@jitted
def clip(value: float, low: float, high: float) -> float:
    """``value`` within [low, high]."""
    return min(max(value, low), high)


@jitted
def _pressure(need_s: float, laxity_s: float, layer_s: float) -> float:
    return min(3.0, need_s / max(laxity_s, 0.5 * layer_s))


@jitted
def promise(job: Record, x: Floats, scale_s: float) -> None:
    """What the agreement of the sub-job's pair adds."""
    promised = not math.isnan(job.slo)
    known = promised and job.sli_count > 0
    gap = clip(job.gap, -1.0, 1.0) if known else 0.0
    x[f.GAP], x[f.SHORTFALL] = gap, max(0.0, gap)
    x[f.BELOW] = 1.0 if known and gap + f.MARGIN > 0.0 else 0.0
    x[f.LOST] = 1.0 if known and gap > f.LOST_GAP else 0.0
    x[f.TARGET] = clip(job.slo, 0.0, 1.0) if promised else 0.0
    x[f.FILLED] = min(1.0, job.sli_count / 100.0)
    x[f.GAP_DEADLINE] = (gap if known else -1.0) * min((job.deadline_s - job.arrival_s) / scale_s, f.FAR)
    x[f.WEIGHT] = clip(math.log(max(job.weight, TINY_S)), -4.0, 4.0)
    owed = gap * job.sli_count if known else 0.0  # requests
    x[f.OWED] = min(4.0, math.log(1.0 + max(0.0, owed)))
    x[f.SPARE] = min(4.0, math.log(1.0 + max(0.0, -owed)))
    x[f.SINKS] = 1.0 if known and -1.0 < owed <= 0.0 else 0.0
    x[f.THIN] = 1.0 if -3.0 < owed <= -1.0 else 0.0
    x[f.CLOSE] = 1.0 if 0.0 < owed < 2.0 else 0.0
    needy = known and owed > -1.0
    x[f.NEEDY_WHOLE] = x[f.WHOLE] if needy else 0.0
    x[f.NEEDY_SIZE] = x[f.SIZE] if needy else 0.0


@jitted
def _describe(
    job: Record, group: Floats, x: Floats, scale_s: float, layer_s: float, lanes: int, system: Record
) -> None:
    """Features of one sub-job."""
    now_s, bandwidth = system.now_s, system.bandwidth_bytes_s
    left_s = job.deadline_s - now_s
    laxity_s = left_s - job.path_best_s
    bytes_s = job.bytes_left / bandwidth
    work_s = max(job.work_best_s, TINY_S)
    x[f.TIME_LEFT] = clip(left_s / scale_s, -f.FAR, f.FAR)
    x[f.LAXITY] = clip(laxity_s / scale_s, -f.FAR, f.FAR)
    x[f.WORK], x[f.BYTES] = job.work_best_s / scale_s, bytes_s / scale_s
    x[f.AGE], x[f.HOPELESS] = min((now_s - job.arrival_s) / scale_s, f.FAR), job.late
    x[f.LAXITY_RATIO] = 0.5 * clip(laxity_s / (work_s + layer_s), -2.0, 3.0)
    x[f.TIME_RATIO] = 0.25 * clip(left_s / (job.path_best_s + layer_s), 0.0, 8.0)
    x[f.NEAR] = clip(left_s / (120.0 * layer_s), -2.0, 4.0)
    x[f.SJF_PRESSURE] = _pressure(group[g.AHEAD_SJF] / lanes, laxity_s, layer_s)
    x[f.EDF_PRESSURE] = _pressure(group[g.AHEAD_EDF] / lanes, laxity_s, layer_s)
    x[f.SJF_BYTES_PRESSURE] = _pressure(group[g.AHEAD_SJF_BYTES] / bandwidth, laxity_s, layer_s)
    x[f.EDF_BYTES_PRESSURE] = _pressure(group[g.AHEAD_EDF_BYTES] / bandwidth, laxity_s, layer_s)
    x[f.DONE] = clip(1.0 - job.work_best_s / max(job.iso_best_s, TINY_S), 0.0, 1.0)
    x[f.INTENSITY] = min(4.0, bytes_s / work_s)
    x[f.RESTED] = min(4.0, (now_s - job.last_run_s) / scale_s)
    x[f.STARTED] = 1.0 if job.attained_s > 0.0 else 0.0


@jitted
def _logarithms(job: Record, x: Floats, log_scale: float, lanes: int, bandwidth: float) -> None:
    """The features that are logarithms, but for those of promises."""
    iso_s, work_s = max(job.iso_best_s, TINY_S), max(job.work_best_s, TINY_S)
    x[f.TIGHTNESS] = clip(math.log(max(job.deadline_s - job.arrival_s, TINY_S) / iso_s), -2.0, 4.0)
    x[f.SIZE] = clip(math.log(work_s) - log_scale, -4.0, 4.0)
    x[f.COST] = clip(math.log(work_s + job.bytes_left / bandwidth * lanes) - log_scale, -4.0, 4.0)
    x[f.WHOLE] = clip(math.log(iso_s) - log_scale, -4.0, 4.0)


@jitted
def _survey(
    groups: Floats,
    count: int,
    z: Floats,
    scale_s: float,
    layer_s: float,
    accelerators: Record,
    system: Record,
) -> None:
    """Global features."""
    lanes, bandwidth = len(accelerators), system.bandwidth_bytes_s
    idle, feasible, crowded, laxity_s, work, data = 0, 0, 0, 0.0, 0.0, 0.0
    for s in range(lanes):
        idle += 1 if accelerators[s].request < 0 else 0
    for row in range(count):
        if groups[row, g.LATE] != 0.0:
            continue
        feasible += 1
        slack_s = min(groups[row, g.DUE] - system.now_s - groups[row, g.PATH], f.FAR * scale_s)
        laxity_s += slack_s
        work += groups[row, g.REMAINING]
        data += groups[row, g.VOLUME]
        by_time = _pressure(groups[row, g.AHEAD_EDF] / lanes, slack_s, layer_s)
        if max(by_time, _pressure(groups[row, g.AHEAD_EDF_BYTES] / bandwidth, slack_s, layer_s)) > 1.0:
            crowded += 1
    z[f.DEMAND_SHARE], z[f.IDLE] = min(4.0, system.demand_bytes_s / bandwidth), idle / lanes
    z[f.WAITING], z[f.BACKLOG] = min(8.0, count / lanes), min(16.0, work / lanes / scale_s)
    z[f.BYTES_BACKLOG], z[f.HOPELESS_SHARE] = min(16.0, data / bandwidth / scale_s), 1.0 - feasible / count
    z[f.MEAN_LAXITY] = clip(laxity_s / max(feasible, 1) / scale_s, 0.0, 8.0)
    z[f.CROWDED] = crowded / max(feasible, 1)


@jitted
def observe(
    ready: Record,
    accelerators: Record,
    system: Record,
    jobs: Floats,
    overall: Floats,
    logs: bool,
    promises: bool,
) -> float:
    """Fill ``jobs`` (n, JOB) and ``overall`` (GLOBAL,); returns layer, in seconds. n must be at least 1.

    The same numbers whatever the order of the rows of ``ready``. Without ``logs``, logarithms stay as they are in
    ``jobs``; without ``promises``, what promises add. Promises need logarithms.
    """
    n = len(ready)
    rows, table = np.empty((2, n), np.int64), np.empty((n, g.COLUMNS))
    order, group_of, groups = lent(rows[0]), lent(rows[1]), lent(table)
    by_deadline(ready, order)
    count = gather(ready, order, group_of, groups)
    sum_ahead(groups, count)
    scale_s, layer_s = 0.0, 0.0
    for row in range(count):
        scale_s += groups[row, g.ISO]
        layer_s += groups[row, g.ISO] / groups[row, g.LAYERS]
    scale_s, layer_s = max(scale_s / count, TINY_S), max(layer_s / count, TINY_S)
    for i in range(n):
        _describe(ready[i], groups[group_of[i]], jobs[i], scale_s, layer_s, len(accelerators), system)
        if logs:
            _logarithms(ready[i], jobs[i], math.log(scale_s), len(accelerators), system.bandwidth_bytes_s)
        if promises:
            promise(ready[i], jobs[i], scale_s)
    _survey(groups, count, overall, scale_s, layer_s, accelerators, system)
    in_use(rows)
    in_use(table)
    return layer_s

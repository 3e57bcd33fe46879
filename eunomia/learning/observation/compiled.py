"""Job and global features inside compiled code; ``plain`` is the reference form, ``table`` has the formulas."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.learning.observation import table as f
from eunomia.learning.observation.groups import (
    AHEAD_EDF,
    AHEAD_EDF_BYTES,
    AHEAD_SJF,
    AHEAD_SJF_BYTES,
    COLUMNS,
    DUE,
    ISO,
    LATE,
    LAYERS,
    PATH,
    REMAINING,
    VOLUME,
    by_deadline,
    gather,
    sum_ahead,
)

Floats = npt.NDArray[np.float64]

TINY_S = 1e-15
MARGIN, LOST_GAP, FAR = f.MARGIN, f.LOST_GAP, f.FAR
(TIME_LEFT, LAXITY, WORK, BYTES, AGE, HOPELESS, LAXITY_RATIO, TIME_RATIO, NEAR, SJF_PRESSURE, EDF_PRESSURE,
 SJF_BYTES_PRESSURE, EDF_BYTES_PRESSURE, DONE, TIGHTNESS, INTENSITY, SIZE, COST, RESTED, STARTED, GAP, SHORTFALL,
 BELOW, LOST, TARGET, FILLED, GAP_DEADLINE, WEIGHT, OWED, SPARE, SINKS, THIN, CLOSE, WHOLE, NEEDY_WHOLE,
 NEEDY_SIZE) = range(len(f.JOB))  # fmt: skip
(DEMAND_SHARE, IDLE, WAITING, BACKLOG, BYTES_BACKLOG, HOPELESS_SHARE, MEAN_LAXITY, CROWDED) = range(
    len(f.GLOBAL)
)


@jitted
def clip(value: float, low: float, high: float) -> float:
    """``value`` within [low, high]."""
    return min(max(value, low), high)


@jitted
def _pressure(need_s: float, laxity_s: float, layer_s: float) -> float:
    return min(3.0, need_s / max(laxity_s, 0.5 * layer_s))


@jitted
def _promise(job: Record, x: Floats, scale_s: float) -> None:
    """What the agreement of the sub-job's pair adds."""
    promised = not math.isnan(job.slo)
    known = promised and job.sli_count > 0
    gap = clip(job.gap, -1.0, 1.0) if known else 0.0
    x[GAP], x[SHORTFALL] = gap, max(0.0, gap)
    x[BELOW] = 1.0 if known and gap + MARGIN > 0.0 else 0.0
    x[LOST] = 1.0 if known and gap > LOST_GAP else 0.0
    x[TARGET] = clip(job.slo, 0.0, 1.0) if promised else 0.0
    x[FILLED] = min(1.0, job.sli_count / 100.0)
    x[GAP_DEADLINE] = (gap if known else -1.0) * min((job.deadline_s - job.arrival_s) / scale_s, FAR)
    x[WEIGHT] = clip(math.log(max(job.weight, TINY_S)), -4.0, 4.0)
    owed = gap * job.sli_count if known else 0.0  # requests
    x[OWED] = min(4.0, math.log(1.0 + max(0.0, owed)))
    x[SPARE] = min(4.0, math.log(1.0 + max(0.0, -owed)))
    x[SINKS] = 1.0 if known and -1.0 < owed <= 0.0 else 0.0
    x[THIN] = 1.0 if -3.0 < owed <= -1.0 else 0.0
    x[CLOSE] = 1.0 if 0.0 < owed < 2.0 else 0.0
    needy = known and owed > -1.0
    x[NEEDY_WHOLE] = x[WHOLE] if needy else 0.0
    x[NEEDY_SIZE] = x[SIZE] if needy else 0.0


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
    x[TIME_LEFT], x[LAXITY] = clip(left_s / scale_s, -FAR, FAR), clip(laxity_s / scale_s, -FAR, FAR)
    x[WORK], x[BYTES] = job.work_best_s / scale_s, bytes_s / scale_s
    x[AGE], x[HOPELESS] = min((now_s - job.arrival_s) / scale_s, FAR), job.late
    x[LAXITY_RATIO] = 0.5 * clip(laxity_s / (work_s + layer_s), -2.0, 3.0)
    x[TIME_RATIO] = 0.25 * clip(left_s / (job.path_best_s + layer_s), 0.0, 8.0)
    x[NEAR] = clip(left_s / (120.0 * layer_s), -2.0, 4.0)
    x[SJF_PRESSURE] = _pressure(group[AHEAD_SJF] / lanes, laxity_s, layer_s)
    x[EDF_PRESSURE] = _pressure(group[AHEAD_EDF] / lanes, laxity_s, layer_s)
    x[SJF_BYTES_PRESSURE] = _pressure(group[AHEAD_SJF_BYTES] / bandwidth, laxity_s, layer_s)
    x[EDF_BYTES_PRESSURE] = _pressure(group[AHEAD_EDF_BYTES] / bandwidth, laxity_s, layer_s)
    x[DONE] = clip(1.0 - job.work_best_s / max(job.iso_best_s, TINY_S), 0.0, 1.0)
    x[TIGHTNESS] = clip(
        math.log(max(job.deadline_s - job.arrival_s, TINY_S) / max(job.iso_best_s, TINY_S)), -2.0, 4.0
    )
    x[INTENSITY] = min(4.0, bytes_s / work_s)
    x[SIZE] = clip(math.log(work_s / scale_s), -4.0, 4.0)
    x[COST] = clip(math.log((work_s + bytes_s * lanes) / scale_s), -4.0, 4.0)
    x[RESTED] = min(4.0, (now_s - job.last_run_s) / scale_s)
    x[STARTED] = 1.0 if job.attained_s > 0.0 else 0.0
    x[WHOLE] = clip(math.log(max(job.iso_best_s, TINY_S) / scale_s), -4.0, 4.0)
    _promise(job, x, scale_s)


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
        if accelerators[s].request < 0:
            idle += 1
    for g in range(count):
        if groups[g, LATE] != 0.0:
            continue
        feasible += 1
        slack_s = min(groups[g, DUE] - system.now_s - groups[g, PATH], FAR * scale_s)
        laxity_s += slack_s
        work += groups[g, REMAINING]
        data += groups[g, VOLUME]
        by_time = _pressure(groups[g, AHEAD_EDF] / lanes, slack_s, layer_s)
        if max(by_time, _pressure(groups[g, AHEAD_EDF_BYTES] / bandwidth, slack_s, layer_s)) > 1.0:
            crowded += 1
    z[DEMAND_SHARE], z[IDLE] = min(4.0, system.demand_bytes_s / bandwidth), idle / lanes
    z[WAITING], z[BACKLOG] = min(8.0, count / lanes), min(16.0, work / lanes / scale_s)
    z[BYTES_BACKLOG], z[HOPELESS_SHARE] = min(16.0, data / bandwidth / scale_s), 1.0 - feasible / count
    z[MEAN_LAXITY] = clip(laxity_s / max(feasible, 1) / scale_s, 0.0, 8.0)
    z[CROWDED] = crowded / max(feasible, 1)


@jitted
def observe(ready: Record, accelerators: Record, system: Record, jobs: Floats, overall: Floats) -> float:
    """Fill ``jobs`` (n, JOB) and ``overall`` (GLOBAL,); returns layer, in seconds. n must be at least 1.

    The same numbers whatever the order of the rows of ``ready``.
    """
    n = len(ready)
    order, group_of = np.empty(n, np.int64), np.empty(n, np.int64)
    groups = np.empty((n, COLUMNS))
    by_deadline(ready, order)
    count = gather(ready, order, group_of, groups)
    sum_ahead(groups, count)
    scale_s, layer_s = 0.0, 0.0
    for g in range(count):
        scale_s += groups[g, ISO]
        layer_s += groups[g, ISO] / groups[g, LAYERS]
    scale_s, layer_s = max(scale_s / count, TINY_S), max(layer_s / count, TINY_S)
    for i in range(n):
        _describe(ready[i], groups[group_of[i]], jobs[i], scale_s, layer_s, len(accelerators), system)
    _survey(groups, count, overall, scale_s, layer_s, accelerators, system)
    return layer_s

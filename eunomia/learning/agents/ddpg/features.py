"""What the LSTM sees of each waiting sub-job, by name, in order, with a version.

Sub-jobs come in order of deadline. S is the number of accelerators, fixed by a policy's training; layer is the mean
best-case time of all layers of the deployed networks; B the bandwidth; c and b time and demand of this layer.

Deviation D11: the papers name the quantities; scaling, clipping and the rest are ours. The network is described by its
remaining work instead of a one-hot number, so that unseen networks work.

Does badly: logarithms and clipping hide differences beyond e^4 mean layers; the list order is part of the input.
"""

from __future__ import annotations

import math

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.learning.observation.compiled import TINY_S, clip
from eunomia.learning.observation.groups import AHEAD_EDF, AHEAD_EDF_BYTES, AHEAD_SJF, AHEAD_SJF_BYTES

VERSION = 2  # of names, order and formulas; a policy trained on another one is refused

JOB = (
    "slack",  # clip((d - t) / iso, -4, 8) / 4
    "urgency",  # min(4, path / (d - t)); 4 when the deadline is past
    "waiting",  # min(8, (t - ready) / layer) / 8
    "done",  # layers done / layers
    "hopeless",  # 1 if the deadline is out of reach
    "path",  # clip(log(path / layer), -3, 6) / 3, best case
    "work",  # the same of the remaining work, mean over accelerator types
    "bytes",  # clip(log(1 + bytes left / B / layer), 0, 6) / 3
    # min(3, (work, or bytes / B, of feasible requests that go before it / S) / max(laxity, layer / 2)), by deadline ...
    "edf_pressure",
    "edf_bytes_pressure",
    "sjf_pressure",  # ... and by remaining work
    "sjf_bytes_pressure",
)
EACH = (
    "time",  # clip(log(c / layer), -4, 4) / 2; 2 where it cannot run
    "demand",  # min(4, b / B)
    "free_in",  # min(8, estimated time left of the running layer / layer) / 4
)  # per accelerator: all times, then all demands, then all free_in
OVERALL = (
    "demand_share",  # min(4, D / B)
    "crowd",  # min(8, waiting sub-jobs / S) / 4
    "lost",  # share of hopeless ones
)
PROMISE = (
    "promised",  # 1 if the pair has a target
    "target",  # target, at most 1; 0 without
    "indicator",  # current indicator, clipped to 0..2; the target while there is no data
    "gap",  # signed shortfall, clipped to +-1
    "filled",  # min(1, requests in the window / 100)
)  # of the sub-job's (tenant, network) pair; Fair/Firm only
N_JOB = len(JOB)
CANNOT = 2.0


def inputs(lanes: int, promises: bool) -> int:
    """F: numbers per sub-job."""
    return len(JOB) + len(EACH) * lanes + len(OVERALL) + (len(PROMISE) if promises else 0)


def names(lanes: int, promises: bool) -> tuple[str, ...]:
    """The F names."""
    each = tuple(f"{name}[{s}]" for name in EACH for s in range(lanes))
    return (*JOB, *each, *OVERALL, *(PROMISE if promises else ()))


@jitted
def _describe(job: Record, x: Floats, layer_s: float, system: Record) -> None:
    """Features of the sub-job itself."""
    left_s = job.deadline_s - system.now_s
    x[0] = clip(left_s / job.iso_best_s, -4.0, 8.0) / 4.0
    x[1] = min(4.0, job.path_best_s / left_s) if left_s > 0.0 else 4.0
    x[2] = min(8.0, (system.now_s - job.ready_s) / layer_s) / 8.0
    x[3] = job.layers_done / job.layers_total
    x[4] = job.late
    x[5] = clip(math.log(max(job.path_best_s, TINY_S) / layer_s), -3.0, 6.0) / 3.0
    x[6] = clip(math.log(max(job.work_mean_s, TINY_S) / layer_s), -3.0, 6.0) / 3.0
    x[7] = min(6.0, math.log1p(job.bytes_left / system.bandwidth_bytes_s / layer_s)) / 3.0


@jitted
def press(job: Record, group: Floats, x: Floats, layer_s: float, lanes: int, system: Record) -> None:
    """What goes before the sub-job's request, against its laxity; ``group``: of observation/groups.py."""
    spare_s = max(job.deadline_s - system.now_s - job.path_best_s, 0.5 * layer_s)
    x[8] = min(3.0, group[AHEAD_EDF] / lanes / spare_s)
    x[9] = min(3.0, group[AHEAD_EDF_BYTES] / system.bandwidth_bytes_s / spare_s)
    x[10] = min(3.0, group[AHEAD_SJF] / lanes / spare_s)
    x[11] = min(3.0, group[AHEAD_SJF_BYTES] / system.bandwidth_bytes_s / spare_s)


@jitted
def _promise(job: Record, x: Floats, at: int) -> None:
    """What the agreement of the sub-job's pair adds."""
    promised = not math.isnan(job.slo)
    target = clip(job.slo, 0.0, 1.0) if promised else 0.0
    known = job.sli_count > 0 and not math.isnan(job.sli)
    x[at] = 1.0 if promised else 0.0
    x[at + 1] = target
    x[at + 2] = clip(job.sli, 0.0, 2.0) if known else target
    x[at + 3] = clip(job.gap, -1.0, 1.0) if promised and known else 0.0
    x[at + 4] = min(1.0, job.sli_count / 100.0)


@jitted
def describe(
    job: Record,
    latency_s: Floats,
    demand: Floats,
    accelerators: Record,
    system: Record,
    head: Record,
    x: Floats,
) -> None:
    """Fill ``x`` (F,) of one sub-job but for pressure, ``crowd`` and ``lost``; ``head``: the policy's (decide.py)."""
    lanes, bandwidth, layer_s = len(accelerators), system.bandwidth_bytes_s, head.layer_s
    _describe(job, x, layer_s, system)
    for s in range(lanes):
        can, at = latency_s[s] < math.inf, N_JOB + s
        time = clip(math.log(max(latency_s[s], TINY_S) / layer_s), -4.0, 4.0) / 2.0
        x[at] = time if can else CANNOT
        x[at + lanes] = min(4.0, demand[s] / bandwidth) if can else 0.0
        x[at + 2 * lanes] = min(8.0, accelerators[s].free_in_s / layer_s) / 4.0
    x[N_JOB + 3 * lanes] = min(4.0, system.demand_bytes_s / bandwidth)
    if head.promises == 1:
        _promise(job, x, N_JOB + 3 * lanes + len(OVERALL))

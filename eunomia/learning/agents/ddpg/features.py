"""The features of ``table`` inside compiled code; tests/learning/agents/ddpg has the reference form."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.learning.agents.ddpg.table import JOB
from eunomia.learning.observation.compiled import TINY_S, clip

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

N_JOB = len(JOB)
CANNOT = 2.0


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
def describe_all(
    ready: Record, order: Ints, latency_s: Floats, demand: Floats, accelerators: Record, system: Record, layer_s: float,
    promises: bool, rows: Floats,
) -> None:  # fmt: skip
    """Fill ``rows`` (n, F), one per sub-job in ``order``."""
    n, lanes, bandwidth = len(order), len(accelerators), system.bandwidth_bytes_s
    late = 0
    for i in range(n):
        late += ready[i].late
    for j in range(n):
        i, x = order[j], rows[j]
        _describe(ready[i], x, layer_s, system)
        at = N_JOB
        for s in range(lanes):
            can = latency_s[i, s] < math.inf
            x[at + s] = (
                clip(math.log(max(latency_s[i, s], TINY_S) / layer_s), -4.0, 4.0) / 2.0 if can else CANNOT
            )
            x[at + lanes + s] = min(4.0, demand[i, s] / bandwidth) if can else 0.0
            x[at + 2 * lanes + s] = min(8.0, accelerators[s].free_in_s / layer_s) / 4.0
        at += 3 * lanes
        x[at] = min(4.0, system.demand_bytes_s / bandwidth)
        x[at + 1] = min(8.0, n / lanes) / 4.0
        x[at + 2] = late / n
        if promises:
            _promise(ready[i], x, at + 3)

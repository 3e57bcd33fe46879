"""Pair features: one sub-job on every accelerator, after the starts that the round has made so far; compiled."""

from __future__ import annotations

import math

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.learning.observation import table as f
from eunomia.learning.observation.compiled import TINY_S, clip


@jitted
def finish_times(latency_s: Floats, free_s: Floats, slow: float, finish_s: Floats) -> tuple[float, float]:
    """Fill ``finish_s`` (S,) = (free + c) slow; returns (least c, least finish)."""
    least_s, soonest_s = np.inf, np.inf
    for s in range(len(free_s)):
        finish_s[s] = (free_s[s] + latency_s[s]) * slow
        least_s, soonest_s = min(least_s, latency_s[s]), min(soonest_s, finish_s[s])
    return least_s, soonest_s


@jitted
def describe_pair(
    job: Record, c_s: float, finish_s: float, least_s: float, soonest_s: float, demand: float, running: float,
    layer_s: float, last_request: int, system: Record, x: Floats,
) -> None:  # fmt: skip
    """Fill ``x`` (PAIR,) for an accelerator that can run the sub-job. ``running``: D with starts of this round."""
    bandwidth = system.bandwidth_bytes_s
    laxity_s = job.deadline_s - system.now_s - job.path_best_s
    extra_s = finish_s - least_s
    x[f.SLOWER] = math.log(max(c_s, TINY_S) / max(least_s, TINY_S))
    x[f.LATER] = min(4.0, finish_s / max(soonest_s, TINY_S) - 1.0)
    x[f.DEMAND] = min(4.0, demand / bandwidth)
    x[f.OVERFLOW] = min(4.0, max(0.0, (running + demand) / bandwidth - 1.0))
    x[f.LAXITY_AFTER] = 0.5 * clip((laxity_s - extra_s) / (max(job.work_best_s, TINY_S) + layer_s), -2.0, 3.0)
    x[f.WOULD_MISS] = 1.0 if laxity_s < extra_s else 0.0
    x[f.SWITCH] = 1.0 if last_request >= 0 and last_request != job.request else 0.0

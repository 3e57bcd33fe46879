"""Pair features: one sub-job on every accelerator, after the starts that the round has made so far; compiled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.learning.observation import table as f
from eunomia.learning.observation.compiled import TINY_S, clip


class Offer(NamedTuple):
    """What one accelerator offers a sub-job, and what it is compared with. ``running``: D with starts of this round."""

    c_s: float
    finish_s: float
    least_s: float  # c of the fastest type
    soonest_s: float  # finish on the best accelerator
    demand: float
    running: float
    layer_s: float


@jitted
def finish_times(latency_s: Floats, free_s: Floats, slow: float, finish_s: Floats) -> tuple[float, float]:
    """Fill ``finish_s`` (S,) = (free + c) slow; returns (least c, least finish)."""
    least_s, soonest_s = np.inf, np.inf
    for s in range(len(free_s)):
        finish_s[s] = (free_s[s] + latency_s[s]) * slow
        least_s, soonest_s = min(least_s, latency_s[s]), min(soonest_s, finish_s[s])
    return least_s, soonest_s


@jitted
def switches(job: Record, last_request: int) -> float:
    """1 if an accelerator would change from another request."""
    return 1.0 if last_request >= 0 and last_request != job.request else 0.0


@jitted
def describe_pair(job: Record, offer: Offer, last_request: int, system: Record, x: Floats) -> None:
    """Fill ``x`` (PAIR,) for an accelerator that can run the sub-job."""
    bandwidth, layer_s, least_s = system.bandwidth_bytes_s, offer.layer_s, offer.least_s
    laxity_s = job.deadline_s - system.now_s - job.path_best_s
    extra_s = offer.finish_s - least_s
    x[f.SLOWER] = 0.0
    if offer.c_s != least_s:
        x[f.SLOWER] = math.log(max(offer.c_s, TINY_S) / max(least_s, TINY_S))
    x[f.LATER] = min(4.0, offer.finish_s / max(offer.soonest_s, TINY_S) - 1.0)
    x[f.DEMAND] = min(4.0, offer.demand / bandwidth)
    x[f.OVERFLOW] = min(4.0, max(0.0, (offer.running + offer.demand) / bandwidth - 1.0))
    x[f.LAXITY_AFTER] = 0.5 * clip((laxity_s - extra_s) / (max(job.work_best_s, TINY_S) + layer_s), -2.0, 3.0)
    x[f.WOULD_MISS] = 1.0 if laxity_s < extra_s else 0.0
    x[f.SWITCH] = switches(job, last_request)

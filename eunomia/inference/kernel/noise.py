"""Reproducible randomness per sub-job: a hash of (seed, request, layer), independent of the order of events."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eunomia.inference.kernel.jit import jitted

FACTOR, SWITCH, MOVE = 5, 6, 7  # streams; 1 and 2: jitter, 3: random queue, 4: order ``shuffled``


@jitted
def _mix(x: Any) -> Any:
    """SplitMix64 finaliser (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014)."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@jitted
def uniform(seed: int, request: int, layer: int, stream: int) -> float:
    """A number in (0, 1) that depends on its arguments alone."""
    x = _mix(np.uint64(seed) ^ _mix(np.uint64(request) ^ _mix(np.uint64(layer) ^ _mix(np.uint64(stream)))))
    return (float(x >> np.uint64(11)) + 0.5) / 9007199254740992.0


@jitted
def jitter(seed: int, request: int, layer: int, sigma: float) -> float:
    """Log-normal factor of mean 1 for one execution of one layer; 1 when sigma is 0."""
    if sigma == 0.0:
        return 1.0
    radius = math.sqrt(-2.0 * math.log(uniform(seed, request, layer, 1)))
    z = radius * math.cos(2.0 * math.pi * uniform(seed, request, layer, 2))
    return math.exp(sigma * z - 0.5 * sigma * sigma)

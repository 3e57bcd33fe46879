"""Randomness as a hash of (seed, request, layer, stream): the same numbers in any order of use."""

from __future__ import annotations

import math

from eunomia.core.arrays import Floats

_MASK = (1 << 64) - 1
JITTER_RADIUS, JITTER_ANGLE, BIND, ORDER, FACTOR, SWITCH, MOVE = 1, 2, 3, 4, 5, 6, 7  # streams


def _mix(x: int) -> int:
    """SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def uniform(seed: int, request: int, layer: int, stream: int) -> float:
    """A number in (0, 1)."""
    x = _mix(seed ^ _mix(request ^ _mix(layer ^ _mix(stream))))
    return ((x >> 11) + 0.5) / 2.0**53


def drawn(seed: int, request: int, layer: int, stream: int, values: Floats, default: float) -> float:
    """One of these values of equal chance."""
    return (
        float(values[math.floor(uniform(seed, request, layer, stream) * len(values))])
        if len(values)
        else default
    )


def jitter(seed: int, request: int, layer: int, sigma: float) -> float:
    """Log-normal factor of mean 1 by Box and Muller's transform; 1 when sigma is 0."""
    if sigma == 0.0:
        return 1.0
    radius = math.sqrt(-2.0 * math.log(uniform(seed, request, layer, JITTER_RADIUS)))
    z = radius * math.cos(2.0 * math.pi * uniform(seed, request, layer, JITTER_ANGLE))
    return math.exp(sigma * z - 0.5 * sigma * sigma)

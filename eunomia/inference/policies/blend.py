"""Blend: deadline, work, memory traffic and size in one sum, whose weights suit one place; our own.

key = deadline w_d + work w_w + bytes / B w_b + path w_p + size w_s, least first, in seconds:
    deadline    absolute deadline
    work, path  remaining work and remaining critical path, best case
    bytes / B   time that the request's remaining memory traffic takes alone
    size        isolated time of the whole network
``edf`` is deadline = 1, ``sjf`` work = 1, ``llf`` deadline = 1 and path = -1, ``edf_bytes`` deadline = 1, bytes = 3.
The key is static, so that the engine runs it as fast as those. Rehearsal (inference/rehearsal.py) finds weights.

Does badly: its weights mean nothing at another place; targets of tenants are unknown to it.
"""

from __future__ import annotations

import math

from eunomia.contract.rows import Ready, System
from eunomia.core.errors import PolicyError
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.ordering import Order

WEIGHTS = ("deadline", "work", "bytes", "path", "size")


def blend_key(ready: Ready, system: System) -> float:
    """A weighted sum of deadline, remaining work, memory traffic and size."""
    w = system.parameters
    total = w[1] * ready.work_best_s + w[2] * ready.bytes_left / system.bandwidth_bytes_s
    total += w[3] * ready.path_best_s + w[4] * ready.iso_best_s
    return total if w[0] == 0.0 else total + w[0] * ready.deadline_s


def blend_order(*weights: float) -> Order:
    """The order with these weights, as WEIGHTS names them. Raises PolicyError for one that is no number."""
    for name, weight in zip(WEIGHTS, weights, strict=True):
        if not math.isfinite(weight):
            raise PolicyError(f"blend: {name} is {weight}; give a number")
    settings = ",".join(f"{name}={w:g}" for name, w in zip(WEIGHTS, weights, strict=True) if w)
    return Order(f"blend({settings})", blend_key, parameters=weights)


def blend(
    deadline: float = 1.0,
    work: float = 0.0,
    bytes: float = 0.0,  # noqa: A002
    path: float = 0.0,
    size: float = 0.0,
    place: str = "any_idle",
    gate: float = math.inf,
) -> Greedy:
    """Weighted sum of deadline, work, memory traffic and size, hopeless last; rehearsal finds its weights."""
    return Greedy(blend_order(deadline, work, bytes, path, size), place, True, gate)

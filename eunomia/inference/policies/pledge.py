"""Pledge: size, time left and promises in one sum, whose weights suit one place; our own.

key = (1 - left) log(work + toll bytes / B) + left log(deadline - now)
      + spare (log(1 + room) - edge) - lack max(0, gap) + often log(1 + n), least first; times in seconds:
    n, gap   requests in the indicator's window of the pair (tenant, network); its target - indicator
    room     max(0, -n gap): misses that the pair can afford;  edge = 1 where it cannot afford one more, else 0
``left`` = 1 is EDF, 0 SJF. ``spare`` lets pairs wait that can afford it. ``lack`` above 0 helps pairs far below their
target, below 0 it gives them up. ``often`` lets pairs wait of which many requests came: a hit counts less to them.
Logarithms make weights mean the same for networks of any size. Rehearsal (inference/rehearsal.py) finds them.

Does badly: weights suit one place; without promises it is a compromise of EDF and SJF, and ``blend`` is finer.
"""

from __future__ import annotations

import math

from eunomia.contract.rows import Ready, System
from eunomia.core.errors import PolicyError
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.ordering import Order

WEIGHTS = ("left", "toll", "spare", "lack", "often")
SOON_S = 1e-9  # time left of what is late


def pledge_key(ready: Ready, system: System) -> float:
    """A weighted sum of size, time left and what the pair's promise says; dynamic."""
    w = system.parameters
    left, toll, spare, lack, often = w[0], w[1], w[2], w[3], w[4]
    key = 0.0
    if left != 1.0:
        key += (1.0 - left) * math.log(ready.work_best_s + toll * ready.bytes_left / system.bandwidth_bytes_s)
    if left != 0.0:
        key += left * math.log(max(ready.deadline_s - system.now_s, SOON_S))
    if math.isnan(ready.slo):
        return key
    if often != 0.0:
        key += often * math.log(1.0 + ready.sli_count)
    room = -ready.sli_count * ready.gap if ready.sli_count > 0 else 0.0
    if room < 0.0:
        return key - lack * ready.gap
    return key + spare * (math.log(1.0 + room) - (1.0 if room < 1.0 else 0.0))


def pledge(
    left: float = 1.0,
    toll: float = 0.0,
    spare: float = 0.4,
    lack: float = 0.0,
    often: float = 0.0,
    place: str = "eft",
    gate: float = math.inf,
) -> Greedy:
    """Time left, size and what promises say in one sum, hopeless last; rehearsal finds its weights."""
    weights = (left, toll, spare, lack, often)
    for name, weight in zip(WEIGHTS, weights, strict=True):
        if not math.isfinite(weight):
            raise PolicyError(f"pledge: {name} is {weight}; give a number")
    if toll < 0.0:
        raise PolicyError(f"pledge: toll is {toll:g}; it must be at least 0")
    settings = ",".join(f"{name}={w:g}" for name, w in zip(WEIGHTS, weights, strict=True))
    return Greedy(
        Order(f"pledge({settings})", pledge_key, dynamic=True, parameters=weights), place, True, gate
    )

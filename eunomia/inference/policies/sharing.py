"""What a start costs where accelerators share bandwidth, in the platform's own way of sharing; compiled.

A layer that has its bandwidth to itself does one second of work per second; under contention it does less
(its *rate*, docs/engine.md). From the demands b_j of running layers, the engine's rates with and without the
layer about to start are computed and compared. The urgencies by which ``weighted`` sharing cuts are not known
to a policy: all are taken to be equal (deviation L14).
"""

from __future__ import annotations

from eunomia.contract.contention import CONTENTION
from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted

WAYS = ("proportional", "max_min", "weighted")
# The way of sharing that each contention mode is described by; where nothing is shared, rates do not matter.
WAY_OF: dict[str, str] = {
    name: model.described_as for name, model in CONTENTION.items() if model.described_as is not None
}
PROPORTIONAL, MAX_MIN, WEIGHTED = range(len(WAYS))
OWN_LOSS, OTHERS_LOSS, STANDING_LOSS, EVEN, CUT = range(5)  # as SHARE of learning/observation/table.py
LEAST = 0.25  # of its demand, which no layer is cut below under ``weighted``


@jitted
def _level(demand: Floats, extra: float, bandwidth: float) -> float:
    """Water filling: the grant of all who ask for more than it."""
    level, settled = 0.0, -1
    while True:
        left, asking, small = bandwidth, 0, 0
        for s in range(len(demand) + 1):
            b = extra if s == len(demand) else demand[s]
            if b <= 0.0:
                continue
            if b <= level:
                left -= b
                small += 1
            else:
                asking += 1
        if asking == 0 or small == settled:
            return level
        level, settled = left / asking, small


@jitted
def _grants(demand: Floats, extra: float, total: float, bandwidth: float) -> tuple[float, int]:
    """``weighted`` with equal urgencies: the sum of what is granted before it is scaled to B, and who ask."""
    asking = 1 if extra > 0.0 else 0
    for s in range(len(demand)):
        if demand[s] > 0.0:
            asking += 1
    granted = 0.0
    for s in range(len(demand) + 1):
        b = extra if s == len(demand) else demand[s]
        if b > 0.0:
            granted += cut_grant(b, total, bandwidth, asking)
    return granted, asking


@jitted
def cut_grant(b: float, total: float, bandwidth: float, asking: int) -> float:
    """What a layer of demand ``b`` keeps: the larger its own traffic, the smaller its share of the excess."""
    if asking == 1:
        return bandwidth
    cut = (total - bandwidth) * (total - b) / total / (asking - 1)
    return max(b - cut, LEAST * b)


@jitted
def rates(way: int, demand: Floats, extra: float, bandwidth: float, out: Floats) -> None:
    """Fill ``out`` (S + 1,): rates of what runs on every accelerator (1 where demand is 0), and of one more."""
    total = extra
    for s in range(len(demand)):
        total += demand[s]
    out[:] = 1.0
    if total <= bandwidth:
        return
    level, granted, asking = 0.0, 0.0, 0
    if way == MAX_MIN:
        level = _level(demand, extra, bandwidth)
    elif way == WEIGHTED:
        granted, asking = _grants(demand, extra, total, bandwidth)
    for s in range(len(demand) + 1):
        b = extra if s == len(demand) else demand[s]
        if b <= 0.0:
            continue
        if way == PROPORTIONAL:
            out[s] = bandwidth / total
        elif way == MAX_MIN:
            out[s] = min(1.0, level / b)
        else:
            grant = cut_grant(b, total, bandwidth, asking) * min(1.0, bandwidth / granted)
            out[s] = min(1.0, grant / b)


@jitted
def lost_work(way: int, demand: Floats, bandwidth: float, out: Floats) -> float:
    """Work per second that contention takes from what runs now. ``out``: (S + 1,) scratch."""
    rates(way, demand, 0.0, bandwidth, out)
    total = 0.0
    for s in range(len(demand)):
        total += 1.0 - out[s]
    return total


@jitted
def describe_share(
    way: int, demand: Floats, standing: float, extra: float, bandwidth: float, scratch: Floats, x: Floats
) -> None:
    """Fill ``x`` (5,) for the start of a layer of demand ``extra``. ``standing``: ``lost_work`` before it."""
    rates(way, demand, extra, bandwidth, scratch)
    total = 0.0
    for s in range(len(demand)):
        total += 1.0 - scratch[s]
    x[OWN_LOSS], x[OTHERS_LOSS] = 1.0 - scratch[len(demand)], min(4.0, max(-4.0, total - standing))
    x[STANDING_LOSS] = min(4.0, standing)
    x[EVEN], x[CUT] = 1.0 if way == MAX_MIN else 0.0, 1.0 if way == WEIGHTED else 0.0

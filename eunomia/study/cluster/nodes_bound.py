"""What no policy can do with a set of nodes: bounds on completion times of a log's jobs.

alone   no job ends before its run time on the fastest type that is there.
shared  all devices as one machine that serves any job with all of its speed at once, shortest remaining work first,
        stopped and resumed at no cost: no schedule of the devices has a lower sum of completion times (Schrage 1968,
        as every schedule of the devices is one of that machine).
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from eunomia.core.arrays import Floats, Ints

SLACK = 1e-9  # of a promise: what floats may lose


@dataclass(frozen=True)
class Needed:
    """What nodes must have at least, whoever schedules."""

    devices: float  # of one type: those of the widest job
    speed: float  # of the fastest type
    capacity: float  # devices x speed, all together


def needed_for(arrival_s: Floats, work: Floats, devices: Ints, jct_mean_s: float) -> Needed:
    """By both bounds; the capacity to a thousandth, from below. ``work`` in device-seconds at speed 1."""
    if math.isinf(jct_mean_s):
        return Needed(float(devices.max()), 0.0, 0.0)
    promise = jct_mean_s * (1.0 + SLACK)
    speed = float((work / devices).mean()) / promise
    low, high = 0.0, max(float(work.mean()) / promise, 1e-9)
    while _shared_mean_s(arrival_s, work / high) > promise:
        low, high = high, 2.0 * high
    while high - low > 1e-3 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _shared_mean_s(arrival_s, work / middle) > promise else (low, middle)
    return Needed(float(devices.max()), speed, low)


def least_jct_mean_s(arrival_s: Floats, alone_s: Floats, work: Floats, capacity: float) -> float:
    """Average completion time of any schedule, at least. ``work`` in device-seconds at speed 1, arrivals ascending."""
    return max(float(alone_s.mean()), _shared_mean_s(arrival_s, work / capacity))


def _shared_mean_s(arrival_s: Floats, service_s: Floats) -> float:
    """Mean time in system under shortest remaining processing time on one machine."""
    left: list[tuple[float, float]] = []  # remaining service, arrival
    now, total = 0.0, 0.0
    for at, service in zip(arrival_s.tolist(), service_s.tolist(), strict=True):
        while left and now + left[0][0] <= at:
            service_left, came = heapq.heappop(left)
            now += service_left
            total += now - came
        if left:
            service_left, came = heapq.heappop(left)
            heapq.heappush(left, (service_left - (at - now), came))
        now = at
        heapq.heappush(left, (service, at))
    while left:
        service_left, came = heapq.heappop(left)
        now += service_left
        total += now - came
    return total / len(arrival_s)

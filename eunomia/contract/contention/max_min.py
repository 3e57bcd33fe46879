"""Max-min fairness: the least demands are met in full, all others get equal grants (Bertsekas and Gallager, 1992)."""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.contract.contention.model import ContentionModel, Demand, Lanes, by_share


def rates(running: Sequence[Demand], bandwidth: float, accelerators: int) -> list[float]:
    """g_j = min(b_j, theta) with sum g = min(B, D); rate = g_j / b_j, and 1 where b_j = 0."""
    return by_share(running, grants(running, bandwidth))


def grants(running: Sequence[Demand], bandwidth: float) -> list[float]:
    """Water filling in the order of the demands."""
    found = [0.0 for _ in running]
    left = bandwidth
    order = sorted(range(len(running)), key=lambda j: running[j].bytes_s)
    for position, j in enumerate(order):
        found[j] = min(running[j].bytes_s, left / (len(order) - position))
        left -= found[j]
    return found


def split(lanes: Lanes, demand: float, bandwidth: float) -> None:
    """The same, compiled: meet every demand below an equal share of what is left, until none is."""
    left, open_lanes = bandwidth, 0
    for s in range(len(lanes)):
        lanes[s].grant = -1.0
        if lanes[s].node >= 0:
            open_lanes += 1
    while open_lanes > 0:
        share = left / open_lanes
        satisfied = 0
        for s in range(len(lanes)):
            if lanes[s].node >= 0 and lanes[s].grant < 0.0 and lanes[s].demand <= share:
                lanes[s].grant = lanes[s].demand
                left -= lanes[s].demand
                satisfied += 1
        if satisfied == 0:
            for s in range(len(lanes)):
                if lanes[s].node >= 0 and lanes[s].grant < 0.0:
                    lanes[s].grant = share
            return
        open_lanes -= satisfied


MAX_MIN = ContentionModel(rates, split=split, described_as="max_min", replaceable=True)

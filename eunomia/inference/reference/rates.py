"""Progress rates of running layers that share memory bandwidth: docs/engine.md, "Time and rates"."""

from __future__ import annotations

from typing import NamedTuple


class Demand(NamedTuple):
    """What one running layer asks of the memory."""

    bytes_s: float  # b
    weight: float  # urgency, read by the weighted rules
    latency_s: float  # c
    floor_s: float  # k
    dram_bytes: float  # V


def progress(mode: str, running: list[Demand], bandwidth: float, accelerators: int) -> list[float]:
    """Rate of each running layer, in (0, 1]."""
    if mode == "none":
        return [1.0 for _ in running]
    total = sum(layer.bytes_s for layer in running)
    if mode == "proportional":
        return [1.0 / max(1.0, total / bandwidth) for _ in running]
    if mode.startswith("roofline"):
        grants = {
            "roofline": lambda: max_min(running, bandwidth),
            "roofline_proportional": lambda: [
                layer.bytes_s / max(1.0, total / bandwidth) for layer in running
            ],
            "roofline_static": lambda: [bandwidth / accelerators for _ in running],
        }[mode]()
        return [_roofline(layer, grant) for layer, grant in zip(running, grants, strict=True)]
    if total <= bandwidth:
        return [1.0 for _ in running]
    grants = (
        max_min(running, bandwidth) if mode == "max_min" else urgency(running, bandwidth, mode == "weighted")
    )
    return [
        min(1.0, grant / layer.bytes_s) if layer.bytes_s > 0.0 else 1.0
        for layer, grant in zip(running, grants, strict=True)
    ]


def _roofline(layer: Demand, grant: float) -> float:
    if layer.dram_bytes == 0.0:
        return 1.0
    return min(1.0, layer.latency_s / max(layer.floor_s, layer.dram_bytes / grant))


def max_min(running: list[Demand], bandwidth: float) -> list[float]:
    """Water filling: the least demands are met in full, the others share the rest equally."""
    grants = [0.0 for _ in running]
    left = bandwidth
    order = sorted(range(len(running)), key=lambda j: running[j].bytes_s)
    for position, j in enumerate(order):
        grants[j] = min(running[j].bytes_s, left / (len(order) - position))
        left -= grants[j]
    return grants


def urgency(running: list[Demand], bandwidth: float, exact: bool) -> list[float]:
    """MoCA's cuts: the less urgent a layer's traffic, the more of the excess it gives up; at least b/4 remains.

    ``exact`` divides each cut by n - 1, so that the cuts add up to the excess, and scales what the
    floor leaves above B; the literal rule does neither.
    """
    asking = [j for j, layer in enumerate(running) if layer.bytes_s > 0.0]
    total = sum(layer.bytes_s for layer in running)
    weighted = sum(running[j].weight * running[j].bytes_s for j in asking)
    grants = [0.0 for _ in running]
    for j in asking:
        b = running[j].bytes_s
        if len(asking) == 1:
            grant = bandwidth
        else:
            cut = (total - bandwidth) * (weighted - running[j].weight * b) / weighted
            grant = b - (cut / (len(asking) - 1) if exact else cut)
        grants[j] = max(grant, b / 4.0)
    granted = sum(grants)
    if exact and granted > bandwidth:
        grants = [grant * bandwidth / granted for grant in grants]
    return grants

"""MoCA's split of the bandwidth (arXiv 2305.05843, as in its released code): urgent layers are cut less.

Urgencies w = (1 + priority) / 4 + 10 * work_best_s / slack are set at a layer's start; slack = max(d - now, 1e-9 s).
``weighted`` divides the excess so that the cuts add up to it; ``moca_literal`` is the rule as printed.
"""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.contract.contention.model import ContentionModel, Demand, Lanes, by_share


def weighted(running: Sequence[Demand], bandwidth: float, accelerators: int) -> list[float]:
    """If D > B: cut x_j = (D - B) / (n - 1) * (W - w_j b_j) / W and g_j = max(b_j - x_j, b_j / 4).

    W = sum of w b over the n running layers with b > 0. One layer alone gets g = B, not below b / 4. Where the grants
    exceed B, all are scaled by B / sum g. rate = g_j / b_j. Weights: w = (1 + priority) / 4 + 10 * work_best_s / slack
    at the layer's start, slack = max(d - now, 1e-9 s); w = (1 + priority) / 4 without a deadline. work_best_s is the
    current sum over the request's unfinished layers, the starting one included.
    """
    return _rates(running, bandwidth, exact=True)


def moca_literal(running: Sequence[Demand], bandwidth: float, accelerators: int) -> list[float]:
    """`weighted` without the division by n - 1 and without the final scaling."""
    return _rates(running, bandwidth, exact=False)


def _rates(running: Sequence[Demand], bandwidth: float, *, exact: bool) -> list[float]:
    total = sum(layer.bytes_s for layer in running)
    if total <= bandwidth:
        return [1.0 for _ in running]
    asking = [j for j, layer in enumerate(running) if layer.bytes_s > 0.0]
    weight = sum(running[j].weight * running[j].bytes_s for j in asking)
    grants = [0.0 for _ in running]
    for j in asking:
        b = running[j].bytes_s
        if len(asking) == 1:
            grant = bandwidth
        else:
            cut = (total - bandwidth) * (weight - running[j].weight * b) / weight
            grant = b - (cut / (len(asking) - 1) if exact else cut)
        grants[j] = max(grant, b / 4.0)
    granted = sum(grants)
    if exact and granted > bandwidth:
        grants = [grant * bandwidth / granted for grant in grants]
    return by_share(running, grants)


def split_weighted(lanes: Lanes, demand: float, bandwidth: float) -> None:
    """``weighted``, compiled."""
    total_weight, count = 0.0, 0
    for s in range(len(lanes)):
        if lanes[s].node >= 0 and lanes[s].demand > 0.0:
            total_weight += lanes[s].weight * lanes[s].demand
            count += 1
    excess = demand - bandwidth
    if count > 1:
        excess /= count - 1
    granted = 0.0
    for s in range(len(lanes)):
        if lanes[s].node >= 0 and lanes[s].demand > 0.0:
            b = lanes[s].demand
            others = total_weight - lanes[s].weight * b
            cut = excess * others / total_weight if count > 1 else demand - bandwidth
            lanes[s].grant = max(b - cut, 0.25 * b)
            granted += lanes[s].grant
    if granted > bandwidth:
        for s in range(len(lanes)):
            if lanes[s].node >= 0 and lanes[s].demand > 0.0:
                lanes[s].grant *= bandwidth / granted


def split_literally(lanes: Lanes, demand: float, bandwidth: float) -> None:
    """``moca_literal``, compiled."""
    total_weight, count = 0.0, 0
    for s in range(len(lanes)):
        if lanes[s].node >= 0 and lanes[s].demand > 0.0:
            total_weight += lanes[s].weight * lanes[s].demand
            count += 1
    excess = demand - bandwidth
    for s in range(len(lanes)):
        if lanes[s].node >= 0 and lanes[s].demand > 0.0:
            b = lanes[s].demand
            others = total_weight - lanes[s].weight * b
            cut = excess * others / total_weight if count > 1 else excess
            lanes[s].grant = max(b - cut, 0.25 * b)


WEIGHTED = ContentionModel(weighted, split=split_weighted, described_as="weighted", weighs=True)
MOCA_LITERAL = ContentionModel(
    moca_literal, split=split_literally, described_as="weighted", weighs=True, exceeds=True
)

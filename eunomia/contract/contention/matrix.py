"""Slowdowns by a table: networks slow each other as was measured or predicted, whatever the bandwidth.

Does badly where layers of one network differ much, as one number stands for all, and beyond measured companies.
"""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.contract.contention.model import ContentionModel, Demand, Lanes
from eunomia.core.arrays import Floats


def rates(running: Sequence[Demand], bandwidth: float, accelerators: int) -> list[float]:
    """rate = 1 / max(1, product of s_ij over the other running layers j), s_ij by network (`platform.slowdowns`).

    Where s_i,jk is known, it replaces s_ij s_ik in the product.
    """
    found = []
    for own, layer in enumerate(running):
        others = [other.network for at, other in enumerate(running) if at != own]
        found.append(1.0 / layer.slowdowns.beside(layer.network, others) if layer.slowdowns else 1.0)
    return found


def beside(lanes: Lanes, s: int, networks: int, factors: Floats) -> float:
    """The same slowdown, compiled; ``factors`` as ``Slowdowns.factors`` gives them."""
    own, slow = lanes[s].model * networks, 1.0
    for a in range(len(lanes)):
        if a != s and lanes[a].node >= 0:
            slow *= factors[own + lanes[a].model]
    if len(factors) > networks * networks:
        for a in range(len(lanes)):
            if a == s or lanes[a].node < 0:
                continue
            first = networks * networks + (own + lanes[a].model) * networks
            for b in range(a + 1, len(lanes)):
                if b != s and lanes[b].node >= 0:
                    slow *= factors[first + lanes[b].model]
    return max(1.0, slow)


MATRIX = ContentionModel(rates, beside=beside, free_below=False, exceeds=True)

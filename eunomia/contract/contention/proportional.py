"""Every layer gets the same part of what it demands."""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.contract.contention.model import ContentionModel, Demand


def rates(running: Sequence[Demand], bandwidth: float, accelerators: int) -> list[float]:
    """rate = 1 / max(1, D / B), equal for all."""
    total = sum(layer.bytes_s for layer in running)
    return [1.0 / max(1.0, total / bandwidth) for _ in running]


def alike(demand: float, bandwidth: float) -> tuple[float, float]:
    """The same, compiled. Without a division that depends on the demand, the inverse is there sooner."""
    if demand <= bandwidth:
        return 1.0, 1.0
    return bandwidth / demand, demand * (1.0 / bandwidth)


PROPORTIONAL = ContentionModel(rates, alike=alike, described_as="proportional", replaceable=True)

"""Without contention: the memory serves all demands in full."""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.contract.contention.model import ContentionModel, Demand


def rates(running: Sequence[Demand], bandwidth: float, accelerators: int) -> list[float]:
    """rate = 1."""
    return [1.0 for _ in running]


def alike(demand: float, bandwidth: float) -> tuple[float, float]:
    """The same, compiled."""
    return 1.0, 1.0


NONE = ContentionModel(rates, alike=alike, exceeds=True)

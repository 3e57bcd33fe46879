"""The roofline of Williams et al. (2009): under a grant g a layer takes max(k, V / g), array time or transfer."""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.contract.contention.max_min import grants, split
from eunomia.contract.contention.model import ContentionModel, Demand, Lanes


def fair(running: Sequence[Demand], bandwidth: float, accelerators: int) -> list[float]:
    """Grants as `max_min`; rate = min(1, c / max(k, V / g)), and 1 where V = 0."""
    return [_rate(layer, grant) for layer, grant in zip(running, grants(running, bandwidth), strict=True)]


def proportional(running: Sequence[Demand], bandwidth: float, accelerators: int) -> list[float]:
    """Grants g = b / max(1, D / B); rate as `roofline`."""
    total = sum(layer.bytes_s for layer in running)
    return [_rate(layer, layer.bytes_s / max(1.0, total / bandwidth)) for layer in running]


def static(running: Sequence[Demand], bandwidth: float, accelerators: int) -> list[float]:
    """Grants g = B / S for S accelerators, idle ones too; rate as `roofline`."""
    return [_rate(layer, bandwidth / accelerators) for layer in running]


def _rate(layer: Demand, grant: float) -> float:
    if layer.dram_bytes == 0.0:
        return 1.0
    return min(1.0, layer.latency_s / max(layer.floor_s, layer.dram_bytes / grant))


def split_proportional(lanes: Lanes, demand: float, bandwidth: float) -> None:
    """The grants of ``proportional``, compiled."""
    factor = min(1.0, bandwidth / demand) if demand > 0.0 else 1.0
    for s in range(len(lanes)):
        lanes[s].grant = lanes[s].demand * factor


def split_static(lanes: Lanes, demand: float, bandwidth: float) -> None:
    """The grants of ``static``, compiled."""
    for s in range(len(lanes)):
        lanes[s].grant = bandwidth / len(lanes)


ROOFLINE = ContentionModel(fair, split=split, roofline=True, described_as="max_min")
ROOFLINE_PROPORTIONAL = ContentionModel(
    proportional, split=split_proportional, roofline=True, described_as="proportional"
)
ROOFLINE_STATIC = ContentionModel(static, split=split_static, roofline=True, free_below=False)

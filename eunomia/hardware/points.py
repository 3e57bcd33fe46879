"""A type at another of its operating points: voltage and clock scaled together (DVFS).

Energy of an operation goes with V squared; clock tree and leakage, one constant per area in this model, with f V
squared, so leakage is underestimated at low clocks. DRAM and its link keep their bandwidth and their energy.
"""

from __future__ import annotations

import math
from dataclasses import replace

from eunomia.core.errors import PlatformError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.declared import OperatingPoint
from eunomia.hardware.gpu import GpuType

ON_CHIP = ("mac_pj", "pe_pj_byte", "noc_pj_byte", "buffer_pj_byte", "vector_op_pj")


def at_clock(kind: AcceleratorType | GpuType, clock_mhz: float) -> AcceleratorType:
    """The type at its point of that clock, named ``TYPE@MHZ`` unless it is its own. Raises PlatformError."""
    own, chosen = _points(kind, clock_mhz)
    assert isinstance(kind, AcceleratorType)
    if own == chosen:
        return kind
    swing, pace = (chosen.supply_v / own.supply_v) ** 2, chosen.clock_hz / own.clock_hz
    scaled = {name: getattr(kind.energy, name) * swing for name in ON_CHIP}
    return kind.with_(
        name=f"{kind.name}@{clock_mhz:g}MHz",
        clock_hz=chosen.clock_hz,
        link_bytes_cycle=kind.link_bytes_cycle / pace,
        energy=replace(kind.energy, **scaled, static_w=kind.energy.static_w * swing * pace),
        point=(),
    )


def power_factor(kind: AcceleratorType | GpuType, clock_mhz: float) -> float:
    """Power at full load against the type's own point: f V squared. Raises PlatformError."""
    own, chosen = _points(kind, clock_mhz)
    return chosen.clock_hz / own.clock_hz * (chosen.supply_v / own.supply_v) ** 2


def _points(kind: AcceleratorType | GpuType, clock_mhz: float) -> tuple[OperatingPoint, OperatingPoint]:
    """The type's own point, and the one asked for."""
    points = kind.point if isinstance(kind, AcceleratorType) else ()
    if not points:
        raise PlatformError(
            f"type '{kind.name}' has no operating points, so clock_mhz = {clock_mhz:g} cannot be chosen; list "
            "[[point]] with clock_hz and supply_v in a file of your own"
        )
    assert isinstance(kind, AcceleratorType)
    found = [one for one in points if math.isclose(one.clock_hz, clock_mhz * 1e6)]
    if not found:
        known = ", ".join(f"{one.clock_hz / 1e6:g}" for one in points)
        raise PlatformError(f"type '{kind.name}' has no point at {clock_mhz:g} MHz; choose one of: {known}")
    return next(one for one in points if one.clock_hz == kind.clock_hz), found[0]

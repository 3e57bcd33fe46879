"""What a type may declare beyond one chip at one clock: operating points, and several chips in a package."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from eunomia.core.errors import PlatformError
from eunomia.hardware.facts import from_table


@dataclass(frozen=True)
class OperatingPoint:
    """A clock, and the supply voltage that it needs."""

    clock_hz: float
    supply_v: float

    def __post_init__(self) -> None:
        for name in ("clock_hz", "supply_v"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise PlatformError(f"point.{name} is {value}; it must be finite and positive")


@dataclass(frozen=True)
class Package:
    """Equal chips in a mesh that work on one layer together; the fields of the type describe one chip.

    The type's link is the package's port to DRAM, its ``static_w`` that of one chip.
    """

    chips: int
    link_gb_s: float  # into each chip, and as much out of it
    hop_s: float = 0.0  # from one chip to the next
    link_pj_byte: float = 0.0  # of a byte that enters a chip

    def __post_init__(self) -> None:
        if self.chips < 1:
            raise PlatformError(f"package.chips is {self.chips}; it must be at least 1")
        if not (math.isfinite(self.link_gb_s) and self.link_gb_s > 0.0):
            raise PlatformError(f"package.link_gb_s is {self.link_gb_s}; it must be finite and positive")
        for field in fields(self)[2:]:
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0.0):
                raise PlatformError(f"package.{field.name} is {value}; it must be finite and not negative")


def declared(table: Mapping[str, object], clock_hz: object, source: str) -> dict[str, object]:
    """The tables ``[package]`` and ``[[point]]`` of a type's file as values. Raises PlatformError."""
    found: dict[str, object] = {}
    if "package" in table:
        if not isinstance(table["package"], Mapping):
            raise PlatformError(
                f"{source}: package must be a table; write [package] with chips and link_gb_s"
            )
        found["package"] = from_table(Package, table["package"], f"{source}: [package]")
    if entries := table.get("point"):
        if not isinstance(entries, list | tuple) or not all(isinstance(one, Mapping) for one in entries):
            raise PlatformError(f"{source}: point must be a list of tables; write [[point]] for each")
        points = tuple(from_table(OperatingPoint, one, f"{source}: [[point]]") for one in entries)
        if not any(point.clock_hz == clock_hz for point in points):
            raise PlatformError(
                f"{source}: no [[point]] has the type's own clock_hz, {clock_hz}; add it with its supply_v"
            )
        found["point"] = points
    return found

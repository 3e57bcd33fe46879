"""A platform: accelerators of several types that share one memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from eunomia.contract.contention import CONTENTION
from eunomia.contract.contention.slowdowns import Slowdowns
from eunomia.core.errors import PlatformError, UnknownNameError
from eunomia.hardware.accelerator import AcceleratorType, Mapper
from eunomia.hardware.facts import presets, read_toml
from eunomia.hardware.points import at_clock
from eunomia.hardware.types import DeviceType, load_type, read_type, type_from_table


class PlatformLike(Protocol):
    """What the engine and the bounds need of a platform; ``Platform`` is one."""

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the accelerator types."""

    @property
    def type_of(self) -> npt.NDArray[np.int64]:
        """(S,) index into ``types`` of each accelerator."""

    @property
    def dram_bytes_s(self) -> float:
        """Bandwidth B that all share; inf = no limit."""

    @property
    def contention(self) -> str:
        """How B is shared, unless options say otherwise."""


@dataclass(frozen=True)
class Platform:
    """``accelerators``: pairs (type, count). ``dram_bytes_s``: bandwidth that all share; inf = unlimited.

    ``slowdowns``: of networks side by side, for contention ``matrix``.

    Raises PlatformError for an empty platform, a count below 1, and two different types of one name. It also
    refuses a bandwidth that is not positive and an unknown contention mode.
    """

    name: str
    accelerators: tuple[tuple[DeviceType, int], ...]
    dram_bytes_s: float
    contention: str = "proportional"
    description: str = ""
    slowdowns: Slowdowns | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "accelerators", tuple((kind, count) for kind, count in self.accelerators))
        if not self.accelerators:
            raise PlatformError(f"platform '{self.name}' has no accelerators; name at least one")
        known: dict[str, DeviceType] = {}
        for kind, count in self.accelerators:
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise PlatformError(
                    f"platform '{self.name}': count of '{kind.name}' is {count!r}; at least 1 is needed"
                )
            if known.setdefault(kind.name, kind) != kind:
                raise PlatformError(
                    f"platform '{self.name}': two different types are both called '{kind.name}'"
                )
        if not self.dram_bytes_s > 0.0:
            raise PlatformError(
                f"platform '{self.name}': the DRAM bandwidth is {self.dram_bytes_s} bytes/s; it must be positive"
            )
        if self.contention not in CONTENTION:
            raise UnknownNameError("contention mode", self.contention, CONTENTION)

    @cached_property
    def kinds(self) -> tuple[DeviceType, ...]:
        """Distinct types, in order of first mention."""
        return tuple({kind.name: kind for kind, _ in self.accelerators}.values())

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the distinct types, in order of first mention."""
        return tuple(kind.name for kind in self.kinds)

    @cached_property
    def type_of(self) -> npt.NDArray[np.int64]:
        """(S,) index into ``types`` of every accelerator."""
        index = {name: i for i, name in enumerate(self.types)}
        return np.array([index[k.name] for k, count in self.accelerators for _ in range(count)], np.int64)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(S,) names such as ``simba-0``, numbered per type."""
        seen: dict[str, int] = {}
        result = []
        for i in self.type_of:
            name = self.types[i]
            result.append(f"{name}-{seen.get(name, 0)}")
            seen[name] = seen.get(name, 0) + 1
        return tuple(result)

    @property
    def size(self) -> int:
        """Number of accelerators S."""
        return len(self.type_of)


def slowdowns_of(platform: PlatformLike) -> Slowdowns | None:
    """How much networks slow each other there; None where the platform does not say."""
    found: Slowdowns | None = getattr(platform, "slowdowns", None)
    return found


def platform_names() -> list[str]:
    """The platforms shipped as data files."""
    return list(presets("platforms"))


def load_platform(name: str) -> Platform:
    """The platform of that name; raises UnknownNameError with the nearest name."""
    known = presets("platforms")
    if name not in known:
        raise UnknownNameError("platform", name, known)
    return from_config({"name": name, **read_toml(known[name])}, str(known[name]))


def from_config(config: dict[str, Any], source: str = "platform") -> Platform:
    """A platform from a table, as in a scenario's ``[platform]``.

    Either ``preset = NAME`` or ``accelerators = [{type = NAME or file = PATH, count = N, clock_mhz = F}]`` with
    ``dram_bandwidth_gb_s`` (1e9 bytes/s; inf = unlimited). ``name``, ``contention``, ``description`` are
    optional; given next to a preset, bandwidth and contention replace the preset's. ``mapper`` replaces
    that of all types.
    """
    known = {"name", "preset", "accelerators", "dram_bandwidth_gb_s", "contention", "description", "mapper"}
    for key in config:
        if key not in known:
            raise UnknownNameError(f"key of {source}", key, known)
    given = {key: value for key, value in config.items() if value is not None}
    if "preset" in given:
        base = load_platform(given["preset"])
        bandwidth = _bandwidth(given, source) if "dram_bandwidth_gb_s" in given else base.dram_bytes_s
        name, contention = given.get("name", base.name), given.get("contention", base.contention)
        lanes = _mapped(base.accelerators, given.get("mapper"))
        return Platform(name, lanes, bandwidth, contention, given.get("description", base.description))
    entries = given.get("accelerators", [])
    if not isinstance(entries, list):
        raise PlatformError(f"{source}: accelerators must be a list of {{type =, count =}}")
    return Platform(
        given.get("name", "custom"),
        _mapped(
            [_entry(x, f"{source}: accelerators[{i}]") for i, x in enumerate(entries)], given.get("mapper")
        ),
        _bandwidth(given, source),
        given.get("contention", "proportional"),
        given.get("description", ""),
    )


def _mapped(
    lanes: Iterable[tuple[DeviceType, int]], mapper: Mapper | None
) -> tuple[tuple[DeviceType, int], ...]:
    """The accelerators with another choice of mappings, where they have one."""
    if mapper is None:
        return tuple(lanes)
    return tuple((k.with_(mapper=mapper) if isinstance(k, AcceleratorType) else k, n) for k, n in lanes)


def _bandwidth(given: dict[str, Any], source: str) -> float:
    value = given.get("dram_bandwidth_gb_s")
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise PlatformError(f"{source}: dram_bandwidth_gb_s is {value!r}; give the shared bandwidth in GB/s")
    return float(value) * 1e9


def _entry(entry: dict[str, Any], place: str) -> tuple[DeviceType, int]:
    known = ("type", "file", "table", "count", "clock_mhz")
    for key in entry:
        if key not in known:
            raise UnknownNameError(f"key of {place}", key, known)
    sources = [key for key in known[:3] if entry.get(key) is not None]
    if len(sources) != 1:
        raise PlatformError(f"{place}: give one of type = NAME, file = PATH, table = {{...}}")
    given, clock_mhz = entry[sources[0]], entry.get("clock_mhz")
    if sources[0] == "type":
        kind = load_type(given)
    else:
        kind = type_from_table(given, place) if sources[0] == "table" else read_type(Path(str(given)))
    return kind if clock_mhz is None else at_clock(kind, clock_mhz), entry.get("count", 1)

"""A platform: accelerators of several types that share one memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from eunomia.contract.contention import CONTENTION
from eunomia.core.errors import PlatformError, UnknownNameError
from eunomia.hardware.facts import presets, read_toml
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

    Raises PlatformError for an empty platform, a count below 1, and two different types of one name. It also
    refuses a bandwidth that is not positive and an unknown contention mode.
    """

    name: str
    accelerators: tuple[tuple[DeviceType, int], ...]
    dram_bytes_s: float
    contention: str = "proportional"
    description: str = ""

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

    Either ``preset = NAME`` or ``accelerators = [{type = NAME or file = PATH, count = N}]`` with
    ``dram_bandwidth_gb_s`` (1e9 bytes/s; inf = unlimited). ``name``, ``contention``, ``description`` are
    optional; given next to a preset, bandwidth and contention replace the preset's.
    """
    known = {"name", "preset", "accelerators", "dram_bandwidth_gb_s", "contention", "description"}
    for key in config:
        if key not in known:
            raise UnknownNameError(f"key of {source}", key, known)
    given = {key: value for key, value in config.items() if value is not None}
    if "preset" in given:
        base = load_platform(given["preset"])
        bandwidth = _bandwidth(given, source) if "dram_bandwidth_gb_s" in given else base.dram_bytes_s
        name, contention = given.get("name", base.name), given.get("contention", base.contention)
        return Platform(
            name, base.accelerators, bandwidth, contention, given.get("description", base.description)
        )
    entries = given.get("accelerators", [])
    if not isinstance(entries, list):
        raise PlatformError(f"{source}: accelerators must be a list of {{type =, count =}}")
    return Platform(
        given.get("name", "custom"),
        tuple(_entry(entry, f"{source}: accelerators[{i}]") for i, entry in enumerate(entries)),
        _bandwidth(given, source),
        given.get("contention", "proportional"),
        given.get("description", ""),
    )


def _bandwidth(given: dict[str, Any], source: str) -> float:
    value = given.get("dram_bandwidth_gb_s")
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise PlatformError(f"{source}: dram_bandwidth_gb_s is {value!r}; give the shared bandwidth in GB/s")
    return float(value) * 1e9


def _entry(entry: dict[str, Any], place: str) -> tuple[DeviceType, int]:
    for key in entry:
        if key not in ("type", "file", "table", "count"):
            raise UnknownNameError(f"key of {place}", key, ("type", "file", "table", "count"))
    sources = [key for key in ("type", "file", "table") if entry.get(key) is not None]
    if len(sources) != 1:
        raise PlatformError(f"{place}: give one of type = NAME, file = PATH, table = {{...}}")
    given, count = entry[sources[0]], entry.get("count", 1)
    if sources[0] == "type":
        return load_type(given), count
    return (type_from_table(given, place) if sources[0] == "table" else read_type(Path(str(given)))), count

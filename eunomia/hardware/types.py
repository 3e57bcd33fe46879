"""Accelerator and GPU types by name: the presets in ``data/types``, entry points, files of one's own."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from eunomia.core.errors import PlatformError, UnknownNameError
from eunomia.hardware.accelerator import AcceleratorType, accelerator_from_table
from eunomia.hardware.dataflow import layer_cost
from eunomia.hardware.facts import presets, read_toml
from eunomia.hardware.gpu import GpuType, gpu_from_table, gpu_layer_cost
from eunomia.hardware.layer_cost import LayerCost
from eunomia.workload.model import Layer

DeviceType = AcceleratorType | GpuType
GROUP = "eunomia.accelerators"  # entry points: name -> callable that returns a DeviceType


def type_names() -> list[str]:
    """All known types, built-in first."""
    built_in = presets("types")
    return [*built_in, *sorted(e.name for e in entry_points(group=GROUP) if e.name not in built_in)]


@cache
def load_type(name: str) -> DeviceType:
    """The type of that name; raises UnknownNameError with the nearest name."""
    built_in = presets("types")
    if name in built_in:
        return read_type(built_in[name])
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            found: DeviceType = entry.load()()
            return found
    raise UnknownNameError("accelerator type", name, type_names())


def read_type(path: str | Path) -> DeviceType:
    """The type that a TOML file describes: ``kind = "gpu"`` or ``kind = "accelerator"`` (the default)."""
    return type_from_table(read_toml(Path(path)), str(path))


def type_from_table(table: dict[str, Any], source: str) -> DeviceType:
    """The type that a table describes; raises PlatformError for an unknown, missing or mistyped key."""
    rest = {key: value for key, value in table.items() if key != "kind"}
    kind = table.get("kind", "accelerator")
    if kind == "gpu":
        return gpu_from_table(rest, source)
    if kind == "accelerator":
        return accelerator_from_table(rest, source)
    raise PlatformError(f"{source}: kind is {kind!r}; choose 'accelerator' or 'gpu'")


def cost_of(layer: Layer, kind: DeviceType) -> LayerCost:
    """Cost of one layer on a type of either kind."""
    return gpu_layer_cost(layer, kind) if isinstance(kind, GpuType) else layer_cost(layer, kind)

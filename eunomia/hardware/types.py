"""Accelerator and GPU types by name: the presets in ``data/types``, entry points, files of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from eunomia.core.errors import PlatformError, UnknownNameError
from eunomia.core.own_file import split_file
from eunomia.core.registry import Registry, made
from eunomia.hardware.accelerator import AcceleratorType, accelerator_from_table
from eunomia.hardware.dataflow import layer_cost
from eunomia.hardware.dataflow_names import beside
from eunomia.hardware.facts import presets, read_toml
from eunomia.hardware.fusion import chain_cost
from eunomia.hardware.gpu import GpuType, gpu_layer_cost
from eunomia.hardware.layer_cost import LayerCost
from eunomia.hardware.measured import gpu_from_table
from eunomia.workload.chain import Chain
from eunomia.workload.model import Layer

DeviceType = AcceleratorType | GpuType
# Names beside the presets: a type, or a function that returns one
TYPES = Registry("accelerator type", "eunomia.accelerators", {})


def type_names() -> list[str]:
    """All known types, built-in first."""
    built_in = presets("types")
    return [*built_in, *(name for name in TYPES.names() if name not in built_in)]


def is_type(name: str) -> bool:
    """Whether ``load_type`` takes that name; a file is not read."""
    return name in presets("types") or name in TYPES or split_file(name) is not None


def load_type(name: str) -> DeviceType:
    """The type of that name, or of ``FILE.py:NAME``. Raises UnknownNameError with the nearest name."""
    built_in = presets("types")
    if name in built_in:
        return _preset(name)
    if not is_type(name):
        raise UnknownNameError("accelerator type", name, type_names())
    found, what = TYPES.resolve(name), f"accelerator type '{name}'"
    kind = found if isinstance(found, DeviceType) else made(found, {}, what)
    if not isinstance(kind, DeviceType):
        raise PlatformError(f"{what} is made by a function that returned {type(kind).__name__}, not a type")
    return kind


@cache
def _preset(name: str) -> DeviceType:
    return read_type(presets("types")[name])


def read_type(path: str | Path) -> DeviceType:
    """The type that a TOML file describes: ``kind = "gpu"`` or ``kind = "accelerator"`` (the default).

    A dataflow of one's own, ``FILE.py:NAME``, is looked for beside the file.
    """
    table = read_toml(Path(path))
    if isinstance(named := table.get("dataflow"), str):
        table["dataflow"] = beside(named, Path(path))
    return type_from_table(table, str(path))


def type_from_table(table: Mapping[str, object], source: str) -> DeviceType:
    """The type that a table describes; raises PlatformError for an unknown, missing or mistyped key."""
    rest = {key: value for key, value in table.items() if key != "kind"}
    kind = table.get("kind", "accelerator")
    if kind == "gpu":
        return gpu_from_table(rest, source)
    if kind == "accelerator":
        return accelerator_from_table(rest, source)
    raise PlatformError(f"{source}: kind is {kind!r}; choose 'accelerator' or 'gpu'")


def cost_of(layer: Layer, kind: DeviceType) -> LayerCost:
    """Cost of one layer, or of a chain of them, on a type of either kind."""
    if isinstance(layer, Chain):
        return chain_cost(layer, kind)
    return gpu_layer_cost(layer, kind) if isinstance(kind, GpuType) else layer_cost(layer, kind)

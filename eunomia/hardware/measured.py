"""Published times of whole networks on a GPU, at their batch sizes, with the roofline between them.

At a batch size that was measured, the layers of a network take the measured time together, in the proportions of the
roofline. Between two sizes the ratio of measured to roofline is interpolated over the logarithm of both; beyond the
last it stays. Networks without points keep the plain roofline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from eunomia.core.errors import PlatformError
from eunomia.hardware.facts import from_table
from eunomia.hardware.gpu import GpuType, MeasuredPoints, gpu_layer_cost
from eunomia.workload.chain import Chain
from eunomia.workload.model import DnnModel, Layer

ALIKE = 0.01  # MACs of a network may differ so much from those of the points, as a share


def scale(model: DnnModel, kind: GpuType, modelled_s: float) -> float | None:
    """What the costs of a network's layers are multiplied by; None where nothing of it was measured.

    ``modelled_s``: the sum of their roofline latencies, as layers or chains of them.
    """
    found = points_of(model, kind)
    if found is None:
        return None
    points, batch = found
    one = _one_input(model, batch)
    return None if one is None else seconds_at(one, kind, points, batch) / modelled_s


def points_of(model: DnnModel, kind: GpuType) -> tuple[MeasuredPoints, int] | None:
    """The points of a network of that name and size, and its batch: n of ``name@n``, else 1."""
    name, *times = model.name.split("@")
    batch = math.prod(int(n) if n.isdecimal() else 0 for n in times)
    for points in kind.measured:
        if (
            points.network == name
            and abs(model.macs / 1e9 - batch * points.gmac) < ALIKE * batch * points.gmac
        ):
            return points, batch
    return None


def seconds_at(one: Sequence[Layer], kind: GpuType, points: MeasuredPoints, batch: int) -> float:
    """Time of ``batch`` inputs; ``one``: the layers for a single input."""
    sizes = np.array(points.batch)
    at = int(np.searchsorted(sizes, batch))
    near = sorted({max(at - 1, 0), min(at, len(sizes) - 1)})
    ratios = [math.log(points.ms[n] / 1e3 / _roofline_s(one, kind, points.batch[n])) for n in near]
    ratio = np.interp(math.log(batch), np.log(sizes[near]), ratios)
    return float(_roofline_s(one, kind, batch) * math.exp(ratio))


def left_out(one: Sequence[Layer], kind: GpuType, points: MeasuredPoints) -> list[tuple[int, float, float]]:
    """Per batch size: errors of the plain roofline, and of the other points when this one is left out."""
    found = []
    for n, (batch, ms) in enumerate(zip(points.batch, points.ms, strict=True)):
        rest = replace(
            points, batch=points.batch[:n] + points.batch[n + 1 :], ms=points.ms[:n] + points.ms[n + 1 :]
        )
        modelled_s, near_s = _roofline_s(one, kind, batch), seconds_at(one, kind, rest, batch)
        found.append((batch, modelled_s / (ms / 1e3) - 1.0, near_s / (ms / 1e3) - 1.0))
    return found


def measured_of(models: Sequence[DnnModel], kind: GpuType) -> tuple[list[str], list[str]]:
    """Names of the networks with points, and of those without."""
    names: tuple[list[str], list[str]] = ([], [])
    for model in models:
        names[points_of(model, kind) is None].append(model.name)
    return names


def gpu_from_table(table: Mapping[str, object], source: str) -> GpuType:
    """A GPU type from a TOML table, with its tables ``[[measured]]``; raises PlatformError."""
    if "measured" not in table:
        return from_table(GpuType, table, source)
    return from_table(GpuType, {**table, "measured": _all_points(table["measured"], source)}, source)


def _all_points(entries: object, source: str) -> tuple[MeasuredPoints, ...]:
    if not isinstance(entries, list) or not all(isinstance(one, Mapping) for one in entries):
        raise PlatformError(
            f"{source}: measured must be a list of tables; write [[measured]] for each network"
        )
    return tuple(_points(one, f"{source}: [[measured]]") for one in entries)


def _points(table: Mapping[str, object], place: str) -> MeasuredPoints:
    known = MeasuredPoints.__dataclass_fields__
    for key in (*table, *known):
        if key not in known or key not in table:
            fault = "unknown" if key not in known else "missing"
            raise PlatformError(f"{place}: the key '{key}' is {fault}; give {', '.join(known)}")
    network, said = table["network"], table["source"]
    if not (isinstance(network, str) and isinstance(said, str)):
        raise PlatformError(f"{place}: network and source must be texts in quotes")
    place = f"{place} of '{network}'"
    (gmac,) = _numbers([table["gmac"]], place, "gmac")
    sizes, times = (_numbers(table[key], place, key) for key in ("batch", "ms"))
    batch = tuple(int(size) for size in sizes)
    if batch != sizes or sorted(set(batch)) != list(batch):
        raise PlatformError(f"{place}: batch is {list(sizes)}; it must be rising whole numbers")
    if len(times) != len(batch):
        raise PlatformError(
            f"{place}: {len(batch)} batch sizes but {len(times)} times in ms; give one for each"
        )
    return MeasuredPoints(network, gmac, batch, times, said)


def _numbers(values: object, place: str, key: str) -> tuple[float, ...]:
    if not isinstance(values, list) or not values:
        raise PlatformError(f"{place}: {key} is {values!r}; it must be a list of numbers")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise PlatformError(f"{place}: {key} is {value!r}, which is not a positive number")
    return tuple(values)


def _one_input(model: DnnModel, batch: int) -> list[Layer] | None:
    """The layers for a single input, chains taken apart; None where they do not divide."""
    flat = [part for layer in model.layers for part in (layer.parts if isinstance(layer, Chain) else [layer])]
    found = [_divided(layer, batch) for layer in flat]
    return None if None in found else [layer for layer in found if layer is not None]


def _divided(layer: Layer, batch: int) -> Layer | None:
    """The layer of which ``with_batch(batch)`` is this one."""
    rows = "in_h" if layer.kind == "matmul" and layer.weight_elements else "batch"
    names = ("in_h", "out_h") if rows == "in_h" else ("batch",)
    sizes = {name: getattr(layer, name) for name in (*names, "operand_elements", "ops")}
    if any(size % batch for size in sizes.values()):
        return None
    return replace(layer, **{name: size // batch for name, size in sizes.items()})


def _roofline_s(one: Sequence[Layer], kind: GpuType, batch: int) -> float:
    return sum(gpu_layer_cost(layer.with_batch(batch), kind).latency_s for layer in one)

"""Networks x types -> CostTable, with identical layers costed once and results kept on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import PlatformError
from eunomia.hardware import cache
from eunomia.hardware.dataflow import MODEL_VERSION
from eunomia.hardware.gpu import GpuType
from eunomia.hardware.measured import measured_of, scale
from eunomia.hardware.memory import check_own, fits, settled
from eunomia.hardware.platform import Platform
from eunomia.hardware.table import CostTable
from eunomia.hardware.types import DeviceType, cost_of
from eunomia.workload.model import DnnModel

_LAYOUT = 1  # of the cache file


def build_table(
    models: Sequence[DnnModel], kinds: Platform | Iterable[DeviceType], *, use_cache: bool = True
) -> CostTable:
    """Cost of every layer of ``models`` on every type (of a platform, or given), types in their order.

    Weights and activations take the type's own word size; ``DnnModel.word_bytes`` is for those who move whole
    networks. A type that cannot run a layer has inf there. Raises PlatformError when there is no type, or two
    share a name. It also refuses a network that fits no type's own memory, and a layer that cannot run on any.
    """
    types = kinds.kinds if isinstance(kinds, Platform) else tuple(kinds)
    if not models:
        raise PlatformError("a cost table needs at least one network")
    if not types:
        raise PlatformError("a cost table needs at least one accelerator type")
    if len({kind.name for kind in types}) < len(types):
        raise PlatformError(f"two accelerator types share a name: {', '.join(kind.name for kind in types)}")
    check_own(models, types)
    return CostTable(
        models=tuple(models),
        types=tuple(kind.name for kind in types),
        **columns_of(models, types, use_cache),
        link_bytes_s=np.array([kind.link_bytes_s for kind in types]),
        origin=tuple(origin_of(kind, models) for kind in types),
        size_of=(),
    )


def columns_of(
    models: Sequence[DnnModel], types: Sequence[DeviceType], use_cache: bool = True
) -> dict[str, Floats]:
    """Columns of a cost table by name, (rows, types) each; a layer that no type can run is not refused here."""
    known: dict[tuple[str, tuple[object, ...]], tuple[float, ...]] = {}
    full = [settled(kind, models) for kind in types]
    parts = [[_columns(model, kind, known, use_cache) for kind in full] for model in models]
    return {name: _stack(parts, name) for name in cache.COLUMNS}


def modelled_s(models: Sequence[DnnModel], kind: DeviceType) -> Floats:
    """(rows,) isolated latency of every layer on one type; inf = it cannot run there."""
    found = {name: values[:, 0] for name, values in columns_of(models, [kind]).items()}
    busy_s = np.maximum(found["compute_s"], found["buffer_s"])
    return np.asarray(np.maximum(busy_s, found["dram_bytes"] / kind.link_bytes_s))


def origin_of(kind: DeviceType, models: Sequence[DnnModel]) -> str:
    """Where costs of these networks on a type come from, with what they depend on."""
    origin, depends = kind.origin, f"{MODEL_VERSION}, {kind.content_hash}"
    if isinstance(kind, GpuType) and kind.measured:
        measured, others = measured_of(models, kind)
        origin = "measured" if measured else origin
        depends += f", {len(measured)} of {len(models)} networks measured" if others else ""
    return f"{origin} ({depends})"


def _stack(parts: list[list[cache.Columns]], name: str) -> Floats:
    return np.concatenate([np.column_stack([column[name] for column in row]) for row in parts])


def _columns(
    model: DnnModel,
    kind: DeviceType,
    known: dict[tuple[str, tuple[object, ...]], tuple[float, ...]],
    use_cache: bool,
) -> cache.Columns:
    """Costs of one network on one type: from disk, or computed and kept."""
    shapes = [layer.shape_key() for layer in model.layers]
    if not fits(model, kind):
        nowhere = {name: [0.0] * len(shapes) for name in cache.COLUMNS}
        return {**nowhere, "compute_s": [float("inf")] * len(shapes)}
    key = cache.key_of([_LAYOUT, MODEL_VERSION, kind.content_hash, shapes])
    if use_cache and (found := cache.read(key, len(shapes))) is not None:
        return _as_measured(model, kind, found)
    rows = []
    for layer, shape in zip(model.layers, shapes, strict=True):
        at = (kind.content_hash, shape)
        if at not in known:
            try:
                cost = cost_of(layer, kind)
                known[at] = (cost.compute_s, cost.buffer_s, cost.dram_bytes, cost.energy_j)
            except PlatformError:
                known[at] = (float("inf"), 0.0, 0.0, 0.0)
        rows.append(known[at])
    columns = {name: [row[i] for row in rows] for i, name in enumerate(cache.COLUMNS)}
    if use_cache and all(np.isfinite(columns["compute_s"])):
        cache.write(key, columns)
    return _as_measured(model, kind, columns)


def _as_measured(model: DnnModel, kind: DeviceType, columns: cache.Columns) -> cache.Columns:
    """Costs of a GPU's layers that together take the time that was measured for the network."""
    if not isinstance(kind, GpuType) or not kind.measured:
        return columns
    dram = np.array(columns["dram_bytes"])
    latency_s = np.maximum(columns["compute_s"], dram / kind.link_bytes_s)
    factor = scale(model, kind, float(latency_s.sum()))
    if factor is None:
        return columns
    return {
        **columns,
        "compute_s": (factor * latency_s).tolist(),
        "dram_bytes": (
            min(factor, 1.0) * dram
        ).tolist(),  # faster than its bytes allow: some stay on the chip
        "energy_j": (factor * np.array(columns["energy_j"])).tolist(),
    }

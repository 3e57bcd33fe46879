"""Networks x types -> CostTable, with identical layers costed once and results kept on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import PlatformError
from eunomia.hardware import cache
from eunomia.hardware.dataflow import MODEL_VERSION
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
    networks. A type that cannot run a layer has inf there. Raises PlatformError when there is no type, two
    share a name, or a layer cannot run on any of them.
    """
    types = kinds.kinds if isinstance(kinds, Platform) else tuple(kinds)
    if not models:
        raise PlatformError("a cost table needs at least one network")
    if not types:
        raise PlatformError("a cost table needs at least one accelerator type")
    if len({kind.name for kind in types}) < len(types):
        raise PlatformError(f"two accelerator types share a name: {', '.join(kind.name for kind in types)}")
    known: dict[tuple[str, tuple[object, ...]], tuple[float, ...]] = {}
    parts = [[_columns(model, kind, known, use_cache) for kind in types] for model in models]
    stacked = {name: _stack(parts, name) for name in cache.COLUMNS}
    return CostTable(
        models=tuple(models),
        types=tuple(kind.name for kind in types),
        **stacked,
        link_bytes_s=np.array([kind.link_bytes_s for kind in types]),
        origin=tuple(_origin(kind) for kind in types),
    )


def _origin(kind: DeviceType) -> str:
    return f"{kind.origin} ({MODEL_VERSION}, {kind.content_hash})"


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
    key = cache.key_of([_LAYOUT, MODEL_VERSION, kind.content_hash, shapes])
    if use_cache and (found := cache.read(key, len(shapes))) is not None:
        return found
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
    return columns

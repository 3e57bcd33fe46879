"""Give every free dimension of the inputs a number."""

from __future__ import annotations

import re
from collections.abc import Mapping

import onnx

from eunomia.core.errors import ModelError, UnknownNameError
from eunomia.workload.onnx.node_types import MAX_ELEMENTS, check_size, shape_of

# what exporters call the batch; anything else must be named by the user
_BATCH = re.compile(r"(n|b|bs|none|\?|-1|unk_.*|s\d+|d\d+|.*batch.*|dynamic_axes_\d+)", re.IGNORECASE)


def bind_inputs(model: onnx.ModelProto, batch: int, dims: Mapping[str, int]) -> dict[str, onnx.TypeProto]:
    """The types of the graph's inputs with all dimensions known.

    A free dimension takes ``dims[its name]``, or ``dims["input:axis"]``, which also binds a dimension
    without a name. What is left on axis 0 and called like a batch takes ``batch``. Raises ModelError
    for any other free dimension, and for a ``batch`` that a file with a fixed one cannot take.
    """
    for name, value in dims.items():
        if value < 0:
            raise ModelError(f"dimension '{name}' = {value}; it must not be negative")
        if value > MAX_ELEMENTS:
            raise ModelError(f"dimension '{name}' = {value}; it must be at most {MAX_ELEMENTS}")
    initial = {tensor.name for tensor in model.graph.initializer}
    used: set[str] = set()
    free: list[str] = []
    batched = False
    types = {}
    for entry in model.graph.input:
        if entry.name in initial:
            continue
        kind = onnx.TypeProto()
        kind.CopyFrom(entry.type)
        if not kind.HasField("tensor_type"):
            raise ModelError(
                f"input '{entry.name}' is a {kind.WhichOneof('value')}; only tensors can be read"
            )
        if not kind.tensor_type.HasField("shape"):
            raise ModelError(f"input '{entry.name}' has no shape, not even its number of axes")
        for axis, dim in enumerate(kind.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            if dim.HasField("dim_value") and dim.dim_value < -1:  # -1 is what some exporters call free
                raise ModelError(
                    f"input '{entry.name}' has size {dim.dim_value} on axis {axis}; it must not be negative"
                )
            symbol, place = dim.dim_param, f"{entry.name}:{axis}"
            free += [symbol or place]
            value = _value(symbol, place, axis, batch, dims)
            used |= {symbol, place} & dims.keys()
            batched |= symbol not in dims and place not in dims
            dim.Clear()
            dim.dim_value = value
        check_size(entry.name, shape_of(kind))
        types[entry.name] = kind
    for name in dims.keys() - used:
        raise UnknownNameError("free dimension", name, set(free) or {"(the file has none)"})
    if batch != 1 and not batched:
        raise ModelError(
            f"batch = {batch}, but no input has a free batch dimension; read the file with batch 1 and "
            f"use model.with_batch({batch}), or pass dims={{...}}"
        )
    return types


def _value(symbol: str, place: str, axis: int, batch: int, dims: Mapping[str, int]) -> int:
    for key in (place, symbol):
        if key in dims:
            return dims[key]
    if axis == 0 and _BATCH.fullmatch(symbol or "?"):
        return batch
    key = symbol or place
    name = f"the free dimension '{symbol}'" if symbol else "a free dimension without a name"
    raise ModelError(
        f"input '{place.rpartition(':')[0]}' has {name} on axis {axis}; give its size with dims={{'{key}': ...}} "
        f"(on the command line: --dim {key}=128)"
    )

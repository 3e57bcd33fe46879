"""Compute the few nodes whose inputs are all known: shapes, indices, small tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from eunomia.core.errors import ModelError

_FOLDABLE = (
    "Abs Add And Cast Ceil Clip Concat ConstantOfShape CumSum Div Equal Expand Flatten Floor Gather GatherND "
    "Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not Or Pad Pow Range ReduceMax "
    "ReduceMin ReduceProd ReduceSum Reshape Round ScatterND Sign Slice Split Sqrt Squeeze Sub Tile TopK "
    "Transpose Trilu Unsqueeze Where Xor"
)
_MAGNITUDE: dict[str, Callable[[Sequence[NDArray[np.float64]]], NDArray[np.float64]]] = {
    "Add": lambda x: x[0] + x[1],
    "Sub": lambda x: x[0] - x[1],
    "Mul": lambda x: x[0] * x[1],
    "Pow": lambda x: x[0] ** x[1],
    "ReduceProd": lambda x: np.prod(x[0], keepdims=True),
    "ReduceSum": lambda x: np.sum(x[0], keepdims=True),
    "CumSum": lambda x: np.cumsum(np.abs(x[0])),
}


def can_fold(op: str) -> bool:
    """Whether values of this operator's results are computed while reading."""
    return op in _FOLDABLE.split()


def fold(
    node: onnx.NodeProto,
    known: Mapping[str, onnx.TensorProto],
    types: Mapping[str, onnx.TypeProto],
    opsets: Sequence[onnx.OperatorSetIdProto],
) -> list[onnx.TensorProto | None]:
    """The results of a node of ONNX's own domain, None for one that no sensible number stands for.

    Infinity and NaN are values like others; only their conversion to whole numbers has no result.
    An operator that the ONNX library cannot evaluate has no result either: its sizes may still be
    known. Raises ModelError for whole numbers beyond 64 bits, which would otherwise wrap around.
    """
    from onnx.reference import ReferenceEvaluator

    names = [name for name in dict.fromkeys(node.input) if name]
    feeds = {name: numpy_helper.to_array(known[name]) for name in names}
    outputs = [name for name in node.output if name]
    if node.op_type == "Cast" and not _is_whole(types[node.input[0]]) and _is_whole(types[outputs[0]]):
        value = feeds[node.input[0]].astype(np.float64)
        if not (np.isfinite(value) & (np.abs(value) < 2.0**63)).all():
            return [None]
    _check_range(node, [feeds[name] for name in node.input if name])
    graph = helper.make_graph(
        [node], "fold",
        [helper.make_value_info(name, types[name]) for name in names],
        [helper.make_value_info(name, types[name]) for name in outputs],
    )  # fmt: skip
    with np.errstate(all="ignore"):
        try:
            results = ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets)).run(None, feeds)
            return [numpy_helper.from_array(np.asarray(r), n) for n, r in zip(outputs, results, strict=True)]
        except Exception:  # whatever the evaluated operator raises
            return [None] * len(outputs)


def _check_range(node: onnx.NodeProto, inputs: Sequence[NDArray[np.generic]]) -> None:
    magnitude = _MAGNITUDE.get(node.op_type)
    if magnitude is None or not all(np.issubdtype(value.dtype, np.integer) for value in inputs):
        return
    with np.errstate(all="ignore"):
        largest = np.abs(magnitude([value.astype(np.float64) for value in inputs])).max(initial=0.0)
    if largest >= 2.0**63:
        raise ModelError(f"its result is about {largest:.3g}, which no 64-bit whole number holds")


def _is_whole(kind: onnx.TypeProto) -> bool:
    element = kind.tensor_type.elem_type
    return bool(np.issubdtype(helper.tensor_dtype_to_np_dtype(element), np.integer))

"""Products of an input with large weights, which can be had a few columns at a time.

Each column of a product depends on its own column of the weights alone: some of them make a node of their own, and one
more node puts these together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.blocks.external import MAX_MODEL_BYTES
from eunomia.serving.blocks.filled import fill

if TYPE_CHECKING:
    import onnx

PARTS = 24, 16, 8, 4, 2  # few numbers, so that many products have parts of the same sizes; all cross a cut
ALIGNED = 128  # columns: a whole number of what a processor's registers hold
COPY = 20.0  # rows of weights by which to multiply takes as long as to copy the result once
TURNED = "transA", "transBatchA", "transBatchB"
KINDS = {"FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8"}  # of weights


class Columns(NamedTuple):
    """Of an operator. ``weights``: its input; ``others``: those that have a value for each column, or one for all."""

    weights: int
    others: tuple[int, ...] = ()


PRODUCTS: Mapping[tuple[str, str], Columns] = {
    ("", "MatMul"): Columns(1),
    ("", "Gemm"): Columns(1, (2,)),
    ("com.microsoft", "FusedMatMul"): Columns(1),
    ("com.microsoft", "FusedGemm"): Columns(1, (2,)),
    ("com.microsoft", "DynamicQuantizeMatMul"): Columns(1, (2, 3, 4)),
}


@dataclass(frozen=True)
class Product:
    """``weights``: which input they are; ``edges``: of its parts' columns; ``axes``: along which inputs have them.

    ``own``: weights of which each part has its columns, by the place of the input; ``fixed``: that all parts share.
    ``folder``: of those that lie in a file of their own.
    """

    node: onnx.NodeProto
    weights: int
    edges: Sequence[int]
    axes: Mapping[int, int]
    own: Mapping[int, onnx.TensorProto]
    fixed: Sequence[onnx.TensorProto]
    folder: Path

    @property
    def size(self) -> int:
        """Bytes of the weights that its parts have of their own."""
        return sum(math.prod(tensor.dims) * _kind(tensor).itemsize for tensor in self.own.values())

    @property
    def form(self) -> object:
        """What it shares with others whose parts do as its do."""
        shapes = tuple((n, tensor.data_type, tuple(tensor.dims)) for n, tensor in self.own.items())
        return self.node.op_type, shapes, tuple(self.edges), tuple(map(str, self.node.attribute))

    @property
    def length(self) -> int:
        """Of a column of the weights."""
        return int(self.own[self.weights].dims[1 - self.axes[self.weights]])

    @property
    def element(self) -> np.dtype[np.generic]:
        """Of its input, which may be quantised inside."""
        kind = _kind(self.own[self.weights])
        return kind if kind.kind == "f" else np.dtype(np.float32)

    def times_s(self, lasted_s: float) -> list[float]:
        """Of its nodes, where the whole lasts so long."""
        parts = [lasted_s * (last - first) / self.edges[-1] for first, last in pairwise(self.edges)]
        return [*parts, lasted_s * min(COPY / self.length, 1.0)]

    def nodes(self, *, filled: bool = True) -> Iterator[tuple[onnx.NodeProto, list[onnx.TensorProto]]]:
        """Its parts, each with its weights, or the names of these alone, and then what puts them together."""
        import onnx
        from onnx import helper, numpy_helper

        values = {n: self._read(tensor) for n, tensor in self.own.items()} if filled else {}
        base, found = self.node.output[0], list[str]()
        for part, (first, last) in enumerate(pairwise(self.edges)):
            node, own = onnx.NodeProto(), list[onnx.TensorProto]()
            node.CopyFrom(self.node)
            node.name = node.output[0] = f"{base}/part {part}"
            for n, axis in self.axes.items():
                name = node.input[n] = f"{base}/part {part}, input {n}"
                if filled:
                    columns = np.ascontiguousarray(values[n].take(range(first, last), axis))
                    own.append(numpy_helper.from_array(columns, name))
                else:
                    own.append(onnx.TensorProto(name=name))
            found.append(node.name)
            yield node, own
        yield helper.make_node("Concat", found, [base], f"{base}/together", axis=-1), []

    def whole(self) -> tuple[onnx.NodeProto, list[onnx.TensorProto]]:
        """Itself, and all its weights but those that parts share."""
        from onnx import numpy_helper

        named = {self.node.input[n]: self._read(tensor) for n, tensor in self.own.items()}
        return self.node, [numpy_helper.from_array(value, name) for name, value in named.items()]

    def _read(self, tensor: onnx.TensorProto) -> Tensor:
        import onnx
        from onnx import numpy_helper

        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        fill("a product", self.folder, [copy], MAX_MODEL_BYTES)
        value: Tensor = numpy_helper.to_array(copy)
        return value


def product_of(
    node: onnx.NodeProto, weights: Mapping[str, onnx.TensorProto], folder: Path, parts: float
) -> Product | None:
    """In so many parts, or fewer; None where it is no product with weights, or has too few columns for two."""
    import onnx

    kind, settings = PRODUCTS.get((node.domain, node.op_type)), {a.name: a.i for a in node.attribute}
    if kind is None or any(map(settings.get, TURNED)) or node.input[0] in weights:
        return None
    there = [n for n in (kind.weights, *kind.others) if n < len(node.input) and node.input[n]]
    constants = {n: weights[node.input[n]] for n in there if node.input[n] in weights}
    if len(constants) < len(there):
        return None
    large, axis = constants[kind.weights], 0 if settings.get("transB") else 1
    if len(large.dims) != 2 or onnx.TensorProto.DataType.Name(large.data_type) not in KINDS:
        return None
    columns, most = large.dims[axis], next((few for few in PARTS if few <= parts), 1)
    edges = [*range(0, columns, math.ceil(columns / most / ALIGNED) * ALIGNED), columns]
    if len(edges) < 3:
        return None
    axes = {kind.weights: axis}
    for n, tensor in constants.items():
        if n != kind.weights and tensor.dims and tensor.dims[-1] == columns:
            axes[n] = len(tensor.dims) - 1
        elif n != kind.weights and math.prod(tensor.dims) != 1:
            return None
    own = {n: constants[n] for n in axes}
    fixed = [tensor for n, tensor in constants.items() if n not in axes]
    return Product(node, kind.weights, edges, axes, own, fixed, folder)


def _kind(tensor: onnx.TensorProto) -> np.dtype[np.generic]:
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(tensor.data_type)

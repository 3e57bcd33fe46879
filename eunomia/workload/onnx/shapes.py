"""Shapes of all tensors, and the values of the small ones that shapes are computed from.

ONNX's own rules are applied node by node. So constants found on the way (the shape of an input, a slice of
it) reach the nodes that need them.
"""

from __future__ import annotations

from math import prod

import onnx
from onnx import helper, numpy_helper

from eunomia.core.errors import ModelError
from eunomia.workload.onnx.folding import can_fold, fold
from eunomia.workload.onnx.node_types import Rules, Shape, check_size, domain_of, shape_of
from eunomia.workload.onnx.subgraphs import stored_tensors

SHAPE_ONLY = ("Shape", "Size")  # operators that look at no element
SMALL = 4096  # elements up to which a constant is kept

RECURRENT = ("LSTM", "GRU", "RNN")


class Shapes:
    """Types by tensor name, and constants by tensor name where they are small and known."""

    def __init__(self, model: onnx.ModelProto, inputs: dict[str, onnx.TypeProto]) -> None:
        self._opsets = list(model.opset_import)
        self._rules = Rules(self._opsets)
        self._types = dict(inputs)
        self._declared = {entry.name: entry.type for entry in (*model.graph.value_info, *model.graph.output)}
        self._constants: dict[str, onnx.TensorProto] = {}
        for name, tensor in stored_tensors(model.graph).items():
            self.store(name, tensor)

    def store(self, name: str, tensor: onnx.TensorProto | onnx.SparseTensorProto) -> None:
        """Take over a tensor that the file holds."""
        if isinstance(tensor, onnx.TensorProto):
            self._set_constant(name, tensor)
        else:
            self._types[name] = helper.make_tensor_type_proto(tensor.values.data_type, list(tensor.dims))

    def has(self, name: str) -> bool:
        """Whether anything is known of a tensor."""
        return name in self._types

    def values(self, name: str) -> list[float] | None:
        """The numbers of a small tensor, flattened, None where they depend on data."""
        tensor = self._constants.get(name)
        return None if tensor is None else list(numpy_helper.to_array(tensor).ravel().tolist())

    def shape(self, name: str) -> Shape | None:
        """The shape of a tensor, None where it cannot be known without data."""
        return shape_of(self._types.get(name))

    def sizes(self, name: str) -> list[int | None]:
        """Sizes of the axes as inferred, None where one is not known; empty if not even their number is."""
        kind = self._types.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return []
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.tensor_type.shape.dim]

    def is_weight_type(self, name: str) -> bool:
        """Whether elements are numbers that a network may learn (float or 8-bit quantized), not indices."""
        kind = self._types.get(name)
        element = kind.tensor_type.elem_type if kind is not None else onnx.TensorProto.FLOAT
        return element not in (
            onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.UINT64, onnx.TensorProto.UINT32,
            onnx.TensorProto.BOOL, onnx.TensorProto.STRING,
        )  # fmt: skip

    def infer(self, node: onnx.NodeProto) -> None:
        """Find the types of a node's outputs, and their values where the inputs are known."""
        if node.op_type == "Constant" and domain_of(node.domain) == "":
            self._infer_constant(node)
            return
        self._infer_types(node)
        if node.op_type in SHAPE_ONLY:
            self._fold_shape(node)
        elif self._can_fold(node):
            self._fold(node)

    def _infer_types(self, node: onnx.NodeProto) -> None:
        found = self._rules.infer(self._with_hidden_size(node), self._types, self._constants)
        for name in filter(None, node.output):
            kind = found.get(name, self._declared.get(name))
            if kind is not None:
                self._types[name] = kind
                check_size(name, shape_of(kind))

    def _with_hidden_size(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The same node; of a recurrent one that leaves ``hidden_size`` out, with that of its weights R."""
        if node.op_type not in RECURRENT or any(entry.name == "hidden_size" for entry in node.attribute):
            return node
        weights = self.shape(node.input[2]) if len(node.input) > 2 else None
        if weights is None or len(weights) != 3:
            return node
        stated = onnx.NodeProto()
        stated.CopyFrom(node)
        stated.attribute.append(helper.make_attribute("hidden_size", weights[2]))
        return stated

    def _infer_constant(self, node: onnx.NodeProto) -> None:
        attribute = node.attribute[0] if node.attribute else None
        if attribute is None or attribute.name not in (
            "value", "value_float", "value_floats", "value_int", "value_ints", "sparse_value",
        ):  # fmt: skip
            return
        value = helper.get_attribute_value(attribute)
        if attribute.name in ("value", "sparse_value"):
            self.store(node.output[0], value)
        else:
            kind = onnx.TensorProto.FLOAT if "float" in attribute.name else onnx.TensorProto.INT64
            values = list(value) if attribute.name.endswith("s") else [value]
            shape = [len(values)] if attribute.name.endswith("s") else []
            self._set_constant(node.output[0], helper.make_tensor(node.output[0], kind, shape, values))

    def _set_constant(self, name: str, tensor: onnx.TensorProto) -> None:
        self._types[name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        count = prod(tensor.dims)
        stored = tensor.data_location != onnx.TensorProto.EXTERNAL
        if count <= SMALL and stored and tensor.data_type != onnx.TensorProto.STRING:
            try:
                numpy_helper.to_array(tensor)
            except Exception as error:  # too little or too much data for the stated shape
                raise ModelError(f"constant '{name}' is malformed: {error}") from error
            self._constants[name] = tensor

    def _fold_shape(self, node: onnx.NodeProto) -> None:
        shape = self.shape(node.input[0])
        if shape is None:
            return
        if node.op_type == "Size":
            values, form = [prod(shape)], list[int]()
        else:
            bounds = {attribute.name: attribute.i for attribute in node.attribute}
            values = list(shape[slice(bounds.get("start"), bounds.get("end"))])
            form = [len(values)]
        self._set_constant(
            node.output[0], helper.make_tensor(node.output[0], onnx.TensorProto.INT64, form, values)
        )

    def _can_fold(self, node: onnx.NodeProto) -> bool:
        known = all(name in self._constants for name in node.input if name)
        if not (known and can_fold(node.op_type) and domain_of(node.domain) == ""):
            return False
        shapes = [self.shape(name) for name in node.output if name]
        return all(shape is not None and prod(shape) <= SMALL for shape in shapes)

    def _fold(self, node: onnx.NodeProto) -> None:
        for tensor in fold(node, self._constants, self._types, self._opsets):
            if tensor is not None:
                self._set_constant(tensor.name, tensor)

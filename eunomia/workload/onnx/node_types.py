"""Types of a node's results: by ONNX's own rule, by that of its plain equivalent, by ours for ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import onnx
from onnx import defs, helper, shape_inference

from eunomia.core.errors import ModelError
from eunomia.workload.onnx.contrib_shapes import RULES
from eunomia.workload.onnx.equivalents import (
    Equivalent,
    channels_first,
    channels_last,
    equivalent,
    quantizes,
)

Shape = tuple[int, ...]
MAX_ELEMENTS = 2**48  # of one tensor; no machine holds more, and sums of products stay exact
Types = dict[str, onnx.TypeProto]
_INTEGERS = (
    onnx.TensorProto.UINT8, onnx.TensorProto.INT8, onnx.TensorProto.UINT16, onnx.TensorProto.INT16,
    onnx.TensorProto.INT32,
)  # fmt: skip


_INDICES = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL)


class Rules:
    """What the operator sets of one file say about the results of a node."""

    def __init__(self, opsets: list[onnx.OperatorSetIdProto]) -> None:
        self._opsets = opsets
        self._versions = {domain_of(opset.domain): opset.version for opset in opsets}

    def infer(
        self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], known: Mapping[str, onnx.TensorProto]
    ) -> Types:
        """Types of the results, by name; those that no rule finds are absent.

        Raises ModelError where the node breaks its operator's rule.
        """
        names = [name for name in node.input if name]
        if not all(name in types for name in names):
            return {}
        domain = domain_of(node.domain)
        plain = equivalent(domain, node.op_type)
        if self._has(domain, node.op_type):
            found = self._apply(node, {name: types[name] for name in names}, known)
        elif plain is not None and plain.domain == "" and self._has("", plain.op):
            found = self._apply_plain(node, plain, types, known)
        else:
            found = {}
        return found | _contrib(node, plain, types, found)

    def _has(self, domain: str, op: str) -> bool:
        version = self._versions.get(domain)
        return version is not None and bool(defs.has(op, version, domain))

    def _apply(self, node: onnx.NodeProto, types: Types, known: Mapping[str, onnx.TensorProto]) -> Types:
        schema = defs.get_schema(node.op_type, self._versions[domain_of(node.domain)], domain_of(node.domain))
        constants = {name: known[name] for name in node.input if name in known}
        try:
            return dict(
                shape_inference.infer_node_outputs(schema, node, types, constants, opset_imports=self._opsets)
            )
        except Exception as error:  # the library's InferenceError, ValidationError and RuntimeError
            raise ModelError(f"it is not valid: {' '.join(str(error).split())}") from error

    def _apply_plain(
        self, node: onnx.NodeProto, plain: Equivalent, types: Mapping[str, onnx.TypeProto],
        known: Mapping[str, onnx.TensorProto],
    ) -> Types:  # fmt: skip
        """The plain operator's rule on floats, its images in the order that the rule expects."""
        schema = defs.get_schema(plain.op, self._versions[""], "")
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.op_type, copy.domain = plain.op, ""
        del copy.input[:], copy.attribute[:]
        copy.input.extend(plain.of(list(node.input))[: schema.max_input])
        copy.attribute.extend(a for a in node.attribute if a.name in schema.attributes)
        last = is_channels_last(node, plain)
        given = {name: types[name] for name in copy.input if name}
        if quantizes(node.op_type):
            given = {name: _as_float(kind) for name, kind in given.items()}
        if last:
            given[copy.input[0]] = _reordered(given[copy.input[0]], channels_first)
        found = self._apply(copy, given, known)
        element = plain.element or _element(list(copy.input), types)
        for name, kind in found.items():
            kind.tensor_type.elem_type = element
            found[name] = _reordered(kind, channels_last) if last else kind
        return found


def is_channels_last(node: onnx.NodeProto, plain: Equivalent) -> bool:
    """Whether a node reads images as batch, axes, channels."""
    return plain.channels_last or any(a.name == "channels_last" and a.i for a in node.attribute)


def shape_of(kind: onnx.TypeProto | None) -> Shape | None:
    """The shape in a type, None where some size is not known."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") and dim.dim_value >= 0 for dim in dims):
        return None
    return tuple(dim.dim_value for dim in dims)


def check_size(name: str, shape: Shape | None) -> None:
    """Raise ModelError for a tensor that no machine holds."""
    count = prod(shape or ())
    if count > MAX_ELEMENTS:
        raise ModelError(
            f"tensor '{name}' of shape {shape} has {count:.3g} elements; at most {MAX_ELEMENTS:.3g} can be costed"
        )


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node by name, graphs left out."""
    return {
        a.name: helper.get_attribute_value(a)
        for a in node.attribute
        if a.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    }


def domain_of(domain: str) -> str:
    """The domain of an operator: ONNX's own has two spellings."""
    return "" if domain == "ai.onnx" else domain


def _contrib(
    node: onnx.NodeProto, plain: Equivalent | None, types: Mapping[str, onnx.TypeProto], found: Types
) -> Types:
    """Our own rules, for results whose shape no other rule has found."""
    key = (domain_of(node.domain), node.op_type) if plain is None else (plain.domain, plain.op)
    names = list(node.input) if plain is None else plain.of(list(node.input))
    rule = RULES.get(key)
    if rule is None or not names:
        return {}
    shapes = rule([shape_of(types.get(name)) for name in names], attributes_of(node))
    element = _element(names, types) if plain is None or not plain.element else plain.element
    return {
        name: helper.make_tensor_type_proto(element, list(shape))
        for name, shape in zip(node.output, shapes, strict=False)
        if name and shape is not None and shape_of(found.get(name)) is None
    }


def _element(names: list[str], types: Mapping[str, onnx.TypeProto]) -> int:
    """Type of the first input that holds data, neither indices nor conditions."""
    found = [types[name].tensor_type.elem_type for name in names if name in types]
    data = [element for element in found if element not in _INDICES]
    return (data or found or [onnx.TensorProto.FLOAT])[0]


def _as_float(kind: onnx.TypeProto) -> onnx.TypeProto:
    copy = onnx.TypeProto()
    copy.CopyFrom(kind)
    if copy.tensor_type.elem_type in _INTEGERS:
        copy.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return copy


def _reordered(kind: onnx.TypeProto, order: Any) -> onnx.TypeProto:
    shape = shape_of(kind)
    return (
        kind
        if shape is None
        else helper.make_tensor_type_proto(kind.tensor_type.elem_type, list(order(shape)))
    )

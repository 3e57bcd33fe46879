"""Whether a graph answers each row of its inputs as if it were alone: proven operator by operator, or not at all.

One pass over the nodes finds of each tensor whether it is the same for any rows, or has the inputs' rows along an axis.
Then nothing in one row follows from another. Each operator has a rule that says when that holds of its answers.
Where there is no rule, or it does not fit, nothing is known of them, nor of what is made of them: no network is taken
for row-wise that may not be, and some that are may be missed. Weights are not read, but for sizes and axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from eunomia.core.arrays import Tensor
from eunomia.serving.blocks import row_layers, row_rules, row_shapes, row_small
from eunomia.serving.blocks.row_node import Attribute, Node
from eunomia.serving.blocks.row_values import ALL_ROWS, Size, Unproven, Value, sound

if TYPE_CHECKING:
    import onnx

RULES = {**row_shapes.RULES, **row_rules.RULES, **row_layers.RULES, **row_small.RULES}
FEW = 64  # entries of a weight that may be axes or sizes
NUMPYS = 7  # of ONNX's operators, from which on they broadcast as NumPy does


@dataclass(frozen=True)
class Unknown:
    """Nothing holds of a tensor, and why."""

    why: str


Known = Value | Unknown


def why_together(model: onnx.ModelProto) -> str:
    """Why nobody can say that rows are answered one by one; empty = they are, whatever the inputs hold.

    ``model`` may keep its weights outside.
    """
    opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), NUMPYS)
    if opset < NUMPYS:
        return f"its operators are those of version {opset}, whose rules nobody has written down"
    known, constants = dict(_weights(model)), _numbers(model)
    for n, port in enumerate(model.graph.input):
        known.setdefault(port.name, _input(port, n))
    own = {(function.domain.removeprefix("ai.onnx"), function.name) for function in model.functions}
    for node in model.graph.node:
        answers = _answers(
            node, known, constants, opset, own=(node.domain.removeprefix("ai.onnx"), node.op_type) in own
        )
        known |= {name: value for name, value in zip(node.output, answers, strict=True) if name}
    for port in model.graph.output:
        found = known.get(port.name, Unknown("nobody gives it"))
        if isinstance(found, Unknown):
            return f"output '{port.name[:100]}': {found.why}"
        if found.rows != 0 or found.sizes[0] != ALL_ROWS:
            return f"output '{port.name[:100]}' does not have the inputs' rows along its first axis"
    return ""


def _input(port: onnx.ValueInfoProto, number: int) -> Known:
    kind = port.type.tensor_type
    axes = kind.shape.dim
    if port.type.WhichOneof("value") != "tensor_type" or not axes or axes[0].HasField("dim_value"):
        return Unknown(f"input '{port.name[:100]}' has no free first axis")
    others = (
        Size(axis.dim_value) if axis.HasField("dim_value") else Size(1, (f"{number}/{n}",))
        for n, axis in enumerate(axes[1:], 1)
    )
    return Value((ALL_ROWS, *others), 0)


def _weights(model: onnx.ModelProto) -> Iterator[tuple[str, Known]]:
    for weight in model.graph.initializer:
        yield weight.name, _weight(tuple(weight.dims), _small(weight))
    for sparse in model.graph.sparse_initializer:
        yield sparse.values.name, _weight(tuple(sparse.dims), None)


def _weight(sizes: tuple[int, ...], numbers: Tensor | None) -> Value:
    entries = None
    if numbers is not None and numbers.ndim < 2 and numbers.dtype.kind in "iub":
        entries = tuple(Size(int(number)) for number in numbers.ravel())
    return Value(tuple(Size(int(size)) for size in sizes), entries=entries)


def _small(weight: onnx.TensorProto) -> Tensor | None:
    """Its numbers, if they are few and here."""
    import onnx

    count = 1
    for size in weight.dims:
        count *= size
    if (
        count > FEW
        or weight.data_location == onnx.TensorProto.EXTERNAL
        or weight.data_type == onnx.TensorProto.STRING
    ):
        return None
    return onnx.numpy_helper.to_array(weight)


def _numbers(model: onnx.ModelProto) -> dict[str, Tensor]:
    found = ((weight.name, _small(weight)) for weight in model.graph.initializer)
    return {name: numbers for name, numbers in found if numbers is not None}


def _answers(
    node: onnx.NodeProto, known: Mapping[str, Known], constants: dict[str, Tensor], opset: int, *, own: bool
) -> list[Known]:
    """Of one node; never raises."""
    given = [
        known.get(name, Unknown(f"nobody gives '{name[:100]}'")) if name else None for name in node.input
    ]
    for value in given:
        if isinstance(value, Unknown):
            return [value] * len(node.output)
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
    try:
        if node.op_type == "Constant" and not domain and not own:
            return [_constant(node, constants)]
        if own or (rule := RULES.get(domain + node.op_type)) is None:
            raise Unproven("there is no rule for it")
        read = Node(
            node.op_type,
            [value for value in given if not isinstance(value, Unknown)],
            [constants.get(name) for name in node.input],
            len(node.output),
            _attributes(node),
            opset,
        )
        found = [None if value is None else sound(value) for value in rule(read)]
    except Unproven as error:
        why: Known = Unknown(f"{domain}{node.op_type} '{node.name[:100]}': {error}")
        return [why] * len(node.output)
    except Exception:  # a node that is as no rule expects, in whatever way
        return [Unknown(f"{domain}{node.op_type} '{node.name[:100]}' is as no rule expects")] * len(
            node.output
        )
    missing = Unknown(f"{domain}{node.op_type} '{node.name[:100]}': there is no rule for all of its outputs")
    pairs = zip_longest(found, node.output)
    return [missing if value is None else value for value, name in pairs if name is not None]


def _attributes(node: onnx.NodeProto) -> Mapping[str, Attribute]:
    import onnx

    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


def _constant(node: onnx.NodeProto, constants: dict[str, Tensor]) -> Known:
    """A weight that stands among the nodes."""
    import numpy as np
    import onnx

    attribute = node.attribute[0]
    if attribute.name == "sparse_value":
        return _weight(tuple(attribute.sparse_tensor.dims), None)
    if attribute.name == "value":
        sizes, numbers = tuple(attribute.t.dims), _small(attribute.t)
    elif attribute.name in ("value_int", "value_ints", "value_float", "value_floats"):
        numbers = np.asarray(onnx.helper.get_attribute_value(attribute))
        sizes = numbers.shape
    else:
        raise Unproven("it holds texts")
    if numbers is not None and numbers.size <= FEW:
        constants[node.output[0]] = numbers
    return _weight(sizes, numbers if numbers is not None and numbers.size <= FEW else None)

"""Rules of ``rowwise`` for networks of small whole numbers, with scales that are the same for any rows."""

from __future__ import annotations

from eunomia.serving.blocks.row_node import Given, Node, Rule
from eunomia.serving.blocks.row_rules import product_of
from eunomia.serving.blocks.row_values import ONE, Unproven, Value, along, axis_of, broadcast, some


def quantised(node: Node) -> Given:
    """To small whole numbers and back, by scales that are the same for any rows."""
    value, scale = node.data(0), node.fixed(1)
    node.others_fixed(0)
    if value.rows is None:
        return [value]
    if node.integer("block_size", 0):
        raise Unproven("it has a scale for each few entries")
    if all(size == ONE for size in scale.sizes) and scale.rank < 2:
        return [value]
    if scale.rank != 1 or axis_of(node.integer("axis", 1), value.rank) == value.rows:
        raise Unproven("it has scales for rows")
    return [value]


def small_entrywise(node: Node) -> Given:
    """Of one or two tensors of small whole numbers."""
    places = (0, 3) if node.kind in ("QLinearAdd", "QLinearMul") else (0,)
    node.others_fixed(*places)
    node.one_number(*(n for n in range(len(node.given)) if n not in places))
    return [broadcast([node.data(place) for place in places])]


def small_product(node: Node) -> Given:
    """The same, as matrices."""
    node.others_fixed(0)
    node.one_number(1, 2, 7, *([8] if node.kind == "QGemm" else [6]))
    weights = node.fixed(3)
    if node.kind == "QGemm":
        if node.integer("transA", 0) or (node.has(6) and node.fixed(6).rank > 1):
            raise Unproven("it has axes for which there is no rule")
        weights = Value(weights.sizes[::-1]) if node.integer("transB", 0) else weights
    return [product_of(node.data(0), weights)]


def small_concat(node: Node) -> Given:
    """Along another axis than that of rows."""
    parts = [node.data(place) for place in range(2, len(node.given), 3)]
    node.others_fixed(*range(2, len(node.given), 3))
    if len({(v.rows, v.rank) for v in parts}) > 1 or any(
        v.rows is not None and v.sizes[v.rows] != parts[0].sizes[v.rows] for v in parts
    ):
        raise Unproven("some of what it puts together has no rows along the same axis")
    return [along(parts[0], [node.integer("axis")], some())]


def small_softmax(node: Node) -> Given:
    """Along the last axis, in all of its versions."""
    node.others_fixed(0)
    value = node.data(0)
    if axis_of(node.integer("axis", -1), value.rank) != value.rank - 1:
        raise Unproven("it works along an axis for which there is no rule")
    return [along(value, [-1])]


BOTH_WAYS = [
    f"{domain}{kind}Linear" for domain in ("", "com.microsoft.") for kind in ("Quantize", "Dequantize")
]
RULES: dict[str, Rule] = {
    **dict.fromkeys(BOTH_WAYS, quantised),
    **dict.fromkeys(
        (f"com.microsoft.QLinear{kind}" for kind in ("Add", "Mul", "LeakyRelu", "Sigmoid")), small_entrywise
    ),
    "QLinearMatMul": small_product,
    "com.microsoft.QGemm": small_product,
    "com.microsoft.QLinearConcat": small_concat,
    "com.microsoft.QLinearSoftmax": small_softmax,
}

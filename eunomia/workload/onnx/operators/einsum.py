"""Einsum of one or two operands: what is a matrix product, a transposition or a sum."""

from __future__ import annotations

from math import prod

from eunomia.core.errors import ModelError
from eunomia.workload.onnx.network import Network, Node, plain_layer
from eunomia.workload.onnx.node_types import Shape
from eunomia.workload.onnx.operators.product import Sizes, product


def einsum(node: Node, net: Network) -> tuple[int, ...]:
    """Labels in both operands and the result are batch, in both but not the result are summed."""
    terms, result = _parse(node)
    inputs = [node.value(index) for index in range(len(terms))]
    sizes: dict[str, int] = {}
    for term, x in zip(terms, inputs, strict=True):
        for label, size in zip(term, x.shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    if len(terms) == 1:
        kind = "reshape" if sorted(terms[0]) == sorted(result) else "elementwise"
        ops = 0 if kind == "reshape" else inputs[0].elements
        return net.add(plain_layer(node.name, kind, inputs[0].shape, node.shape(), ops=ops), list(inputs))
    a, b = inputs
    if a.static:
        a, b, terms = b, a, terms[::-1]
    first, second = set(terms[0]), set(terms[1])
    alone = (first ^ second) - set(result)
    if alone:
        raise ModelError(f"'{node.attr('equation')}' sums {sorted(alone)} over one operand; sum it before")

    def count(labels: set[str]) -> int:
        return prod(sizes[label] for label in labels)

    batch = count(first & second & set(result))
    inner = count((first & second) - set(result))
    rows, columns = count(first - second), count(second - first)
    if b.static and b.elements == inner * columns:  # weights shared by the batch
        batch, rows = 1, batch * rows
    return product(node, net, (a, b, None), Sizes(rows, inner, columns, batch))


def _parse(node: Node) -> tuple[list[str], str]:
    equation = node.attr("equation", b"")
    text = (equation.decode() if isinstance(equation, bytes) else equation).replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if len(terms) > 2 or len(terms) != len(node.inputs):
        raise ModelError(f"'{text}' has {len(terms)} operands; products of more than two must be written out")
    terms = [_expand(term, node.value(index).shape) for index, term in enumerate(terms)]
    if any(len(set(term)) != len(term) for term in terms):
        raise ModelError(f"'{text}' takes a diagonal (a repeated label), which is not supported")
    labels = "".join(terms)
    if not arrow:
        kept = (label for label in set(labels) if label.isdigit() or labels.count(label) == 1)
        result = "".join(sorted(kept))
    return terms, _expand(result, node.shape())


def _expand(term: str, shape: Shape) -> str:
    """Digits, counted from the right, in the place of an ellipsis."""
    if "..." not in term:
        return term
    hidden = len(shape) - len(term) + 3
    return term.replace("...", "".join(str(index) for index in reversed(range(hidden))))


HANDLERS = {("", "Einsum"): einsum}

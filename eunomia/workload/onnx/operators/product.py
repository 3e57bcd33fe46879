"""Matrix products, with weights or between activations."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from eunomia.core.errors import ModelError
from eunomia.workload.model import Layer
from eunomia.workload.onnx.network import Network, Node, Value, as_weights
from eunomia.workload.onnx.node_types import Shape


@dataclass(frozen=True)
class Sizes:
    """``batch`` products of (rows x inner) times (inner x columns)."""

    rows: int
    inner: int
    columns: int
    batch: int = 1


def matmul(node: Node, net: Network) -> tuple[int, ...]:
    """MatMul and FusedMatMul of any rank, with NumPy's broadcasting; some quantized ones add a bias."""
    a, b, bias = node.value(0), node.value(1), node.get(2)
    left, right = _matrices(a.shape, b.shape)
    if node.attr("transA", 0):
        left = (*left[:-2], left[-1], left[-2])
    if node.attr("transB", 0):
        right = (*right[:-2], right[-1], right[-2])
    rows, inner, columns = left[-2], left[-1], right[-1]
    if right[-2] != inner:
        raise ModelError(f"factors {left} and {right} do not fit")
    if a.static:  # the transposed product has the weights on the right
        a, b, left, right, rows, columns = b, a, right, left, columns, rows
    batch = prod(_joined(left[:-2], right[:-2]))
    if b.static and prod(right[:-2]) == 1:  # all products share the weights: one product of all rows
        batch, rows = 1, batch * rows
    return product(node, net, (a, b, bias), Sizes(rows, inner, columns, batch))


def gemm(node: Node, net: Network) -> tuple[int, ...]:
    """Gemm and FusedGemm: one product, either factor possibly transposed, plus a bias."""
    a, b, bias = node.value(0), node.value(1), node.get(2)
    rows, inner = reversed(a.shape) if node.attr("transA", 0) else a.shape
    columns = b.shape[0] if node.attr("transB", 0) else b.shape[1]
    if a.static:
        a, b, rows, columns = b, a, columns, rows
    return product(node, net, (a, b, bias), Sizes(rows, inner, columns))


def packed_matmul(node: Node, net: Network) -> tuple[int, ...]:
    """MatMulNBits: weights of K x N packed in few bits, counted as K x N elements."""
    x, inner, columns = node.value(0), int(node.attr("K")), int(node.attr("N"))
    rows = x.elements // inner
    layer = Layer(
        node.name, "matmul", in_channels=inner, out_channels=columns, in_h=rows, out_h=rows,
        weight_elements=inner * columns,
    )  # fmt: skip
    return net.add(layer, [x])


def product(
    node: Node, net: Network, factors: tuple[Value, Value, Value | None], sizes: Sizes, name: str = ""
) -> tuple[int, ...]:
    """One layer of products. ``factors``: a and b, which is weights if static, and the bias if there is one."""
    a, b, bias = factors
    bias = as_weights(bias)
    stored = [v for v in (b, bias) if v is not None and v.static and b.static]
    operands = sum(v.elements for v in (b, bias) if v is not None and v not in stored)
    layer = Layer(
        name or node.name, "matmul", batch=sizes.batch, in_channels=sizes.inner, out_channels=sizes.columns,
        in_h=sizes.rows, out_h=sizes.rows, operand_elements=operands,
    )  # fmt: skip
    return net.add(layer, [a, b, bias], weights=stored, bias=bias is not None)


def _matrices(a: Shape, b: Shape) -> tuple[Shape, Shape]:
    """Vectors become matrices of one row, or of one column."""
    return a if len(a) > 1 else (1, *a), b if len(b) > 1 else (*b, 1)


def _joined(a: Shape, b: Shape) -> Shape:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(max(x, y) for x, y in zip(a, b, strict=True))


HANDLERS = {
    ("", "MatMul"): matmul,
    ("", "Gemm"): gemm,
    ("com.microsoft", "FusedMatMul"): matmul,
    ("com.microsoft", "FusedGemm"): gemm,
    ("com.microsoft", "MatMulNBits"): packed_matmul,
}

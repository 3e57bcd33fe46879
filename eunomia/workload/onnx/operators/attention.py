"""Attention as one operator: ONNX's own and those of ONNX Runtime, written out as products and softmax."""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.core.errors import ModelError
from eunomia.workload.build import SOFTMAX_OPS
from eunomia.workload.model import Layer
from eunomia.workload.onnx.network import Network, Node, Value
from eunomia.workload.onnx.operators.product import Sizes, product


@dataclass(frozen=True)
class _Heads:
    """Sizes of attention. Each head of keys and values serves ``query / key_and_value`` heads of queries."""

    batch: int
    query: int
    key_and_value: int
    rows: int  # queries
    columns: int  # keys
    inner: int  # numbers of a query
    outer: int  # numbers of a value


def attention(node: Node, net: Network) -> tuple[int, ...]:
    """ONNX's Attention: queries, keys and values of 3 axes (heads inside the last) or 4."""
    q, k, v, past = node.value(0), node.value(1), node.value(2), node.get(4)
    if len(q.shape) == 4:
        query_heads, kv_heads = q.shape[1], k.shape[1]
        rows, columns = q.shape[2], k.shape[2]
        inner, outer = q.shape[3], v.shape[3]
    else:
        query_heads, kv_heads = int(node.attr("q_num_heads")), int(node.attr("kv_num_heads"))
        rows, columns = q.shape[1], k.shape[1]
        inner, outer = q.shape[2] // query_heads, v.shape[2] // kv_heads
    columns += past.shape[2] if past is not None else 0
    heads = _Heads(q.shape[0], query_heads, kv_heads, rows, columns, inner, outer)
    return _attend(node, net, (q, k, v, *node.inputs[3:]), heads)


def grouped_attention(node: Node, net: Network) -> tuple[int, ...]:
    """ONNX Runtime's MultiHeadAttention and GroupQueryAttention."""
    q, k, v = node.value(0), node.get(1), node.get(2)
    if k is None or v is None or len(q.shape) != 3:
        raise ModelError("packed queries, keys and values are not supported; export them separately")
    query_heads = int(node.attr("num_heads"))
    kv_heads = int(node.attr("kv_num_heads", query_heads))
    past = node.get(3) if node.op == "GroupQueryAttention" else node.get(6)
    if len(k.shape) == 4:  # (batch, heads, length, size): keys of another network part
        columns, inner, outer = k.shape[2], k.shape[3], v.shape[3]
    else:
        columns, inner, outer = k.shape[1], k.shape[2] // kv_heads, v.shape[2] // kv_heads
    columns += past.shape[2] if past is not None else 0
    heads = _Heads(q.shape[0], query_heads, kv_heads, q.shape[1], columns, inner, outer)
    return _attend(node, net, (q, k, v, *node.inputs[3:]), heads)


def packed_attention(node: Node, net: Network) -> tuple[int, ...]:
    """ONNX Runtime's Attention: the product that makes queries, keys and values is part of it."""
    x, w, bias, past = node.value(0), node.value(1), node.get(2), node.get(4)
    batch, rows, width = x.shape
    count = int(node.attr("num_heads"))
    sizes = list(node.attr("qkv_hidden_sizes", ())) or [w.shape[1] // 3] * 3
    made = product(
        node, net, (x, w, bias), Sizes(rows=batch * rows, inner=width, columns=w.shape[1]), f"{node.name}.qkv"
    )
    qkv = Value(f"{node.name}.qkv", (batch, rows, w.shape[1]), producers=made)
    columns = rows + (past.shape[3] if past is not None else 0)
    heads = _Heads(batch, count, count, rows, columns, sizes[0] // count, sizes[2] // count)
    return _attend(node, net, (qkv, past, node.get(3)), heads)


def _attend(node: Node, net: Network, inputs: tuple[Value | None, ...], heads: _Heads) -> tuple[int, ...]:
    """Scores, softmax, weighted sum."""
    batch, rows, columns = heads.batch * heads.query, heads.rows, heads.columns
    pairs = heads.batch * heads.key_and_value
    scores = Layer(
        f"{node.name}.scores", "matmul", batch=batch, in_channels=heads.inner, out_channels=columns,
        in_h=rows, out_h=rows, operand_elements=pairs * heads.inner * columns,
    )  # fmt: skip
    made = net.add(scores, list(inputs))
    softmax = Layer(
        f"{node.name}.softmax", "softmax", batch=batch, in_channels=columns, out_channels=columns,
        in_h=rows, out_h=rows, ops=SOFTMAX_OPS * batch * rows * columns,
    )  # fmt: skip
    made = net.add(softmax, [Value("", (), producers=made)])
    context = Layer(
        f"{node.name}.context", "matmul", batch=batch, in_channels=columns, out_channels=heads.outer,
        in_h=rows, out_h=rows, operand_elements=pairs * columns * heads.outer,
    )  # fmt: skip
    return net.add(context, [Value("", (), producers=made), *inputs])


HANDLERS = {
    ("", "Attention"): attention,
    ("com.microsoft", "Attention"): packed_attention,
    ("com.microsoft", "MultiHeadAttention"): grouped_attention,
    ("com.microsoft", "GroupQueryAttention"): grouped_attention,
}

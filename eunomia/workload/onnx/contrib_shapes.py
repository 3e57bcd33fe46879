"""Shapes of ONNX Runtime's operators, which the ONNX library has no rules for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Shape = tuple[int, ...]
Shapes = list[Shape | None]
Rule = Callable[[Shapes, dict[str, Any]], Shapes]


def _first(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    return [inputs[0]]


def _broadcast(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    known = [shape for shape in inputs if shape is not None]
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    return [tuple(map(max, zip(*padded, strict=True)))]


def _skip_norm(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    return [inputs[0], None, None, inputs[0]]


def _fused_matmul(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    a, b = inputs[0], inputs[1]
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return []
    rows = a[-1] if attributes.get("transA") else a[-2]
    columns = b[-2] if attributes.get("transB") else b[-1]
    lead = _broadcast([a[:-2], b[:-2]], {})[0]
    return [(*(lead or ()), rows, columns)]


def _fused_gemm(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    return _fused_matmul(inputs, attributes)


def _packed_matmul(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    return [None if inputs[0] is None else (*inputs[0][:-1], int(attributes["N"]))]


def _packed_attention(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    x, w = inputs[0], inputs[1]
    if x is None or w is None:
        return []
    sizes = list(attributes.get("qkv_hidden_sizes", ())) or [w[1] // 3] * 3
    heads = int(attributes["num_heads"])
    past = inputs[4] if len(inputs) > 4 else None
    length = x[1] + (past[3] if past else 0)
    return [(x[0], x[1], sizes[2]), (2, x[0], heads, length, sizes[0] // heads)]


def _grouped_attention(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    q, k, v = (*inputs, None, None)[:3]
    if q is None or k is None or v is None or len(q) != 3:
        return []
    heads = int(attributes["num_heads"])
    kv_heads = int(attributes.get("kv_num_heads", heads))
    past = next((s for s in inputs[3:] if s is not None and len(s) == 4), None)
    outer = v[3] if len(v) == 4 else v[2] // kv_heads
    length = (k[2] if len(k) == 4 else k[1]) + (past[2] if past else 0)
    cache = (q[0], kv_heads, length, outer)
    return [(q[0], q[1], heads * outer), cache, cache]


def _embedding(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    ids, words = inputs[0], inputs[2]
    return [None if ids is None or words is None else (*ids, words[1])]


def _mean(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    x = inputs[0]
    if x is None:
        return []
    axes = {axis % len(x) for axis in attributes.get("axes") or range(len(x))}
    if attributes.get("keepdims", 1):
        return [tuple(1 if axis in axes else size for axis, size in enumerate(x))]
    return [tuple(size for axis, size in enumerate(x) if axis not in axes)]


def _lstm(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    x, r = inputs[0], inputs[2]
    if x is None or r is None:
        return []
    last = (r[0], x[1], r[1])
    return [(x[0], r[0], x[1], r[1]), last, last]


def _norm(inputs: Shapes, attributes: dict[str, Any]) -> Shapes:
    return [inputs[0], None, None]


RULES: dict[tuple[str, str], Rule] = {
    **{("com.microsoft", op): _first for op in (
        "Gelu", "FastGelu", "QuickGelu", "RotaryEmbedding", "QuantizeLinear", "DequantizeLinear", "GroupNorm",
    )},
    **{("com.microsoft", op): _norm for op in ("LayerNormalization", "SimplifiedLayerNormalization")},
    **{("com.microsoft", op): _broadcast for op in ("BiasGelu", "BiasAdd", "BiasDropout")},
    **{("com.microsoft", op): _skip_norm for op in (
        "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SkipGroupNorm",
    )},
    **{("com.microsoft", op): _grouped_attention for op in ("MultiHeadAttention", "GroupQueryAttention")},
    ("com.microsoft", "FusedMatMul"): _fused_matmul,
    ("com.microsoft", "FusedGemm"): _fused_gemm,
    ("com.microsoft", "MatMulNBits"): _packed_matmul,
    ("com.microsoft", "Attention"): _packed_attention,
    ("com.microsoft", "EmbedLayerNormalization"): _embedding,
    ("com.microsoft", "ReduceMean"): _mean,
    ("com.microsoft", "DynamicQuantizeLSTM"): _lstm,
    ("", "SimplifiedLayerNormalization"): _norm,
    ("", "GroupNormalization"): _first,
    ("", "MeanVarianceNormalization"): _first,
}  # fmt: skip

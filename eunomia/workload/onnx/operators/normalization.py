"""Normalizations and softmax."""

from __future__ import annotations

from eunomia.workload.build import NORM_OPS, SOFTMAX_OPS
from eunomia.workload.model import Layer
from eunomia.workload.onnx.network import Network, Node, Value, plain_layer


def batch_norm(node: Node, net: Network) -> tuple[int, ...]:
    """One scale and one shift per channel: folded into the product before it where that is possible."""
    x, scale, shift = node.value(0), node.value(1), node.value(2)
    target = net.target(x, (scale, shift))
    if target is not None and scale.static:
        if not net.fold_norm(target, scale.elements):
            net.absorb(target, 2 * x.elements, [scale, shift])
        return x.producers
    layer = plain_layer(node.name, "norm", x.shape, x.shape, ops=2 * x.elements)
    return net.add(layer, node.activations(), weights=[scale, shift])


def norm(node: Node, net: Network) -> tuple[int, ...]:
    """Layer, instance, group and RMS normalization, with a residual input where the operator has one."""
    x = node.activations()[0]
    others = [value for value in node.activations()[1:] if value.name != x.name]
    ops = (NORM_OPS + len(others)) * x.elements
    layer = plain_layer(
        node.name, "norm", x.shape, x.shape, operand=sum(value.elements for value in others), ops=ops
    )
    return net.add(layer, [x, *others], weights=[v for v in node.inputs[1:] if v is not None and v.static])


def local_norm(node: Node, net: Network) -> tuple[int, ...]:
    """LRN over ``size`` neighbouring channels."""
    x = node.value(0)
    ops = (2 * int(node.attr("size", 1)) + 2) * x.elements
    return net.add(plain_layer(node.name, "norm", x.shape, x.shape, ops=ops), [x])


def softmax(node: Node, net: Network) -> tuple[int, ...]:
    """Softmax, LogSoftmax, Hardmax."""
    x = node.value(0)
    layer = plain_layer(node.name, "softmax", x.shape, x.shape, ops=SOFTMAX_OPS * x.elements)
    return net.add(layer, node.activations())


def embedding(node: Node, net: Network) -> tuple[int, ...]:
    """EmbedLayerNormalization: rows of up to three tables, summed and normalized."""
    ids, segments = node.value(0), node.get(1)
    out = node.shape()
    rows, width = ids.elements, out[-1]
    made: tuple[int, ...] = ()
    for part, table in (("words", node.value(2)), ("positions", node.value(3)), ("segments", node.get(4))):
        if table is None:
            continue
        layer = Layer(f"{node.name}.{part}", "gather", in_h=rows, out_h=rows, out_channels=width)
        source = segments if part == "segments" else ids
        made += net.add(layer, [source], weights=[table])
    elements = rows * width
    layer = plain_layer(
        node.name,
        "norm",
        out,
        out,
        operand=(len(made) - 1) * elements,
        ops=(NORM_OPS + len(made) - 1) * elements,
    )
    return net.add(layer, [Value("", (), producers=made)], weights=[node.get(5), node.get(6)])


HANDLERS = {
    ("", "BatchNormalization"): batch_norm,
    ("", "LRN"): local_norm,
    ("com.microsoft", "EmbedLayerNormalization"): embedding,
    **{("", op): norm for op in (
        "LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization",
        "LpNormalization", "MeanVarianceNormalization", "SimplifiedLayerNormalization",
    )},
    **{("com.microsoft", op): norm for op in (
        "LayerNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization", "GroupNorm", "SkipGroupNorm",
    )},
    **{("", op): softmax for op in ("Softmax", "LogSoftmax", "Hardmax")},
}  # fmt: skip

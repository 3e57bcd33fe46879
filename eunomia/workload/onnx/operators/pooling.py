"""Pooling: one operation per element of each window."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from eunomia.workload.onnx.network import Network, Node, plain_layer


def pool(node: Node, net: Network) -> tuple[int, ...]:
    """MaxPool, AveragePool, LpPool."""
    x, out = node.value(0), node.shape()
    kernel = tuple(node.attr("kernel_shape", (1,) * (len(x.shape) - 2)))
    stride = tuple(node.attr("strides", (1,) * len(kernel)))
    layer = plain_layer(node.name, "pool", x.shape, out, ops=prod(out) * prod(kernel))
    if len(kernel) == 2:
        layer = replace(layer, kernel_h=kernel[0], kernel_w=kernel[1], stride_h=stride[0], stride_w=stride[1])
    return net.add(layer, [x])


def global_pool(node: Node, net: Network) -> tuple[int, ...]:
    """GlobalAveragePool and its kin, and pooling of regions: every input element once."""
    x = node.value(0)
    return net.add(plain_layer(node.name, "pool", x.shape, node.shape(), ops=x.elements), node.activations())


def region_pool(node: Node, net: Network) -> tuple[int, ...]:
    """RoiAlign, MaxRoiPool, GridSample: about eight operations per element of the result."""
    out = node.shape()
    layer = plain_layer(node.name, "pool", out, out, ops=8 * prod(out))
    return net.add(layer, node.activations())


HANDLERS = {
    ("", "MaxPool"): pool,
    ("", "AveragePool"): pool,
    ("", "LpPool"): pool,
    ("", "GlobalAveragePool"): global_pool,
    ("", "GlobalMaxPool"): global_pool,
    ("", "GlobalLpPool"): global_pool,
    ("", "RoiAlign"): region_pool,
    ("", "MaxRoiPool"): region_pool,
    ("", "GridSample"): region_pool,
}

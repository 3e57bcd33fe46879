"""Convolutions: any groups, dilation, kernel form; one to three spatial axes; transposed; quantized."""

from __future__ import annotations

from math import prod

from eunomia.core.errors import ModelError
from eunomia.workload.model import Layer
from eunomia.workload.onnx.network import Network, Node, Value, as_weights


def conv(node: Node, net: Network) -> tuple[int, ...]:
    """Conv and FusedConv; the kernel's form is that of the weights."""
    x, w, bias = node.value(0), node.value(1), node.get(2)
    axes = len(x.shape) - 2
    if not 1 <= axes <= 3 or len(w.shape) != len(x.shape):
        raise ModelError(f"input {x.shape} and weights {w.shape}; one to three spatial axes are supported")
    groups = int(node.attr("group", 1))
    out = node.shape()
    if w.shape[1] * groups != x.shape[1]:
        raise ModelError(f"{x.shape[1]} input channels, but weights for {groups} groups of {w.shape[1]}")
    stride = tuple(node.attr("strides", (1,) * axes))
    dilation = tuple(node.attr("dilations", (1,) * axes))
    batch, channels, kernel, source, result = x.shape[0], x.shape[1], w.shape[2:], x.shape[2:], out[2:]
    if axes == 1:
        kernel, source, result, stride, dilation = (
            (1, *t) for t in (kernel, source, result, stride, dilation)
        )
    if axes == 3:  # every output slice is a convolution over the kernel's depth as further channels
        batch, channels = batch * result[0], channels * kernel[0]
        kernel, source, result, stride, dilation = (t[1:] for t in (kernel, source, result, stride, dilation))
    layer = Layer(
        node.name, "conv", batch, groups, channels, out[1], source[0], source[1], result[0], result[1],
        kernel[0], kernel[1], stride[0], stride[1], dilation[0], dilation[1], operand_elements=_operands(w, bias),
    )  # fmt: skip
    added = node.get(3) if node.op == "FusedConv" else None
    return net.add(layer, [x, w, bias, added], weights=[w, as_weights(bias)], bias=bias is not None)


def transposed_conv(node: Node, net: Network) -> tuple[int, ...]:
    """ConvTranspose: MACs = input positions x input channels / groups x output channels x kernel.

    Where the stride divides the kernel it becomes a convolution of ``kernel / stride`` at the input's
    positions, with ``stride`` times as many results per side. Otherwise it becomes a product with one result
    per kernel element, whose overlapping parts are summed as they are written.
    """
    x, w, bias = node.value(0), node.value(1), node.get(2)
    axes = len(x.shape) - 2
    groups = int(node.attr("group", 1))
    kernel = w.shape[2:]
    stride = tuple(node.attr("strides", (1,) * axes))
    dilation = tuple(node.attr("dilations", (1,) * axes))
    channels = w.shape[1] * groups
    height, width = prod(x.shape[2:-1]), x.shape[-1]
    kh, kw, results = 1, 1, channels * prod(kernel)
    if (
        axes <= 2
        and all(d == 1 for d in dilation)
        and all(k % s == 0 for k, s in zip(kernel, stride, strict=True))
    ):
        each = [k // s for k, s in zip(kernel, stride, strict=True)]
        kh, kw = (1, each[0]) if axes == 1 else (each[0], each[1])
        results = channels * prod(stride)
    layer = Layer(
        node.name, "conv", x.shape[0], groups, x.shape[1], results, height, width, height, width, kh, kw,
        operand_elements=_operands(w, bias),
    )  # fmt: skip
    return net.add(layer, [x, w, bias], weights=[w, as_weights(bias)], bias=bias is not None)


def _operands(*values: Value | None) -> int:
    return sum(value.elements for value in values if value is not None and not value.static)


HANDLERS = {
    ("", "Conv"): conv,
    ("", "ConvTranspose"): transposed_conv,
    ("com.microsoft", "FusedConv"): conv,
}

"""Operators that only copy elements, and those that cost nothing."""

from __future__ import annotations

from math import prod

from eunomia.workload.onnx.network import Network, Node, plain_layer

# another view of the same elements, or a change of number format that is applied while writing
_FREE = "Reshape Flatten Squeeze Unsqueeze Identity Cast CastLike Dropout QuantizeLinear DequantizeLinear"
_COPIES = (
    "CenterCropPad Col2Im Compress DepthToSpace Expand GatherElements GatherND OneHot Pad "
    "Resize ReverseSequence ScatterElements ScatterND Scatter Slice SpaceToDepth Split TensorScatter Tile Trilu "
    "Upsample"
)


def free(node: Node, net: Network) -> tuple[int, ...]:
    """No layer; what reads the result waits for whatever writes the inputs."""
    return tuple(dict.fromkeys(p for value in node.activations() for p in value.producers))


def copy(node: Node, net: Network) -> tuple[int, ...]:
    """All results are written, and as many elements read; a copy of a copy is one copy."""
    net.keep(node.inputs)
    target = net.target(node.activations()[0]) if len(node.activations()) == 1 else None
    if target is not None and net.layers[target].kind == "reshape" and len(node.outputs) == 1:
        before = net.layers[target].output_elements
        if before == prod(node.shape()):
            return (target,)
    written = sum(prod(shape) for shape in node.shapes if shape is not None)
    result = node.shape() if len(node.outputs) == 1 else (1, 1, written)
    return net.add(plain_layer(node.name, "reshape", result, result), node.activations())


def transpose(node: Node, net: Network) -> tuple[int, ...]:
    """A copy, unless only axes of length 1 move."""
    shape = node.value(0).shape
    order = tuple(node.attr("perm", range(len(shape))[::-1]))
    long = [axis for axis in order if shape[axis] > 1]
    return free(node, net) if long == sorted(long) else copy(node, net)


def expand(node: Node, net: Network) -> tuple[int, ...]:
    """A copy, unless the shape stays."""
    same = prod(node.shape()) == node.activations()[0].elements
    return free(node, net) if same else copy(node, net)


def concat(node: Node, net: Network) -> tuple[int, ...]:
    """Nothing when fused: whatever writes an input writes it to its place. Otherwise a copy."""
    if not net.fuse:
        return copy(node, net)
    net.keep(node.inputs)
    return free(node, net)


def gather(node: Node, net: Network) -> tuple[int, ...]:
    """Rows of a table of weights (an embedding), or selected elements of an activation."""
    table = node.value(0)
    out = node.shape()
    if not table.static:
        return copy(node, net)
    width = prod(table.shape[1:])
    rows = max(1, prod(out) // max(1, width))
    layer = plain_layer(node.name, "gather", (1, rows, 1), (1, rows, width))
    return net.add(layer, node.activations(), weights=[table])


def selection(node: Node, net: Network) -> tuple[int, ...]:
    """TopK: about four operations per input element."""
    x = node.value(0)
    return net.add(
        plain_layer(node.name, "elementwise", x.shape, node.shape(), ops=4 * x.elements), node.activations()
    )


HANDLERS = {
    **{("", op): free for op in _FREE.split()},
    **{("com.microsoft", op): free for op in ("QuantizeLinear", "DequantizeLinear")},
    **{("", op): copy for op in _COPIES.split()},
    ("", "Transpose"): transpose,
    ("", "Expand"): expand,
    ("", "Concat"): concat,
    ("", "Gather"): gather,
    ("", "TopK"): selection,
}

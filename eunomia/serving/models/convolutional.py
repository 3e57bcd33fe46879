"""MobileNetV2 and ResNet-50 as ONNX files, layer by layer as published, with seeded random weights.

Weights carry no knowledge, so answers mean nothing; shapes, operations and times are those of the
published networks. Normalisation is folded into the convolutions, as any runtime does.
Sources: Sandler et al., CVPR 2018, table 2; He et al., CVPR 2016, table 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

OPSET = 17


class GraphBuilder:
    """Adds nodes one after the other; every method returns the name of its output."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def conv(self, x: str, channels: int, out: int, size: int, stride: int = 1, groups: int = 1) -> str:
        """A convolution with bias, padded to keep the size at stride 1."""
        fan_in = channels // groups * size * size
        shape = (out, channels // groups, size, size)
        weight = self._weight(self._rng.standard_normal(shape, np.float32) * np.float32((2 / fan_in) ** 0.5))
        bias = self._weight(np.zeros(out, np.float32))
        return self._node(
            "Conv",
            [x, weight, bias],
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[size // 2] * 4,
            group=groups,
        )

    def dense(self, x: str, features: int, out: int) -> str:
        """Mean over the picture, then a fully connected layer."""
        flat = self._node("Flatten", [self._node("GlobalAveragePool", [x])])
        weight = self._rng.standard_normal((features, out), np.float32) * np.float32(features**-0.5)
        return self._node("Gemm", [flat, self._weight(weight), self._weight(np.zeros(out, np.float32))])

    def relu(self, x: str) -> str:
        """max(0, x)."""
        return self._node("Relu", [x])

    def relu6(self, x: str) -> str:
        """min(6, max(0, x))."""
        return self._node("Clip", [x, self._weight(np.float32(0)), self._weight(np.float32(6))])

    def max_pool(self, x: str) -> str:
        """3 x 3 with stride 2."""
        return self._node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

    def add(self, a: str, b: str) -> str:
        """a + b."""
        return self._node("Add", [a, b])

    def file(self, name: str, output: str, side: int, classes: int) -> bytes:
        """The network as the content of an ONNX file with a free batch size."""
        from onnx import TensorProto, helper

        graph = helper.make_graph(
            [*self._nodes, helper.make_node("Identity", [output], ["logits"])],
            name,
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, side, side])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", classes])],
            self._weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        return bytes(model.SerializeToString())

    def _node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        from onnx import helper

        output = f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def _weight(self, values: npt.ArrayLike) -> str:
        from onnx import numpy_helper

        name = f"weight_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name


def mobilenet_v2(side: int = 224, classes: int = 1000, seed: int = 0) -> bytes:
    """MobileNetV2, width 1.0: 3.5 M parameters, 0.30 G MACs at 224."""
    g = GraphBuilder(seed)
    x, channels = g.relu6(g.conv("image", 3, 32, 3, stride=2)), 32
    for expand, out, repeats, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for n in range(repeats):
            x, channels = _inverted_residual(g, x, channels, out, expand, stride if n == 0 else 1), out
    return g.file("mobilenet-v2", g.dense(g.relu6(g.conv(x, 320, 1280, 1)), 1280, classes), side, classes)


def resnet50(side: int = 224, classes: int = 1000, seed: int = 0) -> bytes:
    """ResNet-50, stride in the 3 x 3 convolution: 25.6 M parameters, 4.1 G MACs at 224."""
    g = GraphBuilder(seed)
    x, channels = g.max_pool(g.relu(g.conv("image", 3, 64, 7, stride=2))), 64
    for stage, repeats in enumerate((3, 4, 6, 3)):
        for n in range(repeats):
            stride = 2 if n == 0 and stage > 0 else 1
            x, channels = _bottleneck(g, x, channels, 64 * 2**stage, stride), 256 * 2**stage
    return g.file("resnet50", g.dense(x, 2048, classes), side, classes)


def _inverted_residual(g: GraphBuilder, x: str, channels: int, out: int, expand: int, stride: int) -> str:
    hidden = channels * expand
    y = x if expand == 1 else g.relu6(g.conv(x, channels, hidden, 1))
    y = g.relu6(g.conv(y, hidden, hidden, 3, stride, groups=hidden))
    y = g.conv(y, hidden, out, 1)
    return g.add(x, y) if stride == 1 and channels == out else y


def _bottleneck(g: GraphBuilder, x: str, channels: int, width: int, stride: int) -> str:
    y = g.relu(g.conv(x, channels, width, 1))
    y = g.relu(g.conv(y, width, width, 3, stride))
    y = g.conv(y, width, 4 * width, 1)
    if channels != 4 * width:
        x = g.conv(x, channels, 4 * width, 1, stride)
    return g.relu(g.add(x, y))

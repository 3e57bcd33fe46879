"""Networks that misbehave when the client says so, and one that does not: ONNX files of a few nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

SIDE = 64
HEAD = '<ir_version: 8, opset_import: ["" : 17]> strange '
STRANGE = {
    "turns": """(int64[1] x) => (int64[1] y) <bool go = {1}, int64 zero = {0}, int64[1] shape = {1}> {
        count = Squeeze (x)
        sum = Loop (count, go, zero) <body = turn
            (int64 number, bool go_in, int64 sum_in) => (bool go_out, int64 sum_out) <int64 one = {1}> {
                go_out = Identity (go_in)
                sum_out = Add (sum_in, one)
            }>
        y = Reshape (sum, shape)
    }""",
    "size": "(int64[1] x) => (float[n] y) { y = ConstantOfShape (x) }",
    "log": "(float[n] x) => (float[n] y) { y = Log (x) }",
    "index": "(int64[n] x) => (float[n] y) <float[8] of = {0, 0, 0, 0, 0, 0, 0, 0}> { y = Gather (of, x) }",
}


def packed(name: str, array: npt.NDArray[np.float32], raw: bool = False) -> tuple[bytes, dict[str, str]]:
    """A request's body with one tensor, and the header that says how much is JSON; ``raw``: its answer is to be so."""
    parameters = {"binary_data_size": array.nbytes}
    tensor = {"name": name, "datatype": "FP32", "shape": array.shape, "parameters": parameters}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": raw}}).encode()
    return head + array.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def write_networks(folder: Path) -> dict[str, Path]:
    """The files by name.

    ``small``: MobileNetV2 of 64 x 64. ``turns``: a loop of as many turns as its input says. ``size``: an output of
    as many numbers as its input says. ``log``: NaN for negative inputs. ``index``: fails for indices beyond 8.
    """
    from onnx import parser

    from eunomia.serving.models.convolutional import mobilenet_v2

    content = {"small": mobilenet_v2(side=SIDE, classes=10)}
    content |= {name: parser.parse_model(HEAD + text).SerializeToString() for name, text in STRANGE.items()}
    for name, model in content.items():
        (folder / f"{name}.onnx").write_bytes(model)
    return {name: folder / f"{name}.onnx" for name in content}


def write_convolutions(path: Path) -> None:
    """Six convolutions of 3 x 3, which halve a picture three times over; its height and width are free."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    draw, nodes, weights, channels, last = np.random.default_rng(0), [], [], 3, "image"
    for n, (width, stride) in enumerate([(32, 1), (64, 2), (128, 1), (128, 2), (256, 1), (256, 2)]):
        weight = (draw.standard_normal((width, channels, 3, 3)) * 0.05).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{n}"))
        shape = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [stride] * 2}
        nodes.append(helper.make_node("Conv", [last, f"w{n}"], [f"c{n}"], **shape))
        nodes.append(helper.make_node("Relu", [f"c{n}"], [last := f"r{n}"]))
        channels = width
    nodes.append(helper.make_node("ReduceMean", [last], ["y"], axes=[2], keepdims=0))
    ends = {"image": ["n", 3, "h", "w"], "y": ["n", channels, "t"]}
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in ends.items()]
    graph = helper.make_graph(nodes, "convolutions", ports[:1], ports[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))


def write_layers(path: Path, width: int) -> None:
    """Four fully connected layers of this width; as many rows as the client sends."""
    import onnx
    from onnx import numpy_helper, parser

    draw, names = np.random.default_rng(0), [f"w{n}" for n in range(4)]
    lines = [f"m{n} = MatMul (r{n}, w{n}) r{n + 1} = Relu (m{n})" for n in range(4)]
    nodes = " ".join(["r0 = Identity (x)", *lines, "y = Identity (r4)"])
    model = parser.parse_model(f"{HEAD}(float[n,{width}] x) => (float[n,{width}] y) {{ {nodes} }}")
    weights = [(draw.standard_normal((width, width)) * 0.1).astype(np.float32) for _ in names]
    model.graph.initializer.extend(map(numpy_helper.from_array, weights, names))
    onnx.save(model, str(path))

"""Networks that misbehave when the client says so, and one that does not: ONNX files of a few nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SIDE = 64


def write_networks(folder: Path) -> dict[str, Path]:
    """The files by name.

    ``small``: MobileNetV2 of 64 x 64. ``turns``: a loop of as many turns as its input says. ``size``: an output of
    as many numbers as its input says. ``log``: NaN for negative inputs. ``index``: fails for indices beyond 8.
    """
    from eunomia.serving.models.convolutional import mobilenet_v2

    content = {
        "small": mobilenet_v2(side=SIDE, classes=10), "turns": _turns(), "size": _size(), "log": _log(),
        "index": _index(),
    }  # fmt: skip
    paths = {name: folder / f"{name}.onnx" for name in content}
    for name, path in paths.items():
        path.write_bytes(content[name])
    return paths


def _model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any] | None = None
) -> bytes:
    from onnx import helper

    graph = helper.make_graph(nodes, "strange", inputs, outputs, weights or [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _turns() -> bytes:
    from onnx import TensorProto, helper

    info, number = helper.make_tensor_value_info, helper.make_tensor
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_in"], ["go_out"]),
            helper.make_node("Add", ["sum_in", "one"], ["sum_out"]),
        ],
        "body",
        [
            info("turn", TensorProto.INT64, []),
            info("go_in", TensorProto.BOOL, []),
            info("sum_in", TensorProto.INT64, []),
        ],
        [info("go_out", TensorProto.BOOL, []), info("sum_out", TensorProto.INT64, [])],
        [number("one", TensorProto.INT64, [], [1])],
    )
    nodes = [
        helper.make_node("Squeeze", ["x"], ["count"]),
        helper.make_node("Loop", ["count", "go", "zero"], ["sum"], body=body),
        helper.make_node("Reshape", ["sum", "shape"], ["y"]),
    ]
    weights = [
        number("go", TensorProto.BOOL, [], [True]), number("zero", TensorProto.INT64, [], [0]),
        number("shape", TensorProto.INT64, [1], [1]),
    ]  # fmt: skip
    return _model(nodes, [info("x", TensorProto.INT64, [1])], [info("y", TensorProto.INT64, [1])], weights)


def _size() -> bytes:
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    node = helper.make_node("ConstantOfShape", ["x"], ["y"])
    return _model([node], [info("x", TensorProto.INT64, [1])], [info("y", TensorProto.FLOAT, ["n"])])


def _log() -> bytes:
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    node = helper.make_node("Log", ["x"], ["y"])
    return _model([node], [info("x", TensorProto.FLOAT, ["n"])], [info("y", TensorProto.FLOAT, ["n"])])


def _index() -> bytes:
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    node = helper.make_node("Gather", ["table", "x"], ["y"])
    table = helper.make_tensor("table", TensorProto.FLOAT, [8], [0.0] * 8)
    return _model(
        [node], [info("x", TensorProto.INT64, ["n"])], [info("y", TensorProto.FLOAT, ["n"])], [table]
    )

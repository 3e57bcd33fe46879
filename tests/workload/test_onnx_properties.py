"""Random networks: sizes and multiply-accumulates against a count that is slow and obvious."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from eunomia.workload.model import DnnModel
from tests.workload.onnx_graphs import graph, node, read, weights


def read_anywhere(model: onnx.ModelProto, **settings: object) -> DnnModel:
    with tempfile.TemporaryDirectory() as folder:
        return read(Path(folder), model, **settings)


def positions(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> int:
    """Starts of a window that stays inside the padded side, one by one."""
    count, start = 0, -before
    while start + dilation * (kernel - 1) < size + after:
        count += 1
        start += stride
    return count


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """One convolution for an unknown input: two sides, each with its own everything."""
    side = st.integers(1, 3)
    return {
        "kernel": [draw(st.integers(1, 4)) for _ in range(2)],
        "stride": [draw(side) for _ in range(2)],
        "dilation": [draw(side) for _ in range(2)],
        "pads": [draw(st.integers(0, 3)) for _ in range(4)],
        "groups": draw(st.sampled_from([1, 2, 4])),
        "per_group": draw(st.integers(1, 4)),
        "bias": draw(st.booleans()),
        "auto_pad": draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])),
        "says_kernel": draw(st.booleans()),
        "after": draw(st.sampled_from(["", "Relu", "BatchNormalization", "Sigmoid"])),
    }


@given(
    st.lists(convolutions(), min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 3),
    st.tuples(st.integers(9, 24), st.integers(9, 24)), st.booleans(),
)  # fmt: skip
def test_stacks_of_convolutions(
    stack: list[dict[str, Any]], batch: int, fourths: int, size: tuple[int, int], fuse: bool
) -> None:
    channels, sides, current = 4 * fourths, list(size), "x"
    nodes, stored, expected = [], [], []
    for index, layer in enumerate(stack):
        kernel, stride, dilation, pads, auto = (
            layer[key] for key in ("kernel", "stride", "dilation", "pads", "auto_pad")
        )
        if auto == "NOTSET":
            result = [
                positions(sides[i], kernel[i], stride[i], dilation[i], pads[i], pads[i + 2]) for i in range(2)
            ]
        elif auto == "VALID":
            result = [positions(sides[i], kernel[i], stride[i], dilation[i], 0, 0) for i in range(2)]
        else:
            result = [-(-sides[i] // stride[i]) for i in range(2)]
        if min(result) < 1:
            break
        groups, out = layer["groups"], layer["groups"] * layer["per_group"]
        name = f"c{index}"
        attributes: dict[str, Any] = {"strides": stride, "dilations": dilation, "group": groups}
        attributes |= {"pads": pads} if auto == "NOTSET" else {"auto_pad": auto}
        attributes |= {"kernel_shape": kernel} if layer["says_kernel"] else {}
        stored.append(weights(f"w{index}", out, channels // groups, *kernel))
        inputs = [current, f"w{index}"]
        if layer["bias"]:
            stored.append(weights(f"b{index}", out))
            inputs.append(f"b{index}")
        nodes.append(node("Conv", inputs, [name], **attributes))
        current = name
        if layer["after"]:
            current = f"a{index}"
            extra = [f"{p}{index}" for p in "gsmv"] if layer["after"] == "BatchNormalization" else []
            stored += [weights(e, out) for e in extra]
            nodes.append(node(layer["after"], [name, *extra], [current]))
        macs = 0
        for _ in range(batch * out * result[0] * result[1]):
            macs += channels // groups * kernel[0] * kernel[1]
        expected.append((macs, out, *result))
        sides, channels = result, 4 * -(-out // 4)
        if channels != out:  # the next groups must divide: pad the channels
            nodes.append(node("Pad", [current, f"p{index}"], [f"q{index}"]))
            amounts = [0, 0, 0, 0, 0, channels - out, 0, 0]
            stored.append(helper.make_tensor(f"p{index}", TensorProto.INT64, [8], amounts))
            current = f"q{index}"
    if not nodes:
        return
    nodes.append(node("Identity", [current], ["y"]))
    model = read_anywhere(graph(nodes, {"x": ["batch", 4 * fourths, *size]}, stored), batch=batch, fuse=fuse)
    found = [(la.macs, la.out_channels, la.out_h, la.out_w) for la in model.layers if la.kind == "conv"]
    assert found == expected
    assert model.is_chain
    if not fuse:
        assert model.params == sum(int(np.prod(t.dims)) for t in stored if t.name[0] in "wbgs")


OPS = ["Relu", "Tanh", "MatMul", "Add", "Transpose", "Softmax", "ReduceMax", "Gemm"]


@given(
    st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12)
)
def test_random_graphs_keep_shapes_dependences_and_macs(steps: list[tuple[str, int, int]]) -> None:
    """Any mix of operators on 6 x 6 matrices, checked by running the graph."""
    names, nodes, macs, stored = ["x", "z"], [], 0, []
    for index, (op, first, second) in enumerate(steps):
        a, b = names[first % len(names)], names[second % len(names)]
        name = f"t{index}"
        if op == "Gemm":
            stored.append(helper.make_tensor(f"w{index}", TensorProto.FLOAT, [6, 6], np.ones(36, np.float32)))
            nodes.append(node(op, [a, f"w{index}"], [name]))
        elif op == "ReduceMax":
            nodes.append(node(op, [a], [name + "r"], keepdims=1))
            nodes.append(node("Add", [name + "r", b], [name]))
        else:
            nodes.append(node(op, [a, b] if op in ("MatMul", "Add") else [a], [name]))
        macs += 6 * 6 * 6 if op in ("MatMul", "Gemm") else 0
        names.append(name)
    unread = [n for n in names if all(n not in entry.input for entry in nodes)]
    nodes.append(node("Sum", unread, ["y"]))
    proto = graph(nodes, {"x": [6, 6], "z": [6, 6]}, stored)
    rng = np.random.default_rng(0)
    result = ReferenceEvaluator(proto).run(None, {n: rng.random((6, 6), np.float32) for n in "xz"})[0]
    for fuse in (True, False):
        model = read_anywhere(proto, fuse=fuse)
        assert model.macs == macs
        assert model.params == sum(36 for _ in stored)
        assert model.layers[-1].output_elements == result.size
        depth = _depth(model)
        assert depth >= max((len(chain) for chain in _products(nodes)), default=0)


def _depth(model: DnnModel) -> int:
    """Products on the longest path of the network that was read."""
    longest: list[int] = []
    for index, layer in enumerate(model.layers):
        longest.append(layer.has_macs + max((longest[p] for p in model.predecessors[index]), default=0))
    return max(longest)


def _products(nodes: list[onnx.NodeProto]) -> list[list[str]]:
    """For every tensor, the products on the longest path to it."""
    paths: dict[str, list[str]] = {}
    for entry in nodes:
        longest = max((paths.get(name, []) for name in entry.input), key=len, default=[])
        own = [entry.name] if entry.op_type in ("MatMul", "Gemm") else []
        paths[entry.output[0]] = longest + own
    return list(paths.values())


@given(st.binary(max_size=400))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    from eunomia.core.errors import ModelError
    from eunomia.workload.onnx import read_onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(data)
        try:
            read_onnx(path)
        except ModelError as error:
            assert str(path) in str(error)


@given(st.data())
def test_a_damaged_file_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    from eunomia.core.errors import EunomiaError
    from eunomia.workload.onnx import read_onnx

    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("Reshape", ["r", "to"], ["y"]),
    ]
    to = helper.make_tensor("to", TensorProto.INT64, [2], [1, -1])
    whole = bytearray(graph(nodes, {"x": [1, 4, 8, 8]}, [weights("w", 6, 4, 3, 3), to]).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(bytes(whole[: data.draw(st.integers(1, len(whole)))]))
        try:
            read_onnx(path)
        except EunomiaError as error:
            assert "\n" not in str(error)

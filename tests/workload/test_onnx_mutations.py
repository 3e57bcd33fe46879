"""Valid networks damaged at random: read or refused with the file's name, whatever has become of them.

Attributes, shapes, types, names, missing inputs, truncated bytes, huge sizes, cycles.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from eunomia.core.errors import EunomiaError, ModelError
from eunomia.workload.onnx import node_errors, read_onnx, reader
from tests.workload.onnx_graphs import graph, node, numbers, read, weights
from tests.workload.test_onnx_control import body

MS = {"domain": "com.microsoft"}
SIZES = [-(2**63), -7, -1, 0, 1, 2, 3, 8, 2**31, 2**40, 2**62, 2**63 - 1]
NAMES = ["", "x", "y", "w", "c", "s", "nowhere", "ids"]
OPS = [
    "Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum", "LSTM", "Attention", "Resize", "Reshape", "If", "Loop", "Scan",
    "Constant", "Shape", "Pad", "TopK", "BatchNormalization", "MaxPool", "Split", "SequenceInsert", "QLinearConv",
    "Magic",
]  # fmt: skip


def _convolutional() -> onnx.ModelProto:
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2], group=2),
        node("BatchNormalization", ["c", "b", "b", "b", "b"], ["n"]), node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]), node("ConvTranspose", ["p", "u"], ["t"], strides=[2, 2]),
        node("Resize", ["t", "", "scales"], ["z"]), node("Concat", ["z", "z"], ["k"], axis=1),
        node("Pad", ["k", "amounts"], ["d"]), node("Flatten", ["d"], ["f"]),
        node("TopK", ["f", "one"], ["best", "where"]), node("Identity", ["best"], ["y"]),
    ]  # fmt: skip
    stored = [
        weights("w", 6, 2, 3, 3), numbers("b", np.ones(6), np.float32), weights("u", 6, 4, 2, 2), numbers("one", [1]),
        numbers("scales", [1, 1, 2, 2], np.float32), numbers("amounts", [0, 0, 1, 1, 0, 0, 1, 1]),
    ]  # fmt: skip
    return graph(nodes, {"x": [1, 4, 8, 8]}, stored)


def _transformer() -> onnx.ModelProto:
    nodes = [
        node("Shape", ["ids"], ["s"]), node("Gather", ["s", "one"], ["n"]),
        node("ConstantOfShape", ["square"], ["full"], value=numbers("v", [-np.inf], np.float32)),
        node("Gather", ["table", "ids"], ["e"]), node("LayerNormalization", ["e", "g", "g"], ["x"]),
        node("MatMul", ["x", "w"], ["q"]), node("Split", ["q"], ["a", "b", "c"], axis=2, num_outputs=3),
        node("Einsum", ["a", "b"], ["scores"], equation="bid,bjd->bij"), node("Add", ["scores", "full"], ["m"]),
        node("Softmax", ["m"], ["p"]), node("MatMul", ["p", "c"], ["o"]), node("Gelu", ["o"], ["h"], **MS),
        node("SkipLayerNormalization", ["h", "x", "g", "g"], ["z"], **MS),
        node("MultiHeadAttention", ["z", "z", "z"], ["y"], num_heads=2, **MS),
    ]  # fmt: skip
    stored = [
        weights("table", 50, 8), numbers("g", np.ones(8), np.float32), weights("w", 8, 24), numbers("one", 1),
        numbers("square", [5, 5]),
    ]  # fmt: skip
    return graph(nodes, {"ids": [2, 5]}, stored, kinds={"ids": TensorProto.INT64}, contrib=True)


def _quantized() -> onnx.ModelProto:
    scale = ["s", "z"]
    nodes = [
        node("QLinearConv", ["x", *scale, "w", *scale, *scale], ["c"], pads=[1, 1, 1, 1]),
        node("QLinearAveragePool", ["c", *scale, *scale], ["a"], kernel_shape=[2, 2], **MS),
        node("QLinearAdd", ["a", *scale, "a", *scale, *scale], ["d"], **MS),
        node("QLinearConcat", [*scale, "d", *scale, "a", *scale], ["k"], axis=1, **MS), node("Flatten", ["k"], ["f"]),
        node("QGemm", ["f", *scale, "m", *scale, "", *scale], ["q"], transB=1, **MS),
        node("DequantizeLinear", ["q", *scale], ["y"]),
    ]  # fmt: skip
    stored = [
        helper.make_tensor("w", TensorProto.UINT8, [6, 4, 3, 3], bytes(216), raw=True), numbers("z", 0, np.uint8),
        helper.make_tensor("m", TensorProto.UINT8, [3, 588], bytes(1764), raw=True), numbers("s", 0.1, np.float32),
    ]  # fmt: skip
    return graph(nodes, {"x": [1, 4, 8, 8]}, stored, kinds={"x": TensorProto.UINT8}, contrib=True)


def _recurrent() -> onnx.ModelProto:
    step = [node("MatMul", ["state", "m"], ["next"]), node("Relu", ["next"], ["row"])]
    branches = {
        f"{b}_branch": body([node(op, ["h"], ["r"])], ["r"]) for b, op in (("then", "Relu"), ("else", "Exp"))
    }
    nodes = [
        node("LSTM", ["x", "w", "u"], ["h", "", ""], hidden_size=4, direction="bidirectional"),
        node("If", ["yes"], ["i"], **branches), node("ReduceMax", ["i"], ["flat"], keepdims=0),
        node("Reshape", ["i", "to"], ["start"]),
        node("Loop", ["n", "", "start"], ["c", "rows"], body=body(step, ["g", "next", "row"], ["k", "g", "state"])),
        node("Scan", ["c", "rows"], ["last", "y"], num_scan_inputs=1,
             body=body([node("Add", ["a", "b"], ["s"]), node("Tanh", ["s"], ["t"])], ["s", "t"], ["a", "b"])),
    ]  # fmt: skip
    stored = [
        weights("w", 2, 16, 6), weights("u", 2, 16, 4), weights("m", 4, 4), numbers("to", [-1, 4]), numbers("n", 3),
        numbers("yes", True, bool),
    ]  # fmt: skip
    return graph(nodes, {"x": [5, 2, 6]}, stored)


NETWORKS = {
    "convolutional": _convolutional, "transformer": _transformer, "quantized": _quantized, "recurrent": _recurrent,
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_are_valid_before(tmp_path: Path, name: str) -> None:
    assert len(read(tmp_path, NETWORKS[name]()).layers) >= 4


def _graphs(net: onnx.GraphProto) -> list[onnx.GraphProto]:
    """A graph and those inside its nodes."""
    inner = [a.g for entry in net.node for a in entry.attribute if a.type == onnx.AttributeProto.GRAPH]
    return [net, *(found for part in inner for found in _graphs(part))]


def _attribute(data: st.DataObject, place: onnx.GraphProto) -> None:
    found = [(entry, i) for entry in place.node for i in range(len(entry.attribute))]
    if not found:
        return
    entry, index = data.draw(st.sampled_from(found))
    change = data.draw(st.sampled_from(["drop", "number", "numbers", "text", "float", "tensor", "rename"]))
    name = entry.attribute[index].name
    if change == "rename":
        entry.attribute[index].name = data.draw(
            st.sampled_from(["axis", "group", "pads", "body", "value", "num_heads"])
        )
        return
    del entry.attribute[index]
    made: dict[str, object] = {
        "number": data.draw(st.sampled_from(SIZES)), "text": data.draw(st.sampled_from(["", "SAME_UPPER", "ab,bc->"])),
        "numbers": data.draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=5)),
        "float": data.draw(st.sampled_from([np.nan, np.inf, -1e38, 0.5])),
        "tensor": numbers("v", [data.draw(st.sampled_from(SIZES))]),
    }  # fmt: skip
    if change in made:
        entry.attribute.append(helper.make_attribute(name, made[change]))


def _shape(data: st.DataObject, place: onnx.GraphProto) -> None:
    kinds = [entry.type for entry in place.input if entry.type.HasField("tensor_type")]
    if not kinds:
        return
    dims = data.draw(st.sampled_from(kinds)).tensor_type.shape.dim
    change = data.draw(st.sampled_from(["size", "drop", "add", "free"]))
    if change == "add" or not dims:
        dims.add().dim_value = data.draw(st.sampled_from(SIZES))
        return
    index = data.draw(st.integers(0, len(dims) - 1))
    if change == "drop":
        del dims[index]
    elif change == "free":
        dims[index].dim_param = data.draw(st.sampled_from(["batch", "seq", ""]))
    else:
        dims[index].dim_value = data.draw(st.sampled_from(SIZES))


def _type(data: st.DataObject, place: onnx.GraphProto) -> None:
    kind = data.draw(st.integers(0, 40))
    tensors = [t for t in (*(entry.type.tensor_type for entry in place.input), *place.initializer)]
    if not tensors:
        return
    target = data.draw(st.sampled_from(tensors))
    if isinstance(target, onnx.TensorProto):
        target.data_type = kind
    else:
        target.elem_type = kind


def _input(data: st.DataObject, place: onnx.GraphProto) -> None:
    """Missing, exchanged, more; also what makes a cycle or writes a tensor twice."""
    if not place.node:
        return
    entry = data.draw(st.sampled_from(list(place.node)))
    names = entry.input if data.draw(st.booleans()) else entry.output
    change = data.draw(st.sampled_from(["drop", "other", "more", "none"]))
    others = [name for other in place.node for name in other.output] + NAMES
    if change == "none":
        del names[:]
    elif change == "more" or not names:
        names.append(data.draw(st.sampled_from(others)))
    else:
        index = data.draw(st.integers(0, len(names) - 1))
        if change == "drop":
            del names[index]
        else:
            names[index] = data.draw(st.sampled_from(others))


def _constant(data: st.DataObject, place: onnx.GraphProto) -> None:
    if not place.initializer:
        return
    tensor = data.draw(st.sampled_from(list(place.initializer)))
    change = data.draw(st.sampled_from(["value", "dims", "drop", "infinite", "bytes"]))
    if change == "drop":
        place.initializer.remove(tensor)
    elif change == "dims":
        tensor.dims.append(data.draw(st.sampled_from(SIZES)))
    elif change == "bytes":
        tensor.raw_data = data.draw(st.binary(max_size=20))
    elif change == "infinite":
        tensor.CopyFrom(numbers(tensor.name, np.full(list(tensor.dims) or 1, np.inf), np.float32))
    else:
        count = data.draw(st.integers(0, 5))
        tensor.CopyFrom(numbers(tensor.name, [data.draw(st.sampled_from(SIZES)) for _ in range(count)]))


def _operator(data: st.DataObject, place: onnx.GraphProto) -> None:
    if not place.node:
        return
    entry = data.draw(st.sampled_from(list(place.node)))
    if data.draw(st.booleans()):
        entry.op_type = data.draw(st.sampled_from(OPS))
    else:
        entry.domain = data.draw(st.sampled_from(["", "ai.onnx", "com.microsoft", "com.acme", "ai.onnx.ml"]))


CHANGES: list[Callable[[st.DataObject, onnx.GraphProto], None]] = [
    _attribute, _shape, _type, _input, _constant, _operator,
]  # fmt: skip


def outcome(content: bytes, **choices: object) -> str:
    """What reading a file ends in; anything but the package's own error, with the file's name, escapes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.onnx"
        path.write_bytes(content)
        try:
            model = read_onnx(path, **choices)  # type: ignore[arg-type]
        except EunomiaError as error:
            assert str(path) in str(error)
            assert "\n" not in str(error)
            return str(error)
        assert model.macs >= 0
        assert all(edge[0] < edge[1] for edge in model.edges)
        return ""


@pytest.mark.parametrize("name", NETWORKS)
@given(data=st.data())
@settings(max_examples=60)
def test_a_damaged_network_is_read_or_refused_with_its_name(name: str, data: st.DataObject) -> None:
    net = NETWORKS[name]()
    for _ in range(data.draw(st.integers(1, 3))):
        data.draw(st.sampled_from(CHANGES))(data, data.draw(st.sampled_from(_graphs(net.graph))))
    if data.draw(st.integers(0, 9)) == 0:
        net.opset_import[0].version = data.draw(st.sampled_from([0, 1, 7, 9, 12, 13, 18, 99, 2**40]))
    content = net.SerializeToString()
    if data.draw(st.integers(0, 9)) == 0:
        content = content[: data.draw(st.integers(0, len(content)))]
    outcome(content)


@pytest.mark.parametrize("name", NETWORKS)
@given(data=st.data())
@settings(max_examples=40)
def test_settings_that_make_no_sense_are_refused_with_the_name_of_the_file(
    name: str, data: st.DataObject
) -> None:
    net = NETWORKS[name]()
    sizes = data.draw(st.dictionaries(st.sampled_from(["batch", "seq", "x:0"]), st.integers(-(2**70), 2**70)))
    branches = data.draw(
        st.dictionaries(st.sampled_from(["pick", "i", ""]), st.sampled_from(["then", "else", "x"]))
    )
    counts = data.draw(st.dictionaries(st.sampled_from(["again", "c", "i"]), st.integers(-2, 4)))
    net.graph.input[0].type.tensor_type.shape.dim[0].dim_param = data.draw(st.sampled_from(["batch", "seq"]))
    batch = data.draw(st.integers(-1, 2**64))
    outcome(net.SerializeToString(), dims=sizes, batch=batch, branches=branches, trip_counts=counts)


@given(cut=st.integers(0, 10_000), name=st.sampled_from(sorted(NETWORKS)))
def test_a_truncated_file_is_refused_with_its_name(cut: int, name: str) -> None:
    whole = NETWORKS[name]().SerializeToString()
    said = outcome(whole[: cut % len(whole)])
    assert said


def test_an_exception_that_nobody_foresaw_names_file_node_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a library or our own code raises at a node, and outside any node."""
    net = graph([node("Relu", ["x"], ["y"], name="the node")], {"x": [1, 4]})
    for error in (
        ZeroDivisionError("div\nby zero"),
        MemoryError(),
        RecursionError("deep"),
        OSError(28, "full"),
    ):

        def broken(*_: object, raised: Exception = error) -> object:
            raise raised

        with monkeypatch.context() as patch:
            patch.setattr(reader, "handler", broken)
            with pytest.raises(ModelError) as caught:
                read(tmp_path, net)
        for words in ("net.onnx", "node 'the node' (Relu)", type(error).__name__, node_errors.REMEDY):
            assert words in str(caught.value)
        assert "\n" not in str(caught.value)
        with monkeypatch.context() as patch:
            patch.setattr(reader, "private_tensors", broken)
            with pytest.raises(ModelError) as caught:
                read(tmp_path, net)
        for words in ("net.onnx", type(error).__name__, node_errors.REMEDY):
            assert words in str(caught.value)

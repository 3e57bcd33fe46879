"""Constants of the file: infinity and NaN, whole numbers beyond 64 bits, and which of them are weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from eunomia.core.errors import ModelError
from eunomia.workload.onnx import read_onnx
from tests.workload.onnx_graphs import graph, node, numbers, read, weights

STRANGE = [float("-inf"), float("inf"), float("nan")]
INT64 = TensorProto.INT64


def _scalar(
    name: str, value: float, kind: int, as_node: bool
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """A constant without axes: as a node, or stored."""
    tensor = helper.make_tensor(name, kind, [], [value])
    return ([helper.make_node("Constant", [], [name], value=tensor)], []) if as_node else ([], [tensor])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("as_node", [True, False])
@pytest.mark.parametrize(
    "kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE]
)
@pytest.mark.parametrize("value", STRANGE)
@pytest.mark.parametrize("op", ["Where", "Add", "Mul", "Max", "Clip"])
def test_a_scalar_of_infinity_or_nan(tmp_path: Path, op: str, value: float, kind: int, as_node: bool) -> None:
    nodes, stored = _scalar("c", value, kind, as_node)
    inputs = {"Where": ["mask", "x", "c"], "Clip": ["x", "c"]}.get(op, ["x", "c"])
    nodes.append(node(op, inputs, ["y"]))
    kinds = {"x": kind, "mask": TensorProto.BOOL}
    shapes = {"x": [2, 3, 4]} | ({"mask": [3, 4]} if op == "Where" else {})
    (layer,) = read(tmp_path, graph(nodes, shapes, stored, kinds=kinds)).layers
    assert (layer.kind, layer.ops, layer.output_elements, layer.weight_elements) == ("elementwise", 24, 24, 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", STRANGE)
def test_a_mask_computed_from_infinity_is_read_by_its_layer_and_is_no_parameter(
    tmp_path: Path, value: float
) -> None:
    nodes = [
        node(
            "ConstantOfShape",
            ["size"],
            ["full"],
            value=helper.make_tensor("v", TensorProto.FLOAT, [1], [value]),
        ),
        node("Trilu", ["full", "one"], ["mask"], upper=1),
        node("Mul", ["mask", "mask"], ["square"]),
        node("MatMul", ["q", "k"], ["s"]),
        node("Add", ["s", "square"], ["m"]),
        node("Softmax", ["m"], ["y"]),
    ]
    stored = [numbers("size", [9, 9]), numbers("one", 1)]
    model = read(tmp_path, graph(nodes, {"q": [4, 9, 8], "k": [4, 8, 9]}, stored))
    assert [layer.kind for layer in model.layers] == ["matmul", "elementwise", "softmax"]
    assert model.layers[1].weight_elements == 81
    assert model.params == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [*STRANGE, 1e30, -1e30])
def test_no_size_follows_from_a_float_that_no_whole_number_stands_for(tmp_path: Path, value: float) -> None:
    nodes = [
        node("Cast", ["c"], ["to"], to=INT64),
        node("Expand", ["x", "to"], ["e"]),
        node("Relu", ["e"], ["y"]),
    ]
    net = graph(nodes, {"x": [1, 4]}, [numbers("c", [value, 4.0], np.float32)])
    with pytest.raises(ModelError, match=r"net.onnx.*node 'e' \(Expand\): the shape of 'e' depends on data"):
        read(tmp_path, net)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Mul", [[2**40], [2**40]]),
        ("Add", [[2**62], [2**62]]),
        ("Sub", [[-(2**62)], [2**62 + 1]]),
        ("Pow", [[2**8], [8]]),
        ("ReduceProd", [[2**33, 2**33]]),
        ("ReduceSum", [[2**62, 2**62]]),
    ],
)
def test_whole_numbers_beyond_64_bits_do_not_wrap_around(
    tmp_path: Path, op: str, inputs: list[list[int]]
) -> None:
    names = [f"c{index}" for index in range(len(inputs))]
    stored = [numbers(name, values) for name, values in zip(names, inputs, strict=True)]
    nodes = [node(op, names, ["to"]), node("Expand", ["x", "to"], ["e"]), node("Relu", ["e"], ["y"])]
    with pytest.raises(ModelError, match=rf"net.onnx.*node 'to' \({op}\).*no 64-bit whole number"):
        read(tmp_path, graph(nodes, {"x": [1]}, stored))


def test_a_tensor_of_more_elements_than_64_bits_count_is_refused(tmp_path: Path) -> None:
    nodes = [
        node("ConstantOfShape", ["huge"], ["big"]),
        node("Size", ["big"], ["count"]),
        node("Mul", ["x", "count"], ["y"]),
    ]
    net = graph(nodes, {"x": [2, 3]}, [numbers("huge", [2**40, 2**40])], kinds={"x": INT64})
    with pytest.raises(ModelError, match="net.onnx.*tensor 'big' .* has 1.21e[+]24 elements; at most"):
        read(tmp_path, net)


def test_a_dimension_that_no_machine_holds_is_refused_with_its_name(tmp_path: Path) -> None:
    net = graph([node("Relu", ["x"], ["y"])], {"x": [1, "seq"]})
    for size in (2**63, 10**30):
        with pytest.raises(ModelError, match=f"net.onnx.*dimension 'seq' = {size}; it must be at most"):
            read(tmp_path, net, dims={"seq": size})


def test_a_stored_tensor_counts_in_full_and_once_whatever_is_made_of_it(tmp_path: Path) -> None:
    """Two halves joined, one of them used again: the sum of what is stored, as torch counts it."""
    nodes = [
        node("Concat", ["a", "b"], ["w"], axis=1),
        node("MatMul", ["x", "w"], ["h"]),
        node("MatMul", ["x", "a"], ["g"]),
        node("Concat", ["h", "g"], ["y"], axis=1),
    ]
    model = read(tmp_path, graph(nodes, {"x": [4, 8]}, [weights("a", 8, 3), weights("b", 8, 5)]))
    assert [layer.weight_elements for layer in model.layers] == [8 * 8, 8 * 3]
    assert (model.params, model.shared_params) == (8 * 8, 8 * 3)


def test_the_rows_of_a_table_that_no_run_reads_are_stored_too(tmp_path: Path) -> None:
    """Learned positions: 512 rows stored, the first 6 added to every input."""
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Range", ["zero", "n", "one"], ["ids"]),
        node("Gather", ["positions", "ids"], ["p"]), node("Add", ["x", "p"], ["y"]),
    ]  # fmt: skip
    stored = [weights("positions", 512, 16), numbers("one", 1), numbers("zero", 0)]
    model = read(tmp_path, graph(nodes, {"x": [2, "seq", 16]}, stored), dims={"seq": 6})
    (layer,) = model.layers
    assert layer.weight_elements == 6 * 16
    assert model.params == 512 * 16


def test_a_token_that_is_only_copied_is_stored(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("Concat", ["token", "r"], ["y"], axis=1)]
    net = graph(nodes, {"x": [1, 5, 16]}, [weights("token", 1, 1, 16)])
    assert read(tmp_path, net).params == 16
    assert read(tmp_path, net, fuse=False).params == 16


@pytest.mark.parametrize("fuse", [True, False])
def test_a_bias_of_one_element_is_a_parameter_and_a_scale_of_one_is_not(tmp_path: Path, fuse: bool) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Add", ["h", "b"], ["a"]),
        node("Mul", ["a", "scale"], ["m"]),
        node("PRelu", ["m", "slope"], ["y"]),
    ]
    stored = [weights("w", 8, 1), *(numbers(name, [0.5], np.float32) for name in ("b", "scale", "slope"))]
    assert read(tmp_path, graph(nodes, {"x": [2, 3, 8]}, stored), fuse=fuse).params == 8 + 1 + 1


def test_scales_and_zero_points_are_no_parameters(tmp_path: Path) -> None:
    stored = [
        helper.make_tensor("w", TensorProto.INT8, [8, 6], bytes(48), raw=True),
        helper.make_tensor("b", TensorProto.INT32, [6], [0] * 6),
        numbers("a_scale", [0.1] * 6, np.float32),
        numbers("zero", [0] * 6, np.int8),
        numbers("zero32", [0] * 6, np.int32),
    ]
    nodes = [
        node("DequantizeLinear", ["w", "a_scale", "zero"], ["d"], axis=1),
        node("DequantizeLinear", ["b", "a_scale", "zero32"], ["c"], axis=0),
        node("Gemm", ["x", "d", "c"], ["y"]),
    ]
    model = read(tmp_path, graph(nodes, {"x": [4, 8]}, stored))
    assert model.params == 8 * 6 + 6
    assert model.layers[0].weight_elements == 8 * 6 + 6


def test_a_value_that_the_onnx_library_cannot_evaluate_is_left_unknown(tmp_path: Path) -> None:
    """An index out of bounds in a part that no size depends on."""
    nodes = [
        node("Gather", ["table", "out_of_bounds"], ["g"]),
        node("Add", ["x", "g"], ["y"]),
    ]
    stored = [numbers("table", [1.0, 2.0], np.float32), numbers("out_of_bounds", [7])]
    (layer,) = read(tmp_path, graph(nodes, {"x": [1]}, stored)).layers
    assert layer.output_elements == 1


def test_a_constant_that_does_not_fill_its_shape_is_named(tmp_path: Path) -> None:
    short = numpy_helper.from_array(np.zeros(4, np.float32), "c")
    short.dims[0] = 5
    net = graph([node("Add", ["x", "c"], ["y"])], {"x": [5]}, [short])
    path = tmp_path / "short.onnx"
    path.write_bytes(net.SerializeToString())
    with pytest.raises(ModelError, match="short.onnx.*constant 'c' is malformed"):
        read_onnx(path)

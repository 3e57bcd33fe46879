"""One operator at a time, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from eunomia.workload import zoo
from eunomia.workload.model import DnnModel, Layer
from eunomia.workload.onnx import read_onnx
from tests.workload.onnx_graphs import graph, node, numbers, read, weights

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"


def kinds(model: DnnModel) -> list[str]:
    return [layer.kind for layer in model.layers]


def test_convolution_without_kernel_shape_on_a_long_image(tmp_path: Path) -> None:
    conv = node("Conv", ["x", "w", "b"], ["y"], strides=[2, 1], pads=[1, 0, 1, 0], dilations=[1, 2], group=2)
    model = read(tmp_path, graph([conv], {"x": [3, 8, 20, 9]}, [weights("w", 6, 4, 3, 2), weights("b", 6)]))
    (layer,) = model.layers
    assert (layer.out_h, layer.out_w) == (10, 7)
    assert (layer.kernel_h, layer.kernel_w, layer.dilation_w, layer.stride_h) == (3, 2, 2, 2)
    assert layer.macs == 3 * 6 * 70 * 4 * 6
    assert layer.weight_elements == 6 * 4 * 6 + 6
    assert (layer.batch, layer.groups) == (3, 2)


@pytest.mark.parametrize(
    ("pad", "size"), [("SAME_UPPER", (10, 5)), ("SAME_LOWER", (10, 5)), ("VALID", (9, 3))]
)
def test_automatic_padding(tmp_path: Path, pad: str, size: tuple[int, int]) -> None:
    conv = node("Conv", ["x", "w"], ["y"], auto_pad=pad, strides=[2, 2])
    (layer,) = read(tmp_path, graph([conv], {"x": [1, 4, 20, 9]}, [weights("w", 5, 4, 3, 5)])).layers
    assert (layer.out_h, layer.out_w) == size


def test_one_and_three_spatial_axes(tmp_path: Path) -> None:
    conv = node("Conv", ["x", "w"], ["y"], strides=[2])
    (line,) = read(tmp_path, graph([conv], {"x": [1, 4, 21]}, [weights("w", 5, 4, 3)])).layers
    assert (line.out_h, line.out_w, line.macs) == (1, 10, 10 * 5 * 12)
    conv = node("Conv", ["x", "w"], ["y"])
    (block,) = read(tmp_path, graph([conv], {"x": [2, 4, 8, 9, 10]}, [weights("w", 5, 4, 3, 2, 1)])).layers
    assert block.macs == 2 * 5 * (6 * 8 * 10) * 4 * 6
    assert block.weight_elements == 5 * 4 * 6


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (4, 2), (3, 2), (3, 1)])
def test_transposed_convolution_counts_input_positions(tmp_path: Path, kernel: int, stride: int) -> None:
    up = node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[stride, stride])
    stored = [weights("w", 8, 6, kernel, kernel), weights("b", 6)]
    (layer,) = read(tmp_path, graph([up], {"x": [1, 8, 5, 7]}, stored)).layers
    assert layer.macs == 35 * 8 * 6 * kernel * kernel
    assert layer.weight_elements == 8 * 6 * kernel * kernel + 6
    if kernel == stride:
        assert layer.output_elements == 6 * 10 * 14


def test_quantized_convolution(tmp_path: Path) -> None:
    stored = [
        helper.make_tensor("w", TensorProto.INT8, [6, 4, 3, 3], bytes(216), raw=True),
        numbers("b", [0] * 6, np.int32),
        numbers("s", 0.1, np.float32),
        numbers("z", 0, np.uint8),
        numbers("zw", 0, np.int8),
    ]
    conv = node("QLinearConv", ["x", "s", "z", "w", "s", "zw", "s", "z", "b"], ["y"])
    net = graph([conv], {"x": [1, 4, 8, 8]}, stored, kinds={"x": TensorProto.UINT8})
    (layer,) = read(tmp_path, net).layers
    assert layer.macs == 36 * 6 * 36
    assert layer.weight_elements == 216 + 6


@pytest.mark.parametrize(
    ("a", "b", "weight", "expected"),
    [
        ([7, 5], [5, 3], True, (1, 7, 5, 3)),
        ([2, 4, 7, 5], [5, 3], True, (1, 56, 5, 3)),
        ([5], [5, 3], True, (1, 1, 5, 3)),
        ([2, 4, 7, 5], [2, 4, 5, 3], False, (8, 7, 5, 3)),
        ([2, 4, 7, 5], [4, 5, 3], False, (8, 7, 5, 3)),
        ([7, 5], [6, 5, 3], False, (6, 7, 5, 3)),
        ([4, 7, 5], [4, 5, 3], True, (4, 7, 5, 3)),
        ([7, 5], [5], False, (1, 7, 5, 1)),
    ],
)
def test_products_of_any_rank(
    tmp_path: Path, a: list[int], b: list[int], weight: bool, expected: tuple[int, ...]
) -> None:
    inputs = {"a": a} if weight else {"a": a, "b": b}
    net = graph([node("MatMul", ["a", "b"], ["y"])], inputs, [weights("b", *b)] if weight else [])
    (layer,) = read(tmp_path, net).layers
    assert (layer.batch, layer.out_h, layer.in_channels, layer.out_channels) == expected
    elements = int(np.prod(b))
    assert (layer.weight_elements, layer.operand_elements) == ((elements, 0) if weight else (0, elements))


def test_weights_on_the_left_are_the_transposed_product(tmp_path: Path) -> None:
    net = graph([node("MatMul", ["w", "x"], ["y"])], {"x": [4, 5, 9]}, [weights("w", 7, 5)])
    (layer,) = read(tmp_path, net).layers
    assert (layer.batch, layer.out_h, layer.in_channels, layer.out_channels) == (1, 36, 5, 7)
    assert layer.weight_elements == 35


@pytest.mark.parametrize(("turn_a", "turn_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(tmp_path: Path, turn_a: int, turn_b: int) -> None:
    a, b = ([5, 7] if turn_a else [7, 5]), ([3, 5] if turn_b else [5, 3])
    gemm = node("Gemm", ["a", "b", "c"], ["y"], transA=turn_a, transB=turn_b)
    (layer,) = read(tmp_path, graph([gemm], {"a": a}, [weights("b", *b), weights("c", 3)])).layers
    assert (layer.out_h, layer.in_channels, layer.out_channels, layer.weight_elements) == (7, 5, 3, 18)


@pytest.mark.parametrize(
    ("equation", "a", "b", "expected"),
    [
        ("ij,jk->ik", [7, 5], [5, 3], (1, 7, 5, 3)),
        ("bhid,bhjd->bhij", [2, 3, 7, 5], [2, 3, 6, 5], (6, 7, 5, 6)),
        ("...ij,...jk", [2, 7, 5], [2, 5, 3], (2, 7, 5, 3)),
        ("bid,jd->bij", [2, 7, 5], [3, 5], (1, 14, 5, 3)),
        ("abc,bcd->ad", [7, 2, 3], [2, 3, 9], (1, 7, 6, 9)),
    ],
)
def test_einsum(tmp_path: Path, equation: str, a: list[int], b: list[int], expected: tuple[int, ...]) -> None:
    net = graph([node("Einsum", ["a", "b"], ["y"], equation=equation)], {"a": a}, [weights("b", *b)])
    model = read(tmp_path, net)
    layer = model.layers[0]
    assert (layer.batch, layer.out_h, layer.in_channels, layer.out_channels) == expected
    assert layer.weight_elements == int(np.prod(b))


@pytest.mark.parametrize(("op", "gates", "directions"), [("LSTM", 4, 1), ("GRU", 3, 2), ("RNN", 1, 1)])
def test_recurrent_layers(tmp_path: Path, op: str, gates: int, directions: int) -> None:
    stored = [
        weights("w", directions, gates * 16, 10), weights("r", directions, gates * 16, 16),
        weights("b", directions, 2 * gates * 16),
    ]  # fmt: skip
    direction = "bidirectional" if directions == 2 else "forward"
    step = node(op, ["x", "w", "r", "b"], ["y"], hidden_size=16, direction=direction)
    model = read(tmp_path, graph([step], {"x": [12, 2, 10]}, stored))
    assert model.macs == directions * 24 * gates * 16 * (10 + 16)
    assert model.params == directions * gates * 16 * (10 + 16 + 2)
    assert len(model.layers) == 3 * directions
    unstated = node(op, ["x", "w", "r", "b"], ["y"], direction=direction)  # hidden_size is optional
    assert read(tmp_path, graph([unstated], {"x": [12, 2, 10]}, stored)).layers == model.layers


def _contrib_attention(past: bool) -> onnx.ModelProto:
    inputs: dict[str, list[int | str | None]] = {"x": [2, 10, 32]}
    names = ["x", "w", "b"]
    if past:
        inputs["past"] = [2, 2, 4, 6, 8]
        names += ["", "past"]
    attend = node("Attention", names, ["y"], domain="com.microsoft", num_heads=4)
    return graph([attend], inputs, [weights("w", 32, 96), weights("b", 96)], contrib=True)


@pytest.mark.parametrize("past", [False, True])
def test_attention_of_onnx_runtime(tmp_path: Path, past: bool) -> None:
    model = read(tmp_path, _contrib_attention(past))
    context = 16 if past else 10
    assert kinds(model) == ["matmul", "matmul", "softmax", "matmul"]
    assert model.macs == 20 * 32 * 96 + 2 * (8 * 10 * 8 * context)
    assert model.params == 32 * 96 + 96


def test_grouped_queries_read_fewer_keys(tmp_path: Path) -> None:
    attend = node(
        "GroupQueryAttention", ["q", "k", "v", "pk", "pv"], ["y", "nk", "nv"],
        domain="com.microsoft", num_heads=8, kv_num_heads=2,
    )  # fmt: skip
    inputs = {"q": [1, 1, 64], "k": [1, 1, 16], "v": [1, 1, 16], "pk": [1, 2, 99, 8], "pv": [1, 2, 99, 8]}
    model = read(tmp_path, graph([attend], inputs, outputs=["y", "nk", "nv"], contrib=True))
    assert model.macs == 2 * 8 * 100 * 8
    assert model.layers[0].operand_elements == 2 * 100 * 8


def test_attention_of_onnx(tmp_path: Path) -> None:
    attend = node("Attention", ["q", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=4)
    inputs = {"q": [2, 10, 32], "k": [2, 12, 32], "v": [2, 12, 32]}
    model = read(tmp_path, graph([attend], inputs, opset=23))
    assert model.macs == 2 * (2 * 4 * 10 * 12 * 8)


def test_operators_of_onnx_runtime(tmp_path: Path) -> None:
    ms = {"domain": "com.microsoft"}
    nodes = [
        node("EmbedLayerNormalization", ["ids", "", "words", "positions", "", "g", "b"], ["e", "mask"], **ms),
        node("FusedMatMul", ["e", "w"], ["h"], transB=1, **ms),
        node("BiasGelu", ["h", "c"], ["a"], **ms),
        node("SkipLayerNormalization", ["a", "e", "g", "b"], ["s"], **ms),
        node("QuickGelu", ["s"], ["y"], **ms),
    ]
    stored = [
        weights("words", 1000, 32), weights("positions", 64, 32), weights("g", 32), weights("b", 32),
        weights("w", 32, 32), weights("c", 32),
    ]  # fmt: skip
    net = graph(nodes, {"ids": [1, "seq"]}, stored, contrib=True, kinds={"ids": TensorProto.INT32})
    model = read(tmp_path, net, dims={"seq": 20})
    assert kinds(model) == ["gather", "gather", "norm", "matmul", "norm"]
    assert model.macs == 20 * 32 * 32
    assert model.params == 1000 * 32 + 64 * 32 + 64 + 32 * 32 + 32  # the second use of g and b counts once


def test_pooling_and_elementwise_are_costed(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[3, 2], strides=[2, 2]),
        node("Add", ["p", "z"], ["a"]),
        node("Softmax", ["a"], ["s"], axis=1),
        node("GlobalAveragePool", ["s"], ["y"]),
    ]
    model = read(tmp_path, graph(nodes, {"x": [1, 4, 9, 8], "z": [1, 4, 4, 4]}))
    assert kinds(model) == ["pool", "elementwise", "softmax", "pool"]
    pool, add, _, mean = model.layers
    assert pool.ops == 4 * 16 * 6
    assert (add.ops, add.operand_elements) == (64, 64)
    assert (mean.ops, mean.output_elements) == (64, 4)
    assert model.is_chain


def _conv_block() -> onnx.ModelProto:
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("Concat", ["r", "x"], ["k"], axis=1),
        node("Conv", ["k", "w2", "b2"], ["d"]),
        node("BatchNormalization", ["d", "g", "b", "m", "v"], ["f"]),
        node("Sigmoid", ["f"], ["i"]),
        node("Mul", ["f", "i"], ["y"]),
    ]
    stored = [weights("w", 6, 4, 3, 3), weights("w2", 6, 10, 1, 1), weights("b2", 6)]
    return graph(nodes, {"x": [1, 4, 8, 8]}, [*stored, *(weights(name, 6) for name in "gbmv")])


def test_what_deployed_networks_fuse(tmp_path: Path) -> None:
    model = read(tmp_path, _conv_block())
    assert kinds(model) == ["conv", "conv"]
    assert model.layers[0].weight_elements == 216 + 6  # normalization folded into a bias
    assert model.layers[1].weight_elements == 60 + 6
    assert model.folded_params == 6 + 12  # scale and shift, less the bias that was not there
    plain = read(tmp_path, _conv_block(), fuse=False)
    assert kinds(plain) == [
        "conv",
        "norm",
        "elementwise",
        "reshape",
        "conv",
        "norm",
        "elementwise",
        "elementwise",
    ]
    assert plain.macs == model.macs
    assert (
        plain.params == model.params + model.folded_params - 12
    )  # both normalizations name the same tensors


def test_an_output_that_others_read_is_not_fused(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("Add", ["c", "r"], ["s"]),
        node("Neg", ["s"], ["y"]),
    ]
    net = graph(nodes, {"x": [1, 4, 8, 8]}, [weights("w", 6, 4, 1, 1)], outputs=["c", "y"])
    assert kinds(read(tmp_path, net)) == ["conv", "elementwise", "elementwise"]
    net = graph(nodes, {"x": [1, 4, 8, 8]}, [weights("w", 6, 4, 1, 1)], outputs=["y"])
    assert kinds(read(tmp_path, net)) == ["conv"]  # Relu, Add and Neg are one function of c


def test_a_stored_mask_does_not_turn_an_attention_product_into_one_with_weights(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["q", "k"], ["s"]),
        node("Add", ["s", "mask"], ["m"]),
        node("Softmax", ["m"], ["y"]),
    ]
    net = graph(nodes, {"q": [4, 9, 8], "k": [4, 8, 9]}, [weights("mask", 9, 9)])
    model = read(tmp_path, net)
    assert kinds(model) == ["matmul", "elementwise", "softmax"]
    assert (model.layers[0].weight_elements, model.layers[0].operand_elements) == (0, 4 * 8 * 9)


def test_gelu_written_out_is_one_function(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Add", ["h", "b"], ["c"]),
        node("Div", ["c", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["f"]),
        node("Mul", ["c", "f"], ["g"]),
        node("Mul", ["g", "half"], ["y"]),
    ]
    scalars = [numbers(name, 1.5, np.float32) for name in ("root", "one", "half")]
    model = read(tmp_path, graph(nodes, {"x": [1, 9, 8]}, [weights("w", 8, 16), weights("b", 16), *scalars]))
    assert kinds(model) == ["matmul"]
    assert model.params == 8 * 16 + 16


def test_shape_computation_is_folded_away(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["batch"], axis=0),
        node("Unsqueeze", ["batch", "axis"], ["one"]),
        node("Concat", ["one", "minus"], ["to"], axis=0),
        node("MatMul", ["x", "w"], ["h"]),
        node("Reshape", ["h", "to"], ["y"]),
    ]
    stored = [weights("w", 8, 16), numbers("zero", 0), numbers("axis", [0]), numbers("minus", [-1])]
    model = read(tmp_path, graph(nodes, {"x": ["batch", "seq", 8]}, stored), batch=3, dims={"seq": 5})
    assert kinds(model) == ["matmul"]
    assert model.layers[0].out_h == 15


def test_weights_prepared_in_the_graph_are_weights(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", ["w"], ["t"], perm=[1, 0]),
        node("MatMul", ["x", "t"], ["h"]),
        node("Gather", ["w", "ids"], ["e"]),
        node("Add", ["h", "e"], ["y"]),
    ]
    inputs = {"x": [4, 8], "ids": [4]}
    stored = [weights("w", 8, 8)]
    model = read(tmp_path, graph(nodes, inputs, stored, kinds={"ids": TensorProto.INT64}))
    assert kinds(model) == ["matmul", "gather", "elementwise"]
    assert model.params == 64  # tied: both layers have them, they are stored once
    assert model.shared_params == 64


def test_a_weight_split_in_three_is_not_shared(tmp_path: Path) -> None:
    nodes = [
        node("Split", ["w"], ["a", "b", "c"], axis=1, num_outputs=3),
        node("MatMul", ["x", "a"], ["q"]), node("MatMul", ["x", "b"], ["k"]), node("MatMul", ["x", "c"], ["v"]),
        node("Sum", ["q", "k", "v"], ["y"]),
    ]  # fmt: skip
    model = read(tmp_path, graph(nodes, {"x": [4, 8]}, [weights("w", 8, 24)]))
    assert model.params == 192
    assert model.shared_params == 0
    assert model.predecessors[3] == (0, 1, 2)


def test_data_movement_is_costed_and_views_are_free(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[0, 2, 3, 1]),
        node("Flatten", ["t"], ["f"]),
        node("Slice", ["f", "start", "end", "axis"], ["y"]),
    ]
    stored = [numbers("start", [0]), numbers("end", [10]), numbers("axis", [1])]
    model = read(tmp_path, graph(nodes, {"x": [2, 3, 4, 5]}, stored))
    assert kinds(model) == ["elementwise", "reshape", "reshape"]
    assert model.layers[1].output_elements == 120
    assert model.layers[2].input_elements == model.layers[2].output_elements == 20


def test_upsampling(tmp_path: Path) -> None:
    resize = node("Resize", ["x", "", "scales"], ["y"])
    stored = [numbers("scales", [1, 1, 2, 2], np.float32)]
    (layer,) = read(tmp_path, graph([resize], {"x": [1, 3, 4, 5]}, stored)).layers
    assert (layer.kind, layer.output_elements) == ("reshape", 3 * 8 * 10)


def test_an_empty_cache_costs_nothing(tmp_path: Path) -> None:
    nodes = [node("Concat", ["past", "x"], ["c"], axis=1), node("Relu", ["c"], ["y"])]
    net = graph(nodes, {"past": ["batch", "past_len", 8], "x": ["batch", 4, 8]})
    for fuse in (True, False):
        model = read(tmp_path, net, dims={"past_len": 0}, fuse=fuse)
        assert model.layers[-1].output_elements == 32


def test_nodes_that_no_output_needs_are_left_out(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Softmax", ["x"], ["unused"])]
    assert kinds(read(tmp_path, graph(nodes, {"x": [1, 8]}))) == ["elementwise"]


def test_nodes_may_stand_in_any_order(tmp_path: Path) -> None:
    nodes = [node("Softmax", ["r"], ["y"]), node("Relu", ["x"], ["r"])]
    assert kinds(read(tmp_path, graph(nodes, {"x": [1, 8]}))) == ["elementwise", "softmax"]


def test_functions_of_the_file_are_inlined(tmp_path: Path) -> None:
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Softmax", ["b"], ["c"])]
    function = helper.make_function("my", "Act", ["a"], ["c"], body, [helper.make_opsetid("", 21)])
    model = graph([node("Act", ["x"], ["y"], domain="my")], {"x": [1, 8]})
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("my", 1))
    assert kinds(read(tmp_path, model)) == ["elementwise", "softmax"]


def test_settings_reach_the_model(tmp_path: Path) -> None:
    net = graph([node("Relu", ["x"], ["y"])], {"x": ["batch", 8]})
    model = read(tmp_path, net, batch=4, name="mine", word_bytes=2)
    assert (model.name, model.word_bytes, model.layers[0].output_elements) == ("mine", 2, 32)
    assert "net.onnx" in model.source
    assert read(tmp_path, net).name == "net"


def _alone(layer: Layer, index: int) -> tuple[onnx.NodeProto, list[int], onnx.TensorProto]:
    """A layer with weights as one ONNX node with an input of its own, weights by shape only."""
    name = f"y{index}"
    if layer.kind == "matmul":
        stored = weights(f"w{index}", layer.in_channels, layer.out_channels)
        return node("MatMul", [f"x{index}", f"w{index}"], [name]), [layer.out_h, layer.in_channels], stored
    pads = []
    for out, size, kernel, stride in (
        (layer.out_h, layer.in_h, layer.kernel_h, layer.stride_h),
        (layer.out_w, layer.in_w, layer.kernel_w, layer.stride_w),
    ):
        pads.append(max(0, (out - 1) * stride + kernel - size))
    conv = node(
        "Conv", [f"x{index}", f"w{index}"], [name], group=layer.groups, strides=[layer.stride_h, layer.stride_w],
        pads=[pads[0] // 2, pads[1] // 2, pads[0] - pads[0] // 2, pads[1] - pads[1] // 2],
    )  # fmt: skip
    shape = [layer.batch, layer.in_channels, layer.in_h, layer.in_w]
    form = (layer.out_channels, layer.in_channels // layer.groups, layer.kernel_h, layer.kernel_w)
    return conv, shape, weights(f"w{index}", *form)


@pytest.mark.parametrize("name", zoo.names())
def test_the_zoo_written_to_onnx_and_read_back_has_the_same_macs(tmp_path: Path, name: str) -> None:
    layers = [layer for layer in zoo.load(name).layers if layer.has_macs and layer.weight_elements]
    parts = [_alone(layer, index) for index, layer in enumerate(layers)]
    inputs = {f"x{index}": shape for index, (_, shape, _) in enumerate(parts)}
    outputs = [f"y{index}" for index in range(len(parts))]
    model = read(tmp_path, graph([p[0] for p in parts], inputs, [p[2] for p in parts], outputs))
    assert [layer.macs for layer in model.layers] == [layer.macs for layer in layers]
    for got, expected in zip(model.layers, layers, strict=True):
        assert (got.out_h, got.out_w) == (expected.out_h, expected.out_w)


def test_the_example_encoder_by_hand() -> None:
    model = read_onnx(EXAMPLES / "encoder.onnx", dims={"seq": 128})
    per_layer = 128 * (4 * 96 * 96 + 2 * 96 * 288) + 2 * 128 * 128 * 96
    assert model.macs == 2 * per_layer
    queries = [i for i, layer in enumerate(model.layers) if layer.kind == "matmul"][:3]
    assert len({model.predecessors[i] for i in queries}) == 1  # queries, keys and values in parallel
    longer = read_onnx(EXAMPLES / "encoder.onnx", dims={"seq": 256}, batch=2)
    assert longer.params == model.params
    assert longer.macs == 2 * 2 * (256 * (4 * 96 * 96 + 2 * 96 * 288) + 2 * 256 * 256 * 96)


def test_the_example_detector_has_no_weights_and_two_heads() -> None:
    path = EXAMPLES / "detector.onnx"
    assert path.stat().st_size < 250_000
    model = read_onnx(path)
    ends = [i for i, after in enumerate(model.successors) if not after]
    assert len(ends) == 2
    assert model.macs == 501_212_672
    assert read_onnx(path, batch=4).macs == 4 * model.macs

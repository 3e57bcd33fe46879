"""What each operator costs, against closed formulas: products, operations, elements read and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from eunomia.core.errors import ModelError
from eunomia.workload.model import DnnModel, Layer
from tests.workload.onnx_graphs import graph, node, numbers, read, weights

MS = {"domain": "com.microsoft"}
IDS = {"ids": TensorProto.INT64}


def sides(layer: Layer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What a layer reads and writes: batch, channels, height, width."""
    return (
        (layer.batch, layer.in_channels, layer.in_h, layer.in_w),
        (layer.batch, layer.out_channels, layer.out_h, layer.out_w),
    )


def costs(layer: Layer) -> tuple[int, int, int, int]:
    """Products, operations, weights, further operands."""
    return layer.macs, layer.ops, layer.weight_elements, layer.operand_elements


def one(
    folder: Path, op: str, inputs: dict[str, list[int]], *stored: tuple[str, list[int]], **settings: Any
) -> Layer:
    """The only layer of a network of one node, whose inputs are all that are named, in this order."""
    outputs = settings.pop("outputs", ["y"])
    order = settings.pop("order", [*inputs, *(name for name, _ in stored)])
    opset, kinds = settings.pop("opset", 21), settings.pop("kinds", None)
    entry = node(op, order, outputs, **settings)
    tensors = [weights(name, *shape) for name, shape in stored]
    net = graph([entry], inputs, tensors, [n for n in outputs if n], opset=opset, kinds=kinds, contrib=True)
    (layer,) = read(folder, net).layers
    return layer


@pytest.mark.parametrize(
    ("equation", "a", "b", "stored", "expected"),
    [
        # batch, rows, inner, columns; the matrices that a label or an ellipsis repeats are one product of more rows
        ("...ij,...jk->...ik", [4, 7, 5], [1, 5, 3], True, (1, 28, 5, 3)),
        ("...ij,...jk->...ik", [4, 7, 5], [1, 5, 3], False, (4, 7, 5, 3)),
        ("...ij,...jk->...ik", [2, 4, 7, 5], [2, 4, 5, 3], True, (8, 7, 5, 3)),
        ("...ij,...jk->...ik", [4, 7, 5], [4, 5, 3], True, (4, 7, 5, 3)),
        ("bij,bjk->bik", [4, 7, 5], [4, 5, 3], True, (4, 7, 5, 3)),
        ("i,j->ij", [7], [3], True, (1, 7, 1, 3)),
        ("i,i->", [7], [7], True, (1, 1, 7, 1)),
        ("ij,kj", [7, 5], [3, 5], True, (1, 7, 5, 3)),
        ("b i j , b k j -> b i k", [2, 7, 5], [2, 3, 5], False, (2, 7, 5, 3)),
    ],
)
def test_einsum_of_two(
    tmp_path: Path, equation: str, a: list[int], b: list[int], stored: bool, expected: tuple[int, ...]
) -> None:
    inputs = {"a": a} if stored else {"a": a, "b": b}
    layer = one(tmp_path, "Einsum", inputs, *([("b", b)] if stored else []), equation=equation)
    assert (layer.batch, layer.out_h, layer.in_channels, layer.out_channels) == expected
    assert layer.in_h == layer.out_h
    assert layer.macs == int(np.prod(expected))
    elements = int(np.prod(b))
    assert costs(layer)[2:] == ((elements, 0) if stored else (0, elements))


def test_einsum_with_weights_on_the_left_is_turned(tmp_path: Path) -> None:
    layer = one(tmp_path, "Einsum", {"x": [5, 9]}, ("w", [7, 5]), order=["w", "x"], equation="ij,jk->ik")
    assert (layer.batch, layer.out_h, layer.in_channels, layer.out_channels, layer.weight_elements) == (
        1,
        9,
        5,
        7,
        35,
    )


@pytest.mark.parametrize(
    ("equation", "kind", "ops", "result"),
    [("ij->ji", "reshape", 0, 35), ("ij->i", "elementwise", 35, 7), ("ij->", "elementwise", 35, 1)],
)
def test_einsum_of_one(tmp_path: Path, equation: str, kind: str, ops: int, result: int) -> None:
    layer = one(tmp_path, "Einsum", {"x": [7, 5]}, equation=equation)
    assert (layer.kind, layer.ops, layer.input_elements, layer.output_elements) == (kind, ops, 35, result)


def test_convolutions_of_one_two_and_three_axes(tmp_path: Path) -> None:
    stored = [("w", [6, 2, 3]), ("b", [6])]
    line = one(tmp_path, "Conv", {"x": [2, 4, 20]}, *stored, group=2, strides=[3], dilations=[2], pads=[1, 1])
    assert sides(line) == ((2, 4, 1, 20), (2, 6, 1, 6))
    assert (line.groups, line.kernel_h, line.kernel_w, line.stride_w, line.dilation_w) == (2, 1, 3, 3, 2)
    assert costs(line) == (2 * 6 * 6 * 2 * 3, 0, 36 + 6, 0)
    image = one(tmp_path, "Conv", {"x": [2, 4, 9, 8]}, ("w", [6, 4, 3, 2]), strides=[2, 3], dilations=[1, 2])
    assert sides(image) == ((2, 4, 9, 8), (2, 6, 4, 2))
    assert (image.kernel_h, image.kernel_w, image.stride_h, image.stride_w) == (3, 2, 2, 3)
    assert (image.dilation_h, image.dilation_w) == (1, 2)
    assert costs(image) == (2 * 6 * 8 * 4 * 6, 0, 144, 0)
    block = one(
        tmp_path,
        "Conv",
        {"x": [2, 4, 7, 9, 8]},
        ("w", [6, 4, 5, 3, 2]),
        strides=[1, 2, 3],
        dilations=[1, 1, 2],
    )
    # each of 3 output slices reads 5 slices of 4 channels
    assert sides(block) == ((2 * 3, 4 * 5, 9, 8), (2 * 3, 6, 4, 2))
    assert (block.stride_h, block.stride_w, block.dilation_h, block.dilation_w) == (2, 3, 1, 2)
    assert costs(block) == (2 * 6 * 3 * 8 * 4 * 30, 0, 6 * 4 * 30, 0)


def test_weights_computed_while_running_are_operands(tmp_path: Path) -> None:
    layer = one(tmp_path, "Conv", {"x": [1, 4, 5, 5], "w": [6, 4, 3, 3], "b": [6]})
    assert costs(layer) == (6 * 9 * 36, 0, 0, 6 * 36 + 6)
    layer = one(tmp_path, "ConvTranspose", {"x": [1, 4, 5, 5], "w": [4, 6, 2, 2], "b": [6]}, strides=[2, 2])
    assert costs(layer) == (25 * 4 * 6 * 4, 0, 0, 96 + 6)


@pytest.mark.parametrize("rank", [0, 4])
def test_convolutions_of_other_ranks_are_refused(tmp_path: Path, rank: int) -> None:
    entry = node("FusedConv", ["x", "w"], ["y"], **MS)
    net = graph([entry], {"x": [1, 4, *[5] * rank]}, [weights("w", 6, 4, *[1] * rank)], contrib=True)
    net.graph.value_info.add(name="y").type.CopyFrom(net.graph.input[0].type)
    with pytest.raises(ModelError, match="one to three spatial axes are supported"):
        read(tmp_path, net)


def test_the_sum_of_a_fused_convolution_is_waited_for(tmp_path: Path) -> None:
    nodes = [
        node("Softmax", ["z"], ["s"]), node("FusedConv", ["x", "w", "", "s"], ["y"], kernel_shape=[1, 1], **MS),
    ]  # fmt: skip
    net = graph(nodes, {"x": [1, 4, 5, 5], "z": [1, 6, 5, 5]}, [weights("w", 6, 4, 1, 1)], contrib=True)
    net.graph.output[0].type.CopyFrom(net.graph.input[1].type)
    assert read(tmp_path, net).edges == ((0, 1),)


@pytest.mark.parametrize(
    ("sizes", "kernel", "stride", "dilation", "groups", "expected"),
    [
        # results per input position, kernel: windows that tile are kernels of kernel / stride
        ([5, 7], [4, 2], [2, 2], [1, 1], 2, (3 * 2 * 4, (2, 1))),
        ([5, 7], [3, 2], [2, 2], [1, 1], 1, (3 * 6, (1, 1))),
        ([5, 7], [2, 2], [2, 2], [2, 2], 1, (3 * 4, (1, 1))),
        ([7], [6], [2], [1], 1, (3 * 2, (1, 3))),
        ([2, 5, 7], [2, 2, 2], [2, 2, 2], [1, 1, 1], 1, (3 * 8, (1, 1))),
    ],
)
def test_transposed_convolutions(
    tmp_path: Path,
    sizes: list[int],
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
    expected: tuple[int, tuple[int, int]],
) -> None:
    stored = [("w", [4, 3, *kernel]), ("b", [3 * groups])]
    settings = {"strides": stride, "dilations": dilation, "group": groups}
    layer = one(tmp_path, "ConvTranspose", {"x": [2, 4, *sizes]}, *stored, **settings)
    assert (layer.out_channels, (layer.kernel_h, layer.kernel_w)) == expected
    rows = int(np.prod(sizes[:-1]))
    assert sides(layer)[0] == (2, 4, rows, sizes[-1])
    assert (layer.out_h, layer.out_w, layer.groups) == (rows, sizes[-1], groups)
    assert layer.macs == 2 * int(np.prod(sizes)) * 4 * 3 * int(np.prod(kernel))
    assert layer.weight_elements == 4 * 3 * int(np.prod(kernel)) + 3 * groups


def test_a_product_between_activations_reads_its_bias_too(tmp_path: Path) -> None:
    layer = one(tmp_path, "Gemm", {"a": [7, 5], "b": [5, 3], "c": [3]})
    assert costs(layer) == (105, 0, 0, 15 + 3)
    layer = one(tmp_path, "Gemm", {"a": [7, 5], "b": [5, 3]}, ("c", [3]))
    assert costs(layer) == (105, 0, 0, 15 + 3)
    layer = one(tmp_path, "Gemm", {"b": [5, 3]}, ("a", [7, 5]), order=["a", "b"])
    assert (layer.out_h, layer.in_channels, layer.out_channels, *costs(layer)) == (3, 5, 7, 105, 0, 35, 0)


@pytest.mark.parametrize(("turn_a", "turn_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_products_turn_their_factors(tmp_path: Path, turn_a: int, turn_b: int) -> None:
    a, b = ([2, 5, 7] if turn_a else [2, 7, 5]), ([2, 3, 5] if turn_b else [2, 5, 3])
    layer = one(tmp_path, "FusedMatMul", {"a": a, "b": b}, transA=turn_a, transB=turn_b, **MS)
    assert (layer.batch, layer.out_h, layer.in_channels, layer.out_channels) == (2, 7, 5, 3)
    assert costs(layer) == (210, 0, 0, 30)
    layer = one(tmp_path, "FusedGemm", {"a": a[1:], "b": b[1:]}, transA=turn_a, transB=turn_b, **MS)
    assert (layer.batch, layer.out_h, layer.in_channels, layer.out_channels) == (1, 7, 5, 3)


def test_packed_weights_count_unpacked(tmp_path: Path) -> None:
    layer = one(
        tmp_path,
        "MatMulNBits",
        {"x": [2, 7, 32]},
        ("w", [12, 1, 16]),
        K=32,
        N=12,
        bits=4,
        block_size=32,
        **MS,
    )
    assert sides(layer) == ((1, 32, 14, 1), (1, 12, 14, 1))
    assert costs(layer) == (14 * 32 * 12, 0, 32 * 12, 0)


def attended(model: DnnModel) -> list[tuple[int, int, int, int, int, int]]:
    """Kind by kind: batch, rows, inner, columns, products or operations, operands."""
    return [
        (la.batch, la.out_h, la.in_channels, la.out_channels, la.macs or la.ops, la.operand_elements)
        for la in model.layers
    ]


def expected_attention(
    batch: int, heads: int, kv_heads: int, rows: int, columns: int, inner: int, outer: int
) -> list[tuple[int, int, int, int, int, int]]:
    both = batch * heads
    return [
        (both, rows, inner, columns, both * rows * inner * columns, batch * kv_heads * inner * columns),
        (both, rows, columns, columns, 5 * both * rows * columns, 0),
        (both, rows, columns, outer, both * rows * columns * outer, batch * kv_heads * columns * outer),
    ]


def test_attention_of_onnx(tmp_path: Path) -> None:
    shapes = {"q": [2, 10, 32], "k": [2, 12, 16], "v": [2, 12, 24]}
    attend = node("Attention", ["q", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=2)
    model = read(tmp_path, graph([attend], shapes, opset=23))
    assert attended(model) == expected_attention(2, 4, 2, 10, 12, 8, 12)
    assert model.edges == ((0, 1), (1, 2))
    shapes = {
        "q": [2, 4, 10, 8],
        "k": [2, 2, 12, 8],
        "v": [2, 2, 12, 6],
        "pk": [2, 2, 5, 8],
        "pv": [2, 2, 5, 6],
    }
    attend = node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"])
    model = read(tmp_path, graph([attend], shapes, outputs=["y", "nk", "nv"], opset=23))
    assert attended(model) == expected_attention(2, 4, 2, 10, 17, 8, 6)


def test_attention_of_onnx_runtime(tmp_path: Path) -> None:
    shapes = {"x": [2, 10, 32], "past": [2, 2, 4, 6, 5]}
    attend = node(
        "Attention", ["x", "w", "b", "", "past"], ["y"], num_heads=4, qkv_hidden_sizes=[20, 20, 12], **MS
    )
    model = read(tmp_path, graph([attend], shapes, [weights("w", 32, 52), weights("b", 52)], contrib=True))
    qkv, *rest = attended(model)
    assert qkv == (1, 20, 32, 52, 20 * 32 * 52, 0)
    assert rest == expected_attention(2, 4, 4, 10, 16, 5, 3)
    assert model.params == 32 * 52 + 52
    assert model.edges == ((0, 1), (0, 3), (1, 2), (2, 3))


@pytest.mark.parametrize("past", [False, True])
def test_heads_of_onnx_runtime(tmp_path: Path, past: bool) -> None:
    shapes = {"q": [2, 10, 32], "k": [2, 12, 32], "v": [2, 12, 24]}
    names = ["q", "k", "v"]
    if past:
        shapes |= {"pk": [2, 4, 5, 8], "pv": [2, 4, 5, 6]}
        names += ["", "", "", "pk", "pv"]
    attend = node("MultiHeadAttention", names, ["y"], num_heads=4, **MS)
    model = read(tmp_path, graph([attend], shapes, contrib=True))
    assert attended(model) == expected_attention(2, 4, 4, 10, 17 if past else 12, 8, 6)
    shapes = {"q": [2, 10, 32], "k": [2, 4, 12, 8], "v": [2, 4, 12, 6]}
    model = read(
        tmp_path,
        graph([node("MultiHeadAttention", names[:3], ["y"], num_heads=4, **MS)], shapes, contrib=True),
    )
    assert attended(model) == expected_attention(2, 4, 4, 10, 12, 8, 6)


def test_the_result_of_attention_has_the_size_of_the_values(tmp_path: Path) -> None:
    shapes = {"q": [2, 10, 32], "k": [2, 12, 32], "v": [2, 12, 24], "pk": [2, 4, 5, 8], "pv": [2, 4, 5, 6]}
    attend = node(
        "MultiHeadAttention", ["q", "k", "v", "", "", "", "pk", "pv"], ["a", "nk", "nv"], num_heads=4, **MS
    )
    tails = [node("Softmax", [name], [f"{name}2"]) for name in ("a", "nv")]
    model = read(tmp_path, graph([attend, *tails], shapes, outputs=["a2", "nv2"], contrib=True))
    assert [layer.output_elements for layer in model.layers[-2:]] == [2 * 10 * 24, 2 * 4 * 17 * 6]


def test_packed_attention_passes_keys_and_values_on_for_every_head(tmp_path: Path) -> None:
    """Six of the past and ten new, for 2 x 2 x 4 heads of 5."""
    shapes = {"x": [2, 10, 32], "past": [2, 2, 4, 6, 5]}
    attend = node("Attention", ["x", "w", "b", "", "past"], ["y", "all"], num_heads=4, **MS)
    net = graph(
        [attend, node("Softmax", ["y"], ["y2"]), node("Softmax", ["all"], ["all2"])], shapes,
        [weights("w", 32, 60), weights("b", 60)], outputs=["y2", "all2"], contrib=True,
    )  # fmt: skip
    model = read(tmp_path, net)
    assert [layer.output_elements for layer in model.layers[-2:]] == [2 * 10 * 20, 2 * 2 * 4 * 16 * 5]


def test_packed_heads_are_refused(tmp_path: Path) -> None:
    net = graph(
        [node("MultiHeadAttention", ["x"], ["y"], num_heads=4, **MS)], {"x": [2, 10, 96]}, contrib=True
    )
    with pytest.raises(ModelError, match="packed queries, keys and values are not supported"):
        read(tmp_path, net)


@pytest.mark.parametrize(("op", "gates", "per_state"), [("LSTM", 4, 25), ("GRU", 3, 18), ("RNN", 1, 5)])
@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent_layers(tmp_path: Path, op: str, gates: int, per_state: int, directions: int) -> None:
    width, state, rows = 10, 16, 12 * 3
    stored = [
        weights("w", directions, gates * state, width), weights("r", directions, gates * state, state),
        weights("b", directions, 2 * gates * state),
    ]  # fmt: skip
    direction = "bidirectional" if directions == 2 else "forward"
    step = node(op, ["x", "w", "r", "b"], ["y"], hidden_size=state, direction=direction)
    model = read(tmp_path, graph([step, node("Softmax", ["y"], ["z"])], {"x": [12, 3, width]}, stored, ["z"]))
    *parts, tail = model.layers
    for index in range(directions):
        given, kept, made = parts[3 * index : 3 * index + 3]
        assert sides(given) == ((1, width, rows, 1), (1, gates * state, rows, 1))
        assert costs(given) == (rows * width * gates * state, 0, gates * state * (width + 2), 0)
        assert sides(kept) == ((1, state, rows, 1), (1, gates * state, rows, 1))
        assert costs(kept) == (rows * state * gates * state, 0, gates * state * state, 0)
        assert sides(made) == ((1, gates * state, rows, 1), (1, state, rows, 1))
        assert costs(made) == (0, per_state * rows * state, 0, 0)
    chains = [(3 * i + j, 3 * i + j + 1) for i in range(directions) for j in range(2)]
    ends = [(3 * i + 2, 3 * directions) for i in range(directions)]
    assert sorted(model.edges) == sorted(chains + ends)
    assert tail.output_elements == directions * rows * state


def test_pooling(tmp_path: Path) -> None:
    settings = {"kernel_shape": [3, 2], "strides": [2, 1]}
    for op in ("MaxPool", "AveragePool", "LpPool"):
        layer = one(tmp_path, op, {"x": [2, 4, 9, 8]}, **settings)
        assert sides(layer) == ((2, 4, 9, 8), (2, 4, 4, 7))
        assert (layer.kernel_h, layer.kernel_w, layer.stride_h, layer.stride_w) == (3, 2, 2, 1)
        assert costs(layer) == (0, 2 * 4 * 28 * 6, 0, 0)
    line = one(tmp_path, "MaxPool", {"x": [2, 4, 9]}, kernel_shape=[3])
    assert (line.kernel_h, line.kernel_w, line.ops, line.output_elements) == (1, 1, 2 * 4 * 7 * 3, 56)
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        layer = one(tmp_path, op, {"x": [2, 4, 9, 8]})
        assert (layer.kind, layer.ops, layer.input_elements, layer.output_elements) == ("pool", 576, 576, 8)


def test_pooling_of_regions(tmp_path: Path) -> None:
    layer = one(tmp_path, "GridSample", {"x": [2, 4, 9, 8], "at": [2, 5, 3, 2]})
    assert sides(layer) == ((2, 4, 5, 3), (2, 4, 5, 3))
    assert costs(layer) == (0, 8 * 2 * 4 * 15, 0, 0)
    # places that a layer computes are an edge, too
    nodes = [node("Relu", ["x"], ["r"]), node("Tanh", ["at"], ["t"]), node("GridSample", ["r", "t"], ["y"])]
    model = read(tmp_path, graph(nodes, {"x": [2, 4, 9, 8], "at": [2, 5, 3, 2]}))
    assert model.edges == ((0, 2), (1, 2))


def test_normalizations(tmp_path: Path) -> None:
    norm = one(tmp_path, "LayerNormalization", {"x": [2, 5, 8]}, ("g", [8]), ("b", [8]))
    assert (norm.kind, *costs(norm)) == ("norm", 0, 6 * 80, 16, 0)
    skip = one(
        tmp_path, "SkipLayerNormalization", {"x": [2, 5, 8], "z": [2, 5, 8]}, ("g", [8]), ("b", [8]), **MS
    )
    assert (skip.kind, *costs(skip)) == ("norm", 0, 7 * 80, 16, 80)
    local = one(tmp_path, "LRN", {"x": [2, 4, 5, 3]}, size=5)
    assert (local.kind, *costs(local)) == ("norm", 0, 12 * 120, 0, 0)
    batch = one(tmp_path, "BatchNormalization", {"x": [2, 4, 5, 3]}, *((name, [4]) for name in "gbmv"))
    assert (batch.kind, *costs(batch)) == ("norm", 0, 2 * 120, 8, 0)
    tied = node("BatchNormalization", ["x", "g", "g", "m", "v"], ["y"])
    net = graph([tied], {"x": [2, 4, 5, 3]}, [weights(name, 4) for name in "gmv"])
    assert read(tmp_path, net).params == 4  # scale and shift; mean and variance are no parameters
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        assert costs(one(tmp_path, op, {"x": [2, 5, 8]})) == (0, 5 * 80, 0, 0)


def test_a_normalization_after_a_function_is_not_folded(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["r"]), node("BatchNormalization", ["r", *"gbmv"], ["y"]),
    ]  # fmt: skip
    stored = [weights("w", 6, 4, 1, 1), *(weights(name, 6) for name in "gbmv")]
    model = read(tmp_path, graph(nodes, {"x": [1, 4, 5, 5]}, stored))
    assert [costs(layer) for layer in model.layers] == [(25 * 24, 0, 24 + 12, 0)]
    assert (model.params, model.folded_params) == (36, 0)
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1]),
        node("BatchNormalization", ["p", *"gbmv"], ["y"]),
    ]
    model = read(tmp_path, graph(nodes, {"x": [1, 6, 5, 5]}, stored[1:]))
    assert [costs(layer) for layer in model.layers] == [(0, 150 + 2 * 150, 12, 0)]


def test_embeddings_of_onnx_runtime(tmp_path: Path) -> None:
    names = ["ids", "parts", "words", "places", "kinds", "g", "b"]
    stored = [weights(n, r, 8) for n, r in (("words", 50), ("places", 30), ("kinds", 2))]
    embed = node("EmbedLayerNormalization", names, ["y", "mask"], **MS)
    net = graph([embed], {"ids": [2, 5], "parts": [2, 5]}, [*stored, weights("g", 8), weights("b", 8)], contrib=True,
                kinds={"ids": TensorProto.INT32, "parts": TensorProto.INT32})  # fmt: skip
    model = read(tmp_path, net)
    for layer, rows in zip(model.layers, (50, 30, 2), strict=False):
        assert (layer.kind, sides(layer)) == ("gather", ((1, 1, 10, 1), (1, 8, 10, 1)))
        assert costs(layer) == (0, 0, rows * 8, 0)
    assert costs(model.layers[-1]) == (0, (6 + 2) * 80, 16, 2 * 80)
    assert model.edges == ((0, 3), (1, 3), (2, 3))


@pytest.mark.parametrize(
    ("op", "per_element"),
    [("Relu", 1), ("Neg", 1), ("Sigmoid", 4), ("Tanh", 4), ("Gelu", 4), ("HardSwish", 4)],
)
def test_functions_of_single_elements(tmp_path: Path, op: str, per_element: int) -> None:
    layer = one(tmp_path, op, {"x": [2, 5, 8]})
    assert (layer.kind, sides(layer)) == ("elementwise", ((2, 8, 5, 1), (2, 8, 5, 1)))
    assert costs(layer) == (0, per_element * 80, 0, 0)
    pooled = [node("MaxPool", ["x"], ["p"], kernel_shape=[2]), node(op, ["p"], ["y"])]
    (fused,) = read(tmp_path, graph(pooled, {"x": [2, 5, 8]})).layers
    assert costs(fused) == (0, 2 * 5 * 7 * (2 + per_element), 0, 0)


@pytest.mark.parametrize(
    ("op", "per_element"), [("FastGelu", 4), ("QuickGelu", 4), ("BiasGelu", 5), ("BiasAdd", 1)]
)
def test_functions_of_onnx_runtime(tmp_path: Path, op: str, per_element: int) -> None:
    stored = [("b", [8])] if op.startswith("Bias") else []
    assert costs(one(tmp_path, op, {"x": [2, 5, 8]}, *stored, **MS)) == (
        0,
        per_element * 80,
        8 * len(stored),
        0,
    )


def test_functions_of_several_tensors(tmp_path: Path) -> None:
    assert costs(one(tmp_path, "Add", {"x": [2, 5, 8], "z": [5, 1]})) == (0, 80, 0, 5)
    assert costs(one(tmp_path, "Sum", {"x": [2, 5, 8], "z": [8], "u": [2, 5, 8]})) == (0, 80, 0, 88)
    assert costs(one(tmp_path, "Mul", {"x": [2, 5, 8]}, order=["x", "x"])) == (0, 80, 0, 0)
    assert costs(one(tmp_path, "Add", {"x": [8]}, ("z", [2, 5, 8]))) == (0, 80, 80, 0)


def test_reductions_and_selections_read_every_element(tmp_path: Path) -> None:
    layer = one(tmp_path, "ReduceMax", {"x": [2, 5, 8]}, keepdims=0)
    assert (layer.input_elements, layer.output_elements, *costs(layer)) == (80, 1, 0, 80, 0, 0)
    net = graph([node("TopK", ["x", "k"], ["y", "at"])], {"x": [2, 40]}, [numbers("k", [3])], ["y", "at"])
    (layer,) = read(tmp_path, net).layers
    assert (layer.kind, layer.input_elements, layer.output_elements, layer.ops) == (
        "elementwise",
        80,
        6,
        4 * 80,
    )


def test_rotary_embedding(tmp_path: Path) -> None:
    names = ["x", "ids", "cos", "sin"]
    rotate = node("RotaryEmbedding", names, ["y"], **MS)
    stored = [weights("cos", 64, 4), weights("sin", 64, 4)]
    net = graph([rotate], {"x": [2, 5, 8], "ids": [2, 5]}, stored, contrib=True, kinds=IDS)
    (layer,) = read(tmp_path, net).layers
    assert costs(layer) == (0, 3 * 80, 0, 8)


def test_rows_of_a_table(tmp_path: Path) -> None:
    layer = one(tmp_path, "Gather", {"ids": [2, 5]}, ("table", [50, 8]), order=["table", "ids"], kinds=IDS)
    assert (layer.kind, sides(layer)) == ("gather", ((1, 1, 10, 1), (1, 8, 10, 1)))
    assert costs(layer) == (0, 0, 400, 0)
    for ids, table, read_as in (
        ([1], [50, 8], ((1, 1, 1, 1), (1, 8, 1, 1))),  # one row
        ([2, 5], [50, 1], ((1, 1, 10, 1), (1, 1, 10, 1))),  # ten rows of one number
        ([2, 5], [50], ((1, 1, 10, 1), (1, 1, 10, 1))),
    ):
        layer = one(tmp_path, "Gather", {"ids": ids}, ("table", table), order=["table", "ids"], kinds=IDS)
        assert (layer.kind, sides(layer), layer.weight_elements) == ("gather", read_as, np.prod(table))
    layer = one(tmp_path, "Gather", {"x": [50, 8], "ids": [2, 5]}, kinds=IDS)
    assert (layer.kind, layer.input_elements, layer.output_elements) == ("reshape", 80, 80)


@pytest.mark.parametrize(
    ("shape", "order", "copied"),
    [
        ([2, 5, 8], [0, 2, 1], True),
        ([2, 1, 8], [1, 0, 2], False),
        ([2, 5, 8], None, True),
        ([1, 1, 8], None, False),
    ],
)
def test_transposition_is_a_copy_unless_only_axes_of_length_1_move(
    tmp_path: Path, shape: list[int], order: list[int] | None, copied: bool
) -> None:
    settings = {} if order is None else {"perm": order}
    nodes = [node("Softmax", ["x"], ["s"]), node("Transpose", ["s"], ["y"], **settings)]
    model = read(tmp_path, graph(nodes, {"x": shape}))
    assert [layer.kind for layer in model.layers] == ["softmax", "reshape"][: 1 + copied]


def test_copies_write_all_their_results(tmp_path: Path) -> None:
    nodes = [
        node("Softmax", ["x"], ["s"]),
        node("Split", ["s", "parts"], ["a", "b"], axis=1),
        node("Expand", ["a", "same"], ["c"]),
        node("Expand", ["b", "more"], ["d"]),
    ]
    stored = [numbers("parts", [2, 3]), numbers("same", [2, 1]), numbers("more", [4, 1, 1])]
    model = read(tmp_path, graph(nodes, {"x": [2, 5]}, stored, ["c", "d"]))
    assert [(layer.kind, layer.input_elements, layer.output_elements) for layer in model.layers] == [
        ("softmax", 10, 10), ("reshape", 10, 10), ("reshape", 24, 24),
    ]  # fmt: skip
    assert model.edges == ((0, 1), (1, 2))


def test_a_copy_of_a_copy_is_one_copy_if_nothing_is_added(tmp_path: Path) -> None:
    nodes = [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("Transpose", ["t"], ["y"], perm=[1, 0])]
    assert len(read(tmp_path, graph(nodes, {"x": [4, 6]})).layers) == 1
    assert len(read(tmp_path, graph(nodes, {"x": [4, 6]}), fuse=False).layers) == 2
    nodes[1] = node("Tile", ["t", "times"], ["y"])
    model = read(tmp_path, graph(nodes, {"x": [4, 6]}, [numbers("times", [1, 2])]))
    assert [layer.output_elements for layer in model.layers] == [24, 48]

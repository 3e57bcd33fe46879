"""Quantized networks cost what they cost before: ONNX Runtime's own quantizer, and each of its operators."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from eunomia.workload.model import DnnModel
from eunomia.workload.onnx import read_onnx
from eunomia.workload.onnx.equivalents import _PLAIN, equivalent
from tests.workload.onnx_graphs import graph, node, numbers, read

torch = pytest.importorskip("torch")
ort = pytest.importorskip("onnxruntime")
FORMS = ["QOperator", "QOperator per channel", "QDQ", "dynamic"]
MS = {"domain": "com.microsoft"}


class Convolutional(torch.nn.Module):  # type: ignore[misc]
    example = (2, 3, 16, 16)

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.depthwise = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.wide, self.last = torch.nn.Conv2d(8, 16, 1), torch.nn.Conv2d(16, 16, 1)
        self.out = torch.nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        functional = torch.nn.functional
        x = torch.relu(self.first(x))
        x = x + functional.leaky_relu(self.depthwise(x))
        x = self.wide(x)
        x = x * torch.sigmoid(x)
        both = [functional.avg_pool2d(x, 2), self.last(functional.max_pool2d(x, 2))]
        x = functional.adaptive_avg_pool2d(torch.cat(both, 1), 1).flatten(1)
        return torch.softmax(self.out(x), -1)


class Attentive(torch.nn.Module):  # type: ignore[misc]
    example = (2, 12, 32)

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (torch.nn.Linear(32, 32) for _ in range(4))
        self.norm = torch.nn.LayerNorm(32)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        q, k, v = (m(x).view(2, 12, 4, 8).transpose(1, 2) for m in (self.query, self.key, self.value))
        made = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v
        x = self.norm(x + self.out(made.transpose(1, 2).reshape(2, 12, 32)))
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Recurrent(torch.nn.Module):  # type: ignore[misc]
    example = (5, 2, 8)

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = torch.nn.LSTM(8, 16, bidirectional=True), torch.nn.Linear(32, 5)

    def forward(self, x: Any) -> Any:
        return self.out(self.cell(x)[0])


@pytest.fixture(scope="module", autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module", params=[Convolutional, Attentive, Recurrent], ids=lambda made: made.__name__)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    torch.manual_seed(0)
    network = request.param().eval()
    path = tmp_path_factory.mktemp("plain") / "net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = torch.randn(network.example)
        torch.onnx.export(network, (example,), path, dynamo=False, opset_version=17, input_names=["x"])
    return path, network


def quantized(path: Path, target: Path, form: str, shape: tuple[int, ...]) -> Path:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static

    class One(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.feeds = iter([{"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}])

        def get_next(self) -> dict[str, Any] | None:
            return next(self.feeds, None)

    if form == "dynamic":
        quantize_dynamic(path, target)
    else:
        quantize_static(
            path, target, One(), quant_format=QuantFormat[form.split()[0]], per_channel="channel" in form
        )
    return target


def optimized(path: Path) -> Path:
    """As ONNX Runtime writes it after its own fusions."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path.with_suffix(".optimized.onnx"))
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return Path(options.optimized_model_filepath)


@pytest.mark.parametrize("form", FORMS)
def test_a_network_quantized_by_onnx_runtime_has_the_same_products_and_parameters(
    exported: tuple[Path, Any], tmp_path: Path, form: str
) -> None:
    path, network = exported
    plain = read_onnx(path)
    assert plain.params == sum(p.numel() for p in network.parameters())
    target = quantized(path, tmp_path / "q.onnx", form, network.example)
    for file in (target, optimized(target)):
        model = read_onnx(file)
        assert (model.macs, model.params) == (plain.macs, plain.params), file.name
        passes = [layer for layer in model.layers if "QuantizeLinear" in layer.name]
        assert len(model.layers) - len(passes) <= len(plain.layers) + 2
    used = {entry.op_type for entry in onnx.load(target).graph.node}
    expected = {
        "QOperator": ("QLinear", "QGemm"),
        "QDQ": ("Dequantize",),
        "dynamic": ("Dynamic", "MatMulInteger"),
    }
    assert any(op.startswith(expected[form.split()[0]]) for op in used)


def _inputs_by_name(op: str) -> list[str]:
    import onnxruntime.capi.onnxruntime_pybind11_state as state

    schemas = [s for s in state.get_all_operator_schema() if (s.domain, s.name) == ("com.microsoft", op)]
    return [entry.name.lower() for entry in schemas[-1].inputs] if schemas else []


@pytest.mark.parametrize("op", sorted(op for domain, op in _PLAIN if domain == "com.microsoft"))
def test_the_tensors_are_where_onnx_runtime_says(op: str) -> None:
    """All inputs but scales and zero points: those that the plain operator gets."""
    names = _inputs_by_name(op)
    if not names:
        pytest.skip(f"this ONNX Runtime has no {op}")
    known = equivalent("com.microsoft", op)
    assert known is not None
    if op == "QLinearConcat":  # any number of tensors, listed once
        assert known.of(["y_scale", "y_zero", "a", "a_scale", "a_zero", "b", "b_scale", "b_zero"]) == [
            "a",
            "b",
        ]
        return
    scales = ("scale", "zero_point", "_zp")
    assert known.of(names) == [name for name in names if not name.endswith(scales)]


def _eight_bit(name: str, *shape: int, kind: int = TensorProto.INT8) -> onnx.TensorProto:
    return helper.make_tensor(name, kind, shape, bytes(int(np.prod(shape))), raw=True)


SCALES = [numbers("s", 0.1, np.float32), numbers("z", 0, np.uint8), numbers("zw", 0, np.int8)]
BIAS = numbers("b", [0] * 6, np.int32)
X, XS = {"x": [2, 4, 9, 8]}, ["x", "s", "z"]
KERNEL = _eight_bit("w", 6, 4, 3, 3)
CASES: dict[str, tuple[list[Any], dict[str, list[int]], list[Any]]] = {
    # quantized node, its inputs, the plain node
    "conv": ([node("QLinearConv", [*XS, "w", "s", "zw", "s", "z", "b"], ["y"], strides=[2, 1])], X,
             [node("Conv", ["x", "w", "b"], ["y"], strides=[2, 1])]),
    "conv of ms": ([node("QLinearConv", [*XS, "w", "s", "zw", "s", "z", "b"], ["y"], pads=[1, 1, 1, 1], **MS)], X,
                   [node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])]),
    "integer conv": ([node("ConvInteger", ["x", "w", "z", "zw"], ["y"])], X, [node("Conv", ["x", "w"], ["y"])]),
    "integer matmul": ([node("MatMulInteger", ["x", "m", "z", "zw"], ["y"])], X,
                       [node("MatMul", ["x", "m"], ["y"])]),
    "matmul": ([node("QLinearMatMul", [*XS, "m", "s", "zw", "s", "z"], ["y"])], X,
               [node("MatMul", ["x", "m"], ["y"])]),
    "16 bits": ([node("MatMulInteger16", ["x", "m"], ["y"], **MS)], X, [node("MatMul", ["x", "m"], ["y"])]),
    "gemm": ([node("QGemm", ["a", "s", "z", "n", "s", "zw", "b", "s", "z"], ["y"], transB=1, **MS)], {"a": [7, 8]},
             [node("Gemm", ["a", "n", "b"], ["y"], transB=1)]),
    "gemm without bias": ([node("QGemm", ["a", "s", "z", "n", "s", "zw", "", "s", "z"], ["y"], transB=1, **MS)],
                          {"a": [7, 8]}, [node("Gemm", ["a", "n"], ["y"], transB=1)]),
    "to float": ([node("MatMulIntegerToFloat", ["x", "m", "s", "s", "z", "zw"], ["y"], **MS)], X,
                 [node("MatMul", ["x", "m"], ["y"])]),
    "dynamic": ([node("DynamicQuantizeMatMul", ["x", "m", "s", "zw"], ["y"], **MS)], X,
                [node("MatMul", ["x", "m"], ["y"])]),
    "add": ([node("QLinearAdd", [*XS, "t", "s", "z", "s", "z"], ["y"], **MS)], {**X, "t": [4, 1, 8]},
            [node("Add", ["x", "t"], ["y"])]),
    "mul": ([node("QLinearMul", [*XS, "x", "s", "z", "s", "z"], ["y"], **MS)], X, [node("Mul", ["x", "x"], ["y"])]),
    "sigmoid": ([node("QLinearSigmoid", [*XS, "s", "z"], ["y"], **MS)], X, [node("Sigmoid", ["x"], ["y"])]),
    "leaky": ([node("QLinearLeakyRelu", [*XS, "s", "z"], ["y"], alpha=0.1, **MS)], X,
              [node("LeakyRelu", ["x"], ["y"])]),
    "softmax": ([node("QLinearSoftmax", [*XS, "s", "z"], ["y"], axis=-1, opset=13, **MS)], X,
                [node("Softmax", ["x"], ["y"])]),
    "pool": ([node("QLinearAveragePool", [*XS, "s", "z"], ["y"], kernel_shape=[3, 2], strides=[2, 2], **MS)], X,
             [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2])]),
    "global pool": ([node("QLinearGlobalAveragePool", [*XS, "s", "z"], ["y"], **MS)], X,
                    [node("GlobalAveragePool", ["x"], ["y"])]),
    "mean": ([node("QLinearReduceMean", [*XS, "s", "z"], ["y"], axes=[-1, 2], keepdims=0, **MS)], X,
             [node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)]),
    "kept mean": ([node("QLinearReduceMean", [*XS, "s", "z"], ["y"], axes=[-1, 2], **MS)], X,
                  [node("ReduceMean", ["x", "axes"], ["y"])]),
    "mean of all": ([node("QLinearReduceMean", [*XS, "s", "z"], ["y"], keepdims=0, **MS)], X,
                    [node("ReduceMean", ["x"], ["y"], keepdims=0)]),
    "concat": ([node("QLinearConcat", ["s", "z", *XS, "t", "s", "z"], ["y"], axis=1, **MS)],
               {**X, "t": [2, 3, 9, 8]}, [node("Concat", ["x", "t"], ["y"], axis=1)]),
    "where": ([node("QLinearWhere", ["c", *XS, "t", "s", "z", "s", "z"], ["y"], **MS)],
              {**X, "c": [1], "t": [9, 8]}, [node("Where", ["c", "x", "t"], ["y"])]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_quantized_operator_is_the_plain_one(tmp_path: Path, case: str) -> None:
    quantized_nodes, inputs, plain_nodes = CASES[case]
    matrices = [_eight_bit("m", 8, 6), _eight_bit("n", 6, 8)]
    stored = [*SCALES, BIAS, KERNEL, *matrices, numbers("axes", [-1, 2])]

    def made(nodes: list[Any], kind: int, weights: list[Any]) -> DnnModel:
        kinds = {name: TensorProto.BOOL if name == "c" else kind for name in inputs}
        tail = [*nodes, node("Identity", ["y"], ["flat"])]
        net = graph(tail, inputs, weights, ["flat"], kinds=kinds, contrib=True)
        return read(tmp_path, net, fuse=False)

    plain = [*(onnx.helper.make_tensor(t.name, TensorProto.FLOAT, t.dims, bytes(4 * int(np.prod(t.dims))), raw=True)
               for t in (BIAS, KERNEL, *matrices)), numbers("axes", [-1, 2])]  # fmt: skip
    expected = made(plain_nodes, TensorProto.FLOAT, plain)
    kind = TensorProto.FLOAT if case == "dynamic" else TensorProto.UINT8
    if case == "16 bits":
        kind = TensorProto.INT16
    found = made(quantized_nodes, kind, stored)
    assert found.layers == expected.layers
    assert (found.edges, found.params) == (expected.edges, expected.params)


@pytest.mark.parametrize("op", ["MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
def test_a_product_with_a_bias_of_its_own(tmp_path: Path, op: str) -> None:
    inputs = {
        "MatMulIntegerToFloat": ["x", "m", "s", "s", "z", "zw", "c"],
        "DynamicQuantizeMatMul": ["x", "m", "s", "zw", "c"],
    }[op]
    stored = [*SCALES, _eight_bit("m", 8, 6), numbers("c", [0.5] * 6, np.float32)]
    kind = TensorProto.UINT8 if "Integer" in op else TensorProto.FLOAT
    tail = [node(op, inputs, ["y"], **MS), node("LayerNormalization", ["y", "c"], ["n"])]
    model = read(tmp_path, graph(tail, X, stored, ["n"], kinds={"x": kind}, contrib=True))
    assert model.macs == 72 * 8 * 6
    assert model.layers[0].weight_elements == 8 * 6 + 6
    assert model.params == 8 * 6 + 6


def test_images_with_channels_last(tmp_path: Path) -> None:
    """The order that ONNX Runtime prefers: batch, height, width, channels."""
    nodes = [
        node("QLinearConv", [*XS, "w", "s", "zw", "s", "z"], ["c"], channels_last=1, strides=[2, 1], **MS),
        node("NhwcMaxPool", ["c"], ["m"], kernel_shape=[2, 3], **MS),
        node(
            "QLinearAveragePool", ["m", "s", "z", "s", "z"], ["a"], kernel_shape=[2, 1], channels_last=1, **MS
        ),
        node("QLinearGlobalAveragePool", ["a", "s", "z", "s", "z"], ["g"], channels_last=1, **MS),
        node("Flatten", ["g"], ["y"]),
    ]
    net = graph(nodes, {"x": [2, 9, 8, 4]}, [*SCALES, KERNEL], kinds={"x": TensorProto.UINT8}, contrib=True)
    conv, most, mean, whole = read(tmp_path, net, fuse=False).layers
    assert (conv.batch, conv.in_channels, conv.in_h, conv.in_w) == (2, 4, 9, 8)
    assert (conv.out_channels, conv.out_h, conv.out_w, conv.macs) == (6, 4, 6, 2 * 6 * 24 * 36)
    assert (most.out_channels, most.out_h, most.out_w, most.ops) == (6, 3, 4, 2 * 6 * 12 * 6)
    assert (mean.out_channels, mean.out_h, mean.out_w, mean.ops) == (6, 2, 4, 2 * 6 * 8 * 2)
    assert (whole.in_h, whole.in_w, whole.output_elements, whole.ops) == (2, 4, 2 * 6, 2 * 6 * 8)


def test_quantized_attention(tmp_path: Path) -> None:
    inputs = ["x", "w", "c", "s", "s", "", "z", "zw", "past"]
    attend = node("QAttention", inputs, ["y"], num_heads=4, **MS)
    stored = [*SCALES, _eight_bit("w", 32, 96), numbers("c", [0.0] * 96, np.float32)]
    shapes = {"x": [2, 10, 32], "past": [2, 2, 4, 6, 8]}
    net = graph([attend], shapes, stored, kinds={"x": TensorProto.UINT8}, contrib=True)
    model = read(tmp_path, net)
    assert model.macs == 20 * 32 * 96 + 2 * (8 * 10 * 8 * 16)
    assert model.params == 32 * 96 + 96


def test_quantized_embedding(tmp_path: Path) -> None:
    tables = ["words", "positions", "segments"]
    inputs = ["ids", "parts", *tables, "g", "b", "", *["s"] * 5, *["z"] * 5]
    embed = node("QEmbedLayerNormalization", inputs, ["y", "mask"], **MS)
    stored = [
        *SCALES, *(_eight_bit(n, r, 32, kind=TensorProto.UINT8) for n, r in zip(tables, (100, 64, 2), strict=True)),
        *(_eight_bit(n, 32, kind=TensorProto.UINT8) for n in "gb"),
    ]  # fmt: skip
    kinds = {"ids": TensorProto.INT32, "parts": TensorProto.INT32}
    net = graph([embed], {"ids": [2, 20], "parts": [2, 20]}, stored, kinds=kinds, contrib=True)
    model = read(tmp_path, net)
    assert [layer.kind for layer in model.layers] == ["gather"] * 3 + ["norm"]
    assert model.params == (100 + 64 + 2 + 2) * 32
    assert model.layers[-1].output_elements == 40 * 32


@pytest.mark.parametrize("directions", [1, 2])
def test_dynamically_quantized_lstm(tmp_path: Path, directions: int) -> None:
    """Its weights are transposed: directions, inputs, gates."""
    inputs = ["x", "w", "r", "c", "", "", "", "", "s", "zw", "s", "zw"]
    direction = "bidirectional" if directions == 2 else "forward"
    step = node("DynamicQuantizeLSTM", inputs, ["y", "h", "k"], hidden_size=16, direction=direction, **MS)
    stored = [
        *SCALES, _eight_bit("w", directions, 10, 64), _eight_bit("r", directions, 16, 64),
        numbers("c", np.zeros((directions, 128)), np.float32),
    ]  # fmt: skip
    net = graph([step], {"x": [12, 3, 10]}, stored, ["y", "h", "k"], contrib=True)
    model = read(tmp_path, net)
    assert model.macs == directions * 36 * 64 * (10 + 16)
    assert model.params == directions * 64 * (10 + 16 + 2)
    assert [layer.out_channels for layer in model.layers] == [64, 64, 16] * directions
    assert [layer.in_channels for layer in model.layers] == [10, 16, 64] * directions


def test_scales_computed_while_running_cost_no_layer(tmp_path: Path) -> None:
    """The pattern that dynamic quantization writes for a product with a bias."""
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        node("MatMulInteger", ["q", "m", "qz", "zw"], ["h"]),
        node("Cast", ["h"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["qs", "s"], ["both"]),
        node("Mul", ["both", "f"], ["scaled"]),
        node("Add", ["scaled", "c"], ["y"]),
    ]
    stored = [*SCALES, _eight_bit("m", 8, 6), numbers("c", [0.5] * 6, np.float32)]
    model = read(tmp_path, graph(nodes, {"x": [4, 8]}, stored))
    assert [(layer.kind, layer.name) for layer in model.layers] == [("elementwise", "q"), ("matmul", "h")]
    assert model.edges == ((0, 1),)
    assert model.params == 8 * 6 + 6
    assert [layer.kind for layer in read(tmp_path, graph(nodes, {"x": [4, 8]}, stored), fuse=False).layers] == [
        "elementwise", "matmul", "elementwise", "elementwise", "elementwise",
    ]  # fmt: skip

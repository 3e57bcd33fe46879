"""Products with large weights are cut into such of fewer columns, and no bit of an answer changes by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from eunomia.serving.blocks import external, parts
from eunomia.serving.blocks.optimise import Optimised, optimise, session_options
from eunomia.serving.blocks.parts import in_parts
from eunomia.serving.blocks.plan import WIDE, cut_by, plan_blocks
from eunomia.serving.blocks.products import ALIGNED, PARTS
from eunomia.serving.devices.network import load_network
from eunomia.serving.devices.piece import array_of, live_of

LENGTH, COLUMNS = 64, 1000
SOURCE = np.random.default_rng(0)
WEIGHTS = SOURCE.standard_normal((LENGTH, COLUMNS), np.float32)
TINY = 1e-12  # a target that every product is longer than
FLOAT = TensorProto.FLOAT


def network(
    nodes: list[Any], weights: dict[str, np.ndarray], shape: list[Any], opset: int = 17
) -> onnx.ModelProto:
    ends = (
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", *ends, tensors)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8)


def plain(
    kind: str = "MatMul", more: dict[str, np.ndarray] | None = None, **settings: Any
) -> onnx.ModelProto:
    more = more or {}
    domain = "" if kind in ("MatMul", "Gemm") else "com.microsoft"
    turned = WEIGHTS.T.copy() if settings.get("transB") else WEIGHTS
    node = helper.make_node(kind, ["x", "w", *more], ["y"], domain=domain, **settings)
    return network([node], {"w": turned, **more}, ["n", LENGTH])


def as_it_is(model: onnx.ModelProto, folder: Path) -> Optimised:
    path = folder / "as_it_is.onnx"
    onnx.save(model, path)
    return Optimised("key", model, path)


def answer(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(
        model.SerializeToString(), session_options(optimised=True), providers=["CPUExecutionProvider"]
    )
    found: np.ndarray = session.run(None, {"x": x})[0]
    return found


BIAS = {"c": SOURCE.standard_normal(COLUMNS).astype(np.float32)}
INTEGERS = {
    "scale": np.full(COLUMNS, 0.01, np.float32),
    "zero": np.full(COLUMNS, 120, np.uint8),
    **BIAS,
}


@pytest.mark.parametrize(
    "model",
    [
        plain(),
        plain("Gemm", BIAS, alpha=0.5),
        plain("Gemm", BIAS, transB=1, beta=2.0),
        plain("Gemm", {"c": np.ones((1, 1), np.float32)}),
        plain("Gemm"),
        plain("FusedMatMul", alpha=0.25),
        plain("FusedMatMul", transB=1),
        plain("FusedGemm", BIAS, activation="Relu"),
    ],
    ids=[
        "MatMul",
        "Gemm",
        "Gemm, turned",
        "Gemm, one value",
        "Gemm, no bias",
        "FusedMatMul",
        "turned",
        "FusedGemm",
    ],
)
@pytest.mark.parametrize("rows", [1, 3, 33])
def test_every_bit_is_that_of_the_whole(model: onnx.ModelProto, rows: int, tmp_path: Path) -> None:
    parted = in_parts(as_it_is(model, tmp_path), [1.0], 0.25)
    assert [node.op_type for node in parted.model.graph.node] == [model.graph.node[0].op_type] * 4 + [
        "Concat"
    ]
    x = SOURCE.standard_normal((rows, LENGTH), np.float32)
    np.testing.assert_array_equal(answer(parted.model, x), answer(model, x))
    assert "w" not in {w.name for w in parted.model.graph.initializer}, "its weights are there once"


@pytest.mark.parametrize("per_column", [False, True])
def test_a_quantised_product_is_one_too(per_column: bool, tmp_path: Path) -> None:
    given = INTEGERS if per_column else {**INTEGERS, "scale": np.float32(0.01), "zero": np.uint8(120)}
    node = helper.make_node("DynamicQuantizeMatMul", ["x", "w", *given], ["y"], domain="com.microsoft")
    weights = SOURCE.integers(0, 255, (LENGTH, COLUMNS)).astype(np.uint8)
    model = network([node], {"w": weights, **given}, ["n", LENGTH])
    parted = in_parts(as_it_is(model, tmp_path), [1.0], 0.4)
    assert len(parted.model.graph.node) == 3
    x = SOURCE.standard_normal((5, LENGTH), np.float32)
    np.testing.assert_array_equal(answer(parted.model, x), answer(model, x))


def test_parts_are_of_whole_registers_and_share_its_time_by_their_columns(tmp_path: Path) -> None:
    """1,000 columns in four parts of 256, 256, 256 and 232; to put them together costs some."""
    parted = in_parts(as_it_is(plain(), tmp_path), [1.0], 0.25)
    sizes = [w.dims[1] for w in parted.model.graph.initializer]
    assert sizes == [2 * ALIGNED] * 3 + [232]
    assert parted.times_s == pytest.approx([0.256, 0.256, 0.256, 0.232, 20 / LENGTH])
    many = in_parts(as_it_is(plain(), tmp_path), [1.0], TINY)
    assert len(many.model.graph.node) == 1000 // ALIGNED + 2, "none has fewer columns than that"
    assert many.times_s[-1] <= 1.0 and max(PARTS) < WIDE, "and all cross a cut"


def first_is_fixed() -> onnx.ModelProto:
    node = helper.make_node("MatMul", ["w", "x"], ["y"])
    return network([node], {"w": WEIGHTS}, [COLUMNS, "n"])


def given_by_callers() -> onnx.ModelProto:
    model = plain()
    model.graph.input.append(helper.make_tensor_value_info("w", FLOAT, [LENGTH, COLUMNS]))
    return model


def old() -> onnx.ModelProto:
    return network([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": WEIGHTS}, ["n", LENGTH], opset=10)


def by_each_row() -> onnx.ModelProto:
    model = plain("Gemm", {"c": np.ones((3, 1), np.float32)})
    return model


def turned_input() -> onnx.ModelProto:
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transA=1)
    return network([node], {"w": WEIGHTS}, [LENGTH, "n"])


def narrow() -> onnx.ModelProto:
    return network(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": WEIGHTS[:, :ALIGNED]}, ["n", LENGTH]
    )


def several() -> onnx.ModelProto:
    return network(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": np.stack([WEIGHTS] * 2)}, ["n", LENGTH]
    )


@pytest.mark.parametrize(
    "model", [first_is_fixed, given_by_callers, old, by_each_row, turned_input, narrow, several]
)
def test_what_is_no_such_product_stays_as_it_is(model: Any, tmp_path: Path) -> None:
    optimised = as_it_is(model(), tmp_path)
    assert in_parts(optimised, [1.0], 0.25).model is optimised.model


def test_short_ones_stay_and_so_does_what_would_change_a_bit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    optimised = as_it_is(plain(), tmp_path)
    assert in_parts(optimised, [1.0], 0.51).model is optimised.model
    for answers, whole in (([[b"ab"], [b"ac"]], True), ([[b"ab"], [b"ab"]], False)):
        monkeypatch.setattr(parts, "_answers", lambda model, product, answers=answers: iter(answers))
        assert (in_parts(optimised, [1.0], 0.25).model is optimised.model) == whole


def test_a_draft_has_the_same_nodes_and_no_weights(tmp_path: Path) -> None:
    optimised = as_it_is(plain("Gemm", BIAS), tmp_path)
    draft, real = (in_parts(optimised, [1.0], 0.25, draft=one) for one in (True, False))
    assert draft.times_s == real.times_s and [*draft.model.graph.node] == [*real.model.graph.node]
    assert sum(len(w.raw_data) for w in real.model.graph.initializer) == WEIGHTS.nbytes + 4 * COLUMNS
    assert not any(w.raw_data for w in draft.model.graph.initializer)


def test_the_longest_have_room_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", f"w{n}"], [f"y{n}"]) for n in range(3)]
    nodes.append(helper.make_node("Sum", ["y0", "y1", "y2"], ["y"]))
    model = network(nodes, {f"w{n}": WEIGHTS + n for n in range(3)}, ["n", LENGTH])
    monkeypatch.setattr(parts, "MOST_BYTES", 2 * WEIGHTS.nbytes)
    parted = in_parts(as_it_is(model, tmp_path), [1.0, 3.0, 2.0, 0.1], 0.5)
    left = [
        node.output[0] for node in parted.model.graph.node if node.op_type == "MatMul" and "w0" in node.input
    ]
    assert left == ["y0"] and {w.name for w in parted.model.graph.initializer} >= {"w0"}
    x = SOURCE.standard_normal((5, LENGTH), np.float32)
    np.testing.assert_array_equal(answer(parted.model, x), answer(model, x))


def head(layers: int = 2, words: int = 3000) -> onnx.ModelProto:
    """As a language model ends: its logits take far longer than what stands in front of them."""
    nodes, name = [], "x"
    for n in range(layers):
        nodes.append(helper.make_node("MatMul", [name, f"w{n}"], [f"h{n}"]))
        nodes.append(helper.make_node("Tanh", [f"h{n}"], [f"t{n}"]))
        name = f"t{n}"
    nodes.append(helper.make_node("MatMul", [name, "words"], ["y"]))
    weights = {f"w{n}": SOURCE.standard_normal((LENGTH, LENGTH), np.float32) for n in range(layers)}
    weights["words"] = SOURCE.standard_normal((LENGTH, words), np.float32)
    return network(nodes, weights, ["b", "n", LENGTH])


@pytest.mark.parametrize("outside", [False, True])
def test_logits_are_cut_and_answers_are_those_of_the_file(
    outside: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As it was, a prompt was refused beside short deadlines for its last node alone, however it was cut."""
    if outside:
        monkeypatch.setattr(external, "EMBEDDED_BYTES", 1000)
    path, cache = tmp_path / "net.onnx", tmp_path / "cache"
    onnx.save(head(), path)
    x = SOURCE.standard_normal((1, 40, LENGTH), np.float32)
    optimised = optimise(path, cache)
    nodes = len(optimised.model.graph.node)
    times_s = [1e-3] * (nodes - 1) + [1.0]
    plan = cut_by(optimised, times_s, 0.1)
    assert len(plan.blocks) > 8 and max(block.estimate_s for block in plan.blocks) < 0.35
    assert len(cut_by(optimised, times_s, 0.1, parts=False).blocks) < 3
    whole = ort.InferenceSession(str(path), session_options(), providers=["CPUExecutionProvider"])
    cut = load_network(str(path), str(cache), {"x": [1, 40, LENGTH]}, 1e-9)
    assert cut.blocks > 15
    live = live_of({"x": x})
    for n in range(cut.blocks):
        live = cut.run_block(n, live)
    np.testing.assert_array_equal(array_of(live["y"]), whole.run(None, {"x": x})[0])


def test_a_device_that_is_no_processor_has_products_whole(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(head(), path)
    optimised, feed = optimise(path, tmp_path / "cache"), {"x": np.zeros((1, 40, LENGTH), np.float32)}
    whole, cut = (plan_blocks(optimised, feed, TINY, parts=parts) for parts in (False, True))
    assert len(whole.blocks) < len(cut.blocks)

"""Blocks of the optimised graph: bit-identical to the whole, small networks of every shape included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from eunomia.core.data import Data
from eunomia.core.errors import ModelError
from eunomia.serving.blocks import cut, plan
from eunomia.serving.blocks.cut import cut_points, element_types, segment_model, segments
from eunomia.serving.blocks.optimise import optimise, session_options
from eunomia.serving.blocks.plan import (
    _events,
    _shortest_s,
    choose_cuts,
    choose_finely,
    node_times_s,
    plan_blocks,
    runs_of,
)
from eunomia.serving.devices.network import LoadedNetwork, load_network
from eunomia.serving.devices.piece import array_of, live_of
from eunomia.serving.models.convolutional import mobilenet_v2, resnet50


def run_pieces(model: Any, feed: dict[str, np.ndarray], pieces: list[Any]) -> dict[str, np.ndarray]:
    types = element_types(model, [n for p in pieces for n in (*p.inputs, *p.outputs)])
    live = feed
    for piece in pieces:
        content = segment_model(model, piece, types).SerializeToString()
        session = ort.InferenceSession(
            content, session_options(optimised=True), providers=["CPUExecutionProvider"]
        )
        live = dict(
            zip(
                piece.outputs,
                session.run(list(piece.outputs), {n: live[n] for n in piece.inputs}),
                strict=True,
            )
        )
    return live


@pytest.mark.parametrize(("build", "pieces_at_least"), [(mobilenet_v2, 30), (resnet50, 30)])
def test_every_cut_of_a_real_network_keeps_every_bit(
    tmp_path: Path, build: Any, pieces_at_least: int
) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(build(side=64))
    optimised = optimise(path, tmp_path / "cache")
    image = np.random.default_rng(1).standard_normal((2, 3, 64, 64), np.float32)
    whole = ort.InferenceSession(str(path), session_options(), providers=["CPUExecutionProvider"])
    cuts = cut_points(optimised.model)
    assert len(cuts) > pieces_at_least
    out = run_pieces(optimised.model, {"image": image}, segments(cuts))
    np.testing.assert_array_equal(out["logits"], whole.run(None, {"image": image})[0])


LOOP = """<ir_version: 8, opset_import: ["" : 17]> g (float[64, 64] x, int64 trips) => (float[64, 64] z) {
    go = Constant <value = bool {1}> () first = MatMul (x, x)
    y = Loop (trips, go, first) <body = b (int64 i, bool c, float[64, 64] v) => (bool d, float[64, 64] w) {
        w = MatMul (v, x) d = Identity (c)
    }>
    z = Sin (y)
}"""


def test_nodes_inside_a_loop_are_its_own_time_and_no_other_nodes(tmp_path: Path) -> None:
    """They are numbered from 0: the loop took as long as the node in it that has its number, 1 us."""
    path = tmp_path / "loop.onnx"
    path.write_bytes(onnx.parser.parse_model(LOOP).SerializeToString())
    optimised = optimise(path, tmp_path)
    assert [node.op_type for node in optimised.model.graph.node] == ["MatMul", "Loop", "Sin"]
    feed = {"x": np.full((64, 64), 0.01, np.float32), "trips": np.array(200)}
    multiplied_s, looped_s, _ = node_times_s(optimised, feed, runs=3)
    assert looped_s > 20.0 * multiplied_s

    def node(number: int, begin: int, lasts: int) -> Data:
        arguments = {"node_index": str(number)}
        return {"cat": "Node", "name": "x_kernel_time", "ts": begin, "dur": lasts, "args": arguments}

    def execute(begin: int) -> Data:
        return {"cat": "Session", "name": "SequentialExecutor::Execute", "ts": begin}

    inner = [node(1, 13, 1), node(0, 14, 5), execute(12), node(1, 20, 1), node(0, 21, 6), execute(20)]
    run = [node(0, 2, 8), *inner, node(1, 10, 20), node(2, 30, 3), execute(1)]
    events = [*run, {"cat": "Session", "name": "model_run", "ts": 0}]
    assert _shortest_s([*events, *events], 3) == pytest.approx([8e-6, 20e-6, 3e-6])
    text = "[\n" + ",\n".join(map(json.dumps, [*events, *events]))
    (tmp_path / "cut short.json").write_text(text[:-20])
    assert [*_events(tmp_path / "cut short.json")] == [*events, *events][:-1]


def branchy() -> onnx.ModelProto:
    """x -> a, b; a -> c; y = c + b; z = a: two tensors cross, one of them an output that passes through."""
    nodes = [
        helper.make_node("Sin", ["x"], ["a"]),
        helper.make_node("Cos", ["x"], ["b"]),
        helper.make_node("Exp", ["a"], ["c"]),
        helper.make_node("Add", ["c", "b"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    port = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "branchy", [port("x", TensorProto.FLOAT, ["n", 4])],
        [port("y", TensorProto.FLOAT, ["n", 3]), port("a", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "w")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_cuts_of_a_small_graph_by_hand() -> None:
    cuts = {c.position: set(c.live) for c in cut_points(branchy(), max_live=2)}
    # after Sin: x is still read by Cos, and a. After Cos: a, b. After Exp: a (an output), b, c are three: no cut.
    assert cuts == {0: {"x"}, 1: {"x", "a"}, 2: {"a", "b"}, 4: {"a", "d"}, 5: {"y", "a"}}
    feed = {"x": np.random.default_rng(0).random((3, 4), np.float32)}
    out = run_pieces(branchy(), feed, segments(cut_points(branchy(), 2)))
    np.testing.assert_allclose(out["a"], np.sin(feed["x"]), rtol=1e-6)


def test_blocks_last_as_long_as_asked() -> None:
    cuts = cut_points(branchy(), 2)
    chosen = choose_cuts(cuts, [1.0, 1.0, 1.0, 1.0, 1.0], 2.0)
    assert [c.position for c in chosen] == [0, 2, 4, 5]  # 1 s is left after the cut at 4: half a block
    assert [c.position for c in choose_cuts(cuts, [1.0] * 5, 3.0)] == [
        0,
        5,
    ]  # after the cut at 4 too little is left


def masked(layers: int) -> onnx.ModelProto:
    """Each layer reads three masks, as exporters compute them once, in front of all layers."""
    nodes = [helper.make_node("Sin", ["x"], ["x0"])]
    nodes += [helper.make_node(kind, ["x"], [f"mask{n}"]) for n, kind in enumerate(("Cos", "Neg", "Abs"))]
    for n in range(layers):
        nodes.append(helper.make_node("MatMul", ["w", f"x{n}"], [f"m{n}"]))
        nodes.append(helper.make_node("Sum", [f"m{n}", "mask0", "mask1", "mask2"], [f"x{n + 1}"]))
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [256, "n"]) for name in ("x", f"x{layers}")
    ]
    weights = [numpy_helper.from_array(np.eye(256, dtype=np.float32)[::-1].copy() * 0.5, "w")]
    graph = helper.make_graph(nodes, "masked", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_network_whose_masks_cross_all_layers_is_cut(tmp_path: Path) -> None:
    """Transformers of torch's exporter were one block, however long: sizes and masks live as long as the last layer."""
    path = tmp_path / "masked.onnx"
    path.write_bytes(masked(layers=8).SerializeToString())
    optimised = optimise(path, tmp_path / "cache")
    x = np.random.default_rng(0).random((256, 300), np.float32)
    plan = plan_blocks(optimised, {"x": x}, 1e-9)
    assert len(plan.blocks) > 8 and max(len(block.inputs) for block in plan.blocks) == 4
    network = load_network(str(path), str(tmp_path / "cache"), {"x": [256, 300]}, 1e-9)
    live = live_of({"x": x})
    for n in range(network.blocks):
        live = network.run_block(n, live)
    whole = ort.InferenceSession(str(path), session_options(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(array_of(live["x8"]), whole.run(None, {"x": x})[0])


def test_wide_cuts_are_for_long_blocks_alone() -> None:
    cuts, wide = cut_points(branchy(), 2), cut_points(branchy(), 3)
    assert {cut.position for cut in wide} - {cut.position for cut in cuts} == {3}
    for times_s, places in (([1.0] * 5, [0, 2, 4, 5]), ([1.0, 1.0, 2.0, 2.0, 1.0], [0, 2, 3, 4, 5])):
        assert [cut.position for cut in choose_finely(cuts, wide, times_s, 1.9)] == places


def test_a_second_call_reads_the_result_and_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(branchy().SerializeToString())
    first = optimise(path, tmp_path / "cache")
    stamp = first.path.stat().st_mtime_ns
    assert optimise(path, tmp_path / "cache").path.stat().st_mtime_ns == stamp
    first.path.write_bytes(b"torn")
    again = optimise(path, tmp_path / "cache")
    assert [n.op_type for n in again.model.graph.node] == [n.op_type for n in first.model.graph.node]


def test_what_cannot_be_loaded_is_said_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"no network at all")
    with pytest.raises(ModelError, match=r"broken\.onnx: ONNX Runtime refuses it: "):
        optimise(path, tmp_path / "cache")
    with pytest.raises(ModelError, match="cannot be read"):
        optimise(tmp_path / "absent.onnx", tmp_path / "cache")


def test_a_size_that_overflows_is_no_line_of_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The runtime wrote one for each such request, and the client's number into it."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x, int64[1] s) => (float[m] y) { y = Expand (x, s) }'
    path = tmp_path / "network.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    network = load_network(str(path), str(tmp_path / "cache"), {}, 1e-3)
    with pytest.raises(Exception, match="overflow"):
        network.run_block(0, live_of({"x": np.ones(1, np.float32), "s": np.array([2**62])}))
    assert capfd.readouterr().err == ""


def test_a_short_network_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(branchy().SerializeToString())
    plan = plan_blocks(optimise(path, tmp_path / "cache"), {"x": np.ones((1, 4), np.float32)})
    assert len(plan.blocks) == 1


def test_a_network_in_one_piece_answers_as_its_blocks_do_bit_by_bit(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(mobilenet_v2(side=64))
    network = load_network(str(path), str(tmp_path / "cache"), {}, 5e-5, whole_s=1.0)
    cut = load_network(str(path), str(tmp_path / "cache"), {}, 5e-5)
    assert network.blocks == cut.blocks > 3
    image = np.random.default_rng(1).standard_normal((2, 3, 64, 64), np.float32)
    live = live_of({"image": image})
    for n in range(cut.blocks):
        live = cut.run_block(n, live)
    assert network.has_whole and not cut.has_whole
    whole = network.run_whole(live_of({"image": image}))
    np.testing.assert_array_equal(whole["logits"].numpy(), live["logits"].numpy())
    ends_s = network.spread(10.0, 12.0)
    assert ends_s[0] == 10.0 and ends_s[-1] == pytest.approx(12.0) and len(ends_s) == network.blocks + 1
    np.testing.assert_allclose(np.diff(ends_s), 2.0 * np.array(network.block_s) / sum(network.block_s))


def test_what_a_trial_takes_says_whether_a_network_may_run_in_one_piece(tmp_path: Path) -> None:
    """Not the estimates by which it was cut: they are kept for good, and a profiler takes its time, too."""
    path, cache = tmp_path / "network.onnx", tmp_path / "cache"
    path.write_bytes(mobilenet_v2(side=64))
    assert load_network(str(path), str(cache), {}, 5e-5, whole_s=1.0).has_whole
    (kept,) = cache.glob("*.blocks/plan.json")
    plan = json.loads(kept.read_text())
    plan["blocks"] = [[*ends, 10.0] for *ends, _ in plan["blocks"]]
    kept.write_text(json.dumps(plan))
    assert load_network(str(path), str(cache), {}, 5e-5, whole_s=1.0).has_whole
    assert not load_network(str(path), str(cache), {}, 5e-5, whole_s=1e-6).has_whole


HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
UNCUT = {
    "a sequence crosses": "(float[n, 8] x) => (float[n, 8] y) { a = Relu (x) s = SplitToSequence <axis = 0> (a) "
    "b = ConcatFromSequence <axis = 0> (s) y = Exp (b) }",
    "a size crosses that an operator reads": "(float[1, 3, h, w] x, int64[2] size) => (float[1, 3, c, d] y) "
    '<int64[2] one = {1, 3}> { s = Concat <axis = 0> (one, size) y = Resize <mode = "linear"> (x, , , s) }',
}


@pytest.mark.parametrize("text", UNCUT.values(), ids=[*UNCUT])
def test_where_no_piece_can_begin_a_network_is_not_cut(text: str, tmp_path: Path) -> None:
    """It did not load, on slower machines or with shorter blocks only."""
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx.parser.parse_model(HEAD + text).SerializeToString())
    network = load_network(str(path), str(tmp_path / "cache"), {}, 1e-9)
    picture = np.random.default_rng(0).random((1, 3, 4, 4), np.float32)
    two = {"x": picture, "size": np.array([8, 8])}
    feed: Any = two if len(network.ports["inputs"]) > 1 else {"x": picture.reshape(6, 8)}
    live = live_of(feed)
    for n in range(network.blocks):
        live = network.run_block(n, live)
    (wanted,) = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feed)
    np.testing.assert_array_equal(array_of(live["y"]), wanted)


@pytest.mark.parametrize(("run_s", "runs"), [(0.01, 6), (0.2, 4), (2.0, 2)])
def test_a_long_network_is_timed_less_often(run_s: float, runs: int) -> None:
    """A request waited for six runs of 0.7 s each, as a cut for its size was timed by them."""
    now_s = [0.0]
    for ran, _ in enumerate(runs_of(clock=lambda: now_s[0]), 1):
        now_s[0] = ran * run_s
    assert ran == runs and len([*runs_of(0)]) == 1


def test_what_is_known_of_a_network_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(mobilenet_v2(side=32))
    first = load_network(str(path), str(tmp_path), {}, 1e-4, whole_s=1.0)
    runs = Mock(wraps=LoadedNetwork.run_block)
    monkeypatch.setattr(LoadedNetwork, "run_block", lambda *given: runs(*given))
    known_s = [float(n + 1) for n in range(first.blocks)]
    again = load_network(str(path), str(tmp_path), {}, 1e-4, whole_s=0.0, known_s=known_s)
    assert again.block_s == known_s and runs.call_count == first.blocks and not again.has_whole
    other = load_network(str(path), str(tmp_path), {}, 1e-4, known_s=known_s[1:])
    assert other.blocks == first.blocks and max(other.block_s) < 1.0, "known of another cut"


def test_weights_that_the_runtime_folds_are_no_inputs(tmp_path: Path) -> None:
    """SqueezeNet of the package onnx is of format 3: its 52 weights are inputs of the graph, too."""
    found = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"
    if not found.exists():
        pytest.skip("this onnx has no test data")
    assert [port.name for port in optimise(found, tmp_path).model.graph.input] == ["data_0"]


def test_weights_that_a_caller_could_give_multiply_in_blocks_as_in_the_whole(tmp_path: Path) -> None:
    """Exporters list weights as inputs: the runtime packs no such weights, and packed ones round otherwise."""
    dice, names = np.random.default_rng(5), [f"w{n}" for n in range(6)]
    weights = [numpy_helper.from_array(dice.standard_normal((96, 96), np.float32), name) for name in names]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [f"x{n}", name], [f"x{n + 1}"]) for n, name in enumerate(names)],
        "listed",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in {"x0": ["n", 96], **dict.fromkeys(names, [96, 96])}.items()
        ],
        [helper.make_tensor_value_info("x6", TensorProto.FLOAT, ["n", 96])],
        weights,
    )
    path = tmp_path / "network.onnx"
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    path.write_bytes(model.SerializeToString())
    whole = ort.InferenceSession(str(path), session_options(), providers=["CPUExecutionProvider"])
    network = load_network(str(path), str(tmp_path / "cache"), {}, 1e-7)
    assert network.blocks > 1 and [port["name"] for port in network.ports["inputs"]] == ["x0"]
    for rows in range(1, 9):
        x = dice.standard_normal((rows, 96), np.float32)
        live = live_of({"x0": x})
        for n in range(network.blocks):
            live = network.run_block(n, live)
        np.testing.assert_array_equal(live["x6"].numpy(), whole.run(None, {"x0": x})[0])


def test_an_output_that_stands_there_twice_is_answered_once(tmp_path: Path) -> None:
    """As it was, its trial failed with words of Python's zip."""
    model = branchy()
    model.graph.output.insert(0, model.graph.output[1])
    path = tmp_path / "network.onnx"
    path.write_bytes(model.SerializeToString())
    network = load_network(str(path), str(tmp_path / "cache"), {}, 1e-3)
    assert [port["name"] for port in network.ports["outputs"]] == ["a", "y"]
    x = np.random.default_rng(0).random((3, 4), np.float32)
    live = network.run_block(0, live_of({"x": x}))
    np.testing.assert_allclose(live["a"].numpy(), np.sin(x), rtol=1e-6)
    assert live["y"].numpy().shape == (3, 3)


def test_a_network_without_outputs_is_refused(tmp_path: Path) -> None:
    model = branchy()
    del model.graph.output[:]
    path = tmp_path / "network.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="it has no outputs: its graph must name what it answers with"):
        load_network(str(path), str(tmp_path / "cache"), {}, 1e-3)


def test_beside_much_work_a_node_takes_what_its_thread_had_of_a_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A product of 100 ms lasted 700 on a busy machine, and its network was not cut for such inputs."""
    path = tmp_path / "net.onnx"
    path.write_bytes(mobilenet_v2(side=32, classes=10))
    optimised = optimise(path, tmp_path / "cache")
    nodes, image = len(optimised.model.graph.node), np.zeros((1, 3, 32, 32), np.float32)
    clocks = Mock(
        perf_counter=Mock(side_effect=[0.0, 10.0] * 2), thread_time=Mock(side_effect=[0.0, 2.0, 0.0, 10.0])
    )
    monkeypatch.setattr(plan, "time", clocks)
    monkeypatch.setattr(plan, "node_times_s", lambda optimised, feed, runs: [0.1] * nodes)
    assert plan._bounded_times_s(optimised, {"image": image}, 0.1, 1.0) == pytest.approx([0.02] * nodes)


def test_types_are_found_without_the_numbers_of_long_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of all weights took as long as the rest of a cut. Where ONNX Runtime wants the numbers, it gets them."""
    (tmp_path / "network.onnx").write_bytes(mobilenet_v2(side=64))
    model = optimise(tmp_path / "network.onnx", tmp_path / "cache").model
    inside = [name for node in model.graph.node for name in node.output]
    asked, kinds = list[bool](), cut._kinds
    monkeypatch.setattr(
        cut, "_kinds", lambda *given, hollow: asked.append(hollow) or kinds(*given, hollow=hollow)
    )
    written = Mock(side_effect=cut._hollow)
    monkeypatch.setattr(cut, "_hollow", written)
    found = element_types(model, inside, tmp_path)
    assert found == dict.fromkeys(inside, TensorProto.FLOAT) and asked == [True] and written.called
    monkeypatch.setattr(cut, "_hollow", lambda weight, location, length: onnx.TensorProto(name=weight.name))
    assert element_types(model, inside, tmp_path) == found and asked == [True, True, False]
    assert [*tmp_path.glob("scratch-*")] == []

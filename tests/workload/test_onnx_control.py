"""Branches and loops: written out as they run, asked for only where the file leaves them open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from eunomia.core.errors import ConfigError, ModelError, UnknownNameError
from eunomia.workload.model import DnnModel
from eunomia.workload.onnx import read_onnx
from tests.workload.onnx_graphs import graph, node, numbers, read, weights
from tests.workload.test_onnx_properties import read_anywhere

X = {"x": [4, 8]}
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def body(
    nodes: list[onnx.NodeProto],
    outputs: list[str],
    inputs: list[str] | None = None,
    stored: list[onnx.TensorProto] | None = None,
) -> onnx.GraphProto:
    """A graph inside a node, its types left to inference."""
    return helper.make_graph(
        nodes, "body", [onnx.ValueInfoProto(name=name) for name in inputs or []],
        [onnx.ValueInfoProto(name=name) for name in outputs], stored or [],
    )  # fmt: skip


def choice(
    name: str = "pick", condition: str = "flag", output: str = "y", source: str = "x"
) -> onnx.NodeProto:
    """Two products in one branch, a softmax in the other."""
    two = [node("MatMul", [source, "w"], ["a"]), node("MatMul", ["a", "w"], ["b"])]
    return node(
        "If", [condition], [output], name=name, then_branch=body(two, ["b"]),
        else_branch=body([node("Softmax", [source], ["b"])], ["b"]),
    )  # fmt: skip


def repeated(name: str = "again", limit: str = "n", condition: str = "", output: str = "y") -> onnx.NodeProto:
    """Each time one product."""
    step = [node("MatMul", ["state", "w"], ["next"]), node("Identity", ["going"], ["still"])]
    inner = body(step, ["still", "next"], ["i", "going", "state"])
    return node("Loop", [limit, condition, "x"], [output], name=name, body=inner)


def kinds(model: DnnModel) -> list[str]:
    return [layer.kind for layer in model.layers]


def opened(nodes: list[onnx.NodeProto], **inputs: list[Any]) -> onnx.ModelProto:
    """A network with further inputs: ``flag`` is a condition, ``n`` a count, both unknown."""
    return graph(nodes, {**X, **inputs}, [weights("w", 8, 8)], kinds={"flag": BOOL, "n": INT64})


@pytest.mark.parametrize(("flag", "expected"), [(True, ["matmul", "matmul"]), (False, ["softmax"])])
def test_a_stored_condition_needs_no_choice(tmp_path: Path, flag: bool, expected: list[str]) -> None:
    net = graph([choice()], X, [weights("w", 8, 8), numbers("flag", [flag], bool)])
    model = read(tmp_path, net)
    assert kinds(model) == expected
    assert model.params == (64 if flag else 0)
    same = "then" if flag else "else"
    assert read(tmp_path, net, branches={"pick": same}).layers == model.layers
    with pytest.raises(
        ModelError, match="net.onnx.*node 'pick' .If.: branches says .*, but its condition is always"
    ):
        read(tmp_path, net, branches={"pick": {"then": "else", "else": "then"}[same]})


def test_a_condition_on_sizes_needs_no_choice(tmp_path: Path) -> None:
    """As the legacy exporter of torch writes it: squeeze an axis if its size is 1."""
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["rows"]), node("Equal", ["rows", "four"], ["flag"]),
        choice(),
    ]  # fmt: skip
    net = graph(nodes, {"x": ["rows", 8]}, [weights("w", 8, 8), numbers("zero", 0), numbers("four", 4)])
    assert kinds(read(tmp_path, net, dims={"rows": 4})) == ["matmul", "matmul"]
    assert kinds(read(tmp_path, net, dims={"rows": 5})) == ["softmax"]


def test_a_condition_that_depends_on_data_is_asked_for(tmp_path: Path) -> None:
    net = opened([choice()], flag=[])
    with pytest.raises(ModelError) as caught:
        read(tmp_path, net)
    message = str(caught.value)
    for words in (
        "net.onnx", "node 'pick' (If)", "branches={'pick': 'then'}", 'branches = { "pick" = "then" }',
        "--branch pick=then",
    ):  # fmt: skip
        assert words in message
    taken = read(tmp_path, net, branches={"pick": "then"})
    assert [layer.name for layer in taken.layers] == ["pick/then/a", "pick/then/b"]
    assert (taken.macs, taken.params) == (2 * 4 * 64, 64)
    assert kinds(read(tmp_path, net, branches={"pick": "else"})) == ["softmax"]


def test_a_branch_may_pass_on_what_stands_outside_or_what_it_stores(tmp_path: Path) -> None:
    inner = [node("Constant", [], ["c"], value=numbers("c", np.ones((8, 3)), np.float32))]
    pick = node(
        "If", ["flag"], ["p", "q"], name="pick", then_branch=body([], ["x", "w"]),
        else_branch=body(inner, ["x", "c"]),
    )  # fmt: skip
    net = opened([pick, node("MatMul", ["p", "q"], ["y"])], flag=[])
    for branch, columns in (("then", 8), ("else", 3)):
        model = read(tmp_path, net, branches={"pick": branch})
        assert (model.macs, model.params) == (4 * 8 * columns, 8 * columns)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"branches": {"pik": "then"}}, UnknownNameError, "unknown branch 'pik'.*did you mean 'pick'"),
        ({"branches": {"again": "then"}}, UnknownNameError, "unknown branch 'again'"),
        ({"trip_counts": {"pick": 3}}, UnknownNameError, "unknown loop 'pick'.*again"),
        ({"branches": {"pick": "both"}}, ConfigError, "node 'pick' = 'both'; choose one of: then, else"),
        ({"trip_counts": {"again": -1}}, ConfigError, "node 'again' = -1; write a whole number"),
        ({"trip_counts": {"again": 1.5}}, ConfigError, "node 'again' = 1.5"),
        ({"trip_counts": {"again": True}}, ConfigError, "node 'again' = True"),
    ],
)
def test_choices_that_make_no_sense(
    tmp_path: Path, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    nodes = [choice(output="p"), repeated(output="q"), node("Add", ["p", "q"], ["y"])]
    with pytest.raises(error, match=message) as caught:
        read(tmp_path, opened(nodes, flag=[], n=[]), **settings)
    assert "net.onnx" in str(caught.value)


def test_a_file_without_branches_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="the file has none"):
        read(tmp_path, graph([node("Relu", ["x"], ["y"])], X), branches={"pick": "then"})


def test_branches_in_branches_are_told_apart_by_their_place(tmp_path: Path) -> None:
    """Both branches of the outer node hold a node of one name; it may also be named for all of them."""
    outer = node(
        "If", ["flag"], ["y"], name="outer", then_branch=body([choice("inner", output="t")], ["t"]),
        else_branch=body([choice("inner", output="e")], ["e"]),
    )  # fmt: skip
    net = opened([outer], flag=[])
    with pytest.raises(
        ModelError, match=r"node 'outer/then/inner' .If.: .*branches=\{'outer/then/inner': 'then'\}"
    ):
        read(tmp_path, net, branches={"outer": "then"})
    for choices, expected in (
        ({"outer": "then", "inner": "else"}, ["softmax"]),
        ({"outer": "then", "inner": "else", "outer/then/inner": "then"}, ["matmul", "matmul"]),
        ({"outer": "else", "inner": "else", "outer/then/inner": "then"}, ["softmax"]),
    ):
        assert kinds(read(tmp_path, net, branches=choices)) == expected


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_stored_trip_count_needs_no_choice(tmp_path: Path, count: int) -> None:
    tail = node("Softmax", ["r"], ["y"])
    stored = [weights("w", 8, 8), numbers("n", count), numbers("go", True, bool)]
    for condition in ("", "go"):
        net = graph([repeated(output="r", condition=condition), tail], X, stored)
        model = read(tmp_path, net)
        assert kinds(model) == ["matmul"] * count + ["softmax"]
        assert model.is_chain
        assert (model.macs, model.params) == (count * 4 * 64, 64 if count else 0)  # the loop reads one matrix
        assert model.shared_params == 64 * max(0, count - 1)
        assert [layer.name for layer in model.layers[:-1]] == [f"again/{i}/next" for i in range(count)]
        assert read(tmp_path, net, trip_counts={"again": count}).layers == model.layers
        for other in {0, 1, 5} - {count}:
            with pytest.raises(ModelError, match=f"node 'again' .Loop.: trip_counts says {other}, but"):
                read(tmp_path, net, trip_counts={"again": other})


def test_a_trip_count_that_depends_on_data_is_asked_for(tmp_path: Path) -> None:
    net = opened([repeated()], n=[])
    with pytest.raises(ModelError) as caught:
        read(tmp_path, net)
    for words in (
        "net.onnx", "node 'again' (Loop)", "trip_counts={'again': 12}", 'trip_counts = { "again" = 12 }',
        "--trip-count again=12",
    ):  # fmt: skip
        assert words in str(caught.value)
    assert kinds(read(tmp_path, net, trip_counts={"again": 3})) == ["matmul"] * 3


def _while(limit: str, compared: str) -> onnx.ModelProto:
    """Goes on while ``compared`` is less than 3: the counter, which the file fixes, or data."""
    step = [
        node("MatMul", ["state", "w"], ["next"]), node("ReduceSum", ["next"], ["data"], keepdims=0),
        node("Cast", [compared], ["number"], to=TensorProto.FLOAT), node("Less", ["number", "three"], ["still"]),
    ]  # fmt: skip
    inner = body(step, ["still", "next"], ["i", "going", "state"], [numbers("three", 3.0, np.float32)])
    loop = node("Loop", [limit, "go", "x"], ["y"], name="again", body=inner)
    return graph([loop], X, [weights("w", 8, 8), numbers("n", 10), numbers("go", True, bool)])


@pytest.mark.parametrize("limit", ["", "n"])
def test_a_condition_on_the_counter_ends_the_loop(tmp_path: Path, limit: str) -> None:
    net = _while(limit, "i")
    assert kinds(read(tmp_path, net)) == ["matmul"] * 4  # after the iteration with i = 3
    assert kinds(read(tmp_path, net, trip_counts={"again": 4})) == ["matmul"] * 4
    with pytest.raises(ModelError, match="trip_counts says 7, but it ends after 4"):
        read(tmp_path, net, trip_counts={"again": 7})


def test_a_condition_on_data_ends_the_loop_where_the_user_says(tmp_path: Path) -> None:
    net = _while("n", "data")
    with pytest.raises(
        ModelError, match="node 'again' .Loop.: its condition depends on data; say how often it runs"
    ):
        read(tmp_path, net)
    for count in (0, 3, 10):
        if count:
            assert kinds(read(tmp_path, net, trip_counts={"again": count})) == ["matmul"] * count
    with pytest.raises(ModelError, match="trip_counts says 11, but it ends after 10"):
        read(tmp_path, net, trip_counts={"again": 11})
    assert kinds(read(tmp_path, _while("", "data"), trip_counts={"again": 11})) == ["matmul"] * 11


def test_a_loop_without_end_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eunomia.workload.onnx import unrolling

    net = graph([repeated(limit="", condition="go")], X, [weights("w", 8, 8), numbers("go", True, bool)])
    monkeypatch.setattr(unrolling, "LIMIT_TURNS", 50)
    with pytest.raises(ModelError, match="it has not ended after 50 iterations; say how often it runs"):
        read(tmp_path, net)
    assert kinds(read(tmp_path, net, trip_counts={"again": 60})) == ["matmul"] * 60
    huge = graph([repeated()], X, [weights("w", 8, 8), numbers("n", 2**62)])
    with pytest.raises(ModelError, match="it has not ended after 50 iterations; say how often it runs"):
        read(tmp_path, huge)
    monkeypatch.setattr(unrolling, "LIMIT_NODES", 100)
    with pytest.raises(
        ModelError, match="60 iterations of 2 nodes are more than the 100 that can be written out"
    ):
        read(tmp_path, net, trip_counts={"again": 60})


def test_what_a_loop_carries_may_grow(tmp_path: Path) -> None:
    """A cache: each iteration appends a row and reads all of them."""
    step = [
        node("Concat", ["cache", "x"], ["longer"], axis=0),
        node("MatMul", ["x", "turned"], ["scores"]),
        node("Transpose", ["longer"], ["turned"], perm=[1, 0]),
    ]
    inner = body(step, ["going", "longer", "scores"], ["i", "going", "cache"])
    loop = node("Loop", ["n", "", "x"], ["cache_after", ""], name="decode", body=inner)
    net = graph([loop, node("Relu", ["cache_after"], ["y"])], {"x": [1, 8]}, [numbers("n", 3)])
    assert read(tmp_path, net).layers[-1].output_elements == 4 * 8
    scores = node("Loop", ["n", "", "x"], ["", "all"], name="decode", body=_last_scores())
    net = graph([scores, node("Relu", ["all"], ["y"])], {"x": [1, 8]}, [numbers("n", 3)])
    model = read(tmp_path, net)
    assert [layer.macs for layer in model.layers if layer.has_macs] == [8 * rows for rows in (2, 3, 4)]


def _last_scores() -> onnx.GraphProto:
    step = [
        node("Concat", ["cache", "x"], ["longer"], axis=0),
        node("Transpose", ["longer"], ["turned"], perm=[1, 0]),
        node("MatMul", ["x", "turned"], ["s"]),
        node("ReduceMax", ["s"], ["best"], keepdims=0),
    ]
    return body(step, ["going", "longer", "best"], ["i", "going", "cache"])


@pytest.mark.parametrize("opset", [11, 21])
def test_what_each_iteration_yields_is_gathered(tmp_path: Path, opset: int) -> None:
    inner = body([node("MatMul", ["s", "w"], ["t"])], ["going", "t", "t"], ["i", "going", "s"])
    loop = node("Loop", ["n", "", "x"], ["last", "all"], name="again", body=inner)
    nodes = [loop, node("Softmax", ["all"], ["p"]), node("Relu", ["last"], ["q"])]
    net = graph(nodes, X, [weights("w", 8, 8), numbers("n", 5)], ["p", "q"], opset=opset)
    model = read(tmp_path, net)
    assert model.layers[-2 if model.layers[-1].kind != "softmax" else -1].kind == "softmax"
    (softmax,) = (layer for layer in model.layers if layer.kind == "softmax")
    assert softmax.output_elements == 5 * 4 * 8
    assert model.predecessors[model.layers.index(softmax)] == (0, 1, 2, 3, 4)


def test_nothing_is_gathered_from_a_loop_that_never_runs(tmp_path: Path) -> None:
    inner = body([node("MatMul", ["s", "w"], ["t"])], ["going", "t", "t"], ["i", "going", "s"])
    loop = node("Loop", ["n", "", "x"], ["last", "all"], name="again", body=inner)
    net = graph([loop, node("Relu", ["all"], ["y"])], X, [weights("w", 8, 8), numbers("n", 0)])
    with pytest.raises(
        ModelError, match="'all' comes from a loop that runs 0 times, so its shape is not known"
    ):
        read(tmp_path, net)
    unread = graph([loop, node("Relu", ["last"], ["y"])], X, [weights("w", 8, 8), numbers("n", 0)])
    assert kinds(read(tmp_path, unread)) == ["elementwise"]


def test_a_path_to_an_iteration_that_never_runs_is_refused(tmp_path: Path) -> None:
    inner = body([choice("inner", output="t", source="s")], ["going", "t"], ["i", "going", "s"])
    loop = node("Loop", ["n", "", "x"], ["y"], name="again", body=inner)
    net = graph([loop], {**X, "flag": []}, [weights("w", 8, 8), numbers("n", 3)], kinds={"flag": BOOL})
    for wrong in ("again/7/inner", "again/1/outer"):
        with pytest.raises(UnknownNameError, match=f"unknown branch '{wrong}' in .*net.onnx.*did you mean"):
            read(tmp_path, net, branches={"again/inner": "else", wrong: "then"})


def test_a_loop_too_long_to_write_out_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="1000000 iterations of 2 nodes are more than the"):
        read(tmp_path, opened([repeated()], n=[]), trip_counts={"again": 10**6})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 2.5}, "batch = 2.5"),
        ({"dims": {"rows": "a"}}, "'rows' = 'a'"),
        ({"dims": ["rows"]}, "dims = .'rows'.; give a mapping"),
        ({"branches": ["pick"]}, "branches = .'pick'.; give a mapping"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, graph([node("Relu", ["x"], ["y"])], {"x": ["rows", 8]}), **settings)


def test_the_counter_picks_the_weights_of_each_iteration(tmp_path: Path) -> None:
    step = [node("Gather", ["stack", "i"], ["w"], axis=0), node("MatMul", ["s", "w"], ["t"])]
    loop = node("Loop", ["n", "", "x"], ["y"], body=body(step, ["going", "t"], ["i", "going", "s"]))
    model = read(tmp_path, graph([loop], X, [weights("stack", 3, 8, 8), numbers("n", 3)]))
    assert [layer.weight_elements for layer in model.layers] == [64] * 3
    assert (model.params, model.shared_params) == (3 * 64, 0)


def test_what_a_body_stores_is_stored_once(tmp_path: Path) -> None:
    """As initializer, as Constant node, and in a branch inside the loop."""
    table = numbers("c", np.ones((8, 8)), np.float32)
    inside = body(
        [node("Constant", [], ["k"], value=table), node("MatMul", ["t", "k"], ["u"])], ["u"],
    )  # fmt: skip
    step = [
        node("Constant", [], ["c"], value=table), node("MatMul", ["s", "c"], ["r"]),
        node("MatMul", ["r", "own"], ["t"]),
        node("If", ["going"], ["v"], name="inner", then_branch=inside, else_branch=body([], ["t"])),
    ]  # fmt: skip
    inner = body(step, ["going", "v"], ["i", "going", "s"], [weights("own", 8, 8)])
    loop = node("Loop", ["n", "", "x"], ["y"], name="again", body=inner)
    model = read(tmp_path, graph([loop], X, [numbers("n", 4)]))
    assert kinds(model) == ["matmul"] * 12
    assert (model.params, model.shared_params) == (3 * 64, 9 * 64)


def test_one_iteration_may_take_another_branch(tmp_path: Path) -> None:
    inner = body([choice("inner", output="t", source="s")], ["going", "t"], ["i", "going", "s"])
    loop = node("Loop", ["n", "", "x"], ["y"], name="again", body=inner)
    net = graph([loop], {**X, "flag": []}, [weights("w", 8, 8), numbers("n", 3)], kinds={"flag": BOOL})
    with pytest.raises(ModelError, match=r"node 'again/0/inner' .If.: .*branches=\{'again/inner': 'then'\}"):
        read(tmp_path, net)
    model = read(tmp_path, net, branches={"again/inner": "else", "again/1/inner": "then"})
    assert kinds(model) == ["softmax", "matmul", "matmul", "softmax"]


def test_an_error_in_an_iteration_names_it(tmp_path: Path) -> None:
    """The state loses a column each time, until the product does not fit."""
    step = [node("MatMul", ["s", "w"], ["t"], name="product")]
    loop = node(
        "Loop", ["n", "", "x"], ["y"], name="again", body=body(step, ["going", "t"], ["i", "going", "s"])
    )
    with pytest.raises(
        ModelError, match="net.onnx.*: node 'again/1/product' .MatMul.: it is not valid"
    ) as caught:
        read(tmp_path, graph([loop], X, [weights("w", 8, 7), numbers("n", 3)]))
    assert str(caught.value).count("node '") == 1


def test_nodes_in_a_body_may_stand_in_any_order_and_dead_ones_ask_for_nothing(tmp_path: Path) -> None:
    step = [
        node("Softmax", ["m"], ["t"]), node("MatMul", ["s", "w"], ["m"]), choice("dead", output="unused"),
    ]  # fmt: skip
    loop = node("Loop", ["n", "", "x"], ["y"], body=body(step, ["going", "t"], ["i", "going", "s"]))
    net = graph([loop], {**X, "flag": []}, [weights("w", 8, 8), numbers("n", 2)], kinds={"flag": BOOL})
    assert kinds(read(tmp_path, net)) == ["matmul", "softmax"] * 2


def test_bodies_that_cannot_be_written_out(tmp_path: Path) -> None:
    stored = [weights("w", 8, 8), numbers("n", 2)]
    for step, message in (
        ([node("MatMul", ["nowhere", "w"], ["t"])], "reads 'nowhere', which nothing writes"),
        ([node("Relu", ["b"], ["t"]), node("Relu", ["t"], ["b"])], "cycle"),
    ):
        loop = node(
            "Loop", ["n", "", "x"], ["y"], name="again", body=body(step, ["going", "t"], ["i", "going", "s"])
        )
        with pytest.raises(ModelError, match=f"net.onnx.*{message}"):
            read(tmp_path, graph([loop], X, stored))
    loop = node("Loop", ["n", "", "x", "x"], ["y", ""], name="again", body=repeated().attribute[0].g)
    with pytest.raises(ModelError, match="node 'again' .Loop.: its body carries 1 values on, but gets 2"):
        read(tmp_path, graph([loop], X, stored))


def test_two_nodes_of_one_name_are_refused_where_their_tensors_would_mix(tmp_path: Path) -> None:
    nodes = [choice(output="p"), choice(output="q"), node("Add", ["p", "q"], ["y"])]
    net = graph(nodes, X, [weights("w", 8, 8), numbers("flag", True, bool)])
    with pytest.raises(ModelError, match="written twice; give the nodes that hold graphs different names"):
        read(tmp_path, net)


def _recurrent(**settings: Any) -> onnx.NodeProto:
    step = [
        node("MatMul", ["h", "u"], ["hu"]), node("MatMul", ["row", "w"], ["xw"]), node("Add", ["hu", "xw"], ["sum"]),
        node("Tanh", ["sum"], ["new"]), node("Softmax", ["new"], ["out"]),
    ]  # fmt: skip
    inner = body(step, ["new", "out"], ["h", "row"])
    return node("Scan", ["start", "x"], ["last", "y"], name="scan", body=inner, num_scan_inputs=1, **settings)


@pytest.mark.parametrize(("settings", "shape"), [({}, (5, 2, 6)), ({"scan_output_axes": [1]}, (2, 5, 6))])
def test_scan_runs_once_per_row(tmp_path: Path, settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    stored = [weights("u", 6, 6), weights("w", 8, 6)]
    inputs = {"x": [5, 2, 8], "start": [2, 6]}
    nodes = [_recurrent(**settings), node("Relu", ["y"], ["z"])]
    model = read(tmp_path, graph(nodes, inputs, stored, ["last", "z"]))
    assert model.macs == 5 * 2 * 6 * (6 + 8)
    assert model.params == 6 * 6 + 8 * 6
    relu = next(layer for layer in model.layers if layer.name == "z")
    assert (relu.batch, relu.out_h, relu.out_channels) == shape
    read(tmp_path, graph(nodes, inputs, stored, ["last", "z"]), trip_counts={"scan": 5})
    with pytest.raises(
        ModelError, match="node 'scan' .Scan.: trip_counts says 4, but it runs over an axis of 5"
    ):
        read(tmp_path, graph(nodes, inputs, stored, ["last", "z"]), trip_counts={"scan": 4})


@pytest.mark.parametrize("back_in", [0, 1])
@pytest.mark.parametrize("back_out", [0, 1])
def test_scan_runs_in_either_direction(tmp_path: Path, back_in: int, back_out: int) -> None:
    """Over the sizes 2, 3, 5: the last state and the first result become the shape of a tensor."""
    steps = [node("Identity", ["row"], ["new"]), node("Mul", ["row", "ten"], ["out"])]
    inner = body(steps, ["new", "out"], ["h", "row"])
    settings = {"scan_input_directions": [back_in], "scan_output_directions": [back_out]}
    nodes = [
        node("Scan", ["one", "sizes"], ["last", "all"], body=inner, num_scan_inputs=1, **settings),
        node("Gather", ["all", "zero"], ["first"]), node("Concat", ["last", "first"], ["to"], axis=0),
        node("Expand", ["x", "to"], ["e"]), node("Relu", ["e"], ["y"]),
    ]  # fmt: skip
    stored = [
        numbers("one", [1]),
        numbers("ten", [10]),
        numbers("zero", 0),
        numbers("sizes", [[2], [3], [5]]),
    ]
    relu = read(tmp_path, graph(nodes, {"x": [1, 1]}, stored)).layers[-1]
    order = [5, 3, 2] if back_in else [2, 3, 5]
    assert (relu.out_h, relu.out_channels) == (order[-1], 10 * order[-1 if back_out else 0])


def test_scan_along_another_axis_and_over_weights(tmp_path: Path) -> None:
    step = [node("MatMul", ["h", "m"], ["new"]), node("Add", ["new", "column"], ["out"])]
    inner = body(step, ["new", "out"], ["h", "m", "column"])
    scan = node(
        "Scan", ["start", "stack", "x"], ["last", "y"], name="scan", body=inner, num_scan_inputs=2,
        scan_input_axes=[0, 1],
    )  # fmt: skip
    net = graph([scan], {"x": [6, 4], "start": [2, 6]}, [weights("stack", 4, 6, 6)], ["last", "y"])
    model = read(tmp_path, net)
    assert [layer.weight_elements for layer in model.layers if layer.has_macs] == [36] * 4
    assert model.params == 4 * 36
    net = graph([scan], {"x": [6, 3], "start": [2, 6]}, [weights("stack", 4, 6, 6)], ["last", "y"])
    with pytest.raises(
        ModelError, match=r"node 'scan' .Scan.: it runs over axes of different sizes: \[3, 4\]"
    ):
        read(tmp_path, net)


def test_scan_of_an_old_operator_set_is_refused(tmp_path: Path) -> None:
    net = graph(
        [_recurrent()], {"x": [5, 2, 8], "start": [2, 6]}, [weights("u", 6, 6), weights("w", 8, 6)], opset=8
    )
    with pytest.raises(ModelError, match="node 'scan' .Scan.: Scan of operator set 8 is not supported"):
        read(tmp_path, net)


# A program: products, branches (which of them is taken, and whether the file says so), loops (likewise).
PROGRAMS = st.recursive(
    st.just("product"),
    lambda inner: st.one_of(
        st.tuples(st.just("if"), st.booleans(), st.booleans(), inner, inner),
        st.tuples(st.just("loop"), st.integers(0, 3), st.booleans(), inner),
        st.tuples(st.just("then"), inner, inner),
    ),
    max_leaves=8,
)


@given(PROGRAMS)
def test_random_programs_count_what_runs(program: Any) -> None:
    """Against an interpreter that walks through the program."""
    writer = _Writer()
    nodes, result = writer.write(program, "x")
    nodes.append(node("Softmax", [result], ["y"]))
    stored = [weights("w", 8, 8), numbers("yes", True, bool), numbers("no", False, bool)]
    stored += [numbers(f"n{count}", count) for count in range(4)]
    net = graph(nodes, {**X, "flag": [], "many": []}, stored, kinds={"flag": BOOL, "many": INT64})
    model = read_anywhere(net, branches=writer.branches, trip_counts=writer.trip_counts)
    assert kinds(model) == ["matmul"] * _products(program) + ["softmax"]
    assert model.is_chain


def _products(program: Any) -> int:
    if program == "product":
        return 1
    if program[0] == "if":
        return _products(program[3 if program[1] else 4])
    if program[0] == "loop":
        return sum(_products(program[3]) for _ in range(program[1]))
    return _products(program[1]) + _products(program[2])


class _Writer:
    """A program as nodes, and the choices that its file leaves open. All graphs use the same few names."""

    def __init__(self) -> None:
        self.branches: dict[str, str] = {}
        self.trip_counts: dict[str, int] = {}
        self._count = 0

    def write(self, program: Any, source: str) -> tuple[list[onnx.NodeProto], str]:
        self._count += 1
        name = f"t{self._count}"
        if program == "product":
            return [node("MatMul", [source, "w"], [name])], name
        if program[0] == "then":
            first, between = self.write(program[1], source)
            second, result = self.write(program[2], between)
            return first + second, result
        if program[0] == "if":
            _, taken, said, left, right = program
            condition = ("yes" if taken else "no") if said else "flag"
            if not said:
                self.branches[name] = "then" if taken else "else"
            branches = {}
            for branch, part in (("then_branch", left), ("else_branch", right)):
                nodes, result = self.write(part, source)
                branches[branch] = body([*nodes, node("Identity", [result], ["end"])], ["end"])
            return [node("If", [condition], [name], **branches)], name
        _, count, said, part = program
        if not said:
            self.trip_counts[name] = count
        state = f"s{name}"
        nodes, result = self.write(part, state)
        inner = body(nodes, [f"g{name}", result], [f"i{name}", f"g{name}", state])
        return [node("Loop", [f"n{count}" if said else "many", "", source], [name], body=inner)], name


def test_choices_in_a_scenario_reach_the_file(tmp_path: Path) -> None:
    from eunomia.config.demand import ModelConfig
    from eunomia.study.inference.demand import _network

    path = tmp_path / "net.onnx"
    path.write_bytes(opened([choice(output="p"), repeated(output="q"), node("Add", ["p", "q"], ["y"])],
                            flag=[], n=[]).SerializeToString())  # fmt: skip
    config = ModelConfig.model_validate(
        {"onnx": str(path), "branches": {"pick": "then"}, "trip_counts": {"again": 3}, "deadline_ms": 5.0}
    )
    model = _network(config, {})
    expected = read_onnx(path, branches={"pick": "then"}, trip_counts={"again": 3})
    assert model.layers == expected.layers
    assert kinds(model) == ["matmul"] * 5 + ["elementwise"]
    for wrong in ({"branches": {"pick": "maybe"}}, {"trip_counts": {"again": -1}}):
        with pytest.raises(ValueError, match="branches|trip_counts"):
            ModelConfig.model_validate({"onnx": str(path), **wrong})
    with pytest.raises(ValueError, match="belong to onnx networks"):
        ModelConfig.model_validate({"model": "resnet50", "branches": {"pick": "then"}})

"""What cannot be read says why, in one sentence, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from eunomia.core.errors import ConfigError, EunomiaError, ModelError
from eunomia.workload.onnx import file, read_onnx
from tests.workload.onnx_graphs import graph, node, numbers, read, weights

X = {"x": [1, 4, 8, 8]}


def test_files_that_are_no_network(tmp_path: Path) -> None:
    cases: dict[str, tuple[Callable[[Path], object], str]] = {
        "missing": (lambda path: None, "cannot be read: No such file"),
        "folder": (lambda path: path.mkdir(), "is a directory"),
        "empty": (lambda path: path.write_bytes(b""), "0 bytes"),
        "text": (
            lambda path: path.write_text("layers = 3\nname: none\n"),
            "not an ONNX file|holds no network",
        ),
        "noise": (lambda path: path.write_bytes(bytes(range(256)) * 20), "not an ONNX file"),
        "short": (lambda path: path.write_bytes(_relu().SerializeToString()[:-9]), "not an ONNX file"),
        "nodeless": (lambda path: path.write_bytes(graph([], X).SerializeToString()), "has no nodes"),
        "versionless": (lambda path: path.write_bytes(_versionless()), "which operator set"),
    }
    for name, (make, message) in cases.items():
        path = tmp_path / name
        make(path)
        with pytest.raises(ModelError, match=message) as caught:
            read_onnx(path)
        assert str(path) in str(caught.value)


def _relu(**settings: object) -> onnx.ModelProto:
    return graph([node("Relu", ["x"], ["y"])], {"x": ["batch", "seq", None]}, **settings)  # type: ignore[arg-type]


def _versionless() -> bytes:
    model = _relu()
    del model.opset_import[:]
    return model.SerializeToString()


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"]), node("Add", ["a", "x"], ["y"])],
            "cycle.*'a'",
        ),
        ([node("Relu", ["y"], ["y"])], "cycle"),
        ([node("Relu", ["nowhere"], ["y"])], "node 'y' \\(Relu\\) reads 'nowhere', which nothing writes"),
        ([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"], name="two")], "written twice.*node 'two'"),
        (
            [node("Magic", ["x"], ["y"], name="n7")],
            "node 'n7' \\(Magic\\): operator 'Magic' of domain 'ai.onnx' is not supported",
        ),
        (
            [node("Magic", ["x"], ["y"], domain="com.acme")],
            "node 'y' \\(Magic\\): operator 'Magic' of domain 'com.acme'",
        ),
        ([node("NonZero", ["x"], ["y"])], "operator 'NonZero'"),
        ([node("Conv", ["x", "w"], ["y"], pads=[1, 1])], "node 'y' \\(Conv\\): it is not valid"),
        (
            [node("Conv", ["x", "v"], ["y"])],
            "'y' \\(Conv\\).*4 input channels, but weights for 1 groups of 3",
        ),
        ([node("Conv", ["x"], ["y"])], "'y' \\(Conv\\)"),
        ([node("MatMul", ["x", "w"], ["y"])], "node 'y' \\(MatMul\\): it is not valid"),
        ([node("Einsum", ["x", "x", "x"], ["y"], equation="abcd,abcd,abcd->ab")], "3 operands"),
        ([node("Einsum", ["x"], ["y"], equation="abcc->ab")], "diagonal|not valid"),
        ([node("Einsum", ["x", "x"], ["y"], equation="abcd,efgh->abgh")], "sums \\['c', 'd', 'e', 'f'\\]"),
        ([node("Einsum", ["x", "x"], ["y"], equation="abc,abcd->ad")], "Rank of input 0"),
        ([node("Constant", [], ["y"], value_float=1.0)], "no layer that computes"),
        ([node("Identity", ["x"], ["y"])], "no layer that computes"),
    ],
)
def test_graphs_that_cannot_be_costed(tmp_path: Path, nodes: list[onnx.NodeProto], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        read(tmp_path, graph(nodes, X, [weights("w", 6, 4, 3, 3), weights("v", 6, 3, 3, 3)]))
    assert "net.onnx" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_attributes_that_make_no_sense_name_the_node(tmp_path: Path) -> None:
    rotate = node("MatMulNBits", ["x", "w"], ["y"], domain="com.microsoft", N=8)
    with pytest.raises(ModelError, match="node 'y' \\(MatMulNBits\\) .* do not fit it"):
        read(tmp_path, graph([rotate], X, [weights("w", 6, 4, 3)], contrib=True))


def test_free_dimensions_are_named(tmp_path: Path) -> None:
    net = _relu()
    with pytest.raises(
        ModelError, match="input 'x' has the free dimension 'seq' on axis 1; .*dims={'seq': ...}"
    ):
        read(tmp_path, net)
    with pytest.raises(ModelError, match="a free dimension without a name on axis 2; .*dims={'x:2': ...}"):
        read(tmp_path, net, dims={"seq": 4})
    model = read(tmp_path, net, dims={"seq": 4, "x:2": 5}, batch=3)
    assert model.layers[0].output_elements == 60
    with pytest.raises(
        EunomiaError, match="unknown free dimension 'sqe' in '.*net.onnx'; did you mean 'seq'"
    ):
        read(tmp_path, net, dims={"sqe": 4, "x:2": 5, "seq": 4})
    with pytest.raises(ModelError, match="dimension 'seq' = -4"):
        read(tmp_path, net, dims={"seq": -4})
    with pytest.raises(ConfigError, match="net.onnx': batch = 0"):
        read(tmp_path, net, batch=0)
    with pytest.raises(ModelError, match="no input has a free batch dimension.*with_batch\\(4\\)"):
        read(tmp_path, graph([node("Relu", ["x"], ["y"])], X), batch=4)


def test_a_length_on_the_first_axis_is_not_taken_for_a_batch(tmp_path: Path) -> None:
    net = graph([node("Relu", ["x"], ["y"])], {"x": ["seq_len", 8]})
    with pytest.raises(ModelError, match="'seq_len' on axis 0"):
        read(tmp_path, net)


def test_sizes_that_depend_on_data_are_refused(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "to"], ["r"]), node("Relu", ["r"], ["y"])]
    net = graph(nodes, {"x": [4, 8], "to": [2]}, kinds={"to": TensorProto.INT64})
    with pytest.raises(ModelError, match="node 'r' \\(Reshape\\): the shape of 'r' depends on data"):
        read(tmp_path, net)


def test_inputs_must_be_tensors_of_known_rank(tmp_path: Path) -> None:
    net = _relu()
    net.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match="input 'x' has no shape"):
        read(tmp_path, net)
    net.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 1
    with pytest.raises(ModelError, match="input 'x' is a sequence_type"):
        read(tmp_path, net)


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = graph([node("Relu", ["x"], ["a"]), node("Exp", ["a"], ["y"])], X)
    monkeypatch.setattr(file, "LIMIT_NODES", 1)
    with pytest.raises(ModelError, match="2 nodes; at most 1"):
        read(tmp_path, net)
    monkeypatch.setattr(file, "LIMIT_BYTES", 10)
    with pytest.raises(ModelError, match="external data"):
        read(tmp_path, net)


def test_a_constant_of_a_huge_shape_is_not_made(tmp_path: Path) -> None:
    nodes = [node("ConstantOfShape", ["size"], ["big"]), node("Add", ["x", "big"], ["y"])]
    model = read(tmp_path, graph(nodes, {"x": [1]}, [numbers("size", [10**12])]))
    assert model.layers[0].output_elements == 10**12


def test_data_in_other_files_are_never_opened(tmp_path: Path) -> None:
    stored = weights("w", 4, 4)
    stored.external_data[0].value = "../../../../etc/passwd"
    model = read(tmp_path, graph([node("MatMul", ["x", "w"], ["y"])], {"x": [2, 4]}, [stored]))
    assert model.params == 16


@pytest.mark.parametrize(
    ("nodes", "shape", "message"),
    [
        (
            [node("Conv", ["x", "w"], ["y"])],
            [1, 3, 4, 4],
            "node 'y' .Conv.: its window is larger than its input",
        ),
        ([node("MaxPool", ["x"], ["y"], kernel_shape=[7, 7])], [1, 3, 4, 4], "its window is larger"),
        ([node("MaxPool", ["x"], ["y"], kernel_shape=[6, 6])], [1, 3, 5, 5], "its window is larger"),
        ([node("Relu", ["x"], ["y"])], [1, -5], "input 'x' has size -5 on axis 1; it must not be negative"),
        ([node("Relu", ["x"], ["y"])], [2**40, 2**40], "tensor 'x' .* has 1.21e[+]24 elements; at most"),
    ],
)
def test_sizes_that_cannot_be(
    tmp_path: Path, nodes: list[onnx.NodeProto], shape: list[int], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read(tmp_path, graph(nodes, {"x": shape}, [weights("w", 8, 3, 7, 7)]))

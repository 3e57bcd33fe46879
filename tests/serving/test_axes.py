"""Free axes that belong together have sizes that fit together in a network's trial."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from eunomia.serving.blocks import plan_blocks
from eunomia.serving.devices import cutting, fitting
from eunomia.serving.devices.axes import Axes
from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.network import load_network
from eunomia.serving.devices.piece import Feed, array_of, live_of
from eunomia.serving.devices.ports import MOST_LETTERS, ports_of
from eunomia.serving.models.entry import Entry
from tests.serving.live import running

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
WINDOW = (
    "(float[{0}, {1}] x, float[2, {2}, 4] state) => (float[r, c] y) <float[1, 1, 30] k, int64[1] one = {{1}}, "
    "int64 zero = {{0}}> {{ k = ConstantOfShape <value = float[1] {{1}}> (s) u = Unsqueeze (x, one) v = Conv (u, k) "
    "w = Squeeze (v, one) h = Gather (state, zero) y = Concat <axis = 1> (w, h) }}"
).replace("<float[1, 1, 30] k, ", "<int64[3] s = {{1, 1, 30}}, ")
DECODER = (
    "(float[batch, words, 4] x, float[batch, past, 4] kept, float[batch, {0}, 4] mask) => (float[batch, all, 8] y) "
    "{{ c = Concat <axis = 1> (kept, x) y = Concat <axis = 2> (c, mask) }}"
)
TOGETHER = {
    "a state as Silero's": (WINDOW.format("batch", "sequence", "batch"), {"x": [1, 32], "state": [2, 1, 4]}),
    "the same without names": (WINDOW.format("?", "?", "?"), {"x": [1, 32], "state": [2, 1, 4]}),
    "one name for all": (WINDOW.format("N", "N", "N"), {"x": [32, 32], "state": [2, 32, 4]}),
    "optimum's sum": (DECODER.format("a + b"), {"x": [1, 1, 4], "kept": [1, 1, 4], "mask": [1, 2, 4]}),
    "a sum by another name": (
        DECODER.format("total"),
        {"x": [1, 1, 4], "kept": [1, 1, 4], "mask": [1, 2, 4]},
    ),
}


def written(folder: Path, text: str) -> str:
    """A file; names of sums cannot be written in the text."""
    model = onnx.parser.parse_model(HEAD + text.replace("a + b", "sum_of_both"))
    for port in model.graph.input:
        for axis in port.type.tensor_type.shape.dim:
            if axis.dim_param == "sum_of_both":
                axis.dim_param = "past + words"
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    return str(folder / "net.onnx")


@pytest.mark.parametrize(("text", "sizes"), TOGETHER.values(), ids=[*TOGETHER])
def test_axes_that_belong_together_are_found(text: str, sizes: dict[str, list[int]], tmp_path: Path) -> None:
    """All were refused: rows went to first axes alone, and one size to all others. Answers are the runtime's."""
    file = written(tmp_path, text)
    network = load_network(file, str(tmp_path), {}, 1e-3)
    assert network.shapes == sizes
    rng = np.random.default_rng(0)
    feed: Feed = {
        name: rng.random([5 if d == 32 else d for d in shape], np.float32) for name, shape in sizes.items()
    }
    if "state" in feed:
        feed = {"x": rng.random((3, 40), np.float32), "state": rng.random((2, 3, 4), np.float32)}
    live = live_of(feed)
    for n in range(network.blocks):
        live = network.run_block(n, live)
    (wanted,) = ort.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feed)
    assert array_of(live["y"]).tobytes() == np.asarray(wanted).tobytes()


def test_sizes_that_are_given_hold_for_axes_of_the_same_name(tmp_path: Path) -> None:
    file = written(tmp_path, DECODER.format("a + b"))
    network = load_network(file, str(tmp_path), {"x": [3, 5, 4]}, 1e-3)
    assert network.shapes == {"x": [3, 5, 4], "kept": [3, 1, 4], "mask": [3, 6, 4]}


@pytest.mark.parametrize(
    "text", [DECODER.format("a + b"), "(float[n, m] x) => (float[n, m] y) { y = Relu (x) }"]
)
def test_a_first_guess_that_runs_ends_the_search(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sought, cut = Mock(wraps=fitting.fitting), Mock(wraps=plan_blocks)
    monkeypatch.setattr(cutting, "fitting", sought)
    monkeypatch.setattr(cutting, "plan_blocks", cut)
    load_network(written(tmp_path, text), str(tmp_path), {}, 1e-3)
    assert sought.call_count == 0 and cut.call_count == 1


def ports(**shapes: list[int]) -> Ports:
    return {"inputs": [{"name": n, "datatype": "FP32", "shape": s} for n, s in shapes.items()], "outputs": []}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("2*words", 14), ("words + 1", 8), ("words*batch", 21), ("words-1", 6), ("(words + batch)//2", 5),
        ("words // 0", 1), ("words - 9", 1), ("batch-size", 3), ("words.last", 7), ("floor(words)", 7), ("1 +", 7),
        ("words**words**words", 7), ("+".join(["words"] * 99), 7), ("\0", 7), ("more + 1", 8),
    ],
)  # fmt: skip
def test_a_name_is_a_sum_or_product_where_it_reads_as_one(name: str, size: int) -> None:
    """What does not, is a name as any other; nothing of it is run."""
    axes = Axes(ports(x=[-1, -1], y=[-1]), {}, {"x": ["batch", "words"], "y": [name]})
    assert axes.shapes(3, 7)["y"] == [size]


def test_a_name_that_makes_a_trial_too_large_is_not_followed() -> None:
    huge = ports(x=[-1, -1], y=[-1])
    assert fitting.first_guess(huge, {}, {"x": ["batch", "words"], "y": ["99999999999*words"]}) == {}
    assert fitting.first_guess(huge, {"x": [2, 3]}, {"x": ["/", "words"], "y": ["words"]}) == {"y": [3]}


def test_only_names_of_batches_are_rows_where_there_are_any() -> None:
    names = {"x": ["words", "batch_size"], "y": ["N", "words"], "z": ["", "None"]}
    found = Axes(ports(x=[-1, -1], y=[-1, -1], z=[-1, -1]), {}, names).shapes(2, 9)
    assert found == {"x": [9, 2], "y": [2, 9], "z": [2, 9]}


def test_one_axis_after_the_other_is_larger() -> None:
    axes = Axes(ports(x=[-1, -1], y=[-1, 4]), {}, {"x": ["h", "w"], "y": ["h"]})
    assert [*axes.one_larger((2,), (2, 8))] == [
        {"x": [2, 1], "y": [2, 4]}, {"x": [1, 2], "y": [1, 4]}, {"x": [1, 8], "y": [1, 4]},
    ]  # fmt: skip


def test_there_is_an_end_to_candidates() -> None:
    many = ports(**{f"past.{n}": [-1, 4, -1, 16] for n in range(200)})
    assert len([*fitting.candidates(many, {}, {})]) <= fitting.MOST


def test_the_server_learns_what_axes_are_called(tmp_path: Path) -> None:
    """With names, larger sizes that are tried beside requests fit together."""
    file = written(tmp_path, DECODER.format("a + b"))
    named = {
        "x": ["batch", "words", ""],
        "kept": ["batch", "past", ""],
        "mask": ["batch", "past + words", ""],
    }
    assert load_network(file, str(tmp_path), {}, 1e-3).description()["axes"] == named
    with running(tmp_path, networks=[Entry("net", Path(file), {})]) as server:
        assert server.pool.models["net"].ports.get("axes") == named


def test_names_that_are_too_long_for_a_message_are_left_out() -> None:
    model = onnx.parser.parse_model(HEAD + "(float[n] x) => (float[n] y) { y = Sin (x) }")
    assert ports_of(model).get("axes") == {"x": ["n"]}
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n" * MOST_LETTERS
    assert ports_of(model).get("axes") == {}

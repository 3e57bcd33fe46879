"""A network is tried with zeros or with ones, whichever has more to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.blocks.long import LongBlock
from eunomia.serving.devices import values
from eunomia.serving.devices.cutting import prepare
from eunomia.serving.devices.network import load_network
from eunomia.serving.devices.step import Step
from eunomia.serving.devices.values import CLEARLY, ones_take_longer

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
SHAPES = {"mask": [64, 64]}


def unpadded(folder: Path, nodes: int = 12) -> str:
    """Products for each place that a mask names, as encoders without padding have them."""
    steps = " ".join(f"p{n} = MatMul (h{n}, w) h{n + 1} = Tanh (p{n})" for n in range(nodes))
    text = f"""(int64[b, s] mask) => (float[m, 256] h{nodes})
    <int64 zero = {{0}}, int64 all = {{65536}}, int64 one = {{1}}, int64[2] square = {{256, 256}},
     int64[2] wide = {{1, 256}}> {{
        r = Range (zero, all, one) f = Cast <to = 1> (r) q = Sin (f) w = Reshape (q, square)
        found = NonZero (mask) places = Transpose (found) t = Cast <to = 1> (places)
        c = ReduceSum <keepdims = 1> (t) a = ReduceMean <axes = [1], keepdims = 1> (t) h0 = Expand (a, wide)
        {steps}
    }}"""
    file = folder / "unpadded.onnx"
    file.write_bytes(onnx.parser.parse_model(HEAD + text).SerializeToString())
    return str(file)


def test_a_mask_of_zeros_is_no_trial(tmp_path: Path) -> None:
    """It left nothing to do: the network stayed in one block, and every request of a usual size was ended."""
    file, cache = unpadded(tmp_path), str(tmp_path / "cache")
    for _ in range(2):  # fresh, and out of the cache
        network = load_network(file, cache, SHAPES, 1e-3)
        assert network.ones and network.blocks > 1
    step = Step(network, SHAPES)
    assert step._feed["mask"].all()
    assert load_network(file, cache, SHAPES, 1e-3, known_s=[0.1] * network.blocks).ones


def test_a_cut_by_sizes_that_clients_chose_knows_how_long_its_blocks_are(tmp_path: Path) -> None:
    with pytest.raises(LongBlock):
        prepare(unpadded(tmp_path, 1), str(tmp_path / "cache"), SHAPES, 1.0, most_s=1e-6)


def test_an_older_plan_that_does_not_say_by_which_values_is_made_anew(tmp_path: Path) -> None:
    file, cache = unpadded(tmp_path, 1), str(tmp_path / "cache")
    cut = prepare(file, cache, SHAPES, 1.0)
    plan = cut.folder / "plan.json"
    before = json.loads(plan.read_text())
    assert before.pop("ones") is True
    plan.write_text(json.dumps(before))
    assert prepare(file, cache, SHAPES, 1.0).ones
    assert json.loads(plan.read_text())["ones"] is True


def seconds(zeros: float | Exception, ones: float | Exception) -> Callable[[bool], float]:
    def took_s(with_ones: bool) -> float:
        found = ones if with_ones else zeros
        if isinstance(found, Exception):
            raise found
        return found

    return took_s


FAILS = ModelError("it fails")


@pytest.mark.parametrize(
    "zeros, ones, longer",
    [(1.0, 1.1 * CLEARLY, True), (1.0, 0.9 * CLEARLY, False), (FAILS, 0.0, True), (1.0, FAILS, False),
     (1.0, RuntimeError("bad_alloc"), False)],
)  # fmt: skip
def test_the_longer_one_that_runs_is_taken(
    zeros: float | Exception, ones: float | Exception, longer: bool
) -> None:
    assert ones_take_longer(seconds(zeros, ones)) is longer


def test_where_both_fail_the_first_reason_is_told() -> None:
    with pytest.raises(ModelError, match="it fails"):
        ones_take_longer(seconds(FAILS, ModelError("another reason")))


def test_ones_that_make_a_loop_endless_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a network is loaded as before."""
    monkeypatch.setattr(values, "MOST_S", 0.1)
    text = """(bool[1] on, float x) => (float y) <int64 many = {1000000000000}, int64[0] none = {}> {
        first = Reshape (on, none)
        y = Loop (many, first, x) <body = b (int64 i, bool c, float a) => (bool d, float e)
            { d = Identity (c) e = Neg (a) }>
    }"""
    file = tmp_path / "loop.onnx"
    file.write_bytes(onnx.parser.parse_model(HEAD + text).SerializeToString())
    assert not load_network(str(file), str(tmp_path / "cache"), {}, 1e-3).ones

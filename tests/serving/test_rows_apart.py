"""Which networks answer each row as if it were alone: only their requests share a run."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from eunomia.serving.devices.cutting import PLAN, kept, prepare
from eunomia.serving.devices.loading import LOAD_S
from eunomia.serving.devices.network import load_network
from eunomia.serving.devices.rows import TRIED_S, rows_are_apart
from eunomia.study.serving.server import _beside
from tests.serving.live import ADMIN, GOLD, Entry, ask, options, running
from tests.serving.test_loading import Loads
from tests.serving.test_two_devices import Bench

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
FLAT = "(float[n, 4] x) => (float[n, 4] y) "
TABLE = (
    "(int64[n, 2] x) => (float[n, 2, 2] y) <float[9, 2] t = {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17}> "
)
TWICE = "(float[n, 4] x, float[n, 4] w) => (float[n, 4] y) "
APART = {
    "dense": FLAT + "<float[4, 4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}> { z = MatMul (x, w) y = Relu (z) }",
    "softmax of a row": FLAT + "{ y = Softmax <axis = 1> (x) }",
    "norm of a row": FLAT + "{ m = ReduceMean <axes = [1]> (x) y = Sub (x, m) }",
    "table": TABLE + "{ y = Gather (t, x) }",
    "table of two": "(int64[n] x) => (float[n, 2] y) <float[2, 2] t = {0,1,2,3}> { y = Gather (t, x) }",
    "two inputs": TWICE + "{ y = Mul (x, w) }",
    "picture": "(float[n, 1, 6, 6] x) => (float[n, 1, 4, 4] y) <float[1, 1, 3, 3] w = {1,2,3,4,5,6,7,8,9}> "
    "{ y = Conv (x, w) }",
    "half": "(float16[n, 4] x) => (float16[n, 4] y) { y = Exp (x) }",
    "bfloat16": "(float[n, 4] x) => (bfloat16[n, 4] y) { y = Cast <to = 16> (x) }",
    "yes or no": "(bool[n, 4] x) => (bool[n, 4] y) { y = Not (x) }",
    "divisor": "(int64[n, 2] x) => (int64[n, 2] y) <int64[1] a = {60}> { y = Div (a, x) }",
    "index": "(float[n] x) => (float[n, 2] y) <float[2, 2] t = {0,1,2,3}, int64[2] s = {-1, 1}> "
    "{ i = Cast <to = 7> (x) g = Gather (t, i) u = Reshape (x, s) y = Add (g, u) }",
    "texts": "(string[n] x) => (string[n] y) { y = Identity (x) }",
}
TOGETHER = {
    "mean of all rows": FLAT + "{ m = ReduceMean <axes = [0]> (x) y = Sub (x, m) }",
    "softmax over rows": FLAT + "{ y = Softmax <axis = 0> (x) }",
    "running sum": FLAT + "<int64 a = {0}> { y = CumSum (x, a) }",
    "attention": FLAT + "{ t = Transpose (x) s = MatMul (x, t) p = Softmax <axis = 1> (s) y = MatMul (p, x) }",
    "attention over a table": TABLE
    + "{ e = Gather (t, x) m = ReduceMean <axes = [0]> (e) y = Add (e, m) }",
    "order": FLAT
    + "<int64 a = {0}> { s = Shape (x) k = Gather (s, a) q = Unsqueeze (k, row_axis) y, i = TopK <axis = 0> (x, q) }",
    "a week before": FLAT + "<int64[4] pads = {7, 0, 0, 0}, int64[2] from = {0, 0}, int64[2] to = {-7, 4}> "
    "{ p = Pad (x, pads) w = Slice (p, from, to) y = Sub (x, w) }",
    "reversed": FLAT + "<int64[1] s = {-1}, int64[1] e = {-100}, int64[1] a = {0}> { y = Slice (x, s, e, a, s) }",
    "window over rows": FLAT + "<float[1, 1, 3, 1] w = {1,2,3}> { u = Unsqueeze (x, two_axes) "
    "c = Conv <pads = [1, 0, 1, 0]> (u, w) y = Squeeze (c, two_axes) }",
    "random numbers": FLAT + "{ r = RandomNormalLike (x) y = Add (x, r) }",
    "one sum": "(float[n, 4] x) => (float[m, 4] y) <int64[1] a = {0}> { y = ReduceSum <keepdims = 1> (x, a) }",
    "rows that count": "(float[n, 4] x) => (int64[m, 2] y) { i = NonZero (x) y = Transpose (i) }",
    "two rows at least": FLAT + "<int64[2] s = {-1, 8}> { z = Reshape (x, s) y = Identity (x) }",
    "not a number": FLAT + "{ l = Neg (x) y = Log (l) }",
    "infinity": FLAT + "{ z = Sub (x, x) y = Reciprocal (z) }",
    "one label for all": "(float[n, 4] x) => (int64[n, 4] y) { c = Cast <to = 7> (x) "
    "m = ReduceMax <axes = [0]> (c) y = Add (c, m) }",
    "rows last": "(float[4, n] x) => (float[4, n] y) { y = Relu (x) }",
    "any of the rows": "(bool[n, 4] x) => (bool[n, 4] y) { c = Cast <to = 6> (x) m = ReduceMax <axes = [0]> (c) "
    "b = Cast <to = 9> (m) y = Or (x, b) }",
    "loudest of all rows": FLAT + "<float c = {1.0}> { m = ReduceMax <keepdims = 0> (x) k = Max (m, c) "
    "y = Div (x, k) }",
    "texts of the first row": "(string[n] x) => (string[n] y) <int64[1] z = {0}> { f = Gather (x, z) s = Shape (x) "
    "y = Expand (f, s) }",
}  # fmt: skip


def written(folder: Path, text: str) -> Path:
    """As a file; ``row_axis`` and ``two_axes`` are constants that some need."""
    model = onnx.parser.parse_model(HEAD + text)
    used = {name for node in model.graph.node for name in node.input}
    made = {weight.name for weight in model.graph.initializer}
    for name, axes in (("row_axis", [0]), ("two_axes", [0, 1])):
        if name in used - made:
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(axes), name))
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(("text", "apart"), [
    *(pytest.param(text, True, id=name) for name, text in APART.items()),
    *(pytest.param(text, False, id=name) for name, text in TOGETHER.items()),
])  # fmt: skip
def test_rows_are_apart_where_each_is_answered_as_alone(text: str, apart: bool, tmp_path: Path) -> None:
    shapes: dict[str, list[int]] = {"x": [2, 4]} if "int64[2] s = {-1, 8}" in text else {}
    network = load_network(str(written(tmp_path, text)), str(tmp_path), shapes, 1e-3)
    assert rows_are_apart(network) is apart


COMPRESSED = (
    "(float[n, 4] x) => (float[n, 2] y) <bool[4] c = {1, 0, 1, 0}> { y = Compress <axis = 1> (x, c) }"
)
BELOW_ZERO = FLAT + "{ z = Sub (x, x) l = Min (x, z) m = ReduceMin <axes = [0]> (l) y = Add (x, m) }"
LOUDEST_SO_FAR = (
    FLAT + "{ a = Abs (x) m = ReduceMax <axes = [1]> (a) t = Transpose (m) u = Unsqueeze (t, row_axis) "
    "p = MaxPool <kernel_shape = [50], pads = [49, 0]> (u) s = Squeeze (p, row_axis) v = Transpose (s) y = Div (x, v) }"
)


@pytest.mark.parametrize("text", [BELOW_ZERO, LOUDEST_SO_FAR], ids=["below zero", "loudest so far"])
def test_rows_below_zero_and_the_largest_first_are_tried_too(text: str, tmp_path: Path) -> None:
    """Three rows above zero, each larger than the last, were answered as alone; so it seemed of others."""
    network = load_network(str(written(tmp_path, text)), str(tmp_path), {}, 1e-3)
    assert network.together and not rows_are_apart(network), "the graph says so"
    assert not rows_are_apart(network, vouched=True), "and so does the trial"


@pytest.mark.parametrize("text", [COMPRESSED, TOGETHER["mean of all rows"]])
def test_an_operator_vouches_for_what_no_graph_proves(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Unless three rows say the contrary, which the log says."""
    apart = text is COMPRESSED
    folder = tmp_path / "models"
    folder.mkdir()
    words = (
        ("", False),
        ("rows_apart = true", apart),
        ("rows_apart = false", False),
        ("rows_apart = true", apart),
    )
    written(folder, text)
    with running(tmp_path, models_dir=folder, beside=_beside) as server, caplog.at_level(logging.INFO):
        for said, wanted in words:
            caplog.clear()
            (folder / "net.toml").write_text(said)
            assert ask(server, "POST", "/v2/repository/models/net/load", ADMIN)[0] == 200
            index = server.pool.models["net"].network.index
            assert (index in server.pool.costs.by_row) is wanted
            told = [(r.levelname, r.message) for r in caplog.records if "share no run" in r.message]
            levels = {"": ["INFO"], "rows_apart = true": ["WARNING"] * (not apart)}.get(said, [])
            assert [level for level, _ in told] == levels
            assert all(("rows_apart = true" in text) is (not said) for _, text in told)


def test_a_network_whose_rows_are_together_by_an_operator_s_word_is_not_tried(tmp_path: Path) -> None:
    """And one that is vouched for is, however long that takes."""

    async def main() -> None:
        device = Loads({})
        orders = list[Any]()
        tell = device.tell
        device.tell = lambda message: (orders.append(message), tell(message))[1]  # type: ignore[method-assign]
        for word in (None, False, True):
            await device.loading.load("net", "", {}, apart=word)
            assert device.loading.models["net"].apart is word
        told = [(order.get("rows_most_s"), order.get("rows_apart")) for order in orders]
        assert told == [(TRIED_S, None), (None, None), (LOAD_S, True)]

    asyncio.run(main())


def test_the_proof_stays_with_the_cut(tmp_path: Path) -> None:
    """A cut of a server that knew none is made anew."""
    path = written(tmp_path, APART["dense"])
    cut = prepare(str(path), str(tmp_path), {}, 1.0)
    again = kept(str(path), str(tmp_path), {}, 1.0)
    assert again is not None and (cut.together, again.together) == ("", "")
    plan = json.loads((cut.folder / PLAN).read_text())
    del plan["together"]
    (cut.folder / PLAN).write_text(json.dumps(plan))
    assert kept(str(path), str(tmp_path), {}, 1.0) is None
    assert prepare(str(path), str(tmp_path), {}, 1.0).together == ""


def test_requests_of_a_sequence_are_answered_as_if_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The server joins requests; those of a network that looks at all rows it does not, and says so once."""
    path = written(tmp_path, TOGETHER["attention"])
    chosen = replace(options(tmp_path).dispatch, max_batch=8)
    rng = np.random.default_rng(0)
    inputs = [rng.random((1 + n % 3, 4), np.float32) for n in range(48)]
    with (
        caplog.at_level(logging.WARNING),
        running(tmp_path, networks=[Entry("attention", path)], dispatch=chosen) as server,
    ):

        def one(x: np.ndarray) -> list[float]:
            tensor = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}
            status, content = ask(server, "POST", "/v2/models/attention/infer", GOLD, {"inputs": [tensor]})
            assert status == 200, content
            return content["outputs"][0]["data"]  # type: ignore[no-any-return]

        with ThreadPoolExecutor(8) as crowd:
            answers = list(crowd.map(one, inputs))
    for x, answer in zip(inputs, answers, strict=True):
        weights = np.exp(x @ x.T)
        wanted = weights / weights.sum(1, keepdims=True) @ x
        np.testing.assert_allclose(np.reshape(answer, x.shape), wanted, rtol=1e-4)
    assert [r.message.count("share no run") for r in caplog.records if "share no run" in r.message] == [1]


@pytest.mark.parametrize(
    ("batches", "most_s", "tried_s"), [(False, 0.0, TRIED_S), (True, 0.0, LOAD_S), (True, 1.0, None)]
)
def test_long_networks_are_tried_for_batches_where_these_are_asked_for(
    batches: bool, most_s: float, tried_s: float | None
) -> None:
    """Not by sizes that clients chose."""

    async def main() -> None:
        device = Loads({})
        device.loading.batches = batches
        orders = []
        tell = device.tell
        device.tell = lambda message: (orders.append(message), tell(message))[1]  # type: ignore[method-assign]
        await device.loading.load("net", "", {}, most_s=most_s)
        assert [order.get("rows_most_s") for order in orders] == [tried_s]
        assert bool(device.loading._costs.apart) == (not most_s)

    asyncio.run(main())


def test_clients_sizes_change_nothing_of_whether_requests_share_runs(tmp_path: Path) -> None:
    """Three rows were tried again by sizes that a client chose, six times all blocks beside others' requests."""

    async def main() -> None:
        bench = Bench(tmp_path)
        models, apart = bench.pool.models, bench.pool.costs.apart

        async def load(name: str, path: str, shapes: Any, cut: str, most_s: float, apart: Any) -> Any:
            network = bench.pool.costs.add(name, 1)
            bench.pool.loading.models[name] = replace(models[name], network=network)

        bench.pool.load = load  # type: ignore[method-assign]
        await bench.pool._cut_by(models["net"], {}, 1.0)
        assert not apart
        apart.add(models["net"].network.index)
        await bench.pool._cut_by(models["net"], {}, 1.0)
        assert models["net"].network.index in apart

    asyncio.run(main())

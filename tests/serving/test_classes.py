"""The classification extension: stock clients ask for the largest values of an output, each with its place."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser

from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.strings import Strings
from eunomia.serving.protocol import ranking
from eunomia.serving.protocol.checks import check_outputs
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import InferRequest, WantedOutput
from eunomia.serving.protocol.ranking import AT_ONCE_VALUES, MOST_TEXTS, MOST_VALUES, largest, with_classes
from eunomia.serving.server import Server
from tests.serving.live import GOLD, SIDE, ask, running
from tests.serving.made_up import examples

IMAGES = np.random.default_rng(3).random((2, 3, SIDE, SIDE), np.float32)
ROWS: Ports = {kind: [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}] for kind in ("inputs", "outputs")}  # type: ignore[assignment]
WHOLE: Ports = {kind: [{"name": "y", "datatype": "FP32", "shape": [2, 4]}] for kind in ("inputs", "outputs")}  # type: ignore[assignment]


WIDE = """<ir_version: 9, opset_import: ["" : 20]> wide (int64[1] x) => (float[n] y) {
    y = ConstantOfShape <value = float[1] {0.5}> (x) }"""


def classes(values: Any, count: int, ports: Ports = ROWS) -> list[Any]:
    (found,) = with_classes([WantedOutput("y", classes=count)], {"y": np.asarray(values)}, ports).values()
    assert isinstance(found, Strings)
    return np.array(found.texts(), object).reshape(found.shape).tolist()  # type: ignore[no-any-return]


def test_worked_by_hand() -> None:
    """As Triton writes them: six digits behind the point, rows apart for a network with batches."""
    values = np.array([[0.5, 2.25, -1.0, 2.0], [7.0, 7.0, 0.0, -0.125]], np.float32)
    assert classes(values, 2) == [["2.250000:1", "2.000000:3"], ["7.000000:0", "7.000000:1"]]
    assert classes(values, 2, WHOLE) == ["7.000000:4", "7.000000:5"]
    assert classes(values, 9)[0] == ["2.250000:1", "2.000000:3", "0.500000:0", "-1.000000:2"]
    assert classes(np.array([[3, 2**40]]), 1) == [["1099511627776:1"]]
    assert classes(np.array([[4, 7, 6, 5]]) + 2**62, 2) == [[f"{2**62 + 7}:1", f"{2**62 + 6}:2"]]
    assert classes(np.array([[2**64 - 1, 5, 2**63, 1]], np.uint64), 2) == [[f"{2**64 - 1}:0", f"{2**63}:2"]]
    assert classes(np.array([[-3, 2, -1, 0]], np.int8), 3) == [["2:1", "0:3", "-1:2"]]
    assert classes(np.array([[math.nan, 1.0, math.inf]]), 3) == [["inf:2", "1.000000:1", "nan:0"]]
    assert classes(np.zeros((0, 4)), 3) == []
    assert classes(np.array([[math.nan, 1.0, 2.0]], np.float16), 3) == [["2.000000:2", "1.000000:1", "nan:0"]]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_number_has_no_more_digits_than_anybody_reads(kind: type[np.floating[Any]]) -> None:
    """As it was, 300 each: 1,024 of them held the event loop for 30 ms."""
    most, long = float(np.finfo(kind).max), len("-1000000000000000.000000:0")
    assert all(
        len(text) <= long for text in classes([np.array([most, -most, min(1e15, most), 999.5], kind)], 4)[0]
    )
    assert classes(np.array([[1e300, 123456789012345.25, -2.5e15]]), 3) == [
        ["1e+300:0", "123456789012345.250000:1", "-2.5e+15:2"]
    ]


@examples(2.0)
@given(size=st.integers(1, 60), count=st.integers(1, 70), spread=st.integers(1, 100), seed=st.integers(0, 99))
def test_they_are_those_that_sorting_gives(size: int, count: int, spread: int, seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, spread, (3, size)).astype(np.float32)
    for row, places in zip(table, largest(table, min(count, size)), strict=True):
        assert places.tolist() == sorted(range(size), key=lambda n: (-row[n], n))[:count]


@pytest.mark.parametrize(
    ("values", "count", "says"),
    [
        (Strings.of(np.array(["a"], object)), 1, "has no numbers to rank"),
        (
            np.zeros((1, MOST_VALUES + 1), np.float32),
            1,
            f"1 classes of {MOST_VALUES + 1} values;",
        ),
        (
            np.zeros((MOST_TEXTS + 1, 2), np.float32),
            1,
            f"{MOST_TEXTS + 1} classes of {2 * MOST_TEXTS + 2} values",
        ),
    ],
)
def test_what_cannot_be_ranked_is_one_sentence(values: Any, count: int, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        with_classes([WantedOutput("y", classes=count)], {"y": values}, ROWS)


def test_bounds_are_those_of_a_request() -> None:
    """As it was, they were those of an output, and fifty held the event loop for 51 ms."""
    outputs = {name: np.zeros((1, MOST_VALUES // 2 + 1), np.float32) for name in "ab"}
    wanted = [WantedOutput(name, classes=1) for name in outputs]
    assert with_classes(wanted[:1], outputs, ROWS)["b"] is outputs["b"]
    with pytest.raises(BadRequest, match=f"2 classes of {MOST_VALUES + 2} values; at most"):
        with_classes(wanted, outputs, ROWS)


@pytest.mark.parametrize("datatype", ["BYTES", "BOOL"])
def test_what_has_no_classes_is_told_before_it_runs(datatype: str) -> None:
    ports: Ports = {"inputs": [], "outputs": [{"name": "y", "datatype": datatype, "shape": [-1]}]}  # type: ignore[typeddict-item]
    with pytest.raises(BadRequest, match=f"output 'y' is {datatype}, of which there are no classes"):
        check_outputs(ports, InferRequest("m", outputs=(WantedOutput("y", classes=3),)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "wide.onnx").write_bytes(parser.parse_model(WIDE).SerializeToString())
    with running(folder, load_all=True) as live:
        yield live


@pytest.mark.parametrize("count", [AT_ONCE_VALUES, AT_ONCE_VALUES + 1, MOST_VALUES, MOST_VALUES + 1])
def test_many_values_are_ranked_beside_the_event_loop(
    server: Server, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """As it was, all were in it: four connections that asked for 1,024 classes made turns of 10 ms."""
    names = list[str]()

    def noting(table: Any, wanted: int) -> Any:
        names.append(threading.current_thread().name)
        return largest(table, wanted)

    monkeypatch.setattr(ranking, "largest", noting)
    length = {"name": "x", "datatype": "INT64", "shape": [1], "data": [count]}
    output = {"name": "y", "parameters": {"classification": 2}}
    status, said = ask(
        server, "POST", "/v2/models/wide/infer", GOLD, {"inputs": [length], "outputs": [output]}
    )
    if count > MOST_VALUES:
        assert status == 400 and f"of {count} values" in said["error"] and not names
        return
    assert status == 200, said
    assert said["outputs"][0]["data"] == ["0.500000:0", "0.500000:1"]
    assert len(names) == 1 and names[0].startswith("answers") == (count > AT_ONCE_VALUES)


@pytest.mark.parametrize("kind", ["http", "grpc"])
@pytest.mark.parametrize("binary", [True, False])
def test_stock_clients_get_them(server: Server, kind: str, binary: bool) -> None:
    module = pytest.importorskip(f"tritonclient.{kind}")
    stub = module.InferenceServerClient(
        f"127.0.0.1:{server.http_port if kind == 'http' else server.grpc_port}"
    )
    tensor = module.InferInput("image", list(IMAGES.shape), "FP32")
    tensor.set_data_from_numpy(IMAGES)
    more = {"binary_data": binary} if kind == "http" else {}
    headers = {"authorization": f"Bearer {GOLD}"}
    plain = stub.infer("small", [tensor], headers=headers).as_numpy("logits")
    wanted = [module.InferRequestedOutput("logits", class_count=3, **more)]
    found = stub.infer("small", [tensor], outputs=wanted, headers=headers).as_numpy("logits")
    assert found.shape == (2, 3)
    for row, texts in zip(plain, found, strict=True):
        said = [text.decode() if isinstance(text, bytes) else text for text in texts]
        assert said == [f"{row[n]:f}:{n}" for n in np.argsort(-row)[:3]]
    stub.close()


@pytest.mark.parametrize("wrong", [-1, "three", 1.5, True])
def test_a_number_of_classes_that_is_none(server: Server, wrong: Any) -> None:
    image = {
        "name": "image",
        "datatype": "FP32",
        "shape": list(IMAGES.shape),
        "data": IMAGES.ravel().tolist(),
    }
    content = {"inputs": [image], "outputs": [{"name": "logits", "parameters": {"classification": wrong}}]}
    status, said = ask(server, "POST", "/v2/models/small/infer", GOLD, content)
    assert status == 400 and f"classification is {json.dumps(wrong)}; a whole number" in said["error"]

"""Clients of a folder made for Triton see the shapes that its ``reshape`` gives them, over both protocols."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError
from eunomia.serving.devices.messages import Ports
from eunomia.serving.protocol.pieces import Pieces, ScatteredTensor
from eunomia.serving.protocol.reshape import Reshape, as_clients_see, as_the_network_has, presented
from tests.serving.live import ADMIN, ask, running
from tests.serving.test_beside import load

QUICK_START = """
name: "picture"
platform: "onnxruntime_onnx"
max_batch_size: 0
input [ { name: "data" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 4, 4 ] reshape { shape: [ 1, 3, 4, 4 ] } } ]
output [ { name: "fc" data_type: TYPE_FP32 dims: [ 3 ] reshape { shape: [ 1, 3, 1, 1 ] } label_filename: "names.txt" } ]
"""  # the form of densenet_onnx in Triton's quick start
ROWS = """
max_batch_size: 4
input [ { name: "data" data_type: TYPE_FP32 dims: [ 48 ] reshape { shape: [ 3, 4, 4 ] } } ]
output [ { name: "fc" data_type: TYPE_FP32 dims: [ 3 ] reshape { shape: [ 3, 1, 1 ] } } ]
"""


def picture(folder: Path, config: str, rows: str) -> None:
    """Means of three channels; its first axis is ``rows``."""
    import onnx

    graph = (
        f"(float[{rows}, 3, 4, 4] data) => (float[{rows}, 3, 1, 1] fc) {{ fc = GlobalAveragePool (data) }}"
    )
    home = folder / "picture"
    (home / "1").mkdir(parents=True)
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g ' + graph)
    (home / "1" / "model.onnx").write_bytes(model.SerializeToString())
    (home / "config.pbtxt").write_text(config)
    (home / "names.txt").write_text("red\ngreen\nblue\n")


def asked(server: Any, shape: tuple[int, ...], *, grpc: bool, classes: int = 0) -> Any:
    """The answer to channels of 1, 2 and 3."""
    kit = triton_grpc if grpc else triton_http
    port = server.grpc_port if grpc else server.http_port
    key = "authorization" if grpc else "Authorization"
    values = np.repeat(np.array([1, 2, 3], np.float32), 16)
    with kit.InferenceServerClient(f"127.0.0.1:{port}") as client:
        tensor = kit.InferInput("data", shape, "FP32")
        tensor.set_data_from_numpy(np.resize(values, shape))
        wanted = kit.InferRequestedOutput("fc", class_count=classes)
        answer = client.infer("picture", [tensor], outputs=[wanted], headers={key: f"Bearer {ADMIN}"})
        return answer.as_numpy("fc")


@pytest.mark.parametrize("grpc", [False, True], ids=["http", "grpc"])
def test_a_client_sends_and_gets_the_shapes_of_the_configuration(tmp_path: Path, grpc: bool) -> None:
    """It was refused: 'model takes [1, 3, 4, 4]'."""
    picture(tmp_path / "models", QUICK_START, "1")
    with running(tmp_path, models_dir=tmp_path / "models") as server:
        assert load(server, "picture")[0] == 200
        found = asked(server, (3, 4, 4), grpc=grpc)
        assert found.shape == (3,) and found.tolist() == [1, 2, 3]
        assert asked(server, (3, 4, 4), grpc=grpc, classes=2).tolist() == [
            b"3.000000:2:blue",
            b"2.000000:1:green",
        ]
        with pytest.raises(Exception, match=r"has shape \[1, 3, 4, 4\]; model 'picture' takes \[3, 4, 4\]"):
            asked(server, (1, 3, 4, 4), grpc=grpc)
        config = ask(server, "GET", "/v2/models/picture/config", ADMIN)[1]
        assert config["max_batch_size"] == 0 and config["input"][0]["format"] == "FORMAT_NCHW"
        told = ask(server, "GET", "/v2/models/picture", ADMIN)[1]
        assert [told[side][0]["shape"] for side in ("inputs", "outputs")] == [[3, 4, 4], [3]]


def test_rows_are_the_first_axis_of_both_shapes(tmp_path: Path) -> None:
    picture(tmp_path / "models", ROWS, "n")
    with running(tmp_path, models_dir=tmp_path / "models") as server:
        assert load(server, "picture")[0] == 200
        assert asked(server, (2, 48), grpc=False).tolist() == [[1, 2, 3], [1, 2, 3]]
        assert ask(server, "GET", "/v2/models/picture/config", ADMIN)[1]["input"][0]["dims"] == [48]


def test_a_reshape_that_does_not_fit_is_refused_and_the_one_before_serves(tmp_path: Path) -> None:
    picture(tmp_path / "models", QUICK_START, "1")
    place = tmp_path / "models" / "picture" / "config.pbtxt"
    with running(tmp_path, models_dir=tmp_path / "models") as server:
        assert load(server, "picture")[0] == 200
        for wrong, says in {
            "dims: [ 3 ] reshape": "dims: [ 4 ] reshape",
            "shape: [ 1, 3, 1, 1 ]": "shape: [ 3, 1, 1 ]",
        }.items():
            place.write_text(QUICK_START.replace(wrong, says))
            status, content = load(server, "picture")
            assert status == 400 and "does not load: config.pbtxt: reshape of '" in content["error"]
        (port,) = ask(server, "GET", "/v2/models/picture/config", ADMIN)[1]["input"]
        assert (port["format"], port["dims"]) == ("FORMAT_NCHW", [3, 4, 4])
        assert asked(server, (3, 4, 4), grpc=False).tolist() == [1, 2, 3]


def ports(**shapes: list[int]) -> Ports:
    """Of inputs alone."""
    return {"inputs": [{"name": n, "datatype": "FP32", "shape": s} for n, s in shapes.items()], "outputs": []}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_there_and_back_is_the_same(shape: list[int], data: st.DataObject) -> None:
    """Sizes of 1 in any places, free axes in their order: the bytes never move."""
    free = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    own = [-1 if loose else size for loose, size in zip(free, shape, strict=True)]
    seen, sizes = list(own), list(shape)
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(seen)))
        seen.insert(place, 1)
        sizes.insert(place, 1)
    its = presented(ports(x=own), {"x": Reshape(tuple(seen), tuple(own))})
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(sizes)
    there = as_the_network_has(its, {"x": values})["x"]
    assert there.shape == tuple(shape)
    back = as_clients_see(its, {"x": there})["x"]
    assert isinstance(back, np.ndarray) and np.array_equal(back, values)
    raw = Pieces([memoryview(values.tobytes())])
    scattered = as_the_network_has(its, {"x": ScatteredTensor(values.dtype, values.shape, raw)})["x"]
    assert scattered.shape == tuple(shape) and scattered.nbytes == values.nbytes


@pytest.mark.parametrize(
    ("seen", "own"),
    [((-1, 4), (4, 4)), ((2, 4), (4, 4)), ((-1, 8), (-1, 4)), ((4,), (2, 2)), ((-1, 16), (-1, -1))],
)
def test_sizes_that_cannot_be_the_same_tensor_are_refused(
    seen: tuple[int, ...], own: tuple[int, ...]
) -> None:
    with pytest.raises(ConfigError, match="reshape of 'x' makes"):
        presented(ports(x=[-1, 4]), {"x": Reshape(seen, own)})

"""A network of ``models_dir`` has a TOML file beside it for what a ``[[network]]`` says: shapes, empty inputs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from eunomia.config.beside import beside_from
from eunomia.core.errors import ConfigError
from eunomia.serving.models.beside import Beside, file_beside
from eunomia.serving.server import Server
from eunomia.study.serving.server import _beside
from tests.serving.live import ADMIN, GOLD, ask, running

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
CACHE = (
    "(float[n, w, 4] x, float[n, past, 4] kept) => (float[n, all, 4] y) { y = Concat <axis = 1> (kept, x) }"
)


def decoder(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(onnx.parser.parse_model(HEAD + CACHE).SerializeToString())
    return path


def unranked(path: Path) -> Path:
    """Its input may have any number of axes, of which only two run."""
    model = onnx.parser.parse_model(
        HEAD + "(float[n, w] x) => (float[w, n] y) { y = Transpose <perm = [1, 0]> (x) }"
    )
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.ClearField("shape")
    path.write_bytes(model.SerializeToString())
    return path


def load(server: Server, name: str) -> tuple[int, Any]:
    return ask(server, "POST", f"/v2/repository/models/{name}/load", ADMIN)


def infer(server: Server, name: str, **inputs: list[int]) -> tuple[int, Any]:
    tensors = [
        {
            "name": key,
            "datatype": "FP32",
            "shape": shape,
            "data": [float(n) for n in range(int(np.prod(shape)))],
        }
        for key, shape in inputs.items()
    ]
    return ask(server, "POST", f"/v2/models/{name}/infer", GOLD, {"inputs": tensors})


@pytest.mark.parametrize(
    ("network", "beside"),
    [
        ("net.onnx", "net.toml"),
        ("net/model.onnx", "net/config.toml"),
        ("net/3/model.onnx", "net/config.toml"),
    ],
)
def test_an_empty_cache_is_allowed_beside_the_network(tmp_path: Path, network: str, beside: str) -> None:
    """It was refused with a hint at [[network]], where no network of the folder stands."""
    folder = tmp_path / "models"
    path, options = decoder(folder / network), folder / beside
    options.write_text("empty = false")
    with running(tmp_path, models_dir=folder, beside=_beside) as server:
        assert load(server, "net")[0] == 200
        status, content = infer(server, "net", x=[1, 2, 4], kept=[1, 0, 4])
        assert status == 400 and f"empty = true in {beside} of models_dir allows" in content["error"]
        options.write_text("empty = true\nshapes = { kept = [1, 5, 4] }\n")
        assert infer(server, "net", x=[1, 2, 4], kept=[1, 0, 4])[0] == 400, "it counts from the next load on"
        assert load(server, "net")[0] == 200
        status, content = infer(server, "net", x=[1, 2, 4], kept=[1, 0, 4])
        assert status == 200, content
        feed = {"x": np.arange(8, dtype=np.float32).reshape(1, 2, 4), "kept": np.zeros((1, 0, 4), np.float32)}
        (wanted,) = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feed)
        assert content["outputs"][0]["data"] == np.asarray(wanted).ravel().tolist()
        (key,) = [key for key in server.pool.models if key.startswith("net")]
        assert server.pool.models[key].shapes["kept"] == [1, 5, 4]


def test_what_is_wrong_beside_a_network_is_named_and_the_old_one_serves_on(tmp_path: Path) -> None:
    decoder(tmp_path / "net.onnx")
    options = tmp_path / "net.toml"
    options.write_text("empty = true")
    with running(tmp_path, beside=_beside) as server:
        assert load(server, "net")[0] == 200
        for text, said in (
            (
                "shape = { x = [1] }",
                "unknown key 'shape'; did you mean 'shapes'? it takes: shapes, empty, rows_apart, labels",
            ),
            ('onnx = "other.onnx"', "unknown key 'onnx'; it takes: shapes, empty, rows_apart, labels"),
            ("empty = 1", "empty is 1; it must be true or false"),
            ("empty = ", "is not valid TOML"),
            ("shapes = { z = [1, 2, 4] }", "shapes names 'z', which is no input"),
        ):
            options.write_text(text)
            status, content = load(server, "net")
            assert status == 400 and said in content["error"], content
            assert infer(server, "net", x=[1, 2, 4], kept=[1, 0, 4])[0] == 200
        options.write_text("empty = false")
        assert load(server, "net")[0] == 200
        assert infer(server, "net", x=[1, 2, 4], kept=[1, 0, 4])[0] == 400


def test_an_input_without_a_rank_gets_one_beside_the_network(tmp_path: Path) -> None:
    unranked(tmp_path / "turn.onnx")
    with running(tmp_path, beside=_beside) as server:
        status, content = load(server, "turn")
        assert (
            status == 400
            and "give all as shapes in its [[network]], or of models_dir in NAME.toml" in str(content)
        )
        (tmp_path / "turn.toml").write_text("shapes = { x = [1, 1] }")
        assert load(server, "turn")[0] == 200
        status, content = infer(server, "turn", x=[2, 3])
        assert status == 200 and content["outputs"][0]["data"] == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]


def test_an_input_without_a_rank_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was ready, and all requests with more than one axis were refused."""
    model = onnx.parser.parse_model(HEAD + "(float[n] x) => (float[n] y) { y = Add (x, x) }")
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.ClearField("shape")
    (tmp_path / "twice.onnx").write_bytes(model.SerializeToString())
    with caplog.at_level(logging.WARNING), running(tmp_path, beside=_beside) as server:
        assert load(server, "twice")[0] == 200 and infer(server, "twice", x=[2, 3])[0] == 400
        said = [text for text in caplog.messages if "how many axes input 'x' has" in text]
        assert len(said) == 1 and said[0].endswith("give its sizes as shapes in twice.toml of models_dir")
        (tmp_path / "twice.toml").write_text("shapes = { x = [1, 1] }")
        assert load(server, "twice")[0] == 200 and infer(server, "twice", x=[2, 3])[0] == 200
        assert sum("how many axes" in text for text in caplog.messages) == 1


@pytest.mark.parametrize(
    "graph", ["(float[n] x) => (float[n] x) { }", "(float[n] x, float[n] z) => (float[n] z) { }"]
)
def test_a_network_that_computes_nothing_does_not_load(tmp_path: Path, graph: str) -> None:
    """It was ready, and each request got the runtime's "At least one output should be requested"."""
    (tmp_path / "none.onnx").write_bytes(onnx.parser.parse_model(HEAD + graph).SerializeToString())
    with running(tmp_path) as server:
        status, content = load(server, "none")
        assert (
            status == 400
            and "it computes nothing: all its outputs are inputs; put a node" in content["error"]
        )


def test_files_beside_networks_are_read_as_tables_of_networks_are(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text("shapes = { x = [0] }")
    with pytest.raises(ConfigError, match=r"net.toml: shapes.x.0 is 0; it must be at least 1"):
        beside_from(file)
    file.write_text("")
    assert _beside(file) == Beside()
    assert file_beside(tmp_path, tmp_path / "a.b.onnx") == tmp_path / "a.b.toml"

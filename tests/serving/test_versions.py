"""Versions of a network: found in numbered folders, the newest served, replaced beside traffic, and none lost."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from eunomia.core.errors import ModelError
from eunomia.serving.blocks.optimise import content_key
from eunomia.serving.models.entry import Entry
from eunomia.serving.models.repository import Repository
from eunomia.serving.protocol.errors import NotFound
from eunomia.serving.server import Server
from eunomia.serving.tenants.grants import Grant
from tests.patience import until
from tests.serving.live import ADMIN, GOLD, ask, running


def times(number: float) -> bytes:
    """y = x * number."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch"]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "by"], ["y"])], "times", ports[:1], ports[1:],
        [helper.make_tensor("by", TensorProto.FLOAT, [], [number])],
    )  # fmt: skip
    model: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return model


def put(folder: Path, version: int, content: bytes | None = None) -> None:
    """A version that multiplies by its number."""
    path = folder / "models" / "times" / str(version) / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(times(version) if content is None else content)


def load(server: Server, words: str = "") -> None:
    status, content = ask(server, "POST", "/v2/repository/models/times/load", ADMIN)
    assert (status == 200) is not bool(words) and words in str(content), content


def infer(server: Server, version: str = "") -> tuple[str, float]:
    """Which version answered, and what 1 becomes."""
    place = f"/v2/models/times{f'/versions/{version}' if version else ''}/infer"
    tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}
    status, content = ask(server, "POST", place, GOLD, {"inputs": [tensor]})
    return (
        (content["model_version"], content["outputs"][0]["data"][0]) if status == 200 else (str(status), 0.0)
    )


def index(server: Server) -> dict[str, str]:
    found = ask(server, "POST", "/v2/repository/index", ADMIN, {})[1]
    return {entry["version"]: entry["state"] for entry in found if entry["name"] == "times"}


def test_the_newest_serves_and_an_older_one_until_it_does(tmp_path: Path) -> None:
    for version in (2, 10):
        put(tmp_path, version)
    with running(tmp_path, models_dir=tmp_path / "models") as server:
        load(server)
        assert infer(server) == infer(server, "10") == ("10", 10.0)
        assert infer(server, "2") == ("503", 0.0) and infer(server, "7") == ("404", 0.0)
        assert index(server) == {"2": "UNAVAILABLE", "10": "READY"}
        put(tmp_path, 11, b"no network")
        load(server, "model 'times/11' does not load")
        assert infer(server) == ("10", 10.0)
        assert ask(server, "GET", "/v2/models/times/ready", "")[0] == 200
        put(tmp_path, 11)
        load(server)
        assert infer(server) == ("11", 11.0) and infer(server, "10") == ("503", 0.0)
        shutil.rmtree(tmp_path / "models" / "times" / "11")  # back to the older one
        load(server)
        assert infer(server) == ("10", 10.0) and index(server) == {"2": "UNAVAILABLE", "10": "READY"}
        stats = ask(server, "GET", "/v2/models/times/versions/10/stats", GOLD)[1]["model_stats"][0]
        assert stats["version"] == "10" and stats["inference_count"] == 4


def test_several_versions_serve_side_by_side(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        put(tmp_path, version)
    with running(tmp_path, models_dir=tmp_path / "models", versions=2) as server:
        load(server)
        assert [infer(server, version) for version in ("", "2", "3", "1")] == [
            ("3", 3.0), ("2", 2.0), ("3", 3.0), ("503", 0.0)]  # fmt: skip
        told = ask(server, "GET", "/v2/models/times", GOLD)[1]
        assert told["versions"] == ["2", "3"]
        grpc: Any = pytest.importorskip("tritonclient.grpc")
        with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            tensor = grpc.InferInput("x", [1], "FP32")
            import numpy as np

            tensor.set_data_from_numpy(np.ones(1, np.float32))
            headers = {"authorization": f"Bearer {GOLD}"}
            for version, wanted in (("", "3"), ("2", "2")):
                answer = client.infer("times", [tensor], model_version=version, headers=headers)
                assert answer.get_response().model_version == wanted and answer.as_numpy("y")[0] == float(
                    wanted
                )
        put(tmp_path, 4)
        load(server)
        assert [infer(server, version)[0] for version in ("", "4", "3", "2")] == ["4", "4", "3", "503"]
        assert ask(server, "POST", "/v2/repository/models/times/unload", ADMIN)[0] == 200
        assert infer(server) == ("503", 0.0) and set(index(server).values()) == {"UNAVAILABLE"}
        page = server.service.books.telemetry
        for version in ("2", "3", "4"):
            assert page._success.labels("times", version)._value.get() >= 1


def test_no_request_is_lost_while_versions_change(tmp_path: Path) -> None:
    put(tmp_path, 1)
    with running(tmp_path, models_dir=tmp_path / "models") as server:
        load(server)
        seen: list[tuple[str, float]] = []
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                seen.append(infer(server))

        crowd = [threading.Thread(target=work) for _ in range(2)]
        for one in crowd:
            one.start()
        try:
            for version in (2, 3, 4):
                put(tmp_path, version)
                load(server)
                until(lambda wanted=str(version): seen and seen[-1][0] == wanted)  # type: ignore[misc]
        finally:
            stop.set()
            for one in crowd:
                one.join()
        assert {version for version, _ in seen} >= {"2", "3", "4"}
        assert all(float(version) == value for version, value in seen)
        until(
            lambda: len(server.pool.loading._labels) == 2
        )  # older networks have left the devices: small, times


def test_the_key_of_a_version_is_no_name() -> None:
    """Promises and deadlines are granted by name: a second name of the same network would have neither."""
    nobody: Any = None
    there = [Entry("m", Path("m"), state="READY", version=version) for version in ("1", "2")]
    repository = Repository(nobody, None, there, 2)
    assert repository.entry("m", "2") is there[1] and repository.entry("m", "1") is there[0]
    for name, version in (("m/2", ""), ("m/2", "1"), ("m/1", ""), ("m", "2/1")):
        with pytest.raises(NotFound):
            repository.entry(name, version)
        with pytest.raises(NotFound):
            repository.entry_for(Grant("gold"), name, version)
    assert repository.key("m/2") is None


def test_files_whose_names_no_network_has_are_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They were passed over without a word."""
    served = ("a.onnx", "b/model.onnx", "c/2/model.onnx", "d.e.onnx")
    others = (
        "a b.onnx",
        "mürelu.onnx",
        "UPPER.ONNX",
        "-x.onnx",
        "e f/model.onnx",
        "g/model.ONNX",
        "h/v1/model.onnx",
        "two\nlines.onnx",
    )
    for name in (*served, *others, "readme.txt", "i/weights.onnx"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    repository = Repository(None, tmp_path)  # type: ignore[arg-type]
    repository.rescan()
    lines = [record.getMessage() for record in caplog.records]
    assert {line.split(" is not served: ")[0] for line in lines} == {
        f"models_dir: {name!r}" for name in others
    }
    assert len(lines) == len(others) and all(
        "rename it to NAME.onnx, NAME/model.onnx" in line for line in lines
    )
    assert {entry.name for entry in repository.entries()} == {"a", "b", "c", "d.e"}
    (tmp_path / "x y.onnx").write_bytes(b"")
    repository.rescan()
    assert "'x y.onnx'" in caplog.records[-1].getMessage() and len(caplog.records) == len(others) + 1


def test_nobody_waits_for_a_pipe_among_the_networks(tmp_path: Path) -> None:
    """A start did not end, nor a load: its device was killed after two minutes."""
    (tmp_path / "net/1").mkdir(parents=True)
    (tmp_path / "net/1/model.onnx").write_bytes(b"")
    for name in ("pipe.onnx", "net/config.pbtxt"):
        os.mkfifo(tmp_path / name)
    repository = Repository(None, tmp_path)  # type: ignore[arg-type]
    assert {entry.name for entry in repository.entries()} == {"net", "pipe"}
    with pytest.raises(ModelError, match="pipe.onnx: cannot be read: it is no regular file"):
        content_key(tmp_path / "pipe.onnx")

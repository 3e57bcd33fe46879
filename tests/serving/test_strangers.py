"""What clients that we did not write expect, as their sources have it: kserve, perf_analyzer, health probes of gRPC."""

from __future__ import annotations

import errno
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.serving.protocol.batches import most_rows
from eunomia.serving.protocol.errors import without_folders
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S, until
from tests.serving.live import ADMIN, GOLD, SIDE, SILVER, ask, running

grpc = pytest.importorskip("grpc")

TENSOR = {"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], "data": [0.0] * (3 * SIDE * SIDE)}
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server"), ledger_dir=tmp_path_factory.mktemp("ledger")) as live:
        yield live


def infer(server: Server, key: str = GOLD) -> int:
    return ask(server, "POST", "/v2/models/small/infer", key, {"inputs": [TENSOR]})[0]


def check(server: Server, service: bytes = b"") -> bytes:
    """``grpc.health.v1.Health/Check``, without a key."""
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        asked = b"\x0a" + bytes([len(service)]) + service if service else b""
        found: bytes = channel.unary_unary("/grpc.health.v1.Health/Check")(asked, timeout=PATIENCE_S)
        return found


def test_bodies_of_health(server: Server) -> None:
    """kserve's client reads ``live`` and ``ready`` of JSON."""
    assert ask(server, "GET", "/v2/health/live", "") == (200, {"live": True})
    assert ask(server, "GET", "/v2/health/ready", "") == (200, {"ready": True})
    assert ask(server, "GET", "/v2/models/small/ready", "") == (200, {"name": "small", "ready": True})


def test_every_count_of_the_statistics_is_the_same(server: Server) -> None:
    """perf_analyzer ends with an error where one of them differs."""
    assert infer(server) == 200
    stats = ask(server, "GET", "/v2/models/small/stats", GOLD)[1]["model_stats"][0]["inference_stats"]
    counts = {kind: stats[kind]["count"] for kind in ("success", "queue")}
    counts |= {kind: stats[kind]["count"] for kind in stats if kind.startswith("compute_")}
    assert len(counts) == 5 and set(counts.values()) == {counts["success"]} and counts["success"] > 0
    parts = sum(stats[kind]["ns"] for kind in counts if kind != "success")
    assert parts <= stats["success"]["ns"]


def test_the_largest_batch_is_what_the_tenant_may_send(server: Server) -> None:
    row = 4 * 3 * SIDE * SIDE
    for key, most in ((GOLD, 15 * 1024**2), (SILVER, 200_000)):  # a sixteenth of the memory is for small ones
        config = ask(server, "GET", "/v2/models/small/config", key)[1]
        assert config["max_batch_size"] == most // row
        assert config["input"][0]["dims"] == [3, SIDE, SIDE]
    port: Any = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    fixed: Any = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    free: Any = {"name": "x", "datatype": "FP32", "shape": [-1, -1]}
    assert most_rows({"inputs": [port, port], "outputs": [port]}, 64) == 2
    assert most_rows({"inputs": [fixed], "outputs": [fixed]}, 64) == 0
    assert most_rows({"inputs": [free], "outputs": [port]}, 64) == 0


def test_health_over_grpc(server: Server) -> None:
    assert check(server) == check(server, b"inference.GRPCInferenceService") == SERVING
    with pytest.raises(grpc.RpcError) as caught:
        check(server, b"nobody")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        watching = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=PATIENCE_S)
        assert next(watching) == SERVING
        server.service.draining = True
        try:
            assert next(watching) == NOT_SERVING
        finally:
            server.service.draining = False
        assert next(watching) == SERVING
        watching.cancel()


def test_a_full_disk_is_no_readiness(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, write = server.service.ledger, os.write
    assert ledger is not None

    def full(file: int, content: bytes) -> int:
        if file == ledger._file:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, content)

    monkeypatch.setattr(os, "write", full)
    assert infer(server) == 503  # accepted, and not acknowledged: its line is held
    assert ledger.usage["gold", "small"].outcomes["unavailable"] == 1
    with urllib.request.urlopen(
        urllib.request.Request(
            f"http://127.0.0.1:{server.http_port}/metrics", headers={"authorization": f"Bearer {ADMIN}"}
        ),
        timeout=PATIENCE_S,
    ) as page:
        assert 'eunomia_ledger_lines{what="waiting"} 1.0' in page.read().decode()
    status, content = ask(server, "GET", "/v2/health/ready", "")
    assert status == 503 and content == {
        "ready": False,
        "error": "usage cannot be written down: the disk refuses",
    }
    assert check(server) == NOT_SERVING and infer(server) == 503
    monkeypatch.setattr(os, "write", write)
    until(lambda: ask(server, "GET", "/v2/health/ready", "")[0] == 200)
    assert infer(server) == 200


def picky() -> bytes:
    """A network that fails on every index but 0 to 3."""
    from onnx import TensorProto, helper

    names = ["batch"]
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "index"], ["row"])], "picky",
        [helper.make_tensor_value_info("index", TensorProto.INT64, names)],
        [helper.make_tensor_value_info("row", TensorProto.FLOAT, names)],
        [helper.make_tensor("table", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])],
    )  # fmt: skip
    model: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return model


def refused_over_grpc(server: Server, index: int) -> str:
    """The status of such a request."""
    module = pytest.importorskip("tritonclient.grpc")
    tensor = module.InferInput("index", [1], "INT64")
    tensor.set_data_from_numpy(np.array([index]))
    stub = module.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    with stub, pytest.raises(module.InferenceServerException) as caught:
        stub.infer("picky", [tensor], headers={"authorization": f"Bearer {GOLD}"})
    return str(caught.value.status())


def test_an_input_that_fails_is_no_miss_and_names_no_file(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        (tmp_path / "picky.onnx").write_bytes(picky())
        (tmp_path / "broken.onnx").write_bytes(b"no network")
        assert ask(server, "POST", "/v2/repository/models/picky/load", ADMIN)[0] == 200

        def infer_picky(index: int) -> tuple[int, Any]:
            tensor = {"name": "index", "datatype": "INT64", "shape": [1], "data": [index]}
            return ask(server, "POST", "/v2/models/picky/infer", GOLD, {"inputs": [tensor]})

        assert infer_picky(2)[1]["outputs"][0]["data"] == [3.0]
        for _ in range(3):
            status, content = infer_picky(77)
            assert status == 400 and content["reason"] == "bad_input"
            assert content["error"] == (
                "network 'picky' refuses this input: Gather: indices element out of data bounds, idx=77 must be within "
                "the inclusive range [-4,3]"
            )
        assert refused_over_grpc(server, 77) == "StatusCode.INVALID_ARGUMENT"
        dispatcher = server.pool.dispatcher
        pair = next(n for n, a in enumerate(dispatcher.agreements) if a.model == "picky")
        assert (dispatcher.indicators[pair].sli, dispatcher.indicators[pair].count) == (1.0, 1)
        status, content = ask(server, "POST", "/v2/repository/models/broken/load", ADMIN)
        assert status != 200 and str(tmp_path) in content["error"]  # an administrator may know
        for path in ("/v2/models/broken", "/v2/repository/index"):
            _, content = ask(server, "GET" if "models" in path else "POST", path, GOLD)
            assert "broken" in str(content) and str(tmp_path) not in str(content)


@pytest.mark.parametrize(
    "text, said",
    [
        ("/srv/nets/a.onnx: no such file", "a.onnx: no such file"),
        ("cannot read '/srv/my.nets/a b.onnx'", "cannot read 'a b.onnx'"),
        (
            "see http://127.0.0.1:8000/v2/models/a and 3/4 of n/m",
            "see http://127.0.0.1:8000/v2/models/a and 3/4 of n/m",
        ),
        ("call the object '/gold:NAME'", "call the object '/gold:NAME'"),
        ("by POST /v2/repository/models/a/load", "by POST /v2/repository/models/a/load"),
    ],
)
def test_folders_are_left_out(text: str, said: str) -> None:
    assert without_folders(text) == said

"""Large inputs are copied beside the event loop: others are served, and whatever happens all memory comes back."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser
from tritonclient import grpc as tritongrpc
from tritonclient import http as tritonhttp

from eunomia.serving.devices.copying import AT_ONCE_IN_BYTES
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import InferRequest, read_request
from eunomia.serving.protocol.pieces import Pieces
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S, until
from tests.serving.live import ADMIN, GOLD, ask, running

COUNT = AT_ONCE_IN_BYTES // 4 + 1
LAST = """
    <ir_version: 8, opset_import: ["" : 17]>
    last (float[n] x) => (float[1] y) <int64[1] begin = {-1}, int64[1] end = {2147483647}>
    { y = Slice (x, begin, end) }"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "last.onnx").write_bytes(parser.parse_model(LAST).SerializeToString())
    with running(folder) as server:
        assert ask(server, "POST", "/v2/repository/models/last/load", ADMIN)[0] == 200
        until(lambda: said(sent(server))[0] == 200)
        yield server


def sent(server: Server, count: int = COUNT) -> HTTPConnection:
    """A request on its way."""
    raw = np.arange(count, dtype=np.float32).tobytes()
    size = {"binary_data_size": len(raw)}
    tensor = {"name": "x", "datatype": "FP32", "shape": [count], "parameters": size}
    head = json.dumps({"inputs": [tensor]}).encode()
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {GOLD}", "Inference-Header-Content-Length": str(len(head))}
    line.request("POST", "/v2/models/last/infer", head + raw, headers)
    return line


def said(line: HTTPConnection) -> tuple[int, Any]:
    answer = line.getresponse()
    content = json.loads(answer.read())
    line.close()
    return answer.status, content["outputs"][0]["data"] if answer.status == 200 else content["error"]


def nothing_left(server: Server) -> None:
    arena, limits = server.pool.arena, server.service.limits
    until(lambda: arena.free_bytes == arena.room_bytes and not limits.active("gold") and not server.pool.busy)


class Held:
    """Copies into the arena, which wait until they ``go``, or fail."""

    def __init__(self, server: Server, error: Exception | None = None) -> None:
        self.go, self.begun, self.error = threading.Event(), threading.Semaphore(0), error
        self.copy_in = server.pool.answers._copy_in

    def __call__(self, *tensors: Any) -> None:
        self.begun.release()
        assert self.go.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        self.copy_in(*tensors)


def test_others_are_served_while_a_large_input_is_copied(
    live: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(live)
    with monkeypatch.context() as patch:
        patch.setattr(live.pool.answers, "_copy_in", held)
        stays, goes = sent(live), sent(live)
        assert held.begun.acquire(timeout=PATIENCE_S)
        until(lambda: live.service.limits.active("gold") == 2)
        assert ask(live, "GET", "/v2/health/live", GOLD)[0] == 200 and live.pool.busy
        goes.close()
        until(lambda: live.service.limits.active("gold") == 1)
        held.go.set()
        assert said(stays) == (200, [COUNT - 1])
    nothing_left(live)


def test_an_input_that_cannot_be_copied_fails_alone(live: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(live, RuntimeError("a fault"))
    held.go.set()
    with monkeypatch.context() as patch:
        patch.setattr(live.pool.answers, "_copy_in", held)
        assert said(sent(live)) == (503, "the server could not take the input in")
    nothing_left(live)
    assert said(sent(live)) == (200, [COUNT - 1])


def test_who_stops_waits_for_what_is_copied(tmp_path: Path) -> None:
    (tmp_path / "last.onnx").write_bytes(parser.parse_model(LAST).SerializeToString())
    answers: list[tuple[int, Any]] = []
    with running(tmp_path) as server:
        assert ask(server, "POST", "/v2/repository/models/last/load", ADMIN)[0] == 200
        until(lambda: said(sent(server))[0] == 200)
        held = server.pool.answers._copy_in = Held(server)  # type: ignore[assignment, method-assign]
        line = sent(server)
        assert held.begun.acquire(timeout=PATIENCE_S)
        waiting = threading.Thread(target=lambda: answers.append(said(line)))
        waiting.start()
        threading.Timer(0.2, held.go.set).start()
    waiting.join(PATIENCE_S)
    assert answers == [(200, [COUNT - 1])]


def test_an_output_is_asked_for_once(live: Server) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}
    body = {"inputs": [tensor], "outputs": [{"name": "y"}, {"name": "y"}]}
    status, content = ask(live, "POST", "/v2/models/last/infer", GOLD, body)
    assert (status, content["error"]) == (400, "output 'y' is named twice; once is enough")


INDEX = """
    <ir_version: 8, opset_import: ["" : 17]>
    index (int64[n] x) => (float[n] y) <float[2] of = {0, 0}> { y = Gather (of, x) }"""


@pytest.mark.parametrize("front", ["raw", "JSON", "gRPC"])
def test_a_request_that_fails_is_forgotten_at_once(live: Server, tmp_path: Path, front: str) -> None:
    """Its error's frames hold it, and it the error: the collector, which comes seldom, must not be needed."""
    (live.options.cache.parent / "index.onnx").write_bytes(parser.parse_model(INDEX).SerializeToString())
    if "index" not in live.pool.models:
        assert ask(live, "POST", "/v2/repository/models/index/load", ADMIN)[0] == 200
    numbers = np.full(3000, 9)
    tensor = {"name": "x", "datatype": "INT64", "shape": [3000], "data": numbers.tolist()}
    gc.collect()
    gc.disable()
    try:
        if front == "gRPC":
            stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{live.grpc_port}")
            given = tritongrpc.InferInput("x", [3000], "INT64")
            given.set_data_from_numpy(numbers)
            with pytest.raises(tritongrpc.InferenceServerException, match="refuses this input"):
                stub.infer("index", [given], headers={"authorization": f"Bearer {GOLD}"})
            stub.close()
        elif front == "raw":
            client = tritonhttp.InferenceServerClient(f"127.0.0.1:{live.http_port}")
            sent_raw = tritonhttp.InferInput("x", [3000], "INT64")
            sent_raw.set_data_from_numpy(numbers)
            with pytest.raises(tritonhttp.InferenceServerException, match="refuses this input"):
                client.infer("index", [sent_raw], headers={"authorization": f"Bearer {GOLD}"})
            client.close()
        else:
            assert ask(live, "POST", "/v2/models/index/infer", GOLD, {"inputs": [tensor]})[0] == 400
        until(lambda: not any(type(o) is InferRequest and o.model == "index" for o in gc.get_objects()))
    finally:
        gc.enable()


@pytest.mark.parametrize("datatype, wanted", [("FP32", "needs 4"), ("BYTES", "at most 4096 in")])
def test_pieces_that_do_not_fit_are_not_put_together(datatype: str, wanted: str) -> None:
    class Joined(Pieces):
        def joined(self) -> bytes:
            raise AssertionError("so much for nothing")

    raw = Joined([bytes(2**20), bytes(2**20)])
    head = {
        "inputs": [
            {"name": "x", "datatype": datatype, "shape": [1], "parameters": {"binary_data_size": len(raw)}}
        ]
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pieces, "__getitem__", lambda self, part: self)
        with pytest.raises(BadRequest, match=wanted):
            read_request("net", "", json.dumps(head).encode(), raw)

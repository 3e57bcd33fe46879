"""Made-up messages: read, or refused in words; on a live server, one answer each."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.serving import fuzz
from benchmarks.serving.made_up import messages
from eunomia.serving.protocol.infer import MAX_TENSORS
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S, until
from tests.serving.live import GOLD, SIDE, running

pb = pytest.importorskip("tritonclient.grpc.service_pb2")
import grpc  # noqa: E402
from tritonclient.grpc import service_pb2_grpc as stubs  # noqa: E402


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(message=messages())
def test_any_message_is_read_or_refused_in_words(message: Any) -> None:
    fuzz.grpc(message.SerializeToString())


@pytest.mark.parametrize("target", sorted(fuzz.TARGETS))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(cut=st.integers(0, 200), put=st.binary(max_size=8), at=st.integers(0, 200))
def test_the_targets_of_the_fuzzer_take_mutated_seeds(target: str, cut: int, put: bytes, at: int) -> None:
    seed = fuzz.SEEDS.get(target, b"")
    fuzz.TARGETS[target](seed[:at] + put + seed[at + cut :])


def test_too_many_tensors_are_refused() -> None:
    from eunomia.serving.fronts.grpc import read_message
    from eunomia.serving.protocol.errors import BadRequest

    message = pb.ModelInferRequest(model_name="small")
    for _ in range(MAX_TENSORS + 1):
        message.inputs.add(name="x", datatype="FP32", shape=[1])
    with pytest.raises(BadRequest, match="at most"):
        read_message(message)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server")) as live:
        yield live


def test_a_live_server_answers_every_made_up_message_once(server: Server) -> None:
    refusals = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED,
                grpc.StatusCode.DEADLINE_EXCEEDED}  # fmt: skip
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(message=messages())
        def ask(message: Any) -> None:
            try:
                stub.ModelInfer(message, metadata=(("authorization", f"Bearer {GOLD}"),), timeout=PATIENCE_S)
            except grpc.RpcError as error:
                assert error.code() in refusals and error.details(), (error.code(), message)

        ask()
    # what a client gave up on may still be running
    until(lambda: server.pool.arena.free_bytes == 16 * 1024**2)
    assert server.pool.deaths == 0


HEAD = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE],
                    "parameters": {"binary_data_size": 4 * 3 * SIDE * SIDE}}]}  # fmt: skip


def test_damaged_binary_bodies_get_one_answer_each(server: Server) -> None:
    whole = json.dumps(HEAD).encode() + np.zeros((1, 3, SIDE, SIDE), np.float32).tobytes()
    line = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(
        at=st.integers(0, 220), cut=st.integers(0, 60), put=st.binary(max_size=12), length=st.integers(0, 400)
    )
    def ask(at: int, cut: int, put: bytes, length: int) -> None:
        body = whole[:at] + put + whole[at + cut :]
        headers = {"Authorization": f"Bearer {GOLD}", "Inference-Header-Content-Length": str(length)}
        line.request("POST", "/v2/models/small/infer", body, headers)
        answer = line.getresponse()
        content = answer.read()
        assert answer.status in (200, 400) and (answer.status == 200 or json.loads(content)["error"])

    with contextlib.closing(line):
        ask()
    assert server.pool.arena.free_bytes == 16 * 1024**2


def test_a_whole_body_still_works(server: Server, tmp_path: Path) -> None:
    header = json.dumps(HEAD).encode()
    line = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    with contextlib.closing(line):
        line.request(
            "POST", "/v2/models/small/infer", header + np.zeros((1, 3, SIDE, SIDE), np.float32).tobytes(),
            {"Authorization": f"Bearer {GOLD}", "Inference-Header-Content-Length": str(len(header))},
        )  # fmt: skip
        assert line.getresponse().status == 200

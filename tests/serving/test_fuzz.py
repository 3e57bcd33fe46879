"""Made-up messages: read, or refused in words; on a live server, one answer each."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.serving import fuzz
from eunomia.serving.protocol.infer import MAX_TENSORS
from eunomia.serving.server import Server
from tests.serving.live import GOLD, SIDE, running

pb = pytest.importorskip("tritonclient.grpc.service_pb2")
import grpc  # noqa: E402
from tritonclient.grpc import service_pb2_grpc as stubs  # noqa: E402

TYPES = ("FP32", "FP16", "INT64", "UINT8", "BOOL", "BYTES", "FP128", "")
SHAPES = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 4), max_size=12)
PARAMETERS = st.dictionaries(
    st.sampled_from(["timeout", "priority", "slo_ms", "tenant", "shared_memory_region", "shared_memory_byte_size",
                     "shared_memory_offset", "binary_data_size", "other"]),
    st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20) | st.booleans() | st.floats(), max_size=4,
)  # fmt: skip


def fill(place: Any, values: dict[str, Any]) -> None:
    """Plain values as InferParameter messages."""
    for key, value in values.items():
        kind = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}[
            type(value)
        ]
        setattr(place[key], kind, value)


@st.composite
def messages(draw: st.DrawFn) -> Any:
    message = pb.ModelInferRequest(
        model_name=draw(st.sampled_from(["small", "", "../x"]) | st.text(max_size=5)), id=draw(st.text(max_size=5)),
        model_version=draw(st.sampled_from(["", "1", "2"])),
    )  # fmt: skip
    fill(message.parameters, draw(PARAMETERS))
    for _ in range(draw(st.integers(0, 3))):
        entry = message.inputs.add(
            name=draw(st.sampled_from(["image", "", "x"])),
            datatype=draw(st.sampled_from(TYPES)),
            shape=draw(SHAPES),
        )
        fill(entry.parameters, draw(PARAMETERS))
        if draw(st.booleans()):
            entry.contents.fp32_contents.extend(draw(st.lists(st.floats(width=32), max_size=4)))
        if draw(st.booleans()):
            entry.contents.int_contents.extend(draw(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4)))
    for _ in range(draw(st.integers(0, 2))):
        fill(message.outputs.add(name=draw(st.sampled_from(["logits", "y"]))).parameters, draw(PARAMETERS))
    message.raw_input_contents.extend(draw(st.lists(st.binary(max_size=40), max_size=4)))
    return message


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
    from eunomia.serving.grpc_front import read_message
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
                stub.ModelInfer(message, metadata=(("authorization", f"Bearer {GOLD}"),), timeout=20)
            except grpc.RpcError as error:
                assert error.code() in refusals and error.details(), (error.code(), message)

        ask()
    until_s = time.monotonic() + 10.0  # what a client gave up on may still be running
    while server.pool.arena.free_bytes < 16 * 1024**2 and time.monotonic() < until_s:
        time.sleep(0.05)
    assert server.pool.arena.free_bytes == 16 * 1024**2 and server.pool.deaths == 0


HEAD = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE],
                    "parameters": {"binary_data_size": 4 * 3 * SIDE * SIDE}}]}  # fmt: skip


def test_damaged_binary_bodies_get_one_answer_each(server: Server) -> None:
    whole = json.dumps(HEAD).encode() + np.zeros((1, 3, SIDE, SIDE), np.float32).tobytes()
    line = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=30)

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
    line = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=30)
    with contextlib.closing(line):
        line.request(
            "POST", "/v2/models/small/infer", header + np.zeros((1, 3, SIDE, SIDE), np.float32).tobytes(),
            {"Authorization": f"Bearer {GOLD}", "Inference-Header-Content-Length": str(len(header))},
        )  # fmt: skip
        assert line.getresponse().status == 200

"""Made-up messages: read, or refused in words; on a live server, one answer each."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.protocol.infer import MAX_TENSORS
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S, until
from tests.serving import fuzz_targets as fuzz
from tests.serving.live import GOLD, running
from tests.serving.made_up import HEADER, JSON, WHOLE, damaged, examples, messages, said

pb = pytest.importorskip("tritonclient.grpc.service_pb2")
import grpc  # noqa: E402
from tritonclient.grpc import service_pb2_grpc as stubs  # noqa: E402


@examples(3.0)
@given(message=messages())
def test_any_message_is_read_or_refused_in_words(message: Any) -> None:
    fuzz.grpc(message.SerializeToString())


@pytest.mark.parametrize("target", sorted(fuzz.TARGETS))
@examples()
@given(cut=st.integers(0, 200), put=st.binary(max_size=8), at=st.integers(0, 200))
def test_the_targets_of_the_fuzzer_take_mutated_seeds(target: str, cut: int, put: bytes, at: int) -> None:
    seed = fuzz.SEEDS.get(target, b"")
    fuzz.TARGETS[target](seed[:at] + put + seed[at + cut :])


def test_too_many_tensors_are_refused() -> None:
    from eunomia.serving.protocol.errors import BadRequest
    from eunomia.serving.protocol.rpc import read_message

    message = pb.ModelInferRequest(model_name="small")
    for _ in range(MAX_TENSORS + 1):
        message.inputs.add(name="x", datatype="FP32", shape=[1])
    with pytest.raises(BadRequest, match="at most"):
        read_message(message)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server")) as live:
        yield live


Note = Callable[[str, object], None]


def test_a_live_server_answers_every_made_up_message_once(server: Server, record_property: Note) -> None:
    refusals = {"INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
    seen: Counter[str] = Counter()
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)

        @examples()
        @given(message=messages())
        def ask(message: Any) -> None:
            try:
                stub.ModelInfer(message, metadata=(("authorization", f"Bearer {GOLD}"),), timeout=PATIENCE_S)
            except grpc.RpcError as error:
                assert error.code().name in refusals and error.details(), (error.code(), message)
                seen[error.code().name] += 1
            else:
                seen["OK"] += 1

        ask()
    record_property("answers", said(seen))
    # what a client gave up on may still be running
    until(lambda: server.pool.arena.free_bytes == 16 * 1024**2)
    assert server.pool.deaths == 0


@pytest.mark.parametrize("bodies", [
    damaged(),
    JSON.map(lambda content: (json.dumps(content).encode(), None)),
], ids=["damaged binary bodies", "any JSON"])  # fmt: skip
def test_made_up_bodies_get_one_answer_each(
    server: Server, bodies: st.SearchStrategy[tuple[bytes, int | None]], record_property: Note
) -> None:
    line = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    seen: Counter[int] = Counter()

    @examples()
    @given(made=bodies)
    def ask(made: tuple[bytes, int | None]) -> None:
        body, length = made
        headers = {"Authorization": f"Bearer {GOLD}"}
        headers |= {} if length is None else {"Inference-Header-Content-Length": str(length)}
        line.request("POST", "/v2/models/small/infer", body, headers)
        answer = line.getresponse()
        content = answer.read()
        assert answer.status in (200, 400) and (answer.status == 200 or json.loads(content)["error"])
        seen[answer.status] += 1

    with contextlib.closing(line):
        ask()
    record_property("answers", said(seen))
    assert server.pool.arena.free_bytes == 16 * 1024**2


def test_a_whole_body_still_works(server: Server) -> None:
    line = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {GOLD}", "Inference-Header-Content-Length": str(len(HEADER))}
    with contextlib.closing(line):
        line.request("POST", "/v2/models/small/infer", WHOLE, headers)
        assert line.getresponse().status == 200

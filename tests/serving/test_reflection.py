"""What grpcurl does: list services, read their description, and call what it finds there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from eunomia.serving.server import Server
from tests.patience import PATIENCE_S
from tests.serving.live import running

grpc = pytest.importorskip("grpc")
from eunomia.serving.rpc import health, reflection  # noqa: E402

INFERENCE = "inference.GRPCInferenceService"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server")) as live:
        yield live


@pytest.fixture(params=reflection.VERSIONS)
def ask(server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Questions to one version of the service; all go over one stream, without a key."""
    classes = reflection.definition(request.param).classes()

    def asked(*questions: dict[str, str]) -> list[Any]:
        messages = [classes["ServerReflectionRequest"](**question) for question in questions]
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            method = channel.stream_stream(
                f"/{request.param}.ServerReflection/ServerReflectionInfo",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=classes["ServerReflectionResponse"].FromString,
            )
            return list(method(iter(messages), timeout=PATIENCE_S))

    yield asked


def test_a_client_without_any_file_finds_and_calls_what_is_served(server: Server, ask: Any) -> None:
    (listed,) = ask({"list_services": ""})
    names = {service.name for service in listed.list_services_response.service}
    assert names == {
        INFERENCE,
        health.NAME,
        *(f"{version}.ServerReflection" for version in reflection.VERSIONS),
    }
    pool = descriptor_pool.DescriptorPool()
    for answer in ask(*({"file_containing_symbol": name} for name in sorted(names))):
        files = map(
            descriptor_pb2.FileDescriptorProto.FromString,
            answer.file_descriptor_response.file_descriptor_proto,
        )
        for file in reversed(list(files)):  # what is imported comes behind
            pool.Add(file)
    for name in names:
        assert pool.FindServiceByName(name).methods
    method = pool.FindMethodByName(f"{INFERENCE}.ServerLive")
    request, response = (message_factory.GetMessageClass(t) for t in (method.input_type, method.output_type))
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        call = channel.unary_unary(f"/{INFERENCE}/ServerLive", request_serializer=request.SerializeToString,
                                   response_deserializer=response.FromString)  # fmt: skip
        assert call(request(), timeout=PATIENCE_S).live


def test_questions_without_an_answer_get_a_sentence(ask: Any) -> None:
    lost, file, extension = ask(
        {"file_containing_symbol": "no.such.Thing"},
        {"file_by_filename": "grpc_service.proto"},
        {"all_extension_numbers_of_type": INFERENCE},
    )
    assert lost.error_response.error_code == 5 and "'no.such.Thing'" in lost.error_response.error_message
    assert len(file.file_descriptor_response.file_descriptor_proto) == 2, "with what it imports"
    assert extension.error_response.error_code == 12

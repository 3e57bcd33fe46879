"""``grpc.reflection.v1`` and ``v1alpha``, by which grpcurl and its like find out what a server offers.

What they read is the published description of the protocol: no key is needed, and callers without one are told apart by
their address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import DecodeError, Message

from eunomia.serving.http2.call import Call, Taker
from eunomia.serving.protocol.described import Definition
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.rpc_types import Response
from eunomia.serving.rpc.serving import Serving
from eunomia.serving.rpc.streams import Stream
from eunomia.serving.rpc.unary import serialized
from eunomia.serving.tenants.circle import stranger_at

VERSIONS = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
NOT_FOUND, UNIMPLEMENTED = 5, 12
ASKED = {
    "file_by_filename": (3, "string"),
    "file_containing_symbol": (4, "string"),
    "file_containing_extension": (5, "ExtensionRequest"),
    "all_extension_numbers_of_type": (6, "string"),
    "list_services": (7, "string"),
}
ANSWERED = {
    "file_descriptor_response": (4, "FileDescriptorResponse"),
    "all_extension_numbers_response": (5, "ExtensionNumberResponse"),
    "list_services_response": (6, "ListServiceResponse"),
    "error_response": (7, "ErrorResponse"),
}
MESSAGES = {
    "ServerReflectionRequest": {"host": (1, "string"), **ASKED},
    "ExtensionRequest": {"containing_type": (1, "string"), "extension_number": (2, "int32")},
    "ServerReflectionResponse": {
        "valid_host": (1, "string"),
        "original_request": (2, "ServerReflectionRequest"),
        **ANSWERED,
    },
    "FileDescriptorResponse": {"file_descriptor_proto": (1, "[bytes]")},
    "ExtensionNumberResponse": {"base_type_name": (1, "string"), "extension_number": (2, "[int32]")},
    "ListServiceResponse": {"service": (1, "[ServiceResponse]")},
    "ServiceResponse": {"name": (1, "string")},
    "ErrorResponse": {"error_code": (1, "int32"), "error_message": (2, "string")},
}
CHOICES = {
    "ServerReflectionRequest": ("message_request", tuple(ASKED)),
    "ServerReflectionResponse": ("message_response", tuple(ANSWERED)),
}
METHOD = ("ServerReflectionInfo", "ServerReflectionRequest", "ServerReflectionResponse", "both")


def definition(package: str) -> Definition:
    """Of one version; both have the same messages."""
    return Definition(package, "ServerReflection", MESSAGES, (METHOD,), CHOICES)


class ReflectionFront:
    """``files``: descriptions of everything that is served, and of what they import."""

    def __init__(self, serving: Serving, files: Iterable[descriptor_pb2.FileDescriptorProto]) -> None:
        self._serving = serving
        own = [definition(package).file() for package in VERSIONS]
        self._files = {file.name: file for file in (*files, *own)}
        self._bytes = {name: file.SerializeToString() for name, file in self._files.items()}
        self._places = {symbol: name for name, file in self._files.items() for symbol in symbols_of(file)}
        self.services = sorted(f"{f.package}.{s.name}" for f in self._files.values() for s in f.service)

    def methods(self) -> dict[str, Callable[[Call], Taker]]:
        """What serves a call, by path; one for each version."""
        versions = [definition(package) for package in VERSIONS]
        return {f"/{v.name}/{METHOD[0]}": partial(self._serve, v.classes()) for v in versions}

    def _serve(self, classes: dict[str, type[Message]], call: Call) -> Taker:
        async def info(stream: Stream) -> None:
            async for data in stream.messages():
                await stream.write([serialized(self.answer(bytes(data), classes))])

        return self._serving.stream(call, stranger_at(call.host), info)

    def answer(self, data: bytes, classes: dict[str, type[Message]]) -> Response:
        """One question's answer; raises BadRequest."""
        try:
            asked = classes["ServerReflectionRequest"].FromString(data)
        except DecodeError:
            raise BadRequest("the message is no ServerReflectionRequest") from None
        response = classes["ServerReflectionResponse"](valid_host=asked.host, original_request=asked)
        what = asked.WhichOneof("message_request")
        if what == "list_services":
            for name in self.services:
                response.list_services_response.service.add(name=name)
            return response
        if what not in ("file_by_filename", "file_containing_symbol"):
            return refused(
                response, UNIMPLEMENTED, "there are no extensions here: ask for a file or a symbol"
            )
        wanted = getattr(asked, what)
        name = wanted if what == "file_by_filename" else self._places.get(wanted, "")
        if name not in self._files:
            return refused(response, NOT_FOUND, f"nothing here is called '{wanted[:200]}'")
        files = [self._bytes[found] for found in self._with_imports(name)]
        response.file_descriptor_response.file_descriptor_proto.extend(files)
        return response

    def _with_imports(self, name: str) -> list[str]:
        """A file and what it imports, each once."""
        found = [name]
        for one in found:
            found += [
                more for more in self._files[one].dependency if more in self._files and more not in found
            ]
        return found


def refused(response: Message, code: int, sentence: str) -> Response:
    """An answer that says why there is none."""
    response.error_response.error_code = code
    response.error_response.error_message = sentence
    return response


def files_of(descriptor: FileDescriptor) -> list[descriptor_pb2.FileDescriptorProto]:
    """A generated module's file and all that it imports."""
    file = descriptor_pb2.FileDescriptorProto.FromString(descriptor.serialized_pb)
    return [file, *(one for other in descriptor.dependencies for one in files_of(other))]


def symbols_of(file: descriptor_pb2.FileDescriptorProto) -> list[str]:
    """Full names of services, their methods, messages and enumerations."""
    found = []
    for service in file.service:
        full = f"{file.package}.{service.name}"
        found += [full, *(f"{full}.{method.name}" for method in service.method)]
    open_ = [(file.package, message) for message in file.message_type]
    for before, message in open_:
        full = f"{before}.{message.name}" if before else message.name
        found += [full, *(f"{full}.{enum.name}" for enum in message.enum_type)]
        open_ += [(full, inner) for inner in message.nested_type]
    found += [f"{file.package}.{enum.name}" if file.package else enum.name for enum in file.enum_type]
    return found

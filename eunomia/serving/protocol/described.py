"""Messages and services of gRPC from a few lines of Python: those whose definitions are published and small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

Fields = Mapping[str, tuple[int, str]]  # number, and type: ``bytes``, ``Message``, ``[string]``
KINDS = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
}


@dataclass(frozen=True)
class Definition:
    """A .proto file of one service. ``choices``: of a message, the name of its one ``oneof`` and the fields in it.

    ``methods``: name, request, response, and whether both are streams or the response is. ``enums``: values in order.
    """

    package: str
    service: str
    messages: Mapping[str, Fields]
    methods: tuple[tuple[str, str, str, str], ...]
    choices: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    enums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the service, in full."""
        return f"{self.package}.{self.service}"

    def file(self) -> descriptor_pb2.FileDescriptorProto:
        """As protobuf describes files."""
        path = f"{self.package.replace('.', '/')}/{self.service.lower()}.proto"
        file = descriptor_pb2.FileDescriptorProto(name=path, package=self.package, syntax="proto3")
        for name, values in self.enums.items():
            enum = file.enum_type.add(name=name)
            for number, value in enumerate(values):
                enum.value.add(name=value, number=number)
        for name, fields in self.messages.items():
            self._add(file.message_type.add(name=name), fields)
        service = file.service.add(name=self.service)
        for name, asked, answered, streams in self.methods:
            service.method.add(
                name=name,
                input_type=f".{self.package}.{asked}",
                output_type=f".{self.package}.{answered}",
                client_streaming=streams == "both",
                server_streaming=bool(streams),
            )
        return file

    def _add(self, message: descriptor_pb2.DescriptorProto, fields: Fields) -> None:
        choice, chosen = self.choices.get(message.name, ("", ()))
        if choice:
            message.oneof_decl.add(name=choice)
        for name, (number, kind) in fields.items():
            one = message.field.add(name=name, number=number)
            one.label = one.LABEL_REPEATED if kind.startswith("[") else one.LABEL_OPTIONAL
            kind = kind.strip("[]")
            one.type = KINDS.get(kind, one.TYPE_ENUM if kind in self.enums else one.TYPE_MESSAGE)
            if kind not in KINDS:
                one.type_name = f".{self.package}.{kind}"
            if name in chosen:
                one.oneof_index = 0

    def classes(self) -> dict[str, type[Message]]:
        """Its messages, in a pool of their own: a package that defines the same may be there, too."""
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self.file())
        return {
            name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{self.package}.{name}"))
            for name in self.messages
        }

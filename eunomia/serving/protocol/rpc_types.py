"""What the gRPC side reads of messages, which tritonclient does not type.

Names are those of Triton's protocol files. A response is whatever its class makes: nobody here reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

Response = object  # a message that is sent


class Parameter(Protocol):
    """An InferParameter: one of several fields is set."""

    def WhichOneof(self, group: str) -> str | None:  # noqa: N802
        """The field that is set."""
        ...


class Output(Protocol):
    """An output that the client asks for."""

    name: str
    parameters: Mapping[str, Parameter]


class Contents(Protocol):
    """InferTensorContents: one list per kind of number."""

    def ListFields(self) -> Sequence[object]:  # noqa: N802
        """Those that hold something."""
        ...


class Input(Output, Protocol):
    """A tensor of a request."""

    datatype: str
    shape: Sequence[int]
    contents: Contents

    def HasField(self, field: str) -> bool:  # noqa: N802
        """Whether it is set."""
        ...

    def ClearField(self, field: str) -> None:  # noqa: N802
        """Take it out."""
        ...


class InferMessage(Protocol):
    """A ModelInferRequest."""

    model_name: str
    model_version: str
    id: str
    inputs: Sequence[Input]
    outputs: Sequence[Output]
    raw_input_contents: Sequence[bytes]
    parameters: Mapping[str, Parameter]

    def SerializeToString(self) -> bytes:  # noqa: N802
        """As bytes."""
        ...


class Named(Protocol):
    """A request about one network, or about one region of shared memory."""

    name: str


class Versioned(Named, Protocol):
    """A request about one version of a network."""

    version: str


class Index(Protocol):
    """A RepositoryIndexRequest."""

    ready: bool


class Managed(Protocol):
    """A request to load or to unload a network."""

    model_name: str
    parameters: Mapping[str, object]


class Region(Named, Protocol):
    """A SystemSharedMemoryRegisterRequest."""

    key: str
    offset: int
    byte_size: int

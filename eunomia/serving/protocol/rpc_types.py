"""What the gRPC side reads of messages and calls, which neither grpc nor tritonclient types.

Names are those of Triton's protocol files. A response is whatever its class makes: nobody here reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

Response = object  # a message that grpc sends


class Parameter(Protocol):
    """An InferParameter: one of several fields is set."""

    def WhichOneof(self, group: str) -> str | None:  # noqa: N802
        """The field that is set."""
        ...


class Output(Protocol):
    """An output that the client asks for."""

    name: str
    parameters: Mapping[str, Parameter]


class Input(Output, Protocol):
    """A tensor of a request; ``contents`` has one list per kind of number."""

    datatype: str
    shape: Sequence[int]
    contents: object

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


class Call(Protocol):
    """A call in progress: grpc's servicer context."""

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]] | None:
        """Headers."""
        ...

    def peer(self) -> str:
        """Who calls, as an address."""
        ...

    def time_remaining(self) -> float | None:
        """Seconds until the caller's deadline; None without one."""
        ...

    def set_trailing_metadata(self, metadata: Sequence[tuple[str, str]]) -> None:
        """What is sent behind the answer."""
        ...

    def add_done_callback(self, callback: Callable[[object], None]) -> None:
        """Called once its answer has been taken, or never will be."""
        ...

    async def read(self) -> object:
        """The next message: bytes, or something else at the end."""
        ...

    async def write(self, message: Response) -> None:
        """Send one message."""
        ...

    async def abort(self, code: object, details: str) -> NoReturn:
        """End the call with an error."""
        ...

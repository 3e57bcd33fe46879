"""A client of gRPC on the library ``h2``, which has no line in common with the server, and objects to its mistakes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings

from tests.patience import PATIENCE_S

OIP = "/inference.GRPCInferenceService/"
Pairs = Sequence[tuple[str, str]]


@dataclass
class Answer:
    """``reset``: the code with which the server has ended the stream; ``granted``: bytes that it lets come."""

    head: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    end: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    reset: int | None = None
    granted: int = 0

    @property
    def status(self) -> int | None:
        """gRPC's, None as long as there is none."""
        found = self.end.get("grpc-status", self.head.get("grpc-status"))
        return None if found is None else int(found)

    @property
    def why(self) -> str:
        """As it was sent."""
        return self.end.get("grpc-message", self.head.get("grpc-message", ""))

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self.ended or self.reset is not None

    @property
    def messages(self) -> list[bytes]:
        """What came whole."""
        found, rest = list[bytes](), bytes(self.body)
        while len(rest) >= 5 and len(rest) - 5 >= (size := int.from_bytes(rest[1:5], "big")):
            found.append(rest[5 : 5 + size])
            rest = rest[5 + size :]
        return found


class Speaker:
    """``say`` takes its bytes. ``takes``: it gives back the windows of what has come."""

    def __init__(
        self, say: Callable[[bytes], None], *, settings: Mapping[SettingCodes, int] | None = None
    ) -> None:
        config = H2Configuration(
            header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self._say, self.h2 = say, H2Connection(config)
        self.answers: dict[int, Answer] = {}
        self.takes = True
        self.away: int | None = None  # the code with which the connection has ended
        self.pongs = 0
        self.h2.local_settings = Settings(client=True, initial_values=dict(settings or {}))
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        """What the library has to say."""
        if data := self.h2.data_to_send():
            self._say(data)

    # --- what it says ----------------------------------------------------------------------------------

    def begin(
        self, path: str, key: str = "", more: Pairs = (), *, last: bool = False, head: Pairs = ()
    ) -> int:
        """A call; its number. ``head``: in place of what a call of gRPC says first."""
        number = self.h2.get_next_available_stream_id()
        first = head or [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"),
                         ("te", "trailers"), ("content-type", "application/grpc")]  # fmt: skip
        keyed = [("authorization", f"Bearer {key}")] if key else []
        self.answers[number] = Answer()
        self.h2.send_headers(number, [*first, *keyed, *more], end_stream=last)
        self.flush()
        return number

    def push(self, number: int, content: bytes) -> bytes:
        """As much as the server lets come; the rest."""
        while content:
            size = min(
                self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(content)
            )
            if size <= 0:
                break
            self.h2.send_data(number, content[:size])
            content = content[size:]
        self.flush()
        return content

    def end(self, number: int) -> None:
        """No more comes of this call."""
        self.h2.end_stream(number)
        self.flush()

    def reset(self, number: int, code: int = 8) -> None:
        """It is given up."""
        self.h2.reset_stream(number, code)
        self.flush()

    def change(self, values: Mapping[SettingCodes, int]) -> None:
        """Settings, from when the server says that it knows."""
        self.h2.update_settings(dict(values))
        self.flush()

    def take(self, number: int, size: int) -> None:
        """So many bytes more may come of this call."""
        self.h2.increment_flow_control_window(size, number)
        self.flush()

    # --- what it hears ---------------------------------------------------------------------------------

    def hear(self, data: bytes) -> None:
        """Raises what the library has against it."""
        for event in self.h2.receive_data(data):
            self._note(event)
        self.flush()

    def _note(self, event: events.Event) -> None:
        if isinstance(event, events.ConnectionTerminated):
            self.away = int(event.error_code or 0)
        elif isinstance(event, events.PingAckReceived):
            self.pongs += 1
        elif (found := self.answers.get(getattr(event, "stream_id", None) or 0)) is not None:
            self._note_of(found, event)

    def _note_of(self, found: Answer, event: events.Event) -> None:
        if isinstance(event, events.ResponseReceived):
            found.head = dict(event.headers or ())
        elif isinstance(event, events.TrailersReceived):
            found.end = dict(event.headers or ())
        elif isinstance(event, events.DataReceived):
            found.body += event.data
            if self.takes and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, events.StreamEnded):
            found.ended = True
        elif isinstance(event, events.StreamReset):
            found.reset = int(event.error_code)
        elif isinstance(event, events.WindowUpdated):
            found.granted += event.delta or 0


class Client(Speaker):
    """Over a socket. ``closed``: the server has hung up."""

    def __init__(self, line: socket.socket, *, settings: Mapping[SettingCodes, int] | None = None) -> None:
        self.line, self.closed = line, False
        super().__init__(self.send, settings=settings)

    def send(self, data: bytes) -> None:
        """Bytes as they are, unless the server has hung up."""
        try:
            self.line.sendall(data)
        except OSError:
            self.closed = True

    def listen(self, condition: Callable[[], object]) -> None:
        """Until it is true."""
        while not condition():
            assert not self.closed and self.away is None, "the server has hung up"
            self.listen_once()

    def listen_once(self) -> None:
        """To the next bytes."""
        try:
            data = self.line.recv(65536)
        except ConnectionError:
            data = b""
        self.closed = not data
        self.hear(data)

    def hang_up(self) -> None:
        """At once: the system tells the server."""
        self.line.close()

    def upload(self, number: int, content: bytes, *, last: bool = True) -> None:
        """All of it, or as much as the server takes before it answers."""
        while not self.answers[number].over and (content := self.push(number, content)):
            self.listen_once()
            assert not self.closed, "the server has hung up"
        if last and not self.answers[number].over:
            self.end(number)

    def ask(self, path: str, content: bytes = b"", key: str = "", more: Pairs = ()) -> Answer:
        """One message, and all that is said to it."""
        number = self.begin(path, key, more)
        self.upload(number, message(content))
        self.listen(lambda: self.answers[number].over)
        return self.answers[number]


@contextmanager
def client(
    port: int,
    *,
    settings: Mapping[SettingCodes, int] | None = None,
    tls: Callable[[socket.socket], socket.socket] | None = None,
) -> Iterator[Client]:
    """One connection, closed after the block."""
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as line,
        tls(line) if tls else line as secure,
    ):
        yield Client(secure, settings=settings)


def message(content: bytes, *, packed: bool = False, size: int | None = None) -> bytes:
    """With what stands before it; ``size``: what it says of itself."""
    return bytes([packed]) + (len(content) if size is None else size).to_bytes(4, "big") + content

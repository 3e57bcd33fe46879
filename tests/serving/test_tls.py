"""Over TLS, nobody decides how much of a turn of the event loop his records and handshakes take."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.fronts import few_records
from eunomia.serving.fronts.certificate import tls_context
from eunomia.serving.fronts.few_records import FewRecords
from eunomia.serving.fronts.hello import MOST_RECORDS, needed
from eunomia.serving.fronts.lane import Lane
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.http2.line import Line
from eunomia.serving.server import Server
from tests.certificates import self_signed
from tests.patience import PATIENCE_S, until
from tests.serving.live import running
from tests.tls import Speaker

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
HELLO = Speaker().greet()
FEW = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("tls")
    with running(folder, tls=self_signed(folder)) as found:
        yield found


def parted(sizes: list[int]) -> bytes:
    """The same message in records of these sizes, the rest in the last one."""
    message, found = HELLO[5:], b""
    for size in [*sizes, len(message)]:
        part, message = message[:size], message[size:]
        found += HELLO[:3] + len(part).to_bytes(2, "big") + part if part else b""
    return found


@given(st.lists(st.integers(1, 60), max_size=MOST_RECORDS - 1))
def test_a_greeting_is_whole_once_its_last_byte_is_there(sizes: list[int]) -> None:
    whole = parted(sizes)
    for n in range(len(whole)):
        wanted = needed(whole[:n])
        assert wanted is not None and n < wanted <= len(whole)
    assert needed(whole) == needed(whole + b"more") == 0


def test_what_no_client_sends_is_turned_away_and_what_is_no_greeting_is_the_librarys() -> None:
    assert needed(parted([1] * MOST_RECORDS)) is None
    assert needed(b"\x16\x03\x01\x40\x00\x01\x01\x00\x00" + bytes(16380)) is None, "65 KB long"
    assert needed(b"GET / HTTP/1.1\r\n") == needed(b"\x16\x03\x01\x00\x00") == 0


def connect(server: Server, *, grpc: bool = False) -> socket.socket:
    port = server.grpc_port if grpc else server.http_port
    return socket.create_connection(("127.0.0.1", cast(int, port)), PATIENCE_S)


def greeted(line: socket.socket, protocol: str = "", hello: bytes = b"") -> Speaker:
    """After the handshake; ``hello``: what its first bytes are."""
    speaker = Speaker(protocol)
    line.sendall(hello or speaker.greet())
    while not speaker.greeted:
        line.sendall(speaker.greet(line.recv(65536)))
    return speaker


def answer(line: socket.socket, speaker: Speaker) -> bytes:
    """The next words of the server's; its tickets are none."""
    while not (found := speaker.hear(line.recv(65536))):
        pass
    return found


def test_a_handshake_begins_once_the_greeting_is_whole(server: Server) -> None:
    """Two hundred that began with half of one all went on in one turn, of 15 to 75 ms."""
    with connect(server) as line:
        speaker = Speaker()
        hello = speaker.greet()
        for part in (hello[:3], hello[3:100], hello[100:-1]):
            line.sendall(part)
            with connect(server) as other:  # who comes later is served meanwhile
                later = greeted(other)
                other.sendall(later.say(LIVE, 16384))
                assert b" 200 " in answer(other, later)
            assert not select.select([line], [], [], 0.0)[0], "nothing is said to it"
        line.sendall(hello[-1:])
        while not speaker.greeted:
            line.sendall(speaker.greet(line.recv(65536)))
        line.sendall(speaker.say(LIVE, 16384))
        assert b" 200 " in answer(line, speaker)


def test_who_leaves_with_half_a_greeting_is_gone(server: Server) -> None:
    fronts = server.service.connections
    assert fronts is not None
    until(lambda: not len(fronts))
    for end in (socket.socket.close, lambda line: line.shutdown(socket.SHUT_WR)):
        with connect(server) as line:
            line.sendall(HELLO[:-1])
            until(lambda: len(fronts) == 1)
            end(line)
            until(lambda: not len(fronts))


@pytest.mark.parametrize("grpc", [False, True])
def test_records_of_a_byte_are_read_a_few_in_a_turn(
    server: Server, monkeypatch: pytest.MonkeyPatch, grpc: bool
) -> None:
    """A packet of them was opened in one turn, of up to 100 ms: beside some, gold kept 4 % of its deadlines."""
    monkeypatch.setattr(few_records, "FEW", FEW)
    kind, sizes = Line if grpc else Lane, list[int]()
    received = kind.data_received

    def heard(self: Lane | Line, data: bytes) -> None:
        sizes.append(len(data))
        received(self, data)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "data_received", heard)
    with connect(server, grpc=grpc) as line:
        speaker = greeted(line, "h2" if grpc else "")
        said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5) if grpc else LIVE * 20
        line.sendall(speaker.say(said))
        found, wanted = b"", 1 if grpc else 20
        while found.count(b"\x00\x00\x00\x04\x01" if grpc else b" 200 OK") < wanted:
            found += speaker.hear(line.recv(65536))
        line.sendall(speaker.say(b"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678" if grpc else LIVE, 16384))
        while found.count(b"12345678" if grpc else b" 200 OK") < wanted + (not grpc):
            found += speaker.hear(line.recv(65536))
    assert (
        sizes and max(sizes) <= max(FEW, len(LIVE)) and sum(sizes) == len(said) + (17 if grpc else len(LIVE))
    )
    assert sizes.count(FEW) > 2


class Turn:
    """Of the event loop; ``over``: it has taken enough."""

    over = False

    def begin(self) -> None:
        """It has begun."""


def test_where_the_turn_is_over_no_record_is_read_unless_it_is_the_connections(tmp_path: Path) -> None:
    came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = tls_context(self_signed(tmp_path)).wrap_bio(came, goes, server_side=True)
    assert isinstance(side, FewRecords)
    speaker = Speaker()
    came.write(speaker.greet())
    with pytest.raises(ssl.SSLWantReadError):
        side.do_handshake()
    came.write(speaker.greet(goes.read()))
    side.do_handshake()
    turn, later = Turn(), list[int]()
    side.by_turns(cast(Rota, turn), lambda: later.append(1))
    came.write(speaker.say(b"x" * 190))
    assert read(side) == few_records.FEW and side.stopped() and not later
    turn.over = True
    assert read(side) == 0 and len(later) == 1
    side.go_on()
    assert read(side) == few_records.FEW and side.stopped() and len(later) == 1
    assert read(side) == 0 and len(later) == 2, "its turn was the one before"
    turn.over = False
    assert read(side) == 190 - 2 * few_records.FEW and not side.stopped()


def read(side: ssl.SSLObject) -> int:
    """As event loops do: until there are no more; how many records there were."""
    count = 0
    try:
        while side.read(65536):
            count += 1
    except ssl.SSLWantReadError:
        pass
    return count

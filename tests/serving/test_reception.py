"""Connections that say nothing, or half a greeting, are counted and end; whoever else comes is let in."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eunomia.serving import server as served
from eunomia.serving.fronts import connections as bounds
from eunomia.serving.fronts import hearing, reception, records
from eunomia.serving.fronts.certificate import handshake_s, tls_context
from eunomia.serving.fronts.connections import ConnectionLimits, Connections
from eunomia.serving.fronts.crowds import Crowds
from eunomia.serving.fronts.hearing import Hearing, Standing
from eunomia.serving.fronts.lane import Lane
from eunomia.serving.fronts.received import read_from
from eunomia.serving.fronts.reception import Reception, sockets_at
from eunomia.serving.fronts.records import Records
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.observe.turns import Turns
from eunomia.serving.server import Server
from tests.certificates import self_signed
from tests.patience import PATIENCE_S, until, until_async
from tests.serving.live import running
from tests.tls import Speaker as Client
from tests.tls import trusting

MOST = 8
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
FLOOD = "127.0.0.2"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def crowd() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(port: int, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S, (address, 0))


def flood(server: Server, crowd: ExitStack, count: int, said: bytes = b"") -> list[socket.socket]:
    lines = [crowd.enter_context(connect(server.http_port, FLOOD)) for _ in range(count)]
    for line in lines:
        line.sendall(said)
    return lines


def counts(server: Server) -> tuple[int, int]:
    """How many are connected, and how many have had to end as there were too many."""
    connections = server.service.connections
    assert connections is not None
    return len(connections), connections.ended["most"]


def live(line: socket.socket) -> bool:
    line.sendall(LIVE)
    return b" 200 " in line.recv(4096)


def test_a_flood_of_silent_connections_ends_at_once(
    tmp_path: Path, crowd: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "EVERY_S", 1e6)  # nobody looks
    with running(tmp_path, connections=ConnectionLimits(most=MOST), grpc_port=None) as server:
        gold = crowd.enter_context(connect(server.http_port))
        lines = flood(server, crowd, 3 * MOST)
        until(lambda: counts(server)[0] == MOST)
        assert live(gold) and live(crowd.enter_context(connect(server.http_port)))
        for line in lines[:MOST]:
            assert not line.recv(1)  # the first that came


def test_half_open_connections_over_tls_are_counted(
    tmp_path: Path, crowd: ExitStack, certificate: tuple[Path, Path]
) -> None:
    limits = ConnectionLimits(most=MOST, head_s=1e6)
    with running(tmp_path, connections=limits, grpc_port=None, tls=certificate) as server:
        flood(server, crowd, 3 * MOST)
        until(lambda: counts(server) == (MOST, 2 * MOST))
        line = crowd.enter_context(connect(server.http_port))
        with trusting().wrap_socket(line) as greeted:
            assert live(greeted)
        connections = server.service.connections
        assert connections is not None
        connections.limits = replace(limits, head_s=0.0, idle_s=0.0)
        until(lambda: counts(server)[0] == 0)


def test_of_handshakes_that_begin_and_do_not_go_on_few_are_kept(
    tmp_path: Path, crowd: ExitStack, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception, "GREETINGS", MOST)
    with running(
        tmp_path, connections=ConnectionLimits(head_s=1e6), grpc_port=None, tls=certificate
    ) as server:
        flood(server, crowd, 3 * MOST, Client().greet())
        until(lambda: counts(server) == (MOST, 2 * MOST))
        line = crowd.enter_context(connect(server.http_port))
        with trusting().wrap_socket(line) as greeted:
            assert live(greeted)


def test_a_handshake_costs_the_server_something(certificate: tuple[Path, Path]) -> None:
    """By that the next one waits, and so many may have begun; both versions of TLS."""
    context = tls_context(certificate)
    assert handshake_s(context) > 0.0
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert handshake_s(context) > 0.0


class Speaker:
    """A connection over TLS; so many bytes of it have been ``read``, of which it ``said`` something."""

    def __init__(self, read: float = 0.0, said: float = 0.0, *, reads: bool = True) -> None:
        self.read, self.said, self.reads, self.cut = read, said, reads, False
        self.came_s, self.address, self.descriptor, self.transport = 0.0, FLOOD, 0, None

    def force_close(self) -> None:
        self.cut = True


def test_a_connection_over_tls_that_says_nothing_is_cut_at_the_second_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand changes of its key are a read of 256 KB: gold kept 17 to 84 % beside eight that sent them."""
    read = dict[int, float]()
    monkeypatch.setattr(records, "read_from", read.__getitem__)
    much = records.GREETING + 1.0
    silent, late, slow, honest = (
        Speaker(much),
        Speaker(much),
        Speaker(much + records.HELD / 2, reads=False),
        Speaker(9 * much, 9 * much),
    )
    here = [silent, late, slow, honest]
    for n, one in enumerate(here):
        one.descriptor, read[n] = n, one.read

    async def main() -> None:
        found = Records(lambda: here)
        found._look()
        assert not any(one.cut for one in here)
        late.said = much  # it was on its way
        found._look()
        assert [one.cut for one in here] == [True, False, False, False] and found.ended == 1

    monkeypatch.setattr(records, "PER_S", 0)
    asyncio.run(main())


def test_a_byte_may_have_a_record_of_its_own() -> None:
    """As clients write JSON piece by piece: 22 to 29 bytes around each, and the chunk's length."""
    for said in (1, 1000, 10**7):
        one: Any = Speaker(said=records.FRAMING * said)
        assert Records.beyond(one, 40 * said, 0.0) < 0.0


def test_what_a_connection_over_tls_has_read_is_counted() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert read_from(ours.fileno()) == 0 == read_from(-1)  # that is no connection of TCP
    with socket.create_server(("127.0.0.1", 0)) as listening, connect(listening.getsockname()[1]) as client:
        line, _ = listening.accept()
        with line:
            client.sendall(bytes(1000))
            line.recv(400, socket.MSG_WAITALL)
            until(lambda: read_from(line.fileno()) == 400 or sys.platform != "linux")


def test_both_protocols_share_the_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def room(wanted: int, ports: int) -> int:
        asked.append((wanted, ports))
        return 70

    monkeypatch.setattr(served, "room_for", room)
    with running(tmp_path, connections=ConnectionLimits(most=100)) as server:
        assert server.service.connections is not None and server.service.connections.limits.most == 70
        assert server._grpc is not None and server._grpc.connections.limits.most == 70
    assert asked == [(100, 2)]


class Echo(Standing, asyncio.Protocol):
    """Says what it hears, and leaves."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)
        self.transport.close()


class Short(socket.socket):
    """Listens; the system has no descriptor for its first connections."""

    refusals = 0

    def accept(self) -> tuple[socket.socket, Any]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_where_descriptors_run_out_the_most_crowded_address_makes_room(loop: str, crowd: ExitStack) -> None:
    async def main() -> None:
        (listening,) = await sockets_at("127.0.0.1", 0)
        short = Short(fileno=listening.detach())
        connections, turns = Connections(ConnectionLimits()), Turns()
        rota = Rota(turns)
        here = Reception([short], connections, Echo, rota, Hearing(rota.begin))
        port = short.getsockname()[1]
        lines = [crowd.enter_context(await asyncio.to_thread(connect, port, FLOOD)) for _ in range(4)]
        await until_async(lambda: len(connections) == 4)
        short.refusals = 2
        newcomer = crowd.enter_context(await asyncio.to_thread(connect, port))
        newcomer.sendall(b"hello")
        assert await asyncio.to_thread(newcomer.recv, 9) == b"hello"
        assert [await asyncio.to_thread(line.recv, 1) for line in lines[:2]] == [b"", b""]
        assert connections.ended["most"] == 2
        for line in lines[2:]:
            line.close()
        await until_async(lambda: not len(connections))  # who leaves is not counted any more
        here.end()

    pytest.importorskip(loop).run(main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_of_many_that_leave_at_once_a_few_go_in_a_turn(
    loop: str, crowd: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "HEARD", 2)

    async def main() -> None:
        sockets = await sockets_at("127.0.0.1", 0)
        connections, turns = Connections(ConnectionLimits()), Turns()
        rota = Rota(turns)
        here = Reception(sockets, connections, Echo, rota, Hearing(rota.begin))
        port = sockets[0].getsockname()[1]
        lines = [crowd.enter_context(await asyncio.to_thread(connect, port, FLOOD)) for _ in range(9)]
        await until_async(lambda: len(connections) == len(lines))
        for line in lines:
            line.close()
        while left := len(connections):
            await asyncio.sleep(0)
            assert left - len(connections) <= 2
        here.end()

    pytest.importorskip(loop).run(main())


@pytest.mark.parametrize("secure", [False, True])
def test_who_gets_a_protocol_never_counts_twice(
    secure: bool, tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, of eight newcomers for three places six were ended now and then."""
    counted, came = list[int](), Connections.came

    def noting(connections: Connections, *what: Any) -> None:
        came(connections, *what)
        counted.append(len(connections))

    monkeypatch.setattr(Connections, "came", noting)
    context = ssl._create_unverified_context()
    context.set_alpn_protocols(["h2"])
    with running(tmp_path, tls=certificate if secure else None) as server:
        for most, port in ((2, server.http_port), (4, server.grpc_port)):
            line = connect(port or 0)
            with context.wrap_socket(line) if secure else line as client:
                client.sendall(b"G")
                until(lambda: len(counted) == most)  # noqa: B023
        assert counted == [1, 1, 1, 1]


# --- a crowd that is connected ----------------------------------------------------------------------------


@pytest.mark.parametrize("free", [2, 10**6])
def test_of_a_crowd_each_is_read_when_it_has_something(
    free: int, tmp_path: Path, crowd: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, three thousand that sent at once were read in one turn of 200 ms."""
    monkeypatch.setattr(bounds, "FREE", free)
    kept = LIVE.replace(b"Connection: close\r\n", b"")
    with running(tmp_path, grpc_port=None) as server:
        lines = flood(server, crowd, 6, kept[:-3])
        connections = server.service.connections
        assert connections is not None and connections.hearing is not None
        standing = connections.hearing._at
        until(lambda: sum(isinstance(one, Lane) for one in standing) == (6 if free == 2 else 0))
        for half in (kept[-3:] + kept[:40], kept[40:]):  # an answer each
            for line in lines:
                line.sendall(half)
            for line in lines:
                assert b" 200 " in line.recv(4096)
        for line in lines[:3]:
            line.close()
        until(lambda: counts(server)[0] == 3)
        assert live(lines[3]) and len(standing) <= 3


def test_a_refused_body_is_read_to_its_end(tmp_path: Path, crowd: ExitStack) -> None:
    """A piece in each turn, as nobody wants it; the next request on its connection is served."""
    size = 3 * 1024**2
    head = f"POST /v2/models/small/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
    with running(tmp_path, grpc_port=None) as server:
        line = crowd.enter_context(connect(server.http_port))
        line.sendall(head.encode() + bytes(size) + LIVE)
        said = b""
        while piece := line.recv(65536):
            said += piece
        assert b" 401 " in said.partition(b"\r\n")[0] and b"HTTP/1.1 200 " in said


def test_a_descriptor_that_another_connection_has_now_is_heard_for_that_one() -> None:
    class One:
        def __init__(self) -> None:
            self.times = 0

        def heard(self) -> None:
            self.times += 1

    async def main() -> None:
        here, gone, came = Hearing(lambda: None), One(), One()
        ours, theirs = socket.socketpair()
        number = ours.detach()
        here.hear(gone, number)
        here.hear(came, number)  # it was closed, and opened again
        here.forget(gone)
        theirs.sendall(b"x")
        await until_async(lambda: came.times == 1)
        assert gone.times == 0 and not here._at
        here.close()
        socket.socket(fileno=number).close()
        theirs.close()

    asyncio.run(main())


def test_crowds_by_size() -> None:
    crowds: Crowds[str] = Crowds()
    for one in ("a1", "b1", "b2", "c1", "c2", "c3"):
        crowds.join(one[0], one)
    assert [len(crowd) for crowd in crowds.largest_first()] == [3, 2, 1] and crowds.total == 6
    crowds.ask("c", "c1")
    assert [*next(crowds.largest_first()).waiting] == ["c2", "c3"]
    crowds.rest("c", "c1")
    assert [*next(crowds.largest_first()).waiting] == ["c2", "c3", "c1"]
    for one in ("c1", "c2", "c2", "a1", "a1"):
        crowds.leave(one[0], one)
    assert [[*crowd.waiting] for crowd in crowds.largest_first()] == [["b1", "b2"], ["c3"]]
    assert crowds.total == 3

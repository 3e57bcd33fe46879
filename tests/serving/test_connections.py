"""Slow, silent and half-open connections end, and the others are served meanwhile."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from eunomia.serving.fronts.connections import AT_ONCE, ConnectionLimits, Connections, room_for
from tests.patience import PATIENCE_S, until
from tests.serving.live import GOLD, running
from tests.serving.test_server import InferenceServerException, ask, tritongrpc, tritonhttp


class Line:
    """A connection as the server holds it; ``body``: bytes of a body so far, None = no request."""

    def __init__(self, body: int | None = None, *, whole: bool = False, address: str = "::1") -> None:
        self.closed, self.content, self.transport, self.address = False, self, self, address
        self.total_bytes, self._whole = body or 0, whole
        self.aborted, self.secure = False, None

    def is_eof(self) -> bool:
        return self._whole

    def force_close(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, what: str) -> object:
        assert what == "sslcontext"
        return self.secure

    def abort(self) -> None:
        self.aborted = True


def seen(
    connections: Connections, line: Line, since_s: float, *, served: bool = False, body: bool = False
) -> Line:
    connections.came(line, line.address)  # type: ignore[arg-type]
    if body:
        connections.begun(line, line)  # type: ignore[arg-type]
    one = connections._seen[line]  # type: ignore[index]
    one.since_s, one.served, one.began_s = since_s, served, since_s
    return line


def test_each_limit_ends_what_it_shall_and_nothing_else() -> None:
    connections = Connections(ConnectionLimits(most=100, head_s=10.0, idle_s=75.0, body_s=30.0))
    silent, fresh = seen(connections, Line(), 80.0), seen(connections, Line(), 95.0)
    idle, used = seen(connections, Line(), 20.0, served=True), seen(connections, Line(), 80.0, served=True)
    slow, quick = seen(connections, Line(9), 60.0, body=True), seen(connections, Line(9), 75.0, body=True)
    computing = seen(connections, Line(9, whole=True), 0.0, body=True)
    everyone = [silent, fresh, idle, used, slow, quick, computing]
    asyncio.run(connections.look(100.0))
    assert [line for line in everyone if line.closed] == [silent, idle, slow]
    assert (
        connections.ended == {"head": 1, "idle": 1, "body": 1, "most": 0, "bytes": 0}
        and len(connections) == 4
    )


def test_too_many_end_by_age_and_too_much_by_size() -> None:
    connections = Connections(ConnectionLimits(most=3, buffered_bytes=100))
    old, young = seen(connections, Line(), 99.0), seen(connections, Line(), 99.5)
    large, small = seen(connections, Line(90), 98.0, body=True), seen(connections, Line(60), 98.5, body=True)
    asyncio.run(connections.look(100.0))
    assert (old.closed, young.closed, large.closed, small.closed) == (True, False, True, False)
    assert connections.ended["most"] == 1 and connections.ended["bytes"] == 1


def test_very_many_end_a_few_in_a_round_and_those_that_begin_a_request_meanwhile_stay() -> None:
    connections = Connections(ConnectionLimits(most=4))
    lines = [seen(connections, Line(), 90.0 + n / 1e3) for n in range(5 * AT_ONCE)]

    async def main() -> None:
        looking = asyncio.create_task(connections.look(100.0))
        await asyncio.sleep(0)
        for rounds in range(1, 5):
            assert sum(line.closed for line in lines) == rounds * AT_ONCE
            connections.begun(lines[-rounds], Line(9))  # type: ignore[arg-type]
            await asyncio.sleep(0)
        await looking

    asyncio.run(main())
    assert [line.closed for line in lines] == [True] * 4 * AT_ONCE + [False] * 4


def test_late_ones_end_a_few_in_a_round() -> None:
    connections = Connections(ConnectionLimits())
    lines = [seen(connections, Line(), 0.0) for _ in range(5 * AT_ONCE)]

    async def main() -> None:
        looking = asyncio.create_task(connections.look(100.0))
        while not looking.done():
            before = sum(line.closed for line in lines)
            await asyncio.sleep(0)
            assert sum(line.closed for line in lines) <= before + AT_ONCE

    asyncio.run(main())
    assert all(line.closed for line in lines)


def test_a_newcomer_is_let_in_for_one_of_the_most_crowded_address() -> None:
    connections = Connections(ConnectionLimits(most=4))
    gold = seen(connections, Line(), 0.0, served=True)
    flood = [seen(connections, Line(address="10.0.0.66"), 9.0 + n) for n in range(3)]
    for n in range(2):
        connections.admit(newcomer := Line(address="10.0.0.7"), newcomer.address)  # type: ignore[arg-type]
        assert (
            not newcomer.closed and not gold.closed and [line.closed for line in flood].count(True) == n + 1
        )
    assert [line.closed for line in flood] == [True, True, False]


def test_a_newcomer_is_turned_away_where_everybody_else_computes() -> None:
    connections = Connections(ConnectionLimits(most=3))
    crowd = [seen(connections, Line(9, whole=True), 0.0, body=True) for _ in range(2)]
    other = seen(connections, Line(9, whole=True, address="10.0.0.7"), 0.0, body=True)
    connections.admit(newcomer := Line(address="10.0.0.66"), newcomer.address)  # type: ignore[arg-type]
    assert newcomer.closed and not any(line.closed for line in [*crowd, other])
    connections.over(other)  # type: ignore[arg-type]
    connections.admit(newcomer := Line(address="10.0.0.66"), newcomer.address)  # type: ignore[arg-type]
    assert other.closed != newcomer.closed and len(connections) == 3


def test_nobody_waits_for_the_goodbye_of_a_connection_over_tls() -> None:
    connections = Connections(ConnectionLimits())
    for context in (None, object()):
        line = Line()
        line.secure = context
        seen(connections, line, 0.0)
        asyncio.run(connections.look(100.0))
        assert (line.closed, line.aborted) == (True, context is not None)


def test_the_address_with_the_most_connections_loses_them_first() -> None:
    """A flood of fresh connections from one machine ends no older one of another."""
    connections = Connections(ConnectionLimits(most=4))
    gold = [seen(connections, Line(), 10.0, served=True) for _ in range(2)]
    flood = [seen(connections, Line(address="10.0.0.66"), 99.0 + n / 10) for n in range(6)]
    connections.limits = ConnectionLimits(most=4, idle_s=1e6)
    asyncio.run(connections.look(100.0))
    assert (
        not any(line.closed for line in gold) and [line.closed for line in flood] == [True] * 4 + [False] * 2
    )


def test_of_equal_crowds_those_without_a_valid_key_go_first() -> None:
    """As it was, the oldest went: gold, where everybody comes from an address of its own."""
    connections = Connections(ConnectionLimits(most=100))
    gold, *others = (seen(connections, Line(address=f"10.0.0.{n}"), 1.0 * n) for n in range(9))
    connections.knows(gold, "gold")  # type: ignore[arg-type]
    while any(not other.closed for other in others):
        assert connections.end_one() and not gold.closed
    assert connections.end_one() and gold.closed and not connections.end_one()


def test_connections_that_say_nothing_half_a_header_or_half_a_body(tmp_path: Path) -> None:
    head = (
        f"POST /v2/models/small/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {GOLD}\r\n"
        "Content-Length: 100000\r\n\r\n"
    ).encode()
    with running(tmp_path, connections=ConnectionLimits(head_s=1e6, body_s=1e6)) as server:
        held = []
        for said in (b"", head[:40], head + b"{" * 500, b"PRI * HTTP/2.0\r\n"):
            line = socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S)
            line.sendall(said)
            held.append(line)
        stub = tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}")
        assert ask(tritonhttp, stub).as_numpy("logits").shape == (1, 10)
        connections = server.service.connections
        assert connections is not None and not any(connections.ended.values())
        connections.limits = ConnectionLimits(head_s=0.0, body_s=0.0)
        for line in held:  # the next look ends each
            while line.recv(4096):
                pass
            line.close()
        assert connections.ended["head"] >= 2 and connections.ended["body"] == 1


def test_a_connection_for_grpc_that_says_nothing(tmp_path: Path) -> None:
    def served() -> bool:
        try:
            return ask(tritongrpc, stub) is not None
        except InferenceServerException:  # on a busy machine, a second may be too short to say hello
            return False

    with running(tmp_path, connections=ConnectionLimits(head_s=1.0)) as server:
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        until(served)
        with socket.create_connection(("127.0.0.1", server.grpc_port), PATIENCE_S) as line:
            while line.recv(4096):
                pass
        until(served)


def test_room_for_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 5000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    assert room_for(500, 1) == 500 and given == []
    assert room_for(2000, 1) == 2000 and given == [(2200, 5000)]
    assert room_for(10_000, 1) == 4800 and given[-1] == (5000, 5000)
    assert room_for(1000, 2) == 1000 and given[-1] == (2200, 5000)
    assert room_for(10_000, 2) == 2400 and given[-1] == (5000, 5000)  # two ports share what there is

"""Slow, silent and half-open connections end, and the others are served meanwhile."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from eunomia.serving.fronts.connections import AT_ONCE, ConnectionLimits, Connections, _Seen, room_for
from tests.patience import PATIENCE_S, until
from tests.serving.live import GOLD, running
from tests.serving.test_server import InferenceServerException, ask, tritongrpc, tritonhttp


class Line:
    """A connection as the server holds it; ``body``: bytes of a body so far, None = no request."""

    def __init__(self, body: int | None = None, *, whole: bool = False, address: str = "::1") -> None:
        self.closed, self.content, self.transport, self.address = False, self, self, address
        self.total_bytes, self._whole = body or 0, whole

    def is_eof(self) -> bool:
        return self._whole

    def force_close(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, what: str) -> tuple[str, int]:
        assert what == "peername"
        return self.address, 1


def seen(
    connections: Connections, line: Line, since_s: float, *, served: bool = False, body: bool = False
) -> Line:
    connections._seen[line] = _Seen(since_s, served, line if body else None, since_s)  # type: ignore[index]
    return line


def test_each_limit_ends_what_it_shall_and_nothing_else() -> None:
    connections = Connections(ConnectionLimits(most=100, head_s=10.0, idle_s=75.0, body_s=30.0))
    silent, fresh = seen(connections, Line(), 80.0), seen(connections, Line(), 95.0)
    idle, used = seen(connections, Line(), 20.0, served=True), seen(connections, Line(), 80.0, served=True)
    slow, quick = seen(connections, Line(9), 60.0, body=True), seen(connections, Line(9), 75.0, body=True)
    computing = seen(connections, Line(9, whole=True), 0.0, body=True)
    unknown = Line()
    everyone = [silent, fresh, idle, used, slow, quick, computing, unknown]
    asyncio.run(connections.look(everyone, 100.0))
    assert [line for line in everyone if line.closed] == [silent, idle, slow]
    assert (
        connections.ended == {"head": 1, "idle": 1, "body": 1, "most": 0, "bytes": 0}
        and len(connections) == 5
    )
    asyncio.run(connections.look([unknown], 111.0))
    assert unknown.closed and len(connections) == 0


def test_too_many_end_by_age_and_too_much_by_size() -> None:
    connections = Connections(ConnectionLimits(most=3, buffered_bytes=100))
    old, young = seen(connections, Line(), 99.0), seen(connections, Line(), 99.5)
    large, small = seen(connections, Line(90), 98.0, body=True), seen(connections, Line(60), 98.5, body=True)
    asyncio.run(connections.look([old, young, large, small], 100.0))
    assert (old.closed, young.closed, large.closed, small.closed) == (True, False, True, False)
    assert connections.ended["most"] == 1 and connections.ended["bytes"] == 1


def test_very_many_end_a_few_in_a_round_and_those_that_begin_a_request_meanwhile_stay() -> None:
    connections = Connections(ConnectionLimits(most=3))
    lines = [seen(connections, Line(), 90.0 + n / 1e3) for n in range(5 * AT_ONCE)]

    async def main() -> None:
        looking = asyncio.create_task(connections.look(lines, 100.0))
        await asyncio.sleep(0)
        for rounds in range(1, 5):
            assert sum(line.closed for line in lines) == rounds * AT_ONCE
            connections.begun(lines[rounds * AT_ONCE], Line(9))  # type: ignore[arg-type]
            lines[rounds * AT_ONCE].closed = True  # not again: it is counted as if it had been
            await asyncio.sleep(0)
        await looking

    asyncio.run(main())
    assert connections.ended["most"] == 5 * AT_ONCE - 3 - 4


def test_the_address_with_the_most_connections_loses_them_first() -> None:
    """A flood of fresh connections from one machine ends no older one of another."""
    connections = Connections(ConnectionLimits(most=4))
    gold = [seen(connections, Line(), 10.0, served=True) for _ in range(2)]
    flood = [seen(connections, Line(address="10.0.0.66"), 99.0 + n / 10) for n in range(6)]
    connections.limits = ConnectionLimits(most=4, idle_s=1e6)
    asyncio.run(connections.look([*gold, *flood], 100.0))
    assert (
        not any(line.closed for line in gold) and [line.closed for line in flood] == [True] * 4 + [False] * 2
    )


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
    assert room_for(500) == 500 and given == []
    assert room_for(2000) == 2000 and given == [(2200, 5000)]
    assert room_for(10_000) == 4800 and given[-1] == (5000, 5000)

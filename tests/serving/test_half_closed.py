"""A client that says no more gets the answers to its whole requests; one that has gone is found out all the same."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eunomia.serving.fronts.connections import ConnectionLimits
from eunomia.serving.fronts.still_there import START, StillThere
from eunomia.serving.server import Server
from tests.patience import until, until_async
from tests.serving.live import running
from tests.serving.test_lane import answers, connect, request, slowly
from tests.serving.test_server import holding
from tests.serving.test_turns import REQUEST
from tests.serving.wire import Wire, lane

READY = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
OLD = READY.replace(b"1.1", b"1.0")


def loop_of(name: str) -> Any:
    """What runs a server's coroutine."""
    return asyncio.run if name == "asyncio" else pytest.importorskip("uvloop").run


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server"), loop_of(request.param)) as live:
        yield live


def of(server: Server) -> int:
    """How many connections it has."""
    assert server.service.connections is not None
    return len(server.service.connections)


def said(server: Server, data: bytes) -> bytes:
    """All that is answered to it if nothing follows."""
    with connect(server) as line:
        line.sendall(data)
        line.shutdown(socket.SHUT_WR)
        found = bytearray()
        while piece := line.recv(65536):
            found += piece
        return bytes(found)


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (request(), 1),
        (request() * 3, 3),
        (READY, 1),
        (OLD, 1),
        (slowly(request()), 1),
        (READY + request(), 2),
        (request() + READY + slowly(request()), 3),
        (READY * 100, 100),
        (request(path="nothing") * 30, 30),
    ],
)
def test_whole_requests_are_answered_and_the_connection_ends(
    server: Server, asked: bytes, count: int
) -> None:
    """As it was, there was no answer at all, whoever served it."""
    found = said(server, asked)
    assert found.count(b"HTTP/1.") == count and found.count(b"\r\nConnection: close\r\n") <= 1
    until(lambda: not of(server))


def test_an_end_that_waits_for_its_turn_takes_no_answer_away(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every turn is over as soon as it has begun."""
    monkeypatch.setattr("eunomia.serving.fronts.rota.Rota.over", property(lambda self: True))
    for asked, count in ((request() * 3, 3), (READY * 3, 3), (request()[:-1], 0), (request() + READY, 2)):
        assert said(server, asked).count(START) == count


@pytest.mark.parametrize("half", [request()[:-1], request()[:100], READY[:-1], slowly(request())[:-1], b""])
def test_half_a_request_ends_at_once(server: Server, half: bytes) -> None:
    assert said(server, half) == b""


def test_whole_ones_before_half_a_one_are_answered(server: Server) -> None:
    assert said(server, request() + request()[:-1]).count(START) == 1
    assert said(server, request(path="nothing") + request()[:100]).count(START) == 1
    assert said(server, READY * 2 + slowly(request())[:-1]).count(START) == 2


def test_the_first_letters_of_an_answer_do_not_show(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of each are sent ahead, whoever serves it."""
    monkeypatch.setattr("eunomia.serving.fronts.still_there.FIRST_S", 1e-4)
    monkeypatch.setattr("eunomia.serving.fronts.still_there.LONGER", 1.0)
    with connect(server) as line:
        line.sendall(request() * 2 + slowly(request()))
        line.shutdown(socket.SHUT_WR)
        found = answers(line, 3)
        assert line.recv(1) == b""
    assert [status for status, _, _ in found] == [200] * 3
    assert ["connection" in headers for _, headers, _ in found] == [False, False, True]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_who_has_gone_is_given_up_and_who_waits_is_not(tmp_path: Path, loop: str) -> None:
    """Both look the same to the server until it sends something."""
    held, hold = holding()
    with running(tmp_path, loop_of(loop), policy=hold) as server:
        waiting = server.pool.dispatcher.waiting
        with connect(server) as stays:
            goes = [connect(server) for _ in range(3)]
            for line in (stays, *goes):
                line.sendall(request())
            stays.shutdown(socket.SHUT_WR)
            until(lambda: len(waiting) == 4)
            for line in goes:
                line.close()
            until(lambda: len(waiting) == 1)
            held.set()
            assert [status for status, _, _ in answers(stays, 1)] == [200]
            assert stays.recv(1) == b""
        outcomes = [one[5] for one in server.service.books.recording.requests()]
        assert outcomes.count("cancelled") == 3 and len(outcomes) == 4


def test_who_says_no_more_and_takes_nothing_is_cut_when_a_body_may_take_no_longer() -> None:
    """Its answers hold room until then, as those of others do, and what waits behind them is not begun."""

    async def main() -> None:
        one, wire = lane(), Wire()
        one.connections.limits = ConnectionLimits(body_s=0.05)
        one.connection_made(wire)
        wire.waits = 1000
        one.data_received(REQUEST)
        one.pause_writing()
        one.data_received(REQUEST * 2)
        assert one.eof_received() is True
        await until_async(lambda: wire.aborted)
        assert len(wire.sent) == 1 and one._inference.service.bodies.held
        one.connection_lost(None)
        assert not one._inference.service.bodies.held

    asyncio.run(main())


def test_letters_are_sent_ever_later_and_each_once() -> None:
    async def main() -> None:
        wire, waits = Wire(), [True]
        there = StillThere(wire, lambda: waits[0])
        assert wire.sent == [b"H"]
        await until_async(lambda: len(wire.sent) > 1)
        waits[0] = False
        there.writelines([START + b"200 OK", b"body"])
        there.write(START)
        there._look(1.0)
        assert b"".join(wire.sent) == START + b"200 OKbody" + START, "the third has not begun"
        wire.aborted = True
        there._look(1.0)
        there.cancel()

    asyncio.run(main())

"""What one connection can cost the others: bodies in crumbs, refused requests in a row, keys in memory."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import weakref
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.fronts import in_http2
from eunomia.serving.fronts.body import LARGE
from eunomia.serving.fronts.connections import ConnectionLimits, Connections
from eunomia.serving.fronts.dense import DenseHandler
from eunomia.serving.fronts.head import MOST, MOST_FIELDS, read_head
from eunomia.serving.fronts.lane import AT_ONCE, LINGER_BYTES
from eunomia.serving.fronts.waiting import Waiting
from eunomia.serving.http2.frames import Kind
from eunomia.serving.protocol.errors import Refused
from eunomia.serving.protocol.pieces import Gathered
from eunomia.serving.server import Server
from eunomia.serving.tenants.bodies import Bodies, Body
from tests import children
from tests.hostile import frames
from tests.patience import PATIENCE_S, pauses, until_async
from tests.serving.live import running
from tests.serving.near import heard
from tests.serving.wire import MIB, Wire, is_gone_after, lane

SECRET = "eun_a-key-that-is-revoked"
REFUSED = b"POST /v2/models/x/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"


def test_a_body_in_crumbs_becomes_few_pieces() -> None:
    raw = bytes(range(250)) * 8
    parameters = {"binary_data_size": len(raw)}
    entry = {"name": "a", "shape": [len(raw)], "datatype": "UINT8", "parameters": parameters}
    text = json.dumps({"inputs": [entry]}).encode()
    head = f"Inference-Header-Content-Length: {len(text)}\r\nContent-Length: {len(text) + len(raw)}\r\n"

    async def main() -> None:
        one = lane()
        one.transport = wire = Wire()
        one.data_received(f"POST /v2/models/x/infer HTTP/1.1\r\nHost: a\r\n{head}\r\n".encode())
        exchange = one._exchange
        assert exchange is not None
        for byte in (text + raw)[:-1]:
            one.data_received(bytes([byte]))
        body = exchange.body
        one.data_received(raw[-1:])
        assert len(body.pieces) == Gathered.FEW + 1 and body.so_far().joined() == text + raw
        assert len(wire.sent) == 1 and b"no such network" in wire.sent[0]
        (request,) = one._inference.service.requests  # type: ignore[attr-defined]
        data = request.inputs[0].data
        assert bytes(data.raw.joined() if hasattr(data, "raw") else data) == raw

    asyncio.run(main())


@pytest.mark.parametrize("count", [3, 5 * AT_ONCE + 3, 3000])
def test_refused_requests_in_a_row_are_answered_a_few_in_a_round(count: int) -> None:
    async def main() -> None:
        one = lane(known=False)
        one.transport = wire = Wire()
        one.data_received(REFUSED * count + REFUSED[:-1])
        assert len(wire.sent) == min(count + 1, AT_ONCE)
        one.data_received(REFUSED[-1:] if wire.reads else b"")  # comes while the others wait
        while len(wire.sent) <= count:
            before = len(wire.sent)
            await asyncio.sleep(0)
            assert before < len(wire.sent) <= before + AT_ONCE
        await until_async(lambda: wire.reads)  # what nobody wants is read in its turn
        assert all(answer.startswith(b"HTTP/1.1 401 ") for answer in wire.sent)

    asyncio.run(main())


def test_a_key_is_forgotten_with_its_connection() -> None:
    """Nothing that outlives the connection holds the head."""
    head = f"POST /v2/models/x/infer HTTP/1.1\r\nHost: a\r\nX-Api-Key: {SECRET}\r\nContent-Length: 0\r\n\r\n"

    async def main() -> None:
        one = lane(known=False)
        one.transport = Wire()
        one.data_received(head.encode())
        known = one._known
        assert known is not None and known[2].key == SECRET
        one.data_received(head.encode())
        assert one._known is known  # read once
        one.connection_lost(None)
        assert one._known is None and not hasattr(read_head, "cache_info")

    asyncio.run(main())


def test_what_a_client_does_not_take_holds_room_of_its_tenants() -> None:
    """Answers below 256 KB as well: three thousand of them were in nobody's budget."""

    async def main() -> None:
        one, other = lane(known=False), lane(known=False)
        bodies = other._inference.service.bodies = one._inference.service.bodies  # type: ignore[misc]
        for each in (one, other):
            each.transport = Wire()
            each.transport.waits = 12 * MIB
        one.pause_writing()
        assert bodies.untaken == {"": 12 * MIB}
        other.pause_writing()
        assert other.transport.aborted and not one.transport.aborted  # type: ignore[union-attr]
        one.resume_writing()
        other.connection_lost(None)
        assert not bodies.untaken and not bodies.held

    asyncio.run(main())


def test_who_stands_aside_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, what waited inside could have it read on: the next request was in nobody's hands."""

    async def main() -> None:
        one, stands = lane(), list[object]()
        one.transport = wire = Wire()
        aside = SimpleNamespace(hear=lambda one, number, who: stands.append(one), forget=lambda who: None)
        monkeypatch.setattr(type(one), "_crowd", lambda self: aside)
        one._behind, wire.reads = True, True
        one.go()
        assert stands == [one] and not wire.reads

    asyncio.run(main())


def test_a_client_that_does_not_read_is_cut_off() -> None:
    async def main() -> None:
        async def much(_: web.BaseRequest) -> web.Response:
            return web.Response(body=bytes(32 * 1024**2))

        server, connections = web.Server(much), Connections(ConnectionLimits())
        listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            thread = threading.Thread(target=client.connect, args=(listening.sockets[0].getsockname(),))
            thread.start()
            await asyncio.to_thread(thread.join)
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await until_async(
                lambda: any(c.transport and c.transport.get_write_buffer_size() for c in server.connections)
            )
            connections.came(server.connections[0], "127.0.0.1")
            connections.end(server.connections[0], "idle")
            await until_async(lambda: not server.connections)
        listening.close()

    asyncio.run(main())


def test_waiting_bytes() -> None:
    some = Waiting()
    some.add(b"abcdef")
    assert (some.find(b"c"), some.find(b"x") < 0, some.first(2), some.take(2)) == (2, True, b"ab", b"ab")
    some.add(b"gh")
    assert (len(some), some.find(b"h"), some.find(b"ab") < 0, some.take(3)) == (6, 5, True, b"cde")
    assert some.take_all() == b"fgh" and not some and some.take(4) == b""


def test_a_server_that_ends_waits_for_answers_in_the_making() -> None:
    """A large body is read in a task, outside of what devices know."""

    async def main() -> None:
        one = lane()
        one.transport, making = Wire(), one._inference.making
        body = b'{"inputs": []}' + b" " * LARGE
        head = f"POST /v2/models/x/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
        one.data_received(head.encode() + body)
        assert len(making) == 1
        inference, pool = one._inference, SimpleNamespace(busy=False)
        ending: Any = SimpleNamespace(pool=pool, _inference=inference, service=inference.service)
        await asyncio.wait_for(Server._drained(ending), PATIENCE_S)
        assert not making and b" 400 " in b"".join(one.transport.sent)
        one._inference.json.close()

    asyncio.run(main())


LINE = b"GET /v2 HTTP/1.1\r\nHost: a\r\n"
NOT_TAKEN = {
    "a line without end": (b"GET /" + b"a" * MOST, 431),
    "a header without end": (LINE + b"X: " + b"a" * MOST, 431),
    "a header that ends too late": (LINE + b"X: " + b"a" * MOST + b"\r\n\r\n", 431),
    "many headers": (LINE + b"".join(b"X%d: a\r\n" % n for n in range(MOST_FIELDS + 1)), 431),
    "many headers with an end": (
        LINE + b"".join(b"X%d: a\r\n" % n for n in range(MOST_FIELDS + 1)) + b"\r\n",
        431,
    ),
    "empty lines": (b"\r\n" * MOST, 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "SSH": (b"SSH-2.0-OpenSSH_9.2p1\r\n", 400),
    "no version": (b"GET /v2\r\n", 400),
    "a strange version": (b"GET /v2 HTTP/3.0\r\n\r\n", 400),
    "letters of elsewhere": ("GÉT /v2 HTTP/1.1\r\n".encode(), 400),
}


@given(cuts=st.lists(st.integers(1, 60), max_size=20))
def test_http2_is_answered_in_http2_and_ends(cuts: list[int]) -> None:
    """Once the first request has come: clients of gRPC send none before they have heard something."""
    said = frames.greeting() + frames.call(5, "ServerLive", "")

    async def main() -> None:
        one, at = lane(known=False), 0
        one.transport = wire = Wire()
        for size in [*cuts, len(said)]:
            one.data_received(said[at : at + size])
            at += size
            if at < len(frames.greeting()):
                assert not wire.ended
        kinds = [(kind, stream) for kind, _, stream, _ in heard(b"".join(wire.sent))]
        assert kinds == [(frames.SETTINGS, 0), (frames.HEADERS, 5), (frames.DATA, 5)]
        assert wire.ended and not wire.aborted and not one._tail
        assert b'{"error": "this port speaks HTTP/1.1, and the request came in HTTP/2", ' in wire.sent[-1]
        one.data_received(bytes(LINGER_BYTES + 1))
        assert wire.aborted
        one.connection_lost(None)

    asyncio.run(main())


def test_who_begins_in_http2_and_asks_nothing_is_hung_up_on() -> None:
    async def main() -> None:
        one = lane(known=False)
        one.transport = wire = Wire()
        one.data_received(frames.greeting() + frames.frame(8, 0, 0, bytes(4)) * 8000)
        assert wire.aborted

    asyncio.run(main())


@pytest.mark.parametrize("pieces", [1, 7, 9, 4000])
def test_what_comes_before_a_request_in_http2_is_looked_at_once_and_little(
    pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, each byte that came had all frames before it read again: 3 ms of all others' time."""
    looks = list[int]()

    class Looked:
        DATA, SETTINGS = Kind.DATA, Kind.SETTINGS

        @property
        def HEADERS(self) -> int:  # noqa: N802
            looks.append(1)
            return Kind.HEADERS

    monkeypatch.setattr(in_http2, "Kind", Looked())
    small = frames.frame(8, 0, 0, bytes(4)) + frames.frame(6, 0, 0, bytes(20)) + frames.frame(4, 1, 0)

    async def main(count: int) -> Wire:
        one, said = lane(known=False), frames.greeting() + small * count
        one.transport = wire = Wire()
        for at in range(0, len(said), pieces):
            one.data_received(said[at : at + pieces])
        assert len(looks) <= 3 * count + 2, "each frame once"
        one.data_received(frames.call(5, "ServerLive", ""))
        one.connection_lost(None)
        return wire

    wire = asyncio.run(main(100))
    assert wire.ended and not wire.aborted
    looks.clear()
    wire = asyncio.run(main(in_http2.MOST // len(small)))
    assert wire.aborted and not wire.ended


@pytest.mark.parametrize("ahead", [b"", REFUSED], ids=["first", "behind another"])
@pytest.mark.parametrize("what", NOT_TAKEN)
def test_what_is_no_request_ends_in_a_sentence_without_work(
    what: str, ahead: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object) -> None:
        raise AssertionError("aiohttp was given it")

    monkeypatch.setattr(DenseHandler, "_parse", work)
    data, status = NOT_TAKEN[what]

    async def main() -> None:
        one = lane(known=False)
        one.transport = wire = Wire()
        one.data_received(ahead + data)
        answer = wire.sent[-1]
        assert answer.startswith(b"HTTP/1.1 %d " % status) and b"\r\nConnection: close\r\n" in answer
        sentence = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert "\n" not in sentence and len(sentence) < 100
        assert len(wire.sent) == 1 + bool(ahead) and wire.ended and not wire.aborted
        one.data_received(LINE + b"\r\n")  # what comes behind is thrown away
        assert len(wire.sent) == 1 + bool(ahead) and not one._tail
        one.data_received(bytes(LINGER_BYTES))
        assert wire.aborted
        one.connection_lost(None)

    asyncio.run(main())


@pytest.mark.parametrize("end", [b"\r\n", b""], ids=["whole", "not whole"])
def test_a_head_as_long_as_may_be_is_taken(end: bytes) -> None:
    lines = LINE + b"".join(b"X%d: a\r\n" % n for n in range(MOST_FIELDS - 2)) + b"Y: "
    head = lines + b"a" * (MOST - len(lines) - 4) + b"\r\n"

    async def main() -> None:
        one = lane()
        one.transport = wire = Wire()
        one.data_received(head + end)
        assert not wire.sent and not wire.ended

    asyncio.run(main())


def test_a_client_with_a_header_of_a_megabyte_reads_why(tmp_path: Path) -> None:
    with running(tmp_path) as server, socket.create_connection(("127.0.0.1", server.http_port)) as line:
        line.settimeout(PATIENCE_S)
        line.sendall(LINE + b"X: " + b"a" * (MIB - 100))
        said = b""
        while piece := line.recv(65536):
            said += piece
        assert said.startswith(b"HTTP/1.1 431 ")
        assert b'"error": "the head of the request has more than 16384 bytes"' in said


@pytest.mark.parametrize("rest", [b"X: " + b"a" * MIB, b"a" * MIB, b"a: b\r\n" * (MIB // 6)])
def test_what_is_no_request_behind_one_of_aiohttps_is_told_in_short(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rest: bytes
) -> None:
    """Its parser makes an error of each piece that comes behind an error, and its log holds them all."""
    odd = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nX-A: 2\r\n\r\n"

    async def main() -> None:
        one = lane()
        one.transport = Wire()
        for at in range(0, MIB, 2**16):
            one.data_received((odd + LINE if not at else b"") + rest[at : at + 2**16])
            await asyncio.sleep(0)
        while one._dense:
            await asyncio.sleep(0)
        assert len(one._messages) <= 2

    asyncio.run(main())
    with running(tmp_path) as server, socket.create_connection(("127.0.0.1", server.http_port)) as line:
        line.settimeout(PATIENCE_S)
        said = b""
        with suppress(ConnectionError):
            line.sendall(odd + LINE + rest)
        with suppress(ConnectionError):
            while piece := line.recv(65536):
                said += piece
        assert len(said) < 1000 and said.count(b"HTTP/1.1 ") <= 2
    assert all(len(record.getMessage()) < 1000 and not record.exc_info for record in caplog.records)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=40))
def test_answers_that_are_not_taken_hold_twice_a_budget(steps: list[tuple[bool, int]]) -> None:
    """Against a plain sum; a request holds room that is not counted."""
    bodies, left = Bodies(10_000 * MIB), list[Body]()
    bodies.budget = lambda tenant: 10 * MIB if tenant == "gold" else 10**12
    bodies.open("gold").need(30 * MIB)
    bodies.leaving("silver").need(100 * MIB)
    for comes, size in steps:
        if comes:
            room, sizes = bodies.leaving("gold"), [one.size for one in left]
            fits = not left or sum(sizes) + size * MIB <= 20 * MIB
            with nullcontext() if fits else pytest.raises(Refused, match="take answers sooner"):
                room.need(size * MIB)
                left.append(room)
        elif left:
            left.pop(size % len(left)).close()
        assert bodies.untaken.get("gold", 0) == sum(one.size for one in left)
    for one in left:
        one.close()
    assert bodies.held == {"gold": 30 * MIB, "silver": 100 * MIB} and bodies.untaken == {"silver": 100 * MIB}


def test_a_head_of_spaces_costs_in_proportion() -> None:
    """As it was, with the square of their number: half a second for 15,000, and ten minutes for these."""
    work = "from eunomia.serving.fronts.head import FIELD; print(FIELD.fullmatch('X:' + ' ' * 500_000 + chr(128)))"
    assert children.run(children.python("-c", work)).stdout == "None\n"


def test_an_error_of_bytes_that_are_no_http_holds_none_of_them() -> None:
    """All that came stayed, until a full collection."""

    async def main() -> weakref.ref[object]:
        one, wire = lane(), Wire()
        one.connection_made(wire)
        one.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        await until_async(lambda: wire.closed)
        one.connection_lost(BrokenPipeError())
        await pauses(3)
        return weakref.ref(one)

    assert is_gone_after(main)

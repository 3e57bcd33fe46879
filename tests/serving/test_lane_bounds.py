"""What one connection can cost the others: bodies in crumbs, refused requests in a row, keys in memory."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from eunomia.serving.fronts.body import LARGE
from eunomia.serving.fronts.connections import ConnectionLimits, Connections
from eunomia.serving.fronts.exchange import FEW
from eunomia.serving.fronts.head import read_head
from eunomia.serving.fronts.lane import AT_ONCE
from eunomia.serving.fronts.waiting import Waiting
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S, until_async
from tests.serving.wire import Wire, lane

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
        for byte in text + raw:
            one.data_received(bytes([byte]))
        assert len(exchange.pieces) == FEW + 1 and b"".join(exchange.pieces) == text + raw
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
        assert wire.reads and all(answer.startswith(b"HTTP/1.1 401 ") for answer in wire.sent)

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
            connections._end(server.connections[0], "idle")
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
        ending: Any = SimpleNamespace(pool=SimpleNamespace(busy=False), _making=making)
        await asyncio.wait_for(Server._drained(ending), PATIENCE_S)
        assert not making and b" 400 " in b"".join(one.transport.sent)
        one._inference.json.close()

    asyncio.run(main())

"""What the system keeps for clients that take nothing is bounded, as nobody's account holds it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from eunomia.serving.server import Server
from eunomia.serving.tenants.bodies import Bodies
from tests.patience import pauses, until
from tests.serving.live import running

PAGE = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system has no such bound")
def test_the_system_keeps_little_of_answers_that_nobody_takes(tmp_path: Path) -> None:
    """As it was, some megabytes of each connection: 1,500 strangers held 1.2 GB of the kernel's memory."""
    with running(tmp_path, grpc_port=None) as server:
        bodies = server.service.bodies
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(("127.0.0.1", server.http_port))
            line.sendall(8 * PAGE)  # 450 KB of answers
            until(lambda: bodies.untaken.get("", 0) > 0)
        until(lambda: not bodies.held)


def test_a_server_that_ends_waits_for_answers_that_tenants_still_take() -> None:
    """As it was, what of a large one had not left after 50 ms was cut off."""

    async def main() -> None:
        bodies = Bodies(1000)
        bodies.leaving("").need(10)  # of callers without a key
        service, pool = SimpleNamespace(bodies=bodies), SimpleNamespace(busy=False)
        ends = cast(Server, SimpleNamespace(service=service, pool=pool, _inference=None))
        await Server._drained(ends)
        room = bodies.leaving("gold")
        room.need(100)
        ending = asyncio.create_task(Server._drained(ends))
        await pauses(10)
        assert not ending.done()
        room.close()
        await ending

    asyncio.run(main())

"""What the system keeps for clients that take nothing is bounded, as nobody's account holds it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.patience import until
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

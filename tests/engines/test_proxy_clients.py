"""Behind the rendered proxy each connection of a server belongs to one client: the server queues by connection."""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from eunomia.engines.deploy.proxy import haproxy
from tests import children
from tests.patience import PATIENCE_S, until
from tests.ports import free_port


def test_two_clients_never_share_a_connection_to_the_server(tmp_path: Path) -> None:
    """As it was, HAProxy sent requests of one client on the connection of another."""
    program = shutil.which("haproxy") or next(iter(map(str, Path("/usr/sbin").glob("haproxy"))), None)
    if program is None:
        pytest.skip("HAProxy is not installed (Debian: apt-get install haproxy)")
    seen = defaultdict[int, set[str]](set)  # who asked, by the port of the server's connection

    class Origin(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if who := self.headers.get("X-Who"):
                seen[self.client_address[1]].add(who)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_OPTIONS = do_GET  # as HAProxy checks without a word on it

        def log_message(self, *_: object) -> None:
            """Nothing is said."""

    http, grpc = free_port(), free_port()
    with ThreadingHTTPServer(("127.0.0.1", 0), Origin) as origin:
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        text = haproxy([f"127.0.0.1:{origin.server_port}:1"], http, grpc)
        (tmp_path / "haproxy.cfg").write_text(text)
        with children.started([program, "-f", tmp_path / "haproxy.cfg"]) as proxy:
            clients = {who: HTTPConnection("127.0.0.1", http, timeout=PATIENCE_S) for who in "abcd"}

            def answers(who: str) -> bool:
                try:
                    clients[who].request("GET", "/", headers={"X-Who": who})
                    return clients[who].getresponse().read() == b""
                except OSError:
                    clients[who].close()
                    return False

            until(lambda: answers("a"), proxy)
            for _ in range(5):
                for who in clients:
                    assert answers(who)
            for client in clients.values():
                client.close()
        origin.shutdown()
    assert set().union(*seen.values()) == set(clients)
    assert all(len(who) == 1 for who in seen.values()), dict(seen)

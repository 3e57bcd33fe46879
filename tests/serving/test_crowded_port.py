"""The gRPC port among floods: frames that belong to no message, silent connections, very many of them."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import numpy as np
import pytest

from eunomia.serving.fronts.connections import ConnectionLimits
from eunomia.serving.http2.frames import Code, Fault
from eunomia.serving.http2.line import Line
from eunomia.serving.server import Server
from tests.hostile import frames
from tests.patience import PATIENCE_S, until
from tests.serving.live import GOLD, ask, running

grpc = pytest.importorskip("tritonclient.grpc")
KEY = {"authorization": f"Bearer {GOLD}"}
FLOOD, OTHER = "127.0.0.7", "127.0.0.8"
MOST = 60
CRUMBS = {
    "padding": frames.frame(frames.DATA, 8, 1, b"\xff" + bytes(255)),
    "nothing": frames.frame(frames.DATA, 0, 1, b""),
    "of an answered call": frames.frame(frames.DATA, 0, 1, b"a"),
    "windows": frames.frame(frames.WINDOW, 0, 1, b"\0\0\0\1"),
    "pings": frames.frame(frames.PING, 0, 0, bytes(8)),
    "answers to pings": frames.frame(frames.PING, 1, 0, bytes(8)),
    "settings": frames.frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\xff\xff"),
    "priorities": frames.frame(2, 0, 1, bytes(5)),
    "resets": frames.frame(frames.RESET, 0, 1, bytes(4)),
    "of no known kind": frames.frame(99, 0, 0, b"a" * 64),
}


def picture(rows: int = 1) -> list[object]:
    one = grpc.InferInput("image", [rows, 3, 64, 64], "FP32")
    one.set_data_from_numpy(np.zeros((rows, 3, 64, 64), np.float32))
    return [one]


def heard(line: socket.socket) -> bytes:
    """All that the server says until it ends the connection."""
    line.settimeout(PATIENCE_S)
    said = b""
    with contextlib.suppress(ConnectionError):
        while piece := line.recv(65536):
            said += piece
    return said


def away(said: bytes) -> list[int]:
    """Codes of the frames that end a connection."""
    found, at = [], 0
    while at + 9 <= len(said):
        size, kind = int.from_bytes(said[at : at + 3], "big"), said[at + 3]
        if kind == frames.AWAY:
            found.append(int.from_bytes(said[at + 13 : at + 17], "big"))
        at += 9 + size
    return found


@pytest.mark.parametrize("what", CRUMBS)
def test_a_flood_of_frames_is_cut_and_others_are_served(
    what: str, plain: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs as little as a small call, and belongs to none: the connection ends, and no other."""
    ended, fault = list[tuple[str, Code]](), Line.fault

    def noted(self: Line, found: Fault) -> None:
        ended.append((self.address, found.code))
        fault(self, found)

    monkeypatch.setattr(Line, "fault", noted)
    place = ("127.0.0.1", plain.grpc_port)
    with (
        socket.create_connection(place, PATIENCE_S, (OTHER, 0)) as honest,
        socket.create_connection(place, PATIENCE_S, (FLOOD, 0)) as line,
    ):
        honest.sendall(frames.greeting() + frames.call(1, "ServerLive", ""))
        line.sendall(frames.greeting() + frames.call(1, "ModelInfer", ""))
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                if ended:
                    break
                line.sendall(CRUMBS[what] * 500)
        assert ended == [(FLOOD, Code.ENHANCE_YOUR_CALM)]
        with contextlib.suppress(ConnectionError):
            assert [*{*away(heard(line))}] in ([], [Code.ENHANCE_YOUR_CALM])
        honest.sendall(frames.message(1, b"", flags=frames.END_STREAM))
        said = b""
        while b"\0\0\0\0\2\x08\1" not in said:
            assert (piece := honest.recv(65536))
            said += piece
    with grpc.InferenceServerClient(f"127.0.0.1:{plain.grpc_port}") as client:
        assert client.infer("small", picture(), headers=KEY).as_numpy("logits").shape == (1, 10)
    status, found = ask(plain, "GET", "/v2/models/small", GOLD)
    assert status == 200 and found["name"] == "small"
    assert len(ended) == 1 and not plain.service.bodies.held


def test_who_sends_much_and_gets_much_is_not_cut(plain: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large messages, many small ones, long streams, answers larger than any window: by the stock client."""
    ended = list[str]()
    monkeypatch.setattr(Line, "fault", lambda self, fault: ended.append(str(fault)))
    with grpc.InferenceServerClient(f"127.0.0.1:{plain.grpc_port}") as client:
        for rows in [1] * 400 + [80] * 12:
            with contextlib.suppress(grpc.InferenceServerException):  # so many rows are too large for it
                client.infer("small", picture(rows), headers=KEY)
        answers = list[object]()
        client.start_stream(lambda result, error: answers.append(error or result), headers=KEY)
        for _ in range(600):
            client.async_stream_infer("small", picture(1))
        until(lambda: len(answers) == 600)
        client.stop_stream()
        for _ in range(300):
            client.get_server_metadata()
    assert ended == []


def test_newcomers_reach_a_port_that_silent_connections_have_filled(tmp_path: Path) -> None:
    """Room is made at the most crowded address, and whoever has a key stays."""
    with (
        running(tmp_path, connections=ConnectionLimits(most=MOST)) as server,
        contextlib.ExitStack() as crowd,
        grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as gold,
    ):
        assert server._grpc is not None
        connections = server._grpc.connections
        assert gold.infer("small", picture(), headers=KEY).as_numpy("logits").shape == (1, 10)
        (mine,) = connections.of(Line)
        for n in range(2 * MOST):
            place = ("127.0.0.1", server.grpc_port)
            line = crowd.enter_context(socket.create_connection(place, PATIENCE_S, (FLOOD, 0)))
            if n % 2:
                with contextlib.suppress(OSError):
                    line.sendall(frames.greeting())
        until(lambda: connections.ended["most"] >= MOST)
        with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            assert client.is_server_live()
        until(lambda: len(connections) <= MOST)
        assert mine in connections.of(Line)
        assert gold.infer("small", picture(), headers=KEY).as_numpy("logits").shape == (1, 10)


def test_a_connection_that_does_not_greet_ends_and_one_without_a_call_may_rest(tmp_path: Path) -> None:
    with running(tmp_path, connections=ConnectionLimits(head_s=0.5)) as server:
        place = ("127.0.0.1", server.grpc_port)
        with socket.create_connection(place) as silent, socket.create_connection(place) as half:
            half.sendall(frames.PREFACE[:9])
            with socket.create_connection(place) as greeted:
                greeted.sendall(frames.greeting())
                assert away(heard(silent)) in ([], [Code.NO_ERROR])
                assert away(heard(half)) == [Code.NO_ERROR]
                greeted.sendall(frames.call(1, "ServerLive", "") + frames.message(1, b"", flags=1))
                said = b""
                while b"\0\0\0\0\2\x08\1" not in said:
                    assert (piece := greeted.recv(65536))
                    said += piece

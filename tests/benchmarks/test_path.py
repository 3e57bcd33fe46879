"""What a client on raw sockets reads, and how the rows of the added latency are judged, by hand."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence

import pytest

from benchmarks.serving.load import IMAGE, Stream, client, closed_loop
from benchmarks.serving.path import RAW, medians, row
from benchmarks.serving.raw import RawClient
from eunomia.core.errors import OutputError
from tests.patience import pauses, work

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\nContent-Length: 10\r\n\r\n"


def asked(*pieces: bytes) -> tuple[bytes, bytes]:
    """What a server that answers with these pieces and hangs up was sent, and what the client read."""
    server, got = socket.create_server(("127.0.0.1", 0)), bytearray()

    def serve() -> None:
        line, _ = server.accept()
        with line:
            while not got.endswith(IMAGE.tobytes()[-64:]):
                got.extend(line.recv(2**20))
            for piece in pieces:
                line.sendall(piece)
                work(0.002)  # the client reads meanwhile

    async def read() -> bytes:
        where = f"127.0.0.1:{server.getsockname()[1]}"
        async with client(where, RAW, [Stream("gold", "small")], made=RawClient) as one:
            assert isinstance(one, RawClient)
            return one.ask()

    with server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            read_bytes = asyncio.run(read())
        finally:
            thread.join()
    return bytes(got), read_bytes


def test_an_answer_is_read_whole_however_it_comes() -> None:
    sent, read = asked(HEAD[:30], HEAD[30:] + b"01234", b"56789")
    head, _, body = sent.partition(b"\r\n\r\n")
    assert read == b"0123456789" and body.endswith(IMAGE.tobytes())
    assert head.startswith(b"POST /v2/models/small/infer HTTP/1.1\r\n") and b"x-tenant-id: gold" in head
    assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")


@pytest.mark.parametrize("pieces", [(HEAD + b"0123",), (HEAD.replace(b"200 OK", b"503 No") + b"0" * 10,), ()])
def test_what_is_no_whole_answer_is_an_error(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(OutputError, match="127.0.0.1"):
        asked(*pieces)


class Noting:
    """A client that answers at once and notes which stream was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def send(self, stream: int) -> None:
        self.asked.append(stream)
        await pauses(1)

    async def close(self) -> None:
        """Nothing is open."""


def test_a_closed_loop_takes_streams_in_turn_and_pauses() -> None:
    busy, calm = Noting(), Noting()
    asyncio.run(closed_loop(busy, 3, 0.02, order=(0, 1, 1, 2)))
    assert busy.asked == [(0, 1, 1, 2)[n % 4] for n in range(len(busy.asked))] and len(busy.asked) >= 3
    found = asyncio.run(closed_loop(calm, 2, 0.05, pause_s=0.1))
    assert len(calm.asked) == 2 and found.wall_s > 0.05  # each has waited for half its pause at least


def judged(transport: str, users: int, now: Sequence[float], empty: Sequence[float]) -> list[object]:
    found = row(
        "",
        ("m", transport, users, 0.0),
        {"now": [now] * 2, "empty": [empty] * 2, "rested": [0.2, 0.2], "now cpu": [1.0, 1.0]},
    )
    return [found[4], found[5], found[9]]


def test_added_latency_is_judged_beyond_the_empty_server_and_a_raw_socket_s_in_all() -> None:
    assert judged("http", 1, [1.0] * 3, [0.75] * 3) == [0.3, True, True]
    assert judged("grpc", 1, [1.25] * 3, [0.75] * 3) == [0.3, False, True]
    assert judged(RAW, 1, [1.25] * 3, [1.0] * 3) == [1.0, False, True]
    assert judged("http", 1, [3.0] * 3, [3.0] * 3) == [0.3, True, False]
    assert judged("http", 4, [3.0] * 3, [3.0] * 3) == [0.3, True, True]


def test_steps_are_medians_between_stamps_and_a_late_stamp_is_of_the_request_before() -> None:
    times = [(n, n + 0.5) for n in range(0, 60, 10)]
    stamps: list[tuple[str, float, float | None]] = []
    for n in range(0, 50, 10):
        stamps += [("bytes", n + 0.1, n / 100), ("device has it", n + 0.2, None)]
        stamps += [("answer", n + (10.05 if n in (10, 30) else 0.4), n / 100 + 0.001)]
    found = medians(times, stamps)
    assert list(found) == ["bytes", "device has it", "answer", "the client has its answer"]
    wall = [round(wall_ms) for wall_ms, _ in found.values()]
    assert wall == [100, 100, 200, 100] and round(found["answer"][1] or 0.0, 6) == 1.0

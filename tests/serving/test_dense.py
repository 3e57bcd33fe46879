"""Bytes full of short lines: chunks of one byte, requests in a row. Nobody waits for the whole packet."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.web_protocol import RequestHandler

from eunomia.serving.fronts.dense import DENSE_BYTES, DENSE_MOST, DenseHandler
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S
from tests.serving.live import GOLD
from tests.serving.wire import Wire, lane

CHUNKS = b"1\r\nx\r\n" * 40_000


def fed(play: Callable[[DenseHandler], Any], monkeypatch: Any) -> tuple[list[bytes], list[int], bool]:
    """What aiohttp gets, in how many bytes in each round of the loop, and whether the wire reads at the end."""
    pieces: list[bytes] = []
    rounds: list[int] = []

    async def main() -> bool:
        one, wire = lane(), Wire()
        one.transport = wire
        play(one)
        while one._dense and not one._reading_paused and not wire.aborted:
            before = sum(map(len, pieces))
            await asyncio.sleep(0)
            rounds.append(sum(map(len, pieces)) - before)
        return wire.reads

    monkeypatch.setattr(RequestHandler, "data_received", lambda self, piece: pieces.append(bytes(piece)))
    return pieces, rounds, asyncio.run(main())


def test_short_lines_are_read_a_few_in_a_round(monkeypatch: Any) -> None:
    def play(one: DenseHandler) -> None:
        one._parse(CHUNKS)
        one._parse(b"0\r\n\r\n")

    pieces, rounds, reads = fed(play, monkeypatch)
    assert b"".join(pieces) == CHUNKS + b"0\r\n\r\n" and reads
    assert max(rounds) <= DENSE_BYTES and len(rounds) > 100


def test_long_lines_are_read_at_once(monkeypatch: Any) -> None:
    packet = b"40000\r\n" + b"x" * 0x40000 + b"\r\n"

    def play(one: DenseHandler) -> None:
        one._parse(packet)
        one._parse(packet)

    pieces, rounds, reads = fed(play, monkeypatch)
    assert pieces == [packet, packet] and not rounds and reads


def test_nothing_is_read_while_some_wait_though_aiohttp_goes_on(monkeypatch: Any) -> None:
    seen: list[bool] = []

    def play(one: DenseHandler) -> None:
        one._parse(CHUNKS)
        one._reading_paused = True  # aiohttp's stream was full, and is read
        one.resume_reading(resume_parser=False)
        seen.append(one.transport.reads)  # type: ignore[union-attr]

    _, _, reads = fed(play, monkeypatch)
    assert seen == [False] and reads


def test_what_aiohttp_does_not_want_waits_until_it_does(monkeypatch: Any) -> None:
    def full(one: DenseHandler) -> None:
        one._parse(CHUNKS)
        one._reading_paused = True

    pieces, _, reads = fed(full, monkeypatch)
    assert not pieces and not reads


def test_a_wire_that_goes_on_all_the_same_is_cut(monkeypatch: Any) -> None:
    waits: list[int] = []

    def play(one: DenseHandler) -> None:
        while not one.transport.aborted:  # type: ignore[union-attr]
            one._parse(CHUNKS)
        waits.append(len(one._dense))

    fed(play, monkeypatch)
    assert waits[0] <= DENSE_MOST + len(CHUNKS)


def test_a_connection_that_was_held_stays_so_when_short_lines_wait() -> None:
    async def main() -> None:
        one, wire = lane(), Wire()
        one.transport = wire
        one.pause_writing()
        one.data_received(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\nX: \x80\r\n\r\n" * 3000)
        assert not wire.reads
        one.resume_writing()
        assert one._dense and not wire.reads

    asyncio.run(main())


@pytest.mark.parametrize("rest", [b"zz\r\nhello\r\n", b"0\r\n" + b"a: b\r\n" * 3000 + b"\r\n"])
def test_a_body_that_is_no_http_from_its_middle_on_is_answered_at_once(plain: Server, rest: bytes) -> None:
    """Its request waited for the rest, and its connection ended after ``body_s`` without a word."""
    head = (
        b"POST /v2/models/small/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
        b"Authorization: Bearer %s\r\nExpect: 100-continue\r\n\r\n" % GOLD.encode()
    )
    with socket.create_connection(("127.0.0.1", plain.http_port), PATIENCE_S) as line:
        line.sendall(head)
        assert line.recv(65536).startswith(b"HTTP/1.1 100 ")
        line.sendall(b"5\r\nhello\r\n")
        line.sendall(rest)
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1
    assert b"this is no HTTP: " in answer


def test_a_body_that_is_packed_on_its_way_is_refused_by_that_name(plain: Server) -> None:
    """It was taken for one in chunks alone, and was no JSON."""
    with socket.create_connection(("127.0.0.1", plain.http_port), PATIENCE_S) as line:
        line.sendall(
            b"POST /v2/models/small/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n"
            b"Authorization: Bearer %s\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n" % GOLD.encode()
        )
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400 ") and b"Transfer-Encoding is 'gzip, chunked'" in answer

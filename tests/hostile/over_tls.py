"""Attacks by records and handshakes, on a server with a certificate: they are the event loop's, before any request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.hostile.bronze import ADDRESS, Attack, Bronze, Line, infer
from tests.hostile.over_http import GOOD, LIVE
from tests.tls import Speaker

HELLO = Speaker().greet()
WHOLE = 16384  # bytes of a record, as clients write them
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
PINGS = (b"\x00\x00\x08\x06" + bytes(5) + b"12345678") * 500
TOGETHER = 50


@asynccontextmanager
async def raw(b: Bronze, *, grpc: bool = False) -> AsyncIterator[Line]:
    """A connection, with nothing said."""
    host, _, port = b.grpc.rpartition(":")
    where = (host, int(port)) if grpc else b.http
    reader, writer = await asyncio.open_connection(*where, local_addr=(ADDRESS, 0))
    try:
        yield reader, writer
    finally:
        writer.close()


async def greet(line: Line, protocol: str = "") -> Speaker:
    """The handshake."""
    speaker = Speaker(protocol)
    line[1].write(speaker.greet())
    while not speaker.greeted:
        if not (came := await line[0].read(WHOLE)):
            raise EOFError
        line[1].write(speaker.greet(came))
    return speaker


async def say(b: Bronze, data: bytes, each: int = WHOLE, again: int = 1, *, grpc: bool = False) -> None:
    """The same again and again in records of this size, whatever the answers."""
    async with raw(b, grpc=grpc) as line:
        speaker = await greet(line, "h2" if grpc else "")
        if grpc:
            line[1].write(speaker.say(PREFACE, WHOLE))
        for _ in range(again):
            line[1].write(speaker.say(data, each))
            await line[1].drain()
            if b.over:
                return
        speaker.hear(await line[0].read(WHOLE))


async def short_records(b: Bronze) -> None:
    """A picture, a byte in a record."""
    await say(b, GOOD, 1)


async def short_records_grpc(b: Bronze) -> None:
    """Pings, the same."""
    await say(b, PINGS, 1, 8, grpc=True)


async def together(b: Bronze) -> None:
    """Half greetings; then the other halves, all at once."""
    lines = list[Line]()
    try:
        for _ in range(TOGETHER):
            lines.append(await asyncio.open_connection(*b.http, local_addr=(ADDRESS, 0)))
            lines[-1][1].write(HELLO[: len(HELLO) // 2])
        await b.rest()
        for _, writer in lines:
            writer.write(HELLO[len(HELLO) // 2 :])
        await b.rest()
    finally:
        for _, writer in lines:
            writer.close()


async def greetings(b: Bronze) -> None:
    """A handshake, and no more."""
    async with raw(b) as line:
        await greet(line)


async def go_at_once(b: Bronze) -> None:
    """A greeting, and gone."""
    async with raw(b) as line:
        line[1].write(HELLO)
        await line[1].drain()


async def slow_greeting(b: Bronze) -> None:
    """A byte after the other."""
    async with raw(b) as line:
        for at in range(len(HELLO)):
            line[1].write(HELLO[at : at + 1])
            await b.rest()
            if b.over:
                return


async def rubbish(b: Bronze) -> None:
    """Behind the handshake."""
    async with raw(b) as line:
        await greet(line)
        line[1].write(os.urandom(20_000))
        await line[0].read()


async def rubbish_at_once(b: Bronze) -> None:
    """In place of a greeting."""
    async with raw(b) as line:
        line[1].write(b"\x16\x03\x01\x02\x00" + os.urandom(20_000))
        await line[0].read()


async def plain(b: Bronze) -> None:
    """A request without TLS."""
    async with raw(b) as line:
        line[1].write(LIVE)
        await line[0].read()


async def pipelined(b: Bronze) -> None:
    """Requests in full records, no answer read."""
    await say(b, LIVE * 500, WHOLE, 4)


async def large(b: Bronze) -> None:
    """A body that does not fit the network, in full records."""
    await say(b, infer("small", bytes(8 * 1024**2)), WHOLE)


async def flood(b: Bronze) -> None:
    """Pictures, one behind the other."""
    await say(b, GOOD, WHOLE, 50)


ATTACKS = {
    "tls-records": Attack("a picture of 49 KB, a byte in a record", short_records, refused=False),
    "tls-records-grpc": Attack("4,000 pings, a byte in a record", short_records_grpc, refused=False),
    "tls-together": Attack("200 half handshakes that go on at once", together, 4, refused=False),
    "tls-greetings": Attack("handshakes, and no more", greetings, refused=False),
    "tls-gone": Attack("greetings, and gone", go_at_once, refused=False),
    "tls-slow": Attack("50 greetings, byte by byte", slow_greeting, 50, refused=False),
    "tls-rubbish": Attack("random bytes behind a handshake", rubbish, refused=False),
    "tls-no-greeting": Attack("random bytes in place of one", rubbish_at_once, refused=False),
    "tls-plain": Attack("requests without TLS", plain, refused=False),
    "tls-pipelined": Attack("500 requests at a time, no answer read", pipelined, 4, refused=False),
    "tls-large": Attack("bodies of 8 MB that do not fit the network", large, 4, refused=False),
    "tls-flood": Attack("16 connections full of pictures", flood, 16, refused=False),
}

"""Attacks by a crowd of strangers, each from an address of its own, and of pages that nobody takes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.hostile.bronze import ADDRESSES, Attack, Bronze, Line, request

LIVE = request("GET", "/v2/health/live", key="")
PAGE = request("GET", "/openapi.json", key="")
HELD = 500  # connections of one caller; the server takes fewer


@asynccontextmanager
async def line(b: Bronze, room_bytes: int = 0) -> AsyncIterator[Line]:
    """A connection from the next address; ``room_bytes``: for what comes and is not read."""
    sock = socket.socket()
    if room_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room_bytes)
    sock.bind((next(ADDRESSES), 0))
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, b.http)
    reader, writer = await asyncio.open_connection(sock=sock, limit=max(room_bytes, 1024))
    try:
        yield reader, writer
    finally:
        writer.close()


async def strangers(b: Bronze) -> None:
    """Connections of which each comes from an address of its own, and stays."""
    async with contextlib.AsyncExitStack() as held:
        for _ in range(HELD):
            if b.over:
                return
            await held.enter_async_context(line(b))
            b.note("open")


async def speaking_strangers(b: Bronze) -> None:
    """The same, and each has an answer first; then all say the beginning of another request at once."""
    async with contextlib.AsyncExitStack() as held:
        lines = list[Line]()
        while not b.over and len(lines) < HELD // 4:
            lines.append(await held.enter_async_context(line(b)))
            await b.ask(lines[-1], LIVE)
        for letter in LIVE[:9]:
            for _, writer in lines:
                writer.write(bytes([letter]))
            await b.rest()


async def pages_unread(b: Bronze) -> None:
    """A hundred pages in a packet, again and again; none is read."""
    async with line(b, 4096) as (_, writer):
        while not b.over:
            writer.write(PAGE * 100)
            await writer.drain()
            await b.rest()
    b.note("not read")


ATTACKS = {
    "strangers": Attack("more connections than are taken, each from its own address", strangers, refused=False),
    "strangers-speak": Attack("the same, with a request, then all say a letter at once", speaking_strangers,
                              refused=False),
    "pages-unread": Attack("100 pages in a packet, none read, from 50 addresses", pages_unread, 50, refused=False),
}  # fmt: skip

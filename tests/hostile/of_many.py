"""Attacks by a crowd of strangers, each from an address of its own, and of pages that nobody takes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.hostile import frames
from tests.hostile.bronze import ADDRESSES, BRONZE, Attack, Bronze, Line, request, tensors
from tests.hostile.over_grpc import line as call_line
from tests.hostile.over_grpc import pb

LIVE = request("GET", "/v2/health/live", key="")
PAGE = request("GET", "/openapi.json", key="")
HELD = 500  # connections of one caller; the server takes fewer
TURNS = 4000  # of a network that takes some ms for them
NUMBERS = 2_000_000


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


async def dropped_calls(b: Bronze) -> None:
    """128 calls that wait for a device, and the connection breaks off."""
    message = pb.ModelInferRequest(model_name="turns")
    message.inputs.add(name="x", datatype="INT64", shape=[1])
    message.raw_input_contents.append(TURNS.to_bytes(8, "little"))
    content = message.SerializeToString()
    async with call_line(b) as (_, writer):
        for stream in range(1, 257, 2):
            writer.write(frames.call(stream, "ModelInfer", BRONZE))
            writer.write(frames.message(stream, content, flags=frames.END_STREAM))
        await writer.drain()
        await b.rest(0.4)
        writer.transport.abort()
        b.note("broken off")


async def full_tables(b: Bronze) -> None:
    """Heads without a key, of 110 names each that the table has to take in, and to let go."""
    async with call_line(b) as (_, writer):
        for stream in range(1, 200, 2):
            kept = b"".join(frames.literal(str(110 * stream + n), "", kept=True) for n in range(110))
            writer.write(frames.call(stream, "ServerLive", "", flags=0))
            writer.write(frames.frame(frames.CONTINUATION, frames.END_HEADERS, stream, kept))
            await writer.drain()


async def large_answers(b: Bronze) -> None:
    """Raw answers of 8 MB."""
    binary = {"parameters": {"binary_data_output": True}}
    async with b.line() as line:
        while not b.over:
            ask = {"name": "x", "datatype": "INT64", "shape": [1], "data": [NUMBERS]}
            await b.ask(line, tensors("size", ask, **binary))


ATTACKS = {
    "calls-dropped": Attack("128 calls that wait, and the connection breaks off", dropped_calls, refused=False),
    "full-tables": Attack("heads without a key that fill tables of names", full_tables, 4, refused=False),
    "large-answers": Attack("answers of 8 MB, one behind another", large_answers, 4, refused=False),
    "strangers": Attack("more connections than are taken, each from its own address", strangers, refused=False),
    "strangers-speak": Attack("the same, with a request, then all say a letter at once", speaking_strangers,
                              refused=False),
    "pages-unread": Attack("100 pages in a packet, none read, from 50 addresses", pages_unread, 50, refused=False),
}  # fmt: skip

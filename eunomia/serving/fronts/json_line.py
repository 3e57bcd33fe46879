"""The event loop's side of the line to the process that reads and writes JSON.

No thread waits for it. A thread that the system stops while it holds the interpreter stops the event loop, too: beside
other programs for up to 100 ms at a time.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Sequence

import numpy as np

from eunomia.serving.devices.messages import Message
from eunomia.serving.protocol.json_work import LENGTH_BYTES, Pieces, opening

AT_ONCE = 256 * 1024  # bytes that leave in one turn of the event loop
Begin = Callable[
    [], None
]  # this turn has work: a turn in which nobody says so counts as one with those before it


async def say(line: socket.socket, head: Message, pieces: Sequence[bytes | memoryview], begin: Begin) -> None:
    """One message; raises OSError when the other side is gone."""
    loop = asyncio.get_running_loop()
    for piece in (opening(head, pieces), *pieces):
        whole = memoryview(piece)
        for at in range(0, len(whole), AT_ONCE):
            begin()
            await loop.sock_sendall(line, whole[at : at + AT_ONCE])
            await asyncio.sleep(0)


async def hear(line: socket.socket, begin: Begin) -> tuple[Message, Pieces]:
    """The next message; raises EOFError when the other side is gone."""
    length = int.from_bytes(await _exactly(line, LENGTH_BYTES, begin), "little")
    head = json.loads(bytes(await _exactly(line, length, begin)))
    return head, [await _exactly(line, size, begin) for size in head.pop("sizes")]


async def _exactly(line: socket.socket, size: int, begin: Begin) -> memoryview:
    room, at = np.empty(size, np.uint8).data, 0  # nobody fills it with zeros first
    loop = asyncio.get_running_loop()
    while at < size:
        read = await loop.sock_recv_into(line, room[at:])
        begin()
        if read == 0:
            raise EOFError
        at += read
        if at < size:
            await asyncio.sleep(0)  # asyncio's own loop gives what is there without a turn between
    return room

"""The event loop's side of the line to the process that reads and writes JSON.

No thread waits for it. A thread that the system stops while it holds the interpreter stops the event loop, too: beside
other programs for up to 100 ms at a time.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence

import numpy as np

from eunomia.serving.devices.messages import Message
from eunomia.serving.protocol.json_work import LENGTH_BYTES, Pieces, opening


async def say(line: socket.socket, head: Message, pieces: Sequence[bytes | memoryview]) -> None:
    """One message; raises OSError when the other side is gone."""
    loop = asyncio.get_running_loop()
    for piece in (opening(head, pieces), *pieces):
        if len(piece):
            await loop.sock_sendall(line, piece)


async def hear(line: socket.socket) -> tuple[Message, Pieces]:
    """The next message; raises EOFError when the other side is gone."""
    length = int.from_bytes(await _exactly(line, LENGTH_BYTES), "little")
    head = json.loads(bytes(await _exactly(line, length)))
    return head, [await _exactly(line, size) for size in head.pop("sizes")]


async def _exactly(line: socket.socket, size: int) -> memoryview:
    room, at = np.empty(size, np.uint8).data, 0  # nobody fills it with zeros first
    loop = asyncio.get_running_loop()
    while at < size:
        read = await loop.sock_recv_into(line, room[at:])
        if read == 0:
            raise EOFError
        at += read
    return room

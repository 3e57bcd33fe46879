"""Many small things cost little: messages of no bytes in streams, bytes one by one, frames of nothing."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from eunomia.serving.http2.call import WINDOW
from eunomia.serving.http2.frames import LARGEST
from eunomia.serving.server import Server
from tests.hostile import frames
from tests.patience import until
from tests.serving.asking import HEALTH, at_rest, logits, request
from tests.serving.live import GOLD
from tests.serving.near import Near, head, numbered
from tests.serving.speaking import OIP, client, message

EMPTY = len(message(b""))
FULL = bytes(EMPTY) * (LARGEST // EMPTY)  # a frame of messages of no bytes
MOST_OBJECTS = 20_000  # of Python, for 157,000 messages


@pytest.mark.parametrize("path, key", [(f"{HEALTH}Watch", ""), (f"{OIP}ModelStreamInfer", GOLD)])
def test_messages_of_no_bytes_hold_no_memory_and_nobody_up(plain: Server, path: str, key: str) -> None:
    """Each of them held a hundred times what it has brought, and a window lets two hundred thousand in."""
    with client(plain.grpc_port) as one, client(plain.grpc_port) as honest:
        number = one.begin(path, key)
        one.listen(lambda: one.h2.remote_settings.initial_window_size == WINDOW)
        before = len(gc.get_objects())
        one.send(b"".join(frames.frame(frames.DATA, 0, number, FULL) for _ in range(3)))
        for _ in range(3):
            logits(honest.ask(f"{OIP}ModelInfer", request(), GOLD))
            assert len(gc.get_objects()) < before + MOST_OBJECTS
    until(lambda: at_rest(plain))


def test_a_message_of_single_bytes_becomes_few_pieces(plain: Server) -> None:
    """Each in a frame of its own, over some seconds at most: others are served, and it is, too."""
    content = request()
    with client(plain.grpc_port) as one, client(plain.grpc_port) as honest:
        exact = logits(honest.ask(f"{OIP}ModelInfer", content, GOLD))
        number = one.begin(f"{OIP}ModelInfer", GOLD)
        one.send(b"".join(frames.frame(frames.DATA, 0, number, bytes([byte])) for byte in message(content)))
        assert logits(honest.ask(f"{OIP}ModelInfer", content, GOLD)) == exact
        one.end(number)
        one.listen(lambda: one.answers[number].over)
        assert logits(one.answers[number]) == exact
    until(lambda: at_rest(plain))


def test_bytes_that_come_one_by_one_in_large_reads_do_not_hold_the_reads() -> None:
    """A view of one byte would keep the 256 KB that it came with."""

    async def main() -> None:
        near = Near()
        near.say(frames.greeting() + head(1, "/keep"))
        taker: Any = near.takers[1]
        for _ in range(50):
            near.say(
                frames.frame(frames.DATA, 0, 1, message(numbered(10)))
                + frames.frame(99, 0, 1, bytes(16_384)) * 10
            )
        held = {id(view.obj): len(view.obj) for view in taker.views}
        assert sum(held.values()) < 50 * 100

    asyncio.run(main())

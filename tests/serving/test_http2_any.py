"""Frames in any order, cut anyhow, on a connection that stands still now and then: no fault inside, nothing kept."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile import frames
from tests.serving.near import KINDS, MIB, Near, fields, head, heard, plain, setting, wider
from tests.serving.speaking import message

SIZES = [0, 1, 7, 1000, 65_535, MIB, 2**31 - 1]
CONTENTS = [
    b"", bytes(4), bytes(5), bytes(8), bytes(300), message(b"abc"), message(b"40000"), message(b"a", packed=True),
    message(bytes(100), size=768), message(b"", size=MIB), b"\0\0", b"\x7f\xff\xff\xff", b"\0\4\x7f\xff\xff\xff",
]  # fmt: skip


def right(rng: random.Random) -> bytes:
    """Mostly as clients speak."""
    said, last = bytearray(), -1
    for _ in range(rng.randint(1, 50)):
        stream = max(1, last - 2 * rng.randint(0, 3))
        content = rng.choice(CONTENTS)
        kind = rng.randint(0, 9) if last > 0 else 0
        if kind < 3:
            last += 2
            said += head(last, rng.choice([*KINDS, "/key", "/x"]), rng.choice([4, 4, 4, 5]))
        elif kind < 7:
            said += frames.frame(frames.DATA, rng.choice([0, 0, 1]), stream, content)
        else:
            said += rng.choice([
                frames.frame(frames.RESET, 0, stream, bytes(4)), wider(stream, 1000), wider(0, 50_000),
                setting(4, rng.choice(SIZES[:-1])), frames.frame(frames.HEADERS, 5, stream, plain([("a", "b")])),
                frames.frame(frames.PING, 0, 0, bytes(8)),
            ])  # fmt: skip
    return bytes(said)


def wrong(rng: random.Random) -> bytes:
    """As nobody does."""
    said = bytearray()
    for _ in range(rng.randint(1, 30)):
        kind, flags = (
            rng.choice([0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99]),
            rng.choice([0, 1, 4, 5, 8, 13, 45, 255]),
        )
        content = (
            plain(fields(rng.choice([*KINDS]))) if kind == 1 and rng.random() < 0.7 else rng.choice(CONTENTS)
        )
        said += frames.frame(kind, flags, rng.choice([0, 1, 1, 2, 3, 5, 7]), content)
    return bytes(said)


async def played(rng: random.Random, said: bytes) -> None:
    """To the last byte or to the first fault; then the client leaves."""
    faults = list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, what: faults.append(what))
    near, at = Near(room_bytes=rng.choice([MIB, 64 * MIB])), 0
    said = frames.greeting() + said
    while at < len(said) and not near.over:
        size = rng.choice([1, 9, 50, 1000, 10**6])
        near.say(said[at : at + size])
        at += size
        chance = rng.random()
        if chance < 0.05:
            near.line.pause_writing()
        elif chance > 0.9:
            near.line.resume_writing()
            await asyncio.sleep(0)
        for taker in near.takers.values():
            if taker.call.unread and rng.random() < 0.1:
                taker.call.read()
    heard(near.said())
    near.leave()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not faults and not near.line.calls and len(near.connections) == 0
    assert not near.bodies.held and not near.bodies.untaken


@given(seed=st.integers(0, 2**32), well=st.booleans())
@settings(max_examples=500)
def test_whatever_is_said_and_whenever_its_client_leaves_everything_is_given_back(
    seed: int, well: bool
) -> None:
    rng = random.Random(seed)
    asyncio.run(played(rng, right(rng) if well else wrong(rng)))

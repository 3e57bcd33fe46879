"""A large answer leaves in parts, one in a turn: written at once, it is encrypted, or copied, at once."""

from __future__ import annotations

import asyncio
import weakref
from typing import cast

import pytest

from eunomia.serving.fronts.exchange import HttpExchange
from eunomia.serving.fronts.lane import Lane, Mode
from eunomia.serving.fronts.parts import PART, PLAIN, Parts
from tests.serving.wire import MIB, Deaf, Encrypted, Wire, is_gone_after, lane

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
BODY = bytes(range(256)) * (8 * MIB // 256)


class Answered:
    """A request of gold's that has been served."""

    tenant = "gold"

    def abandon(self) -> None:
        """Its client has gone."""


def answered(wire: Wire, body: bytes = BODY) -> Lane:
    """A connection whose request has just got a large answer."""
    one = lane()
    one.connection_made(wire)
    one._exchange, one._mode = cast(HttpExchange, Answered()), Mode.BUSY
    one._answered([HEAD % len(body), memoryview(body)])
    return one


async def turns(wire: Wire, most: int = 1000) -> None:
    """Until one in which nothing leaves."""
    sent = -1
    while len(wire.sent) > sent and most:
        sent, most = len(wire.sent), most - 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def held(one: Lane) -> int:
    """Bytes in its tenant's account."""
    return cast(Deaf, one._inference.service).bodies.held.get("gold", 0)


@pytest.mark.parametrize("kind", [Encrypted, Wire])
def test_each_turn_takes_one_part(kind: type[Wire]) -> None:
    async def main() -> None:
        wire = kind()
        one = answered(wire)
        assert one._mode is Mode.BUSY and held(one) > len(BODY)
        await turns(wire)
        assert max(map(len, wire.sent)) <= PART
        assert b"".join(wire.sent) == HEAD % len(BODY) + BODY
        assert one._mode is Mode.HEAD and held(one) == 0

    asyncio.run(main())


def test_no_part_leaves_while_the_client_takes_none_nor_when_it_has_gone() -> None:
    async def main() -> None:
        wire = Encrypted()
        one = answered(wire)
        await asyncio.sleep(0)
        one.pause_writing()
        await turns(wire)
        before = len(wire.sent)
        assert 0 < before < len(BODY) // PART and held(one) > len(BODY)
        one.resume_writing()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert before < len(wire.sent) < len(BODY) // PART
        one.connection_lost(None)
        gone = len(wire.sent)
        await turns(wire)
        assert len(wire.sent) == gone and held(one) == 0

    asyncio.run(main())


def test_of_a_client_that_has_gone_nothing_stays() -> None:
    """As it was, its connection and the rest of the answer stood in a circle, which is hardly ever looked through."""

    async def main() -> weakref.ref[object]:
        wire = Encrypted()
        one = answered(wire)
        await asyncio.sleep(0)
        one.connection_lost(None)
        await turns(wire)
        return weakref.ref(one)

    assert is_gone_after(main)


def test_without_tls_the_system_gets_a_smaller_one_whole() -> None:
    async def main() -> None:
        wire, head = Wire(), HEAD % PLAIN
        body = BODY[: PLAIN - len(head)]
        assert answered(wire, body)._mode is Mode.HEAD
        assert wire.sent == [HEAD % len(body) + body]

    asyncio.run(main())


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (PART,), (PART + 1, 0, 3), (3 * PART, 5 * PART + 7)])
def test_parts_are_the_whole(sizes: tuple[int, ...]) -> None:
    pieces = [bytes([n + 1]) * size for n, size in enumerate(sizes)]
    found = [*Parts(pieces)]
    assert b"".join(found) == b"".join(pieces) and all(0 < len(piece) <= PART for piece in found)

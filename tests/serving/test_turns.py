"""How long the event loop is held is measured by its own processor time, and one turn takes up only so much."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from functools import partial
from typing import cast

import pytest
from aiohttp import web

from eunomia.serving.fronts.json_line import AT_ONCE, _exactly, hear, say
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.observe.metrics import Telemetry
from eunomia.serving.observe.turns import EDGES_S, Turns
from tests.patience import pauses, until_async, work
from tests.serving.wire import Encrypted, Wire, lane

REQUEST = b"POST /v2/models/x/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"


def longest_s(counts: list[int]) -> float:
    return max((edge for edge, n in zip([*EDGES_S, math.inf], counts, strict=True) if n), default=0.0)


def test_a_turn_counts_with_all_that_it_did_and_without_what_it_waited_for() -> None:
    turns = Turns()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        turns.begin()
        loop.call_soon(work, 0.012)
        loop.call_soon(work, 0.012)
        loop.call_soon(time.sleep, 0.5)
        await until_async(lambda: turns.waited_s >= 0.45)

    asyncio.run(main())
    held = longest_s(turns.held)
    assert held >= 0.024 and turns.held_s >= 0.024
    assert turns.waited_s >= 0.45
    assert turns.held_s < 0.5, "the time asleep is not in it"


def test_one_turn_after_the_other_is_read_while_there_is_work_and_none_without() -> None:
    turns = Turns()

    async def main() -> None:
        turns.begin()
        for _ in range(20):
            work(0.001)
            await asyncio.sleep(0)
        busy = sum(turns.held)
        assert busy >= 20 and longest_s(turns.held) < 1.0
        await pauses(10)
        assert sum(turns.held) <= busy + 3

    asyncio.run(main())


def test_what_nobody_announced_falls_into_the_next_reading() -> None:
    turns = Turns()

    async def main() -> None:
        turns.begin()
        await pauses(5)
        work(0.02)
        before = turns.held_s
        turns.begin()
        assert turns.held_s - before >= 0.02

    asyncio.run(main())


def test_another_loop_begins_anew() -> None:
    turns = Turns()

    async def main() -> None:
        turns.begin()

    for _ in range(3):
        asyncio.run(main())
        work(0.02)
    assert turns.held_s < 0.02


def test_prometheus_reads_both_as_histograms() -> None:
    telemetry = Telemetry()
    telemetry.turns.held[3] += 2
    telemetry.turns.held[-1] += 1
    page = asyncio.run(telemetry.page())[0].decode()
    assert "in one turn of it, at most" in page, "turns that nobody announced fall into one reading"
    assert 'eunomia_loop_held_seconds_bucket{le="0.002"} 0.0' in page
    assert 'eunomia_loop_held_seconds_bucket{le="0.003"} 2.0' in page
    assert 'eunomia_loop_held_seconds_bucket{le="+Inf"} 3.0' in page
    assert "eunomia_loop_held_seconds_count 3.0" in page
    assert 'eunomia_loop_waited_seconds_bucket{le="+Inf"} 0.0' in page


# --- whose turn it is -----------------------------------------------------------------------------------


def test_queues_go_in_turn_and_each_turn_has_an_end() -> None:
    went: list[list[str]] = [[]]
    rota = Rota(Turns(), most_s=0.004)

    def one(name: str) -> None:
        work(0.003)
        went[-1].append(name)

    async def main() -> None:
        for name in ("bronze", "bronze", "bronze", "bronze", "gold"):
            rota.join(name, partial(one, name))
        while sum(map(len, went)) < 5:
            await asyncio.sleep(0)
            went.append([])

    asyncio.run(main())
    assert [name for turn in went for name in turn] == ["bronze", "gold", "bronze", "bronze", "bronze"]
    assert max(map(len, went)) <= 2


def test_what_joins_from_inside_waits_for_another_turn() -> None:
    rota, went = Rota(Turns(), math.inf), list[int]()

    def again() -> None:
        went.append(len(went))
        rota.join("bronze", again)

    async def main() -> None:
        rota.join("bronze", again)
        for n in range(1, 4):
            await asyncio.sleep(0)
            assert len(went) == n

    asyncio.run(main())


def test_work_is_done_at_once_while_the_turn_has_time() -> None:
    rota, went = Rota(Turns(), 0.002), list[str]()

    async def main() -> None:
        rota.do("gold", lambda: went.append("at once"))
        assert went == ["at once"]
        work(0.003)
        rota.do("gold", lambda: went.append("later"))
        assert went == ["at once"]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert went == ["at once", "later"]

    asyncio.run(main())


def test_between_two_turns_that_take_something_up_it_rests() -> None:
    """So handshakes, each of which takes milliseconds, leave the loop to others; and who comes first need not wait."""
    went = list[str]()

    async def main(rest_s: float) -> None:
        rota = Rota(Turns(), most_s=0.0, rest_s=rest_s)
        rota.join("bronze", partial(work, 1e-4))
        await rounds()
        for name in ("bronze", "gold"):
            rota.join(name, partial(went.append, name))
        await rounds()
        if rest_s < 1.0:
            await until_async(lambda: len(went) == 2)

    asyncio.run(main(1e6))
    assert went == []
    asyncio.run(main(1e-3))
    assert went == ["bronze", "gold"]


def test_work_that_fails_stops_nobody_elses(caplog: pytest.LogCaptureFixture) -> None:
    rota, went = Rota(Turns(), math.inf), list[str]()

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    async def main() -> None:
        rota.join("bronze", fail)
        rota.join("gold", partial(went.append, "gold"))
        await rounds()
        rota.join("gold", partial(went.append, "again"))
        await rounds()

    asyncio.run(main())
    assert went == ["gold", "again"] and "a fault of ours" in caplog.text


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn is over as soon as it has begun."""
    monkeypatch.setattr("eunomia.serving.fronts.rota.Rota.over", property(lambda self: True))


async def rounds(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("transport", [Wire, Encrypted])
def test_a_client_that_was_not_told_to_go_on_is_not_waited_for(transport: type[Wire]) -> None:
    """aiohttp waits 10 s for the body that it does not send."""

    async def main() -> None:
        one = lane()
        wire = transport()
        one.connection_made(wire)
        one.data_received(
            b"POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        )
        await rounds(50)
        assert wire.sent and (wire.ended or wire.closed)

    asyncio.run(main())


@pytest.mark.usefixtures("short")
def test_a_connection_keeps_what_it_was_given_reads_no_more_and_goes_on_in_order() -> None:
    async def main() -> None:
        one = lane()
        one.transport = wire = Wire()
        for n in range(0, len(REQUEST), 7):
            one.data_received(REQUEST[n : n + 7])
            assert not wire.reads and not wire.sent
        await rounds()
        assert wire.reads and len(wire.sent) == 1 and b" 400 " in wire.sent[0]
        one.data_received(REQUEST * 3)
        seen = list[int]()
        for _ in range(30):
            await asyncio.sleep(0)
            seen.append(len(wire.sent))
        assert seen[-1] == 4 and all(b - a <= 1 for a, b in zip(seen, seen[1:], strict=False))
        assert wire.reads

    asyncio.run(main())


@pytest.mark.usefixtures("short")
def test_an_end_waits_too_and_what_came_before_it_is_answered() -> None:
    async def main() -> None:
        one = lane()
        one.transport = wire = Wire()
        one.data_received(REQUEST)
        assert one.eof_received() is True, "the connection stays until its turn"
        await rounds()
        assert len(wire.sent) == 1 and wire.closed

    asyncio.run(main())


@pytest.mark.usefixtures("short")
def test_a_connection_that_is_gone_is_forgotten_in_its_turn_and_answers_nobody() -> None:
    async def main() -> None:
        one = lane()
        wire = Wire()
        one.connection_made(wire)
        one.data_received(REQUEST)
        wire.aborted = True
        one.connection_lost(None)
        assert one.transport is not None, "not yet"
        await rounds()
        assert one.transport is None and not wire.sent
        one.go()  # whatever still calls it finds nothing

    asyncio.run(main())


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("count", [1, 60, 200])
def test_every_one_of_many_requests_in_one_packet_is_answered_on_a_busy_server(count: int) -> None:
    """aiohttp takes up a few, and drives its parser with no bytes at all; as it was, those were put off for ever."""

    async def main() -> None:
        one, wire = lane(), Wire()
        one.connection_made(wire)
        one.data_received(b"GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n" * count)
        await rounds(40 * count)
        assert b"".join(wire.sent).count(b"HTTP/1.1 200 OK") == count
        assert wire.reads

    asyncio.run(main())


@pytest.mark.usefixtures("short")
def test_a_connection_whose_turn_has_not_come_keeps_one_piece_and_no_more() -> None:
    """Its handler takes bytes meanwhile, so aiohttp wants more; as it was, reading went on without an end."""
    size, parts = 64 * 1024, 100
    taken, most = list[int](), list[int]()

    async def takes(request: web.BaseRequest) -> web.Response:
        async for piece in request.content.iter_any():
            taken.append(len(piece))
        return web.Response()

    async def main() -> None:
        one, wire = lane(handler=takes), Wire()
        one.connection_made(wire)
        one.data_received(b"PUT /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (size * parts))
        left = parts
        while left:
            for _ in range(8):  # others stand before it
                one._rota.join("192.0.2.1", lambda: None)
            for _ in range(12):
                if wire.reads and left:
                    one.data_received(bytes(size))
                    left -= 1
                most.append(len(one._late))
                await asyncio.sleep(0)
        await rounds(400)
        assert max(most) <= size
        assert sum(taken) == size * parts and b" 200 OK" in b"".join(wire.sent) and wire.reads

    asyncio.run(main())


def test_each_turn_that_moves_a_part_of_a_large_message_is_measured_by_itself() -> None:
    """30 MB of numbers came back in turns that nobody announced: they counted as one of 7 ms."""
    size, told = 40 * AT_ONCE, list[int]()

    async def main() -> None:
        ours, theirs = socket.socketpair()
        for line in (ours, theirs):
            line.setblocking(False)
        sent = asyncio.create_task(say(ours, {"kind": "read"}, [bytes(size)], lambda: told.append(0)))
        head, pieces = await hear(theirs, lambda: told.append(1))
        await sent
        assert head == {"kind": "read"} and list(map(len, pieces)) == [size]
        ours.close()
        theirs.close()

    asyncio.run(main())
    assert told.count(0) >= 40 and told.count(1) >= 40


def test_what_comes_faster_than_it_is_read_leaves_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio's own loop hands over what is there at once: up to 60 pieces of a large message came in one turn."""

    async def at_once(line: socket.socket, room: memoryview) -> int:
        return 1

    async def main() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "sock_recv_into", at_once)
        others = list[int]()
        reading = asyncio.create_task(_exactly(cast(socket.socket, None), 20, lambda: None))
        while not reading.done():
            others.append(1)
            await asyncio.sleep(0)
        (await reading).release()
        assert len(others) >= 20

    asyncio.run(main())


@pytest.mark.parametrize(("wires", "most"), [(Encrypted, 3), (Wire, 11)])
def test_what_is_decrypted_takes_more_of_a_turn(wires: type[Wire], most: int) -> None:
    """256 KB of each connection, half a millisecond: ten of them filled a turn with 5 to 10."""

    async def main() -> None:
        rota, lines = Rota(Turns()), [wires() for _ in range(30)]
        for wire in lines:
            one = lane()
            one._rota = rota
            one.connection_made(wire)
            one._stop_reading()
            one._line_up()
        await asyncio.sleep(0)
        assert 0 < sum(wire.reads for wire in lines) <= most

    asyncio.run(main())

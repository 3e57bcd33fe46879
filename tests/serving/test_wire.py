"""What connections over gRPC may bring beside their messages, and who gets no new ones."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eunomia.serving.fronts import grpc_wire
from eunomia.serving.fronts.barring import FIRST_S, Bars, Connected, bar, connection_at, end
from eunomia.serving.fronts.connections import ConnectionLimits
from eunomia.serving.fronts.grpc_room import Room
from eunomia.serving.fronts.grpc_wire import BASE, CALL, LOOKED_AT, STREAMS, WINDOW, Wire, in_crumbs
from tests.hostile import frames
from tests.patience import until
from tests.serving.live import GOLD, ask, running

linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own words")
TENSOR = np.zeros((1, 3, 64, 64), np.float32)
MANY = 1000  # connections of a flood, at most
SILENT_S = 0.5  # a local connection takes microseconds


# --- small frames ----------------------------------------------------------------------------------------

CRUMBS = {
    "bytes of a message": frames.frame(frames.DATA, 0, 1, b"\n"),
    "padding": frames.frame(frames.DATA, 8, 1, b"\xff" + bytes(255)),
    "nothing": frames.frame(frames.DATA, 0, 7, b""),
    "windows": frames.frame(frames.WINDOW, 0, 19, b"\0\0\0\1"),
    "pings": frames.frame(frames.PING, 0, 0, bytes(8)),
    "settings": frames.frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\xff\xff"),
    "of no known kind": frames.frame(99, 0, 0, b"a" * 64),
}


@pytest.mark.parametrize("frame", CRUMBS.values(), ids=[*CRUMBS])
def test_a_row_of_small_frames_is_known_from_anywhere_in_it(frame: bytes) -> None:
    row = frame * (2 * LOOKED_AT // len(frame) + 2)
    for begin in range(0, len(frame)):
        assert in_crumbs(row[begin : begin + LOOKED_AT])


def test_a_message_in_full_frames_and_calls_are_no_crumbs() -> None:
    rng = np.random.default_rng(0)
    for content in (
        bytes(2**20),
        rng.bytes(2**20),
        rng.random(2**17, np.float32).tobytes(),
        b"\0\0\1" * 2**18,
    ):
        whole = frames.message(1, content)
        for begin in (0, 1, 9, 5000, 16384, 16390, 100_000):
            assert not in_crumbs(whole[begin : begin + LOOKED_AT])
    calls = b"".join(
        frames.call(n, "ServerLive", "") + frames.message(n, b"", flags=1) for n in range(1, 99, 2)
    )
    assert not in_crumbs(calls[:LOOKED_AT]) and not in_crumbs(b"") and not in_crumbs(bytes(LOOKED_AT))


@given(st.binary(max_size=LOOKED_AT), st.integers(0, 300))
@example(frames.frame(frames.HEADERS, 0, 1, b""), 300)  # none but calls, from each of which a row begins
@example(frames.frame(frames.PING, 0, 0, b"")[:8], 300)
def test_no_bytes_take_long(data: bytes, repeat: int) -> None:
    """Any bytes have an answer in a bounded number of steps."""
    steps = Counter[str]()

    def counted(data: bytes, at: int) -> int:
        steps["crumbs"] += 1
        return crumb(data, at)

    crumb = grpc_wire._crumb
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpc_wire, "_crumb", counted)
        in_crumbs((data[:40] * (repeat + 1))[:LOOKED_AT])
    row = LOOKED_AT // 9 + 1
    assert steps["crumbs"] <= grpc_wire.MOST_STEPS + grpc_wire.LARGEST_CRUMB + row


def test_what_is_given_up_does_not_add_up() -> None:
    """A thousand calls that came whole leave nothing that a later flood could be forgiven for."""
    wire = Wire()
    for _ in range(1000):
        with wire.call("a"):
            wire.took("a", 100)
    wire._judge(Connected(0, 0, "a", 1000 * 200), wire._account("a").since_s)
    assert wire._account("a").lapsed == 0


def beyond(wire: Wire, peer: str, received: int) -> tuple[float, float]:
    """At the moment of its first byte."""
    return wire.beyond(peer, received, wire._account(peer).since_s)


# --- accounts --------------------------------------------------------------------------------------------


def test_what_a_call_accounts_for_is_due_and_the_rest_is_not() -> None:
    wire, ways = Wire(), STREAMS * (WINDOW + CALL)
    assert beyond(wire, "a", BASE - 1) < (0.0, 0.0)
    with wire.call("a"):
        now_s = wire._accounts["a"].since_s
        with wire.message("a", 2**24):
            far, near = wire.beyond("a", 2**24 + ways, now_s)
            assert far < 0.0 < near, "it may be on its way"
            assert wire.beyond("a", 2**25 + ways, now_s)[0] > 0.0
        assert wire.beyond("a", 2**24 + ways + BASE, now_s)[0] > 0.0, "nobody awaits it"
        wire.took("a", 2**24)
        assert wire.beyond("a", 2**24 + BASE + WINDOW, now_s)[1] < 0.0
    assert wire.beyond("b", 2 * ways, now_s)[0] > 0.0, "every connection has its own"


def test_an_old_connection_may_have_sent_more_pings() -> None:
    wire = Wire()
    wire.took("a", 0)
    since_s = wire._accounts["a"].since_s
    assert wire.beyond("a", 2 * BASE, since_s)[1] > 0.0 > wire.beyond("a", 2 * BASE, since_s + 60.0)[1]


def test_what_was_given_up_in_its_midst_is_forgiven_and_crumbs_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deadlines that pass while large messages arrive, keys that are refused before: such clients flood nobody."""
    cut, waits = list[str](), {"good": b"\0" * LOOKED_AT, "bad": CRUMBS["pings"] * 400}
    monkeypatch.setattr(grpc_wire, "end", lambda one: cut.append(one.peer))
    monkeypatch.setattr(Connected, "waiting", lambda self, most: waits[self.peer][:most])
    monkeypatch.setattr(Bars, "put", lambda self, port, host, now_s: 0.0)
    wire, received = Wire(), 0
    for size in [2**24] * 3 + [2**16] * 400:
        received += size
        for peer in waits:
            with contextlib.suppress(TimeoutError), wire.call(peer):
                if size > WINDOW:
                    with wire.message(peer, 2**24):
                        raise TimeoutError
            wire._judge(Connected(0, 0, peer, received), wire._account(peer).since_s)
    assert "good" not in cut and "bad" in cut


def test_who_takes_much_may_say_so_often() -> None:
    wire, answers = Wire(), 200
    for _ in range(answers):
        with wire.call("a"):
            wire.took("a", 100)
        wire.gave("a", 20 * 2**20)
    said = answers * 20 * 2**20 // 2**14 * 26  # two windows for each frame of 16 KB
    assert beyond(wire, "a", said)[1] <= 0.0


def test_an_address_within_a_link_is_one_account() -> None:
    wire = Wire()
    wire.took("ipv6:%5Bfe80::1%252%5D:4711", 2**20)
    assert beyond(wire, "ipv6:%5Bfe80::1%5D:4711", 2**20)[1] < 0.0


# --- the kernel ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def listener(host: str = "127.0.0.1") -> Iterator[tuple[socket.socket, int]]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        yield server, server.getsockname()[1]


def reached(port: int, source: str, host: str = "127.0.0.1") -> bool:
    with contextlib.suppress(TimeoutError), socket.create_connection((host, port), SILENT_S, (source, 0)):
        return True
    return False


@linux
def test_what_a_connection_has_brought_and_what_waits_is_read_beside_it() -> None:
    with listener() as (server, port), socket.create_connection(("127.0.0.1", port)) as client:
        ours, _ = server.accept()
        with ours:
            client.sendall(b"hello there")
            until(
                lambda: (
                    isinstance(one := connection_at(ours.fileno(), port), Connected) and one.received == 11
                )
            )
            one = connection_at(ours.fileno(), port)
            assert isinstance(one, Connected) and one.peer == f"ipv4:127.0.0.1:{client.getsockname()[1]}"
            assert one.host == "127.0.0.1" and one.waiting(5) == b"hello" == one.waiting(5)
            assert connection_at(server.fileno(), port) is True
            assert connection_at(ours.fileno(), port + 1) is True
            end(one)
            assert client.recv(1) == b"" and ours.recv(1) == b"", "what waited is gone"
    read, write = os.pipe()
    pair = socket.socketpair()
    assert [connection_at(n, 0) for n in (read, pair[0].fileno(), 10**6)] == [True, True, False]
    for each in pair:
        each.close()
    os.close(read), os.close(write)


@linux
def test_who_is_barred_gets_no_connection_and_others_do() -> None:
    with listener() as (_, port):
        bar(port, ["127.0.0.9", "10.0.0.1", "2001:db8::"])
        assert not reached(port, "127.0.0.9") and reached(port, "127.0.0.8") and reached(port, "127.0.0.1")
        bar(port, [f"127.0.1.{n}" for n in range(32)])
        assert not reached(port, "127.0.1.31") and reached(port, "127.0.0.9") and reached(port, "127.0.1.32")
        bar(port, [])
        assert reached(port, "127.0.1.31")
        bar(port, [])


@linux
def test_an_address_of_ipv6_is_barred_with_its_network() -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    with listener("::1") as (_, port):
        bar(port, ["2001:db8::", "127.0.0.9"])
        assert reached(port, "::1", "::1")
        bar(port, ["2001:db8::", Connected(0, port, "ipv6:%5B::1%5D:9", 0).host])
        assert not reached(port, "::1", "::1")


def test_bars_end_and_the_next_is_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[list[str]]()
    monkeypatch.setattr(
        "eunomia.serving.fronts.barring.bar", lambda port, hosts, known: told.append([*hosts])
    )
    bars = Bars()
    assert bars.put(1, "a", 0.0) == FIRST_S and bars.put(1, "a", 1.0) == 0.0
    bars.lift(1, FIRST_S - 0.1)
    bars.lift(1, FIRST_S)
    assert bars.put(1, "a", FIRST_S + 1.0) == 2 * FIRST_S and bars.put(1, "b", 0.0) == FIRST_S
    bars.lift(1, 1e3)
    assert bars.put(1, "a", 2e3) == FIRST_S, "it was good for long"
    assert told == [["a"], [], ["a"], ["a", "b"], [], ["a"]]


# --- a server --------------------------------------------------------------------------------------------


@linux
@pytest.mark.parametrize("what", ["windows", "bytes of a message"])
def test_a_flood_of_frames_is_cut_and_others_are_served(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, memory grew by 100 MB a second, without a key; one's own calls took seconds."""
    grpc = pytest.importorskip("tritonclient.grpc")
    ended = list[Connected]()
    monkeypatch.setattr(grpc_wire, "end", lambda one: (ended.append(one), end(one)))
    source, flood = "127.0.0.7", CRUMBS[what] * 20_000
    with running(tmp_path) as server:
        place = ("127.0.0.1", server.grpc_port)
        for _ in range(MANY):
            if ended:
                break
            with (
                contextlib.suppress(OSError),  # the library cuts one, too, that goes beyond its window
                socket.create_connection(place, SILENT_S, (source, 0)) as line,
            ):
                line.sendall(frames.greeting() + frames.call(1, "ModelInfer", GOLD))
                while not ended:
                    line.sendall(flood)
        assert {one.host for one in ended} == {source}
        with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            assert client.is_server_live()
        tensor = {
            "name": "image",
            "datatype": "FP32",
            "shape": [*TENSOR.shape],
            "data": TENSOR.ravel().tolist(),
        }
        assert ask(server, "POST", "/v2/models/small/infer", GOLD, {"inputs": [tensor]})[0] == 200


@linux
def test_who_sends_much_and_gets_much_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large messages, many small ones, long streams, answers larger than any window: by the stock client."""
    grpc = pytest.importorskip("tritonclient.grpc")
    monkeypatch.setattr(grpc_wire, "CALM_S", grpc_wire.BUSY_S)
    ended = list[Connected]()
    monkeypatch.setattr(grpc_wire, "end", ended.append)
    with running(tmp_path) as server, grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        headers = {"authorization": f"Bearer {GOLD}"}

        def picture(rows: int) -> list[object]:
            one = grpc.InferInput("image", [rows, 3, 64, 64], "FP32")
            one.set_data_from_numpy(np.zeros((rows, 3, 64, 64), np.float32))
            return [one]

        for rows in [1] * 400 + [80] * 12:
            with contextlib.suppress(grpc.InferenceServerException):  # so many rows are too large for it
                client.infer("small", picture(rows), headers=headers)
        answers = list[object]()
        client.start_stream(lambda result, error: answers.append(error or result), headers=headers)
        for _ in range(600):
            client.async_stream_infer("small", picture(1))
        until(lambda: len(answers) == 600)
        client.stop_stream()
        for _ in range(300):
            client.get_server_metadata()
    assert ended == []


def test_a_bar_that_cannot_be_lifted_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, a look without a free descriptor made it last for ever."""
    told = list[list[str]]()

    def fails(port: int, hosts: Iterable[str], known: list[int]) -> None:
        raise OSError("no descriptor is free")

    bars = Bars()
    with monkeypatch.context() as patch:
        patch.setattr("eunomia.serving.fronts.barring.bar", lambda port, hosts, known: None)
        bars.put(0, "10.0.0.1", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr("eunomia.serving.fronts.barring.bar", fails)
        with pytest.raises(OSError, match="descriptor"):
            bars.lift(0, FIRST_S)
    monkeypatch.setattr(
        "eunomia.serving.fronts.barring.bar", lambda port, hosts, known: told.append([*hosts])
    )
    bars.lift(0, FIRST_S)
    assert told == [[]]


# --- calls without a key ---------------------------------------------------------------------------------


@pytest.mark.parametrize("proxy", [False, True])
def test_very_many_calls_without_a_key_bar_their_address_unless_others_come_from_there(
    proxy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library has one line for all calls: 150,000 health checks kept gold at 36 to 42 % over gRPC."""
    ended, barred = list[str](), list[str]()
    monkeypatch.setattr(grpc_wire, "end", lambda one: ended.append(one.host))
    monkeypatch.setattr(Bars, "put", lambda self, port, host, now_s: barred.append(host) or 10.0)
    at = {3: "ipv4:10.0.0.1:4711", 4: "ipv4:10.0.0.2:4711"}
    monkeypatch.setattr(
        grpc_wire, "connection_at", lambda n, port: Connected(n, port, at[n], 0) if n in at else False
    )

    async def main() -> None:
        wire = Wire()
        if proxy:
            wire.known("10.0.0.1", at[3])
        for _ in range(2 * grpc_wire.STRANGE):
            wire.strange("10.0.0.1")
        wire._look()
        assert (barred, ended) == (([], []) if proxy else (["10.0.0.1"], ["10.0.0.1"]))
        for _ in range(3):
            wire._look()
        assert not wire._unwelcome
        for n in range(grpc_wire.STRANGE_IN_ALL * 3 // 2):  # from very many addresses
            wire.strange(f"10.1.0.{n % 50}")
        assert len({*barred} - {"10.0.0.1"}) == 50

    asyncio.run(main())


# --- a full port -----------------------------------------------------------------------------------------


def test_a_port_that_is_nearly_full_makes_room_at_the_most_crowded_address() -> None:
    """Down to four fifths, of those without a call; nobody else's end."""
    room, here = Room(100), [("bronze", n % 8 == 0) for n in range(88)] + [("gold", False)] * 4
    for _ in range(3):
        here = [one for one in here if not room.ends(one[0], calls=one[1])]
        room.next_round()
    assert len(here) == 80 and here.count(("gold", False)) == 4 and here.count(("bronze", True)) == 11


@linux
def test_newcomers_reach_a_port_that_silent_connections_have_filled(tmp_path: Path) -> None:
    grpc = pytest.importorskip("tritonclient.grpc")
    most = 60
    with (
        running(tmp_path, connections=ConnectionLimits(most=most)) as server,
        contextlib.ExitStack() as crowd,
    ):
        place = ("127.0.0.1", server.grpc_port)
        lines = [
            crowd.enter_context(socket.create_connection(place, SILENT_S, ("127.0.0.7", 0)))
            for _ in range(2 * most)
        ]
        for line in lines:
            with contextlib.suppress(OSError):
                line.sendall(frames.greeting())

        def live() -> bool:
            with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
                try:
                    return bool(client.is_server_live(client_timeout=1.0))
                except grpc.InferenceServerException:
                    return False

        until(live)


def test_the_look_goes_through_all_descriptors_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred at a time, whatever they are; accounts of connections that have gone are forgotten, later."""
    asked = list[int]()

    def at(number: int, port: int) -> Connected | bool:
        asked.append(number)
        return Connected(number, port, f"ipv4:127.0.0.1:{number}", 0) if number in there else number < 600

    monkeypatch.setattr(grpc_wire, "connection_at", at)
    there = {*range(600, 700)}

    async def main() -> None:
        wire = Wire()
        wire.took("not seen yet", 2**20)
        for _ in range(4):
            wire._look()
        assert {*asked} >= {*range(3, 700)} and max(asked) < 700 + grpc_wire.BEYOND
        assert len(wire._accounts) == 101, "it may have come behind the look"
        there.clear()
        for _ in range(4 * grpc_wire.KEPT_ROUNDS):
            wire._look()
        assert not wire._accounts

    asyncio.run(main())

"""How connections over HTTP/2 end, and what they may wait for: their turn, and a client that takes nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser

from eunomia.serving.fronts.connections import ConnectionLimits
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.http2 import line, turns
from eunomia.serving.http2.frames import MOST_WINDOW, Code
from eunomia.serving.http2.turns import LINGER_BYTES
from tests.certificates import self_signed
from tests.hostile import frames
from tests.patience import PATIENCE_S, until_async
from tests.serving.asking import logits, pb, request
from tests.serving.live import ADMIN, GOLD, ask, running
from tests.serving.near import MIB, Near, away, head, heard, numbered, resets, setting, whole, wider, within
from tests.serving.speaking import OIP, client, message

uvloop = pytest.importorskip("uvloop")


def lasts(said: bytes) -> list[int]:
    """Calls that the server still takes up, each time it says so."""
    return [int.from_bytes(content[:4], "big") for kind, _, _, content in heard(said) if kind == frames.AWAY]


# --- the server leaves -----------------------------------------------------------------------------------


def test_who_is_left_may_begin_calls_until_it_knows_and_gets_all_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is on its way when the server says so is served: no client of gRPC has to try again."""
    monkeypatch.setattr(line, "LEAVES_S", 0.0)

    async def main() -> None:
        near = Near()
        near.say(frames.greeting() + head(1))
        near.said()
        near.line.leave()
        near.say(head(3) + whole(5, b"c"))
        said = near.said()
        assert lasts(said) == [MOST_WINDOW] and message(b"=c") in said
        found = list[int]()
        await until_async(lambda: found.extend(lasts(near.said())) or found)
        assert found == [5] and not near.over
        near.say(head(7, "/echo") + frames.frame(frames.DATA, 1, 7, message(b"d")))
        assert resets(near.said()) == {7: Code.REFUSED_STREAM}
        near.say(frames.frame(frames.DATA, 1, 1, message(b"a")))
        assert message(b"=a") in near.said() and not near.over
        near.say(frames.frame(frames.DATA, 1, 3, message(b"b")))
        assert message(b"=b") in near.said() and near.over

    asyncio.run(main())


def test_who_has_no_call_is_left_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "LEAVES_S", 0.0)

    async def main() -> None:
        near, gone, late = Near(), Near(), Near()
        for one in (near, gone):
            one.say(frames.greeting())
            one.said()
        for one in (near, gone, late):
            one.leaving = True
            one.line.leave()
        gone.leave()
        await until_async(lambda: near.over)
        assert lasts(near.said()) == [MOST_WINDOW, 0] and late.said() == b""
        late.say(frames.greeting())
        await until_async(lambda: late.over)
        assert lasts(late.said()) == [MOST_WINDOW, 0], "it had connected, and said nothing"

    asyncio.run(main())


def test_a_server_that_ends_says_so_and_waits_for_nobody() -> None:
    def run() -> None:
        near = Near()
        near.say(frames.greeting() + head(1, "/silent"))
        near.said()
        near.connections.end_all()
        assert away(near.said()) == Code.NO_ERROR and near.over
        near.leave()
        assert near.takers[1].is_gone and not near.bodies.held

    within(run)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_client_of_a_server_that_ends_hears_it(tmp_path: Path, run: object) -> None:
    with running(tmp_path, run=run) as server:
        one = socket.create_connection(("127.0.0.1", server.grpc_port), PATIENCE_S)
        one.sendall(frames.greeting() + head(1, f"{OIP}ServerLive"))
        said = one.recv(65536)
    with one:
        while piece := one.recv(65536):
            said += piece
    assert away(said) == Code.NO_ERROR


# --- after a fault ---------------------------------------------------------------------------------------


def test_what_is_still_sent_after_a_fault_is_thrown_away_and_bounded() -> None:
    """Closed at once, with bytes that nobody read, a connection would lose the words that say why."""

    async def main() -> None:
        near = Near()
        near.say(frames.greeting() + head(2))
        assert away(near.said()) == Code.PROTOCOL_ERROR and near.wire.ended and not near.wire.aborted
        for _ in range(LINGER_BYTES // 65_536):
            near.line.data_received(bytes(65_536))
        assert not near.wire.aborted and len(near.line.tail) == 0
        near.line.data_received(b"a")
        assert near.wire.aborted

    asyncio.run(main())


@pytest.mark.parametrize("how", ["the server ends", "another serves", "it has no call for long"])
def test_to_a_connection_that_has_had_its_last_word_nothing_is_said(how: str) -> None:
    """A server that ended then failed, and left those who had not heard it without a word."""

    def run() -> None:
        near = Near()
        near.say(frames.greeting() + frames.frame(frames.DATA, 0, 1, b"a"))
        assert away(near.said()) == Code.PROTOCOL_ERROR and near.wire.ended
        if how == "the server ends":
            near.connections.end_all()
        elif how == "another serves":
            near.line.leave()
        else:
            near.line._look_idle(0.0)
        assert not near.said()
        near.leave()

    within(run)


def test_who_does_not_hang_up_after_a_fault_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LINGER_S", 0.01)

    async def main() -> None:
        near = Near()
        near.say(b"\x16\x03\x01")
        assert near.wire.ended
        await until_async(lambda: near.wire.aborted)

    asyncio.run(main())


# --- turns -----------------------------------------------------------------------------------------------


@given(cuts=st.lists(st.integers(1, 300), min_size=1, max_size=30), leaves=st.booleans())
def test_a_connection_that_waits_for_its_turn_after_each_frame_loses_nothing(
    cuts: list[int], leaves: bool
) -> None:
    """Nothing is read meanwhile; what had come before the client left is served, too."""
    said = frames.greeting() + b"".join(whole(n, numbered(n * 20)) for n in (1, 3, 5, 7))

    async def main() -> None:
        near, at = Near(), 0
        for size in cuts:
            near.say(said[at : at + size])
            at += size
            await until_async(lambda: near.wire.reads)
        near.say(said[at:])
        if leaves and near.line.tail and not near.wire.reads:
            assert near.line.eof_received()
            await until_async(lambda: near.wire.closed)
        else:
            await until_async(lambda: near.wire.reads)
        answered = near.said()
        assert all(message(b"=" + numbered(n * 20)) in answered for n in (1, 3, 5, 7)) and not near.line.calls

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rota, "over", property(lambda self: True))
        asyncio.run(main())


# --- who takes nothing -----------------------------------------------------------------------------------


def test_nothing_is_taken_up_from_who_takes_nothing_and_room_is_held() -> None:
    async def main() -> None:
        near = Near()
        near.say(
            frames.greeting() + setting(4, 2**31 - 1) + wider(0, 64 * MIB) + whole(1, b"500000", "/count")
        )
        near.wire.waits = 400_000
        near.line.pause_writing()
        near.said()
        assert not near.wire.reads and near.bodies.held["gold"] >= 400_000
        near.line.data_received(whole(3, b"b"))  # it was on its way
        assert near.said() == b"" and 3 not in near.takers
        near.line.resume_writing()
        await until_async(lambda: near.wire.reads and not near.line.calls)
        said = near.said()
        assert message(b"=b") in said and not near.bodies.held

    asyncio.run(main())


@pytest.mark.parametrize("how", ["for long", "too much"])
def test_who_takes_nothing_is_hung_up_on(how: str) -> None:
    async def main() -> None:
        near = Near(ConnectionLimits(body_s=0.02 if how == "for long" else PATIENCE_S), room_bytes=MIB)
        near.say(frames.greeting() + whole(1, b"10") + head(3, "/silent"))
        near.wire.waits = 2000 if how == "for long" else 2 * MIB
        near.line.pause_writing()
        await until_async(lambda: near.wire.aborted)
        near.leave()
        assert not near.bodies.held and near.takers[3].is_gone

    asyncio.run(main())


def test_who_takes_something_in_time_is_not_hung_up_on() -> None:
    async def main() -> None:
        near = Near(ConnectionLimits(body_s=0.02))
        near.say(frames.greeting())
        for _ in range(3):
            near.line.pause_writing()
            near.line.resume_writing()
        handle = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.05, handle.set_result, None)
        await handle
        assert not near.wire.aborted and not near.bodies.held

    asyncio.run(main())


# --- over TLS, and the loop of the product ---------------------------------------------------------------


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_calls_over_tls_and_faults_there(tmp_path: Path, run: object) -> None:
    tls = self_signed(tmp_path)
    with (
        running(tmp_path, run=run, tls=tls) as server,
        client(server.grpc_port, tls=trusting().wrap_socket) as one,
    ):
        assert isinstance(one.line, ssl.SSLSocket) and one.line.selected_alpn_protocol() == "h2"
        exact = logits(one.ask(f"{OIP}ModelInfer", request(), GOLD))
        for _ in range(5):
            assert logits(one.ask(f"{OIP}ModelInfer", request(), GOLD)) == exact
        with client(server.grpc_port, tls=trusting().wrap_socket) as other:
            other.send(head(2))
            while not other.closed:
                other.listen_once()
            assert other.away == Code.PROTOCOL_ERROR
        assert logits(one.ask(f"{OIP}ModelInfer", request(), GOLD)) == exact


def test_large_messages_both_ways_on_the_products_loop(tmp_path: Path) -> None:
    """More than any window, frame or buffer holds, on several calls at once."""
    echo = '<ir_version: 8, opset_import: ["" : 17]> echo (float[n] x) => (float[n] y) { y = Neg (x) }'
    size = 4 * MIB
    made = pb.ModelInferRequest(model_name="echo", id="7")
    made.inputs.add(name="x", datatype="FP32", shape=[size // 4])
    made.raw_input_contents.append(bytes(size))
    changes = {"arena_bytes": 64 * MIB, "max_body_bytes": 32 * MIB}
    with running(tmp_path, run=uvloop.run, **changes) as server, client(server.grpc_port) as one:
        (tmp_path / "echo.onnx").write_bytes(parser.parse_model(echo).SerializeToString())
        assert ask(server, "POST", "/v2/repository/models/echo/load", ADMIN)[0] == 200
        numbers = [one.begin(f"{OIP}ModelInfer", GOLD) for _ in range(3)]
        for number in numbers:
            one.upload(number, message(made.SerializeToString()))
        one.listen(lambda: all(one.answers[number].over for number in numbers))
        for number in numbers:
            found = pb.ModelInferResponse.FromString(one.answers[number].messages[0])
            assert found.raw_output_contents[0] == b"\0\0\0\x80" * (size // 4)

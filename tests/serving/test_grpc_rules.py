"""The rules of gRPC over HTTP/2, asked by a client that has nothing in common with the server or the stock clients."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from eunomia.serving.http2.call import WINDOW
from eunomia.serving.http2.frames import Code
from eunomia.serving.rpc.ending import Status
from eunomia.serving.server import Server
from tests.patience import until
from tests.serving.asking import HEALTH, at_rest, logits, pb, request, told
from tests.serving.live import GOLD, running
from tests.serving.speaking import OIP, client, message

REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
BAD_TIMES = ["", "1", "S", "-1S", "1.5S", "123456789S", "1s", "1 S", "\u0661S", "1S1"]

# --- messages --------------------------------------------------------------------------------------------


def test_calls_on_one_connection_are_answered(quick: Server) -> None:
    with client(quick.grpc_port) as one:
        first = logits(one.ask(f"{OIP}ModelInfer", request(), GOLD))
        assert np.frombuffer(first, np.float32).shape == (10,)
        numbers = [one.begin(f"{OIP}ModelInfer", GOLD) for _ in range(20)]
        for number in reversed(numbers):
            one.upload(number, message(request()))
        one.listen(lambda: all(one.answers[number].over for number in numbers))
        assert {logits(one.answers[number]) for number in numbers} == {first}
        assert one.answers[numbers[0]].reset is None
        live = one.ask(f"{OIP}ServerLive")
        assert live.messages == [b"\x08\x01"] and live.status == 0
    until(lambda: at_rest(quick))


@pytest.mark.parametrize("path, key", [
    (f"{OIP}ModelInfer", GOLD), (f"{OIP}ServerMetadata", ""), (f"{OIP}ModelMetadata", GOLD), (f"{HEALTH}Check", ""),
    (f"{HEALTH}Watch", ""),
])  # fmt: skip
@pytest.mark.parametrize("at_once", [True, False])
def test_a_call_without_a_message_is_told(quick: Server, path: str, key: str, at_once: bool) -> None:
    with client(quick.grpc_port) as one:
        number = one.begin(path, key, last=at_once)
        if not at_once:
            one.end(number)
        one.listen(lambda: one.answers[number].over)
        assert one.answers[number].status == Status.INVALID_ARGUMENT
        assert told(one.answers[number]) == "the call has no message"
    until(lambda: at_rest(quick))


def test_a_stream_without_a_message_is_none_without_an_answer(quick: Server) -> None:
    with client(quick.grpc_port) as one:
        number = one.begin(f"{OIP}ModelStreamInfer", GOLD, last=True)
        one.listen(lambda: one.answers[number].over)
        assert one.answers[number].status == 0 and one.answers[number].messages == []


@pytest.mark.parametrize("path, key, content", [
    (f"{OIP}ModelInfer", GOLD, request()), (f"{OIP}ServerLive", "", b""), (f"{HEALTH}Check", "", b""),
])  # fmt: skip
def test_a_second_message_of_a_call_with_one_is_told(
    quick: Server, path: str, key: str, content: bytes
) -> None:
    with client(quick.grpc_port) as one:
        number = one.begin(path, key)
        one.upload(number, 2 * message(content))
        one.listen(lambda: one.answers[number].over)
        assert one.answers[number].status == Status.INVALID_ARGUMENT
        assert told(one.answers[number]) == "the call has a second message: send it in a call of its own"
    until(lambda: at_rest(quick))


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
def test_a_torn_message_ends_its_call(quick: Server, method: str) -> None:
    with client(quick.grpc_port) as one:
        number = one.begin(f"{OIP}{method}", GOLD)
        one.upload(number, message(b"abc", size=9))
        one.listen(lambda: one.answers[number].over)
        assert one.answers[number].reset == Code.PROTOCOL_ERROR
        logits(one.ask(f"{OIP}ModelInfer", request(), GOLD))
    until(lambda: at_rest(quick))


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


@pytest.mark.parametrize("name", PACKERS)
def test_packed_messages_are_what_was_packed(quick: Server, name: str) -> None:
    """Small and large, in a stream and alone; one that is not packed may come among them."""
    packing = [("grpc-encoding", name)]
    with client(quick.grpc_port) as one:
        exact = logits(one.ask(f"{OIP}ModelInfer", request(), GOLD))
        number = one.begin(f"{OIP}ModelInfer", GOLD, packing)
        one.upload(number, message(PACKERS[name](request()), packed=True))
        one.listen(lambda: one.answers[number].over)
        assert logits(one.answers[number]) == exact
        number = one.begin(f"{OIP}ModelStreamInfer", GOLD, packing)
        one.upload(number, message(PACKERS[name](request()), packed=True) + message(request()))
        one.listen(lambda: one.answers[number].over)
        found = [pb.ModelStreamInferResponse.FromString(each) for each in one.answers[number].messages]
        assert [bytes(each.infer_response.raw_output_contents[0]) for each in found] == [exact] * 2
        number = one.begin(f"{OIP}ModelMetadata", GOLD, packing)
        asked = pb.ModelMetadataRequest(name="small").SerializeToString()
        one.upload(number, message(PACKERS[name](asked), packed=True))
        one.listen(lambda: one.answers[number].over)
        assert pb.ModelMetadataResponse.FromString(one.answers[number].messages[0]).name == "small"
        number = one.begin(f"{HEALTH}Watch", more=packing)
        one.upload(number, message(PACKERS[name](b""), packed=True), last=False)
        one.listen(lambda: one.answers[number].messages)
        assert one.answers[number].messages == [b"\x08\x01"]
        one.reset(number)
    until(lambda: at_rest(quick))


@pytest.mark.parametrize("more, status, says", [
    ([("grpc-encoding", "snappy")], Status.UNIMPLEMENTED, "grpc-encoding is 'snappy'; gzip, deflate or none are taken"),
    ([("grpc-encoding", "identity")], Status.INTERNAL, "packed, and grpc-encoding does not say how"),
    ([], Status.INTERNAL, "packed, and grpc-encoding does not say how"),
    ([("grpc-encoding", "gzip")], Status.INVALID_ARGUMENT, "the message cannot be inflated: it is no gzip or deflate"),
])  # fmt: skip
@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer", "ModelMetadata"])
def test_what_cannot_be_unpacked_is_told(
    quick: Server, method: str, more: list[tuple[str, str]], status: Status, says: str
) -> None:
    with client(quick.grpc_port) as one:
        number = one.begin(f"{OIP}{method}", GOLD, more)
        one.upload(number, message(b"\xff" * 9, packed=True))
        one.listen(lambda: one.answers[number].over)
        assert one.answers[number].status == status and says in told(one.answers[number])
    until(lambda: at_rest(quick))


# --- heads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [f"{OIP}NoSuchRpc", "/a.b.C/Method", "/", "*", f"{OIP}ModelInfer/", "/" + "a" * 5000]
)
def test_an_unknown_method_is_told(quick: Server, path: str) -> None:
    with client(quick.grpc_port) as one:
        answer = one.ask(path, b"", GOLD)
        assert answer.status == Status.UNIMPLEMENTED and told(answer).startswith("there is no method '")
        assert len(answer.why) < 300


@pytest.mark.parametrize("method, kind, taken", [
    ("POST", "application/grpc", True), ("POST", "application/grpc+proto", True),
    ("POST", "application/grpc;charset=utf-8", True), ("POST", "application/grpc+json", False),
    ("POST", "text/plain", False), ("POST", "application/json", False), ("POST", "", False),
    ("GET", "application/grpc", False), ("PUT", "application/grpc", False),
])  # fmt: skip
def test_what_is_no_call_gets_an_answer_of_http(quick: Server, method: str, kind: str, taken: bool) -> None:
    kinds = [("content-type", kind)] if kind else []
    path = f"{OIP}ServerLive"
    with client(quick.grpc_port) as one:
        fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "x"), *kinds]
        number = one.begin(path, head=fields)
        one.upload(number, message(b""))
        one.listen(lambda: one.answers[number].over)
        found = one.answers[number]
        assert found.head[":status"] == ("200" if taken else "415") and found.ended
        assert found.status == (0 if taken else None)
        assert taken or "calls are POST requests of application/grpc" in found.head["x-reason"]
        assert taken or found.body == f"{found.head['x-reason']}\n".encode()
        assert one.ask(path).status == 0


@pytest.mark.parametrize(
    "method, size", [("GET", 0), ("HEAD", 0), ("POST", 5), ("POST", 400_000), ("POST", 900_000)]
)
def test_what_is_no_call_is_heard_before_it_is_answered(quick: Server, method: str, size: int) -> None:
    """Up to half a megabyte; the text is its body, but for HEAD."""
    with client(quick.grpc_port) as one:
        number = one.begin(
            "/", head=[(":method", method), (":scheme", "http"), (":path", "/"), (":authority", "x")]
        )
        one.upload(number, bytes(size))
        one.listen(lambda: one.answers[number].over)
        found = one.answers[number]
        assert found.head[":status"] == "415" and found.ended and found.reset in (None, 0)
        assert bool(found.body) == (method != "HEAD")
    until(lambda: at_rest(quick))


@pytest.mark.parametrize("text", BAD_TIMES)
@pytest.mark.parametrize("path", [f"{OIP}ModelInfer", f"{OIP}ModelStreamInfer", f"{OIP}ModelReady"])
def test_a_time_that_is_none_is_told(quick: Server, text: str, path: str) -> None:
    with client(quick.grpc_port) as one:
        answer = one.ask(path, request(), GOLD, [("grpc-timeout", text)])
        assert answer.status == Status.INVALID_ARGUMENT and "grpc-timeout is '" in told(answer)
    until(lambda: at_rest(quick))


def test_a_stream_of_a_stranger_with_a_time_that_is_none_holds_no_place(tmp_path: Path) -> None:
    with running(tmp_path) as server, client(server.grpc_port) as one:
        answer = one.ask(REFLECTION, b"", more=[("grpc-timeout", "1s")])
        assert answer.status == Status.INVALID_ARGUMENT and "grpc-timeout is '" in told(answer)
        assert one.ask(f"{OIP}ServerLive").status == 0
        assert at_rest(server)


@pytest.mark.parametrize("text", ["1H", "99999999H", "59M", "60S", "60000m", "99999999u"])
def test_a_time_of_any_unit_is_taken(quick: Server, text: str) -> None:
    with client(quick.grpc_port) as one:
        logits(one.ask(f"{OIP}ModelInfer", request(), GOLD, [("grpc-timeout", text)]))


@pytest.mark.parametrize("path, key", [(f"{OIP}ModelStreamInfer", GOLD), (REFLECTION, "")])
@pytest.mark.parametrize("text", ["1n", "20m", "100000u"])
def test_a_stream_ends_at_its_deadline(quick: Server, path: str, key: str, text: str) -> None:
    with client(quick.grpc_port) as one:
        number = one.begin(path, key, [("grpc-timeout", text)])
        one.listen(lambda: one.answers[number].over)
        found = one.answers[number]
        assert found.status == Status.DEADLINE_EXCEEDED and "deadline has passed" in unquote(found.why)
        assert found.reset == Code.NO_ERROR
    until(lambda: at_rest(quick))


@pytest.mark.parametrize("name", ["a\nb\r\nc", "\u00e4\u00f6\u20ac", "100%", "%41", "\x7f\x01", "\U0001f600"])
def test_words_that_no_header_can_hold_arrive(quick: Server, name: str) -> None:
    asked = pb.ModelReadyRequest(name=name).SerializeToString()
    with client(quick.grpc_port) as one:
        answer = one.ask(f"{OIP}ModelReady", asked, GOLD)
        assert answer.status == Status.NOT_FOUND and name in told(answer)
        assert answer.why.isascii() and answer.why.isprintable()


# --- who may -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer", "ModelMetadata", "RepositoryModelLoad"])
@pytest.mark.parametrize("key", ["", "eun_nobody"])
def test_a_refused_key_is_told_before_the_message_and_the_rest_is_not_wanted(
    quick: Server, method: str, key: str
) -> None:
    with client(quick.grpc_port) as one:
        number = one.begin(f"{OIP}{method}", key)
        one.push(number, message(bytes(1000), size=3 * WINDOW))
        one.listen(lambda: one.answers[number].reset is not None)
        found = one.answers[number]
        assert found.status == Status.UNAUTHENTICATED and found.ended and found.reset == Code.NO_ERROR
        assert found.granted == 0 and told(found)
        assert not quick.service.bodies.held
        logits(one.ask(f"{OIP}ModelInfer", request(), GOLD))


def test_a_message_that_is_too_large_is_told_before_it_comes(quick: Server) -> None:
    with client(quick.grpc_port) as one:
        for method, key, most in (
            ("ModelInfer", GOLD, 4 * 1024**2),
            ("ModelReady", GOLD, 65536),
            ("ServerLive", "", 4096),
        ):
            number = one.begin(f"{OIP}{method}", key)
            one.push(number, message(b"abc", size=most + 1))
            one.listen(lambda number=number: one.answers[number].reset is not None)
            found = one.answers[number]
            assert found.status == Status.RESOURCE_EXHAUSTED and found.reset == Code.NO_ERROR
            assert (found.end or found.head)["grpc-retry-pushback-ms"] == "-1", "nobody sends it again"
            assert f"the message has {most + 1} bytes; at most {most} are taken here" in told(found)
    until(lambda: at_rest(quick))

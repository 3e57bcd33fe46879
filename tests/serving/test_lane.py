"""Inference over HTTP without aiohttp in between: the same answers, in order, whatever comes in whichever pieces."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.fronts.head import END, read_head
from eunomia.serving.server import Server
from tests.certificates import self_signed
from tests.patience import PATIENCE_S, until
from tests.serving.live import GOLD, SIDE, SILVER, running
from tests.serving.made_up import examples

PICTURE = np.random.default_rng(0).random((1, 3, SIDE, SIDE), np.float32)
Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server"), max_json_bytes=100_000) as live:
        yield live


def request(
    content: Mapping[str, Any] | bytes | None = None, raw: bytes = b"", path: str = "small", key: str = GOLD,
    **headers: str,
) -> bytes:  # fmt: skip
    """An inference request as a client sends it."""
    if content is None:
        raw = PICTURE.tobytes()
        content = {"inputs": [tensor(parameters={"binary_data_size": len(raw)})], "id": "a"}
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    sent = {"Host": "x", "Authorization": f"Bearer {key}", "Content-Length": str(len(text) + len(raw))}
    sent |= {"Inference-Header-Content-Length": str(len(text))} if raw else {}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"POST /v2/models/{path}/infer HTTP/1.1\r\n{lines}\r\n".encode() + text + raw


def tensor(**more: Any) -> dict[str, Any]:
    return {"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], **more}


def slowly(asked: bytes) -> bytes:
    """The same request, for aiohttp: a name stands twice in its head."""
    return asked.replace(b"\r\nHost: x\r\n", b"\r\nHost: x\r\nX-A: 1\r\nX-A: 2\r\n", 1)


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S)


def answers(line: socket.socket, count: int) -> list[Answer]:
    found: list[Answer] = []
    with line.makefile("rb") as file:
        for _ in range(count):
            status = int(file.readline().split()[1])
            headers: dict[str, str] = {}
            while (text := file.readline().decode().strip()) != "":
                name, _, value = text.partition(": ")
                headers[name.lower()] = value
            found.append((status, headers, file.read(int(headers["content-length"]))))
    return found


def tell(server: Server, asked: bytes) -> Answer:
    with connect(server) as line:
        line.sendall(asked)
        return answers(line, 1)[0]


NUMBERS = {"inputs": [tensor(data=[0.5] * PICTURE.size)]}
BINARY = tensor(parameters={"binary_data_size": PICTURE.nbytes})
CASES = {
    "binary in, JSON out": request(),
    "binary in, binary out": request(
        {"inputs": [BINARY], "parameters": {"binary_data_output": True}}, PICTURE.tobytes()),
    "a version": request(path="small/versions/1"),
    "numbers": request({"inputs": [tensor(data=[1] * PICTURE.size)]}),
    "many numbers, which a process of its own reads": request(NUMBERS),
    "too many numbers": request({"inputs": [tensor(data=[0.123456789] * PICTURE.size)]}),
    "no JSON": request(b"{"),
    "no body": request(b""),
    "a wrong length of the JSON": request(Inference_Header_Content_Length="x"),
    "a network that there is not": request(path="nothing"),
    "a version that there is not": request(path="small/versions/2"),
    "a key that there is not": request(key="eun_nobody"),
    "no key": request().replace(b"Authorization", b"X-Nothing"),
    "a large request of a tenant that may not": request({"inputs": [BINARY]}, PICTURE.tobytes() * 5, key=SILVER),
    "a wrong shape": request({"inputs": [{**BINARY, "shape": [1, 3, 4]}]}, PICTURE.tobytes()),
    "more than the server takes": request(b"x" * (4 * 1024**2 + 1)),
    "shared memory that is not offered": request({"inputs": [tensor(parameters={
        "shared_memory_region": "a", "shared_memory_byte_size": PICTURE.nbytes})]}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_the_one_that_aiohttp_would_send(server: Server, case: str) -> None:
    (status, headers, body), (twin_status, twin_headers, twin_body) = (
        tell(server, CASES[case]), tell(server, slowly(CASES[case])),
    )  # fmt: skip
    assert (status, body) == (twin_status, twin_body)
    twin_headers.pop("server")
    assert parsedate_to_datetime(headers.pop("date")) and twin_headers.pop("date")
    twin_headers.pop("connection", None)
    assert headers == twin_headers
    assert not server.service.bodies.held and server.service.limits.active("gold") == 0


def test_requests_behind_each_other_are_answered_in_order(server: Server) -> None:
    live = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    posted = b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
    said = [
        request(),
        live,
        request(),
        request(),
        request(b"{"),
        posted,
        live,
        slowly(request()),
        request(),
        live,
    ]
    alone = [tell(server, one) for one in said]
    with connect(server) as line:
        line.sendall(b"".join(said))
        assert [(a[0], a[2]) for a in answers(line, len(said))] == [(a[0], a[2]) for a in alone]
    with connect(server) as line:  # and one after the other on one connection
        for one, (status, _, body) in zip(said, alone, strict=True):
            line.sendall(one)
            found = answers(line, 1)[0]
            assert (found[0], found[2]) == (status, body)


@examples(0.5)
@given(cuts=st.lists(st.integers(0, 2 * len(request())), max_size=6), odd=st.booleans())
def test_pieces_of_any_size(server: Server, cuts: list[int], odd: bool) -> None:
    said = request() + (slowly(request()) if odd else request(b"{"))
    at = [0, *sorted(cuts), len(said)]
    with connect(server) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for begin, end in zip(at, at[1:], strict=False):
            line.sendall(said[begin:end])
        assert [status for status, _, _ in answers(line, 2)] == [200, 200 if odd else 400]


def test_who_goes_away_leaves_nothing_behind(server: Server) -> None:
    whole = request()
    for end in (10, len(whole) // 2, len(whole)):
        with connect(server) as line:
            line.sendall(whole[:end])
    limits, bodies, arena = server.service.limits, server.service.bodies, server.pool.arena
    until(lambda: not bodies.held and limits.active("gold") == 0 and arena.free_bytes == arena.room_bytes)
    assert tell(server, whole)[0] == 200


def test_a_refused_body_is_thrown_away_and_the_connection_goes_on(server: Server) -> None:
    with connect(server) as line:
        refused = request(key="eun_nobody")
        line.sendall(refused[: len(refused) // 2])
        assert answers(line, 1)[0][0] == 401  # before the rest has come
        line.sendall(refused[len(refused) // 2 :] + request())
        assert answers(line, 1)[0][0] == 200


OFFER = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}


def offering(asked: bytes, **fields: str) -> bytes:
    """The same request of a client that would go on in HTTP/2."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in {**OFFER, **fields}.items())
    return asked.replace(b"\r\nHost: x\r\n", f"\r\nHost: x\r\n{lines}".encode(), 1)


def test_an_offer_of_http_2_is_left_alone_and_nothing_behind_it_is_lost(server: Server) -> None:
    """What came in one piece behind it had no answer, and the connection stayed open."""
    with connect(server) as line:
        line.sendall(offering(request()) + offering(request()) + request())
        assert [status for status, _, _ in answers(line, 3)] == [200] * 3
    live = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(server) as line:
        for asked in (offering(live), offering(request()), offering(live), live):
            line.sendall(asked)
            assert answers(line, 1)[0][0] == 200


@pytest.mark.parametrize("upgrade", ["h2c", "websocket", "TLS/1.2, h2c"])
@pytest.mark.parametrize("chunked", [False, True])
def test_behind_another_offer_there_are_answers_or_the_end(
    server: Server, upgrade: str, chunked: bool
) -> None:
    live = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    asked = b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\n" + chunks if chunked else live
    with connect(server) as line:
        line.sendall(offering(asked, Upgrade=upgrade) + live)
        with line.makefile("rb") as file:
            found = file.read()  # to the end of the connection
    first, _, rest = found.partition(b"}")
    assert first.startswith(b"HTTP/1.1 ") and b"connection: close" in first.lower() and not rest


@pytest.mark.parametrize("why", ["another protocol", "the server leaves"])
def test_a_large_answer_says_that_it_is_the_last(
    server: Server, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Its connection ended without a word, and clients sent their next request there: Java's lost one in ten."""
    monkeypatch.setattr("eunomia.serving.fronts.http.LARGE_ANSWER", 1)
    monkeypatch.setattr(server.service, "leaving", why == "the server leaves")
    asked = request()
    head, _, body = asked.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    head = b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", b""])
    with connect(server) as line:
        line.sendall(head if server.service.leaving else offering(head))
        line.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        with line.makefile("rb") as file:
            found = file.read()  # to the end of the connection
    assert found.startswith(b"HTTP/1.1 200 OK\r\n") and b"\r\nconnection: close\r\n" in found.lower()


WORDS = st.sampled_from([
    b"POST", b"GET", b"post", b" ", b"\t", b"/", b"/v2/models/a/infer", b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\n", b"\r",
    b":", b"Content-Length", b"content-length", b"Transfer-Encoding", b"chunked", b"Host", b"a", b"0", b"12", b"+1",
    b"Connection", b"close", b"\x00", b"\xff", b"Expect", b"100-continue", b"%2e", b"..", b"?", b"#",
])  # fmt: skip


class Nothing:
    """What the parser calls of its connection."""

    _reading_paused = False

    def pause_reading(self) -> None:
        """Never needed."""

    def resume_reading(self, **_: bool) -> None:
        """Never needed."""


@examples()
@given(
    first=st.one_of(st.just(b"POST /v2/models/a/infer HTTP/1.1"), st.lists(WORDS, max_size=8).map(b"".join)),
    fields=st.lists(
        st.one_of(
            st.sampled_from(
                [
                    b"Host: x",
                    b"Content-Length: 12",
                    b"X-A:  b c\t",
                    b"Connection: keep-alive",
                    b"Upgrade: h2c",
                    b"Connection: Upgrade, HTTP2-Settings",
                ]
            ),
            st.lists(WORDS, max_size=6).map(b"".join),
        ),
        max_size=5,
    ),
)
def test_what_is_plain_is_read_as_aiohttp_reads_it(first: bytes, fields: list[bytes]) -> None:
    data = b"\r\n".join([first, *fields]) + END
    head = read_head(data[: data.find(END) + len(END)])
    if head is None:
        return
    loop = asyncio.new_event_loop()
    try:
        parser: Any = HttpRequestParser(Nothing(), loop, 2**16, max_line_size=8190, max_field_size=16384)  # type: ignore[arg-type]
        messages, upgraded, tail = parser.feed_data(data[: data.find(END) + len(END)])
    except HttpProcessingError as error:
        raise AssertionError(f"aiohttp refuses what is taken for plain: {data!r}") from error
    finally:
        loop.close()
    message, body = messages[0]
    assert len(messages) == 1 and not upgraded and not tail and not message.should_close
    assert (message.method, message.path) == (head.method, head.path)
    assert {name.lower(): value for name, value in message.headers.items()} == dict(head.headers)
    assert (
        len(message.headers) == len(head.headers)
        and not message.chunked
        and body.is_eof() == (head.size == 0)
    )


def test_over_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.create_default_context(cafile=str(certificate))
    context.check_hostname = False
    said = [request(), b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n", request(), slowly(request())]
    with (
        running(tmp_path, tls=(certificate, key), grpc_port=None) as server,
        context.wrap_socket(connect(server)) as line,
    ):
        line.sendall(b"".join(said))
        found = answers(line, len(said))
    assert [status for status, _, _ in found] == [200] * 4
    assert found[0][2] == found[2][2] == found[3][2]

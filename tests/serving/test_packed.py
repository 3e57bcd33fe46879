"""Packed messages are inflated within bounds, over HTTP and gRPC."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import tracemalloc
import zlib
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.fronts.json_process import JsonProcess
from eunomia.serving.protocol import packed as packed_module
from eunomia.serving.protocol.errors import BadRequest, TooLarge
from eunomia.serving.protocol.packed import (
    AT_ONCE_BYTES,
    FREE_BYTES,
    MEMBERS,
    RATIO,
    inflate,
    inflate_at_once,
    is_packed,
)
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S
from tests.serving.live import GOLD, SIDE, running
from tests.serving.made_up import examples

grpc = pytest.importorskip("grpc")
pb = pytest.importorskip("tritonclient.grpc.service_pb2")
from tritonclient.grpc import service_pb2_grpc as stubs  # noqa: E402

MOST = 64 * 1024**2
BOMB = gzip.compress(bytes(32 * 1024**2), 9, mtime=0)


@given(st.binary(max_size=2000), st.integers(0, 2500), st.sampled_from(["gzip", "zlib", "bare"]))
@examples()
def test_it_is_what_was_packed_or_too_large(content: bytes, most: int, kind: str) -> None:
    packer = zlib.compressobj(wbits={"gzip": 31, "zlib": 15, "bare": -15}[kind])
    packed = packer.compress(content) + packer.flush()
    if len(content) <= most:
        assert inflate(packed, most) == content
    else:
        with pytest.raises(TooLarge):
            inflate(packed, most)


@given(st.lists(st.binary(max_size=200), max_size=6), st.integers(1, 50))
@examples()
def test_members_behind_each_other_are_one_message(contents: list[bytes], piece: int) -> None:
    packed = b"".join(gzip.compress(content, mtime=0) for content in contents or [b""])
    with patch.object(packed_module, "PIECE", piece):
        assert inflate(packed, MOST) == b"".join(contents)


@pytest.mark.parametrize("more, says", [
    (b"JUNK", "4 bytes stand behind the packed message"), (zlib.compress(b"x"), "9 bytes stand behind"),
    (bytes(8), "8 bytes stand behind"), (gzip.compress(b"b" * 50, mtime=0)[:-2], "ends in its midst"),
    (gzip.compress(b"b" * 50, mtime=0)[:-8] + bytes(8), "it is no gzip or deflate"), (b"\x1f", "1 bytes stand behind"),
])  # fmt: skip
def test_what_stands_behind_a_member_and_is_none_is_refused(more: bytes, says: str) -> None:
    packed = gzip.compress(b"a" * 100, mtime=0) + more
    assert inflate_at_once(packed, MOST) is None  # left to whom it holds nobody up
    with pytest.raises(BadRequest, match=says):
        inflate(packed, MOST)
    with pytest.raises(BadRequest, match="stand behind"):  # of these there is one
        inflate(zlib.compress(b"a") * 2, MOST)


def test_many_members_are_bounded_in_number_and_in_what_they_hold() -> None:
    nothing = gzip.compress(b"", mtime=0)
    assert inflate(nothing * MEMBERS, MOST) == b""
    with (
        patch.object(zlib, "decompressobj", wraps=zlib.decompressobj) as made,
        pytest.raises(BadRequest, match="more than 4096 members: pack it in one"),
    ):
        inflate(nothing * 1_000_000, MOST)
    assert made.call_count == MEMBERS
    with pytest.raises(TooLarge, match="send it unpacked"):
        inflate(gzip.compress(bytes(FREE_BYTES // 4), mtime=0) * 4 + gzip.compress(b"a"), MOST)


@pytest.mark.parametrize("packed", [BOMB, zlib.compress(bytes(32 * 1024**2), 9)])
def test_a_bomb_costs_what_its_size_allows(packed: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match=r"packed bytes become more than \d+, .* send it unpacked"):
            inflate(packed, MOST)
        assert tracemalloc.get_traced_memory()[1] < 3 * max(RATIO * len(packed), FREE_BYTES)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packed", [b"", b"not packed", BOMB[:100], gzip.compress(b"a" * 5000, mtime=0)[:-9]])
def test_what_is_torn_or_none_is_named(packed: bytes) -> None:
    with pytest.raises(BadRequest, match="inflated|midst"):
        inflate(packed, MOST)


def test_no_message_of_the_protocol_looks_packed() -> None:
    message = pb.ModelInferRequest(model_name="x" * 31, id="y")
    message.raw_input_contents.append(gzip.compress(b"a"))
    assert not is_packed(message.SerializeToString()) and is_packed(BOMB) and is_packed(zlib.compress(b"a"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server"), max_body_bytes=MOST) as live:
        yield live


def ask(server: Server, body: bytes, coding: str) -> tuple[int, str]:
    line = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    try:
        headers = {"Authorization": f"Bearer {GOLD}", "Content-Encoding": coding}
        line.request("POST", "/v2/models/small/infer", body, headers)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read()).get("error", "")
    finally:
        line.close()


GOOD = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE],
                               "data": [0.25] * (3 * SIDE * SIDE)}]}).encode()  # fmt: skip


@pytest.mark.parametrize("body, coding, status, says", [
    (gzip.compress(GOOD, mtime=0), "gzip", 200, ""), (zlib.compress(GOOD), "deflate", 200, ""),
    (GOOD, "identity", 200, ""),
    (gzip.compress(GOOD[:50]) + gzip.compress(GOOD[50:]), "gzip", 200, ""),
    (gzip.compress(GOOD) + b"JUNK", "gzip", 400, "4 bytes stand behind the packed message: leave them out"),
    (gzip.compress(GOOD) + gzip.compress(b"}}"), "gzip", 400, "JSON"),
    (BOMB, "gzip", 413, "send it unpacked"), (BOMB[:100], "gzip", 400, "ends in its midst"),
    (GOOD, "gzip", 400, "no gzip or deflate"), (GOOD, "br", 400, "gzip, deflate or none are taken"),
])  # fmt: skip
def test_bodies_over_http(server: Server, body: bytes, coding: str, status: int, says: str) -> None:
    found, sentence = ask(server, body, coding)
    assert found == status and says in sentence, sentence


def test_messages_over_grpc(server: Server) -> None:
    key = (("authorization", f"Bearer {GOLD}"),)
    message = pb.ModelInferRequest(model_name="small")
    message.inputs.add(name="image", datatype="FP32", shape=[1, 3, SIDE, SIDE])
    message.raw_input_contents.append(bytes(4 * 3 * SIDE * SIDE))
    large = pb.ModelInferRequest(model_name="small", raw_input_contents=[bytes(32 * 1024**2)])
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        for kind in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            assert stub.ModelInfer(message, metadata=key, compression=kind, timeout=PATIENCE_S).outputs
            with pytest.raises(grpc.RpcError) as caught:
                stub.ModelInfer(large, metadata=key, compression=kind, timeout=PATIENCE_S)
            assert "send it unpacked" in caught.value.details()
            (only,) = stub.ModelStreamInfer(
                iter([message]), metadata=key, compression=kind, timeout=PATIENCE_S
            )
            assert only.infer_response.outputs


def test_many_small_packed_messages_of_a_tenant_are_read_side_by_side() -> None:
    process, packed = JsonProcess(16 * 1024**2), gzip.compress(b'{"inputs": []}')

    async def ask() -> list[bytes]:
        return await asyncio.gather(*(process.inflate(packed, 64 * 1024**2, "gold") for _ in range(20)))

    assert set(asyncio.run(ask())) == {b'{"inputs": []}'} and process.small.process is None
    process.close()


def test_at_once_is_what_is_little_and_whole() -> None:
    assert inflate_at_once(gzip.compress(b"a" * 1000), MOST) == b"a" * 1000
    for packed in (BOMB, BOMB[:100], gzip.compress(bytes(AT_ONCE_BYTES + 1))):
        assert inflate_at_once(packed, MOST) is None
    with pytest.raises(BadRequest, match="it is no gzip or deflate"):  # a second process would say the same
        inflate_at_once(b"not packed", MOST)

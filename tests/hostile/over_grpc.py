"""Attacks over gRPC: calls of a library, and frames that no library sends."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as stubs

from tests.hostile import frames
from tests.hostile.bronze import BRONZE, Attack, Bronze, Line
from tests.hostile.over_http import BOMB, MIB, NOTHING, SIDE

EMPTIES = (b"\x2a\xa0\x1f" + b"\x2a\x00" * 2000) * 1000  # inputs of contents without numbers
KEY = (("authorization", f"Bearer {BRONZE}"),)
STREAMS = range(1, 400, 2)
SHAPE = [1, 3, SIDE, SIDE]
ANSWERS = 65536


def picture(raw: bytes = NOTHING, shape: list[int] | None = None, datatype: str = "FP32", **more: Any) -> Any:
    """A message of inference."""
    message = pb.ModelInferRequest(model_name="small", **more)
    message.inputs.add(name="image", datatype=datatype, shape=SHAPE if shape is None else shape)
    message.raw_input_contents.append(raw)
    return message


@asynccontextmanager
async def stub(b: Bronze) -> AsyncIterator[Any]:
    """A channel of its own."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(b.grpc, options) as channel:
        yield stubs.GRPCInferenceServiceStub(channel)


async def call(b: Bronze, method: Any, message: Any, metadata: Any = KEY, **more: Any) -> None:
    """One RPC, and what came of it."""
    try:
        await method(message, metadata=metadata, **{"timeout": 3.0, **more})
        b.note("OK")
    except grpc.RpcError as error:
        b.note(error.code().name, error.details() or "")


def calling(method: str, message: Any, metadata: Any = KEY, **more: Any) -> Any:
    """An attack that makes the same call all the time."""

    async def work(b: Bronze) -> None:
        async with stub(b) as service:
            while not b.over:
                await call(b, getattr(service, method), message, metadata, **more)

    return work


@asynccontextmanager
async def line(b: Bronze, address: str = "") -> AsyncIterator[Line]:
    """A connection at gRPC's port, after the greeting; what is answered until its end is noted."""
    host, port = b.grpc.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(address or b.address, 0))
    try:
        writer.write(frames.greeting())
        yield reader, writer
        await writer.drain()
        async with asyncio.timeout(0.1):
            content = await reader.read(ANSWERS)
        for what in frames.seen(content) or ["nothing"]:
            b.note(what)
    finally:
        writer.close()


async def rubbish(b: Bronze) -> None:
    """Random bytes, and HTTP/1."""
    async with line(b) as (_, writer):
        writer.write(os.urandom(20_000) if b.next % 2 else b"GET / HTTP/1.1\r\n\r\n")


async def half_messages(b: Bronze) -> None:
    """200 streams on a connection, each with the beginning of 59 MB."""
    async with line(b) as (_, writer):
        for stream in STREAMS:
            writer.write(frames.call(stream, "ModelInfer", BRONZE))
            writer.write(frames.message(stream, b"\n\5small", size=59 * MIB))
        await writer.drain()
        await b.last()


async def nobodys_messages(b: Bronze) -> None:
    """The same without a key."""
    async with line(b) as (_, writer):
        for stream in STREAMS:
            writer.write(frames.call(stream, "ModelInfer", ""))
            writer.write(frames.message(stream, b"\n\5small", size=59 * MIB))
        await writer.drain()
        await b.last()


async def silent_streams(b: Bronze) -> None:
    """200 streams of many messages, of which none comes."""
    async with line(b) as (_, writer):
        for stream in STREAMS:
            writer.write(frames.call(stream, "ModelStreamInfer", BRONZE))
        await writer.drain()
        await b.last()


async def no_window(b: Bronze) -> None:
    """100 answers of 8 MB on a connection that takes no byte."""
    message = pb.ModelInferRequest(model_name="size")
    message.inputs.add(name="x", datatype="INT64", shape=[1])
    message.raw_input_contents.append((2 * MIB).to_bytes(8, "little"))
    async with line(b) as (_, writer):
        writer.write(frames.frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\0\0"))
        for stream in range(1, 200, 2):
            writer.write(frames.call(stream, "ModelInfer", BRONZE))
            writer.write(frames.message(stream, message.SerializeToString(), flags=frames.END_STREAM))
        await writer.drain()
        await b.last()


async def many_small(b: Bronze) -> None:
    """A thousand answers of 200 KB on a connection that takes no byte."""
    message = pb.ModelInferRequest(model_name="size")
    message.inputs.add(name="x", datatype="INT64", shape=[1])
    message.raw_input_contents.append((50 * 1024).to_bytes(8, "little"))
    data = message.SerializeToString()
    async with line(b) as (_, writer):
        writer.write(frames.frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\0\0"))
        for stream in range(1, 2000, 2):
            writer.write(frames.call(stream, "ModelInfer", BRONZE))
            writer.write(frames.message(stream, data, flags=frames.END_STREAM))
            await writer.drain()
        await b.last()


async def cancelled_streams(b: Bronze) -> None:
    """Streams of pictures that are taken back in their midst, two hundred on a connection."""
    data = picture().SerializeToString()
    async with line(b) as (_, writer):
        for stream in STREAMS:
            writer.write(frames.call(stream, "ModelStreamInfer", BRONZE))
            writer.write(frames.message(stream, data) * 2)
            writer.write(frames.frame(frames.RESET, 0, stream, (8).to_bytes(4, "big")))
            await writer.drain()


async def windows(b: Bronze) -> None:
    """Ten thousand windows of a byte more, for a connection whose answers wait."""
    async with line(b) as (_, writer):
        writer.write(frames.call(1, "ModelInfer", BRONZE) + frames.message(1, b"", flags=0))
        writer.write(frames.frame(frames.WINDOW, 0, 0, (1).to_bytes(4, "big")) * 10_000)
        await writer.drain()


async def resets(b: Bronze) -> None:
    """Calls that are taken back at once."""
    async with line(b) as (_, writer):
        for stream in range(1, 1000, 2):
            writer.write(frames.call(stream, "ModelInfer", BRONZE))
            writer.write(frames.frame(frames.RESET, 0, stream, bytes(4)))
        await writer.drain()


async def checks(b: Bronze) -> None:
    """A thousand health checks, which need no key, in one piece."""
    async with line(b) as (_, writer):
        writer.write(CHECKS)
        await writer.drain()


async def checks_of_many(b: Bronze) -> None:
    """The same, each from another of 60,000 addresses."""
    async with line(b, f"127.{secrets.randbelow(240) + 10}.{secrets.randbelow(250)}.9") as (_, writer):
        writer.write(CHECKS)
        await writer.drain()


async def pings(b: Bronze) -> None:
    """Ten thousand pings."""
    async with line(b) as (_, writer):
        writer.write(frames.frame(frames.PING, 0, 0, bytes(8)) * 10_000)


async def settings(b: Bronze) -> None:
    """Ten thousand settings."""
    async with line(b) as (_, writer):
        writer.write(frames.frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\xff\xff") * 10_000)


async def continued(b: Bronze) -> None:
    """Headers that go on and on."""
    async with line(b) as (_, writer):
        writer.write(frames.call(1, "ModelInfer", BRONZE, flags=0))
        more = frames.literal("x-more", "a" * 4000)
        for _ in range(500):
            writer.write(frames.frame(frames.CONTINUATION, 0, 1, more))
        await writer.drain()


async def metadata(b: Bronze) -> None:
    """Two hundred headers of 4 KB."""
    async with line(b) as (_, writer):
        many = {f"x-{n}": "a" * 4000 for n in range(3)}
        for stream in range(1, 400, 2):
            writer.write(frames.call(stream, "ServerLive", "", many))
        await writer.drain()


async def packed(b: Bronze) -> None:
    """Messages of 60 KB that become 60 MB."""
    async with line(b) as (_, writer):
        writer.write(frames.call(1, "ModelInfer", BRONZE, {"grpc-encoding": "gzip"}))
        writer.write(frames.message(1, BOMB, packed=True, flags=frames.END_STREAM))
        await b.rest(0.3)


async def badly_packed(b: Bronze) -> None:
    """Messages that say they are packed, and are not, or end in their midst."""
    for content in (b"not packed at all", BOMB[:9000], b"\x78\x9c" + bytes(500)):
        async with line(b) as (_, writer):
            writer.write(frames.call(1, "ModelInfer", BRONZE, {"grpc-encoding": "gzip"}))
            writer.write(frames.message(1, content, packed=True, flags=frames.END_STREAM))


async def wrong_messages(b: Bronze) -> None:
    """What is no message, whose numbers do not end, whose fields lie."""
    async with stub(b) as service:
        raw = service.ModelInfer
        for content in (
            os.urandom(2000),
            b"\xff" * 1000,
            b"\x0a\xff\xff\xff\x7f",
            b"\x2a\x02\x0a\x00" * 5000,
            EMPTIES,
        ):
            raw._request_serializer = lambda _, content=content: content
            await call(b, raw, None)


async def wrong_tensors(b: Bronze) -> None:
    """Shapes, types and contents that do not fit each other."""
    lies: tuple[tuple[bytes, list[int], str], ...] = (
        (NOTHING, [2**62, 2**62], "FP32"), (NOTHING, [-1, 3, SIDE, SIDE], "FP32"), (b"", SHAPE, "FP32"),
        (b"\xff\xff\xff\xff", [1], "BYTES"), (b"\1\0\0\0a" * 100, [100], "BYTES"), (NOTHING, SHAPE, "BF16"),
        (NOTHING, SHAPE, "FP4096"), (NOTHING, [1] * 1000, "FP32"),
    )  # fmt: skip
    async with stub(b) as service:
        for raw, shape, datatype in lies:
            await call(b, service.ModelInfer, picture(raw, shape, datatype))


async def typed_numbers(b: Bronze) -> None:
    """Three million numbers one by one."""
    message = pb.ModelInferRequest(model_name="small")
    message.inputs.add(name="image", datatype="FP32", shape=SHAPE).contents.fp32_contents.extend(
        [0.5] * 3_000_000
    )
    async with stub(b) as service:
        await call(b, service.ModelInfer, message)


async def long_ids(b: Bronze) -> None:
    """Request ids of 30 KB and of 15 MiB, about the largest message that is taken."""
    async with stub(b) as service:
        await call(b, service.ModelInfer, picture(id="a" * 30_000))
        await call(b, service.ModelInfer, picture(id="a" * 15 * MIB))


async def given_up(b: Bronze) -> None:
    """Pictures of a client that waits a millisecond."""
    async with stub(b) as service:
        for _ in range(20):
            await call(b, service.ModelInfer, picture(), timeout=0.001)


async def unread_streams(b: Bronze) -> None:
    """Streams full of pictures whose answers nobody reads."""
    async with stub(b) as service:
        stream = service.ModelStreamInfer(metadata=KEY)
        for _ in range(2000):
            if b.over:
                break
            await stream.write(picture())
        b.note("not read")
        stream.cancel()


def crumbs(method: str, key: str, crumb: bytes, flags: int = frames.END_HEADERS) -> Any:
    """An attack that calls once, and then sends nothing but small frames: so many that no answer is awaited."""
    head = frames.call(1, method, key, flags=flags) if method else b""
    start = frames.message(1, b"", size=15 * MIB) if method == "ModelInfer" else b""

    async def work(b: Bronze) -> None:
        async with asyncio.timeout(3.0), line(b) as (_, writer):
            writer.write(head + start)
            while not b.over:
                writer.write(crumb * (200_000 // len(crumb)))
                await writer.drain()

    return work


BYTE = frames.frame(frames.DATA, 0, 1, b"\n")
PADDED = frames.frame(frames.DATA, 8, 1, b"\xff" + bytes(255))
UNKNOWN = frames.frame(99, 0, 0, b"a" * 64)
NEVER = b"".join(frames.frame(frames.WINDOW, 0, 2 * n + 1, b"\0\0\0\1") for n in range(9999))
ENDED = frames.END_HEADERS | frames.END_STREAM


async def watches(b: Bronze) -> None:
    """Watchers of the server's health, who need no key."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(b.grpc, options) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        calls = [watch(b"", timeout=3.0) for _ in range(100)]
        for one in calls:
            try:
                await one.read()
                b.note("OK")
            except grpc.RpcError as error:
                b.note(error.code().name, error.details() or "")
        await b.last()


CHECK = {":path": "/grpc.health.v1.Health/Check"}
CHECKS = b"".join(
    frames.call(n, "Check", "", CHECK) + frames.message(n, b"", flags=frames.END_STREAM)
    for n in range(1, 2000, 2)
)
NOBODY: tuple[()] = ()
ATTACKS = {
    "grpc-rubbish": Attack("random bytes, and HTTP/1", rubbish, refused=False),
    "grpc-half": Attack("200 streams with the beginning of 59 MB", half_messages, 4, refused=False),
    "grpc-half-no-key": Attack("the same without a key", nobodys_messages, 4, refused=False),
    "grpc-silent": Attack("200 streams without a message", silent_streams, 4, refused=False),
    "grpc-no-window": Attack("100 answers of 8 MB, none taken", no_window, 2, refused=False),
    "grpc-small": Attack("1,000 answers of 200 KB, none taken", many_small, 4, refused=False),
    "grpc-windows": Attack("10,000 windows of a byte", windows, 4, refused=False),
    "grpc-cancelled": Attack("streams that are taken back in their midst", cancelled_streams, 4, refused=False),
    "grpc-resets": Attack("500 calls on a connection, taken back at once", resets, 4, refused=False),
    "grpc-checks": Attack("1,000 health checks without a key, on 60 connections", checks, 60, refused=False),
    "grpc-checks-of-many": Attack("the same, each connection from its own address", checks_of_many, 60, refused=False),
    "grpc-pings": Attack("10,000 pings", pings, 4, refused=False),
    "grpc-settings": Attack("10,000 settings", settings, 4, refused=False),
    "grpc-headers": Attack("headers that go on and on", continued, 4, refused=False),
    "grpc-metadata": Attack("200 calls with 12 KB of metadata each", metadata, 4, refused=False),
    "grpc-gzip": Attack("messages of 60 KB that inflate to 60 MB", packed, 4, refused=False),
    "grpc-gzip-torn": Attack("packed messages that are none", badly_packed, 2, refused=False),
    "grpc-wrong": Attack("what is no message", wrong_messages),
    "grpc-tensors": Attack("shapes, types and contents that lie", wrong_tensors),
    "grpc-numbers": Attack("3 million numbers one by one", typed_numbers, 2),
    "grpc-ids": Attack("request ids of 30 KB and 15 MiB", long_ids, 2),
    "grpc-deadlines": Attack("pictures with a millisecond to live", given_up, 8),
    "grpc-unread": Attack("streams of pictures, no answer read", unread_streams, 4, refused=False),
    "grpc-flood": Attack("16 channels full of pictures", calling("ModelInfer", picture()), 16, refused=False),
    "grpc-no-key": Attack("16 channels full of pictures without a key",
                          calling("ModelInfer", picture(), NOBODY), 16),
    "grpc-polling": Attack("16 channels ask for statistics",
                           calling("ModelStatistics", pb.ModelStatisticsRequest(name="small")), 16, refused=False),
    "grpc-loads": Attack("unload of gold's network",
                         calling("RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="small"))),
    "grpc-memory": Attack("gold's shared memory", calling("SystemSharedMemoryRegister",
                          pb.SystemSharedMemoryRegisterRequest(name="r", key="/gold:pictures", byte_size=4096))),
    "grpc-crumbs": Attack("a message in frames of a byte", crumbs("ModelInfer", BRONZE, BYTE), 12, refused=False),
    "grpc-crumbs-no-key": Attack("such a message without a key", crumbs("ModelInfer", "", BYTE), 12, refused=False),
    "grpc-padded": Attack("frames of nothing but padding", crumbs("ModelInfer", BRONZE, PADDED), 4, refused=False),
    "grpc-ended": Attack("bytes for a call that has ended", crumbs("ServerLive", "", BYTE, ENDED), 12, refused=False),
    "grpc-never": Attack("windows for calls that never were", crumbs("", "", NEVER), 12, refused=False),
    "grpc-unknown": Attack("frames of no known kind", crumbs("", "", UNKNOWN), 4, refused=False),
    "grpc-watch": Attack("100 watchers of the health, four times", watches, 4, refused=False),
}  # fmt: skip

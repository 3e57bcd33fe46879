"""Attacks by bytes and connections, over HTTP: what is no request, what never ends, what is packed."""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib

import brotli
import numpy as np

from tests.hostile.bronze import Attack, Bronze, infer, request, tensors
from tests.hostile.networks import BOXES, WIDTH

MIB = 1024**2
SIDE = 64
PICTURE = {"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE]}
NOTHING = bytes(4 * 3 * SIDE * SIDE)
BINARY = {**PICTURE, "parameters": {"binary_data_size": len(NOTHING)}}
GOOD = tensors("small", BINARY, raw=NOTHING)
BOMB = gzip.compress(bytes(60 * MIB), 9)
LARGE_BOMB = BOMB * 7  # members of one file
DEFLATED = zlib.compress(bytes(60 * MIB), 9)
BROTLI = brotli.compress(bytes(60 * MIB), quality=1)
FAILING = (99).to_bytes(8, "little") * (30 * MIB // 8)
LIVE = request("GET", "/v2/health/live", key="")


async def rubbish(b: Bronze) -> None:
    """Random bytes."""
    await b.say(os.urandom(20_000))


async def tls(b: Bronze) -> None:
    """The greeting of TLS."""
    await b.say(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500))


async def http2(b: Bronze) -> None:
    """The greeting of HTTP/2 at the door of HTTP/1."""
    await b.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(2000))


async def many_headers(b: Bronze) -> None:
    """Ten thousand headers."""
    await b.say(request("GET", "/v2", headers={f"X-{n}": "a" for n in range(10_000)}))


async def endless_header(b: Bronze) -> None:
    """One header of a megabyte."""
    await b.say(b"GET /v2 HTTP/1.1\r\nX: " + b"a" * MIB)


async def later_header(b: Bronze) -> None:
    """A header of a megabyte behind a request that aiohttp reads."""
    odd = request("GET", "/v2/health/live", key="").replace(b"\r\n\r\n", b"\r\nX-A: 1\r\nX-A: 2\r\n\r\n")
    async with b.line() as line:
        line[1].write(odd + b"GET /v2 HTTP/1.1\r\nX: " + b"a" * MIB)
        await b.hear(line)
        await b.hear(line)


async def spaces(b: Bronze) -> None:
    """A header of 15,000 spaces and a letter that none may have."""
    await b.say(b"GET /v2 HTTP/1.1\r\nHost: x\r\nX:" + b" " * 15_000 + b"\x80\r\n\r\n")


async def upgrades(b: Bronze) -> None:
    """Another protocol is asked for, and spoken."""
    async with b.line() as line:
        head = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        line[1].write(head + os.urandom(200_000))
        await b.hear(line)


async def two_lengths(b: Bronze) -> None:
    """A body with two lengths, and one that is chunked as well."""
    await b.say(
        b"POST /v2/models/small/infer HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"
    )


async def pipelined(b: Bronze) -> None:
    """Two thousand requests in one packet; the answers are not read."""
    async with b.line() as (_, writer):
        for _ in range(20):
            writer.write(LIVE * 2000)
        await writer.drain()
        await b.rest()
    b.note("not read")


async def pipelined_inference(b: Bronze) -> None:
    """Requests of inference in one packet, each of them right."""
    async with b.line() as line:
        line[1].write(GOOD * 20)
        for _ in range(20):
            await b.hear(line)


async def slow_header(b: Bronze) -> None:
    """A header byte by byte."""
    async with b.line() as (_, writer):
        while not b.over:
            writer.write(b"x")
            await writer.drain()
            await b.rest(0.02)


async def slow_body(b: Bronze) -> None:
    """60 MB said to come, sent byte by byte."""
    async with b.line() as (_, writer):
        writer.write(infer("small", b"", {"Content-Length": str(60 * MIB)}))
        while not b.over:
            writer.write(b"{")
            await writer.drain()
            await b.rest(0.02)


async def torn_body(b: Bronze) -> None:
    """Less than was said, and gone."""
    async with b.line() as (_, writer):
        writer.write(infer("small", b"{" * 1000, {"Content-Length": str(MIB)}))
        await writer.drain()
    b.note("gone")


async def small_chunks(b: Bronze) -> None:
    """A chunked body of one byte each."""
    chunked = infer("small", b"", {"Content-Length": "", "Transfer-Encoding": "chunked"})
    await b.say(chunked + b"1\r\n{\r\n" * 50_000 + b"0\r\n\r\n")


async def chunk_extension(b: Bronze) -> None:
    """A chunk whose size has an extension of a megabyte."""
    chunked = infer("small", b"", {"Content-Length": "", "Transfer-Encoding": "chunked"})
    await b.say(chunked + b"1;" + b"a" * MIB)


async def open_and_hold(b: Bronze) -> None:
    """Connections that say nothing."""
    async with contextlib.AsyncExitStack() as held:
        while not b.over:
            for _ in range(20):
                await held.enter_async_context(b.line())
            b.note("open")
            await b.rest()


async def open_and_go(b: Bronze) -> None:
    """Connections that close at once."""
    async with b.line():
        b.note("open")


async def half_closed(b: Bronze) -> None:
    """A request, and no more from this side."""
    async with b.line() as line:
        line[1].write(GOOD)
        line[1].write_eof()
        await b.hear(line)


async def guessed_keys(b: Bronze) -> None:
    """Keys made up, one after the other, each with a body."""
    async with b.line() as line:
        while not b.over:
            await b.ask(line, request("POST", "/v2/models/small/infer", bytes(1000), key=f"eun_{b.next}"))


async def nobodys_bodies(b: Bronze) -> None:
    """A large body without a key."""
    await b.say(request("POST", "/v2/models/small/infer", bytes(4 * MIB), key=""))


async def zip_bomb(b: Bronze) -> None:
    """60 KB that become 60 MB."""
    await b.say(infer("small", BOMB, {"Content-Encoding": "gzip"}))


async def large_zip_bomb(b: Bronze) -> None:
    """400 KB that become 400 MB."""
    await b.say(infer("small", LARGE_BOMB, {"Content-Encoding": "gzip"}))


async def deflate_bomb(b: Bronze) -> None:
    """The same by another method."""
    await b.say(infer("small", DEFLATED, {"Content-Encoding": "deflate"}))


async def brotli_bomb(b: Bronze) -> None:
    """And by a third: bytes that say so."""
    await b.say(infer("small", BROTLI, {"Content-Encoding": "br"}))


async def torn_zip(b: Bronze) -> None:
    """A packed body that ends in its midst, and one that never was."""
    await b.say(infer("small", BOMB[:5000], {"Content-Encoding": "gzip"}))
    await b.say(infer("small", b"not packed at all", {"Content-Encoding": "gzip"}))


async def unread_answers(b: Bronze) -> None:
    """Answers of 8 MB, asked for and not read."""
    count = 2 * MIB
    tensor = {"name": "x", "datatype": "INT64", "shape": [1], "parameters": {"binary_data_size": 8}}
    asked = tensors("size", tensor, raw=count.to_bytes(8, "little"), parameters={"binary_data_output": True})
    async with b.line() as (_, writer):
        writer.write(asked)
        await b.last()
    b.note("not read")


async def filling_answers(b: Bronze) -> None:
    """Answers of 30 MB, read at once: two of them fill the server's memory for tensors."""
    tensor = {"name": "x", "datatype": "INT64", "shape": [1], "parameters": {"binary_data_size": 8}}
    raw = (30 * MIB // 4).to_bytes(8, "little")
    async with b.line() as line:
        while not b.over:
            await b.ask(line, tensors("size", tensor, raw=raw, parameters={"binary_data_output": True}))


async def filling_inputs(b: Bronze) -> None:
    """Raw tensors of 30 MB that the network takes: they wait there until it fails on them."""
    count = 30 * MIB // 8
    tensor = {
        "name": "x",
        "datatype": "INT64",
        "shape": [count],
        "parameters": {"binary_data_size": 8 * count},
    }
    async with b.line() as line:
        while not b.over:
            await b.ask(line, tensors("index", tensor, raw=FAILING))


async def versions(b: Bronze) -> None:
    """Another version with each request, none of which there is; some are no numbers."""
    for version in (str(b.next), "0", "-1", "1e9", "9" * 300, "%31", "latest"):
        await b.say(GOOD.replace(b"/small/infer", f"/small/versions/{version}/infer".encode()))


async def cancelled(b: Bronze) -> None:
    """Requests that are given up at once."""
    async with b.line() as (_, writer):
        writer.write(GOOD)
        await writer.drain()
    b.note("gone")


async def flood(b: Bronze) -> None:
    """As many pictures as the connections take."""
    async with b.line() as line:
        while not b.over:
            await b.ask(line, GOOD)


async def large_bodies(b: Bronze) -> None:
    """Raw tensors of 16 MB that no network takes."""
    count = 4 * MIB
    tensor = {
        "name": "image",
        "datatype": "FP32",
        "shape": [count],
        "parameters": {"binary_data_size": 4 * count},
    }
    await b.say(tensors("small", tensor, raw=bytes(4 * count)))


async def many_rows(b: Bronze) -> None:
    """300 pictures in one request."""
    tensor = {
        **PICTURE,
        "shape": [300, 3, SIDE, SIDE],
        "parameters": {"binary_data_size": 300 * len(NOTHING)},
    }
    await b.say(tensors("small", tensor, raw=300 * NOTHING))


def sequence(tokens: int) -> bytes:
    """A request to attend to so many tokens."""
    size = 4 * tokens * WIDTH
    shape = [1, tokens, WIDTH]
    tensor = {"name": "x0", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": size}}
    output = {"name": "x4", "parameters": {"binary_data": True}}
    return tensors("sequence", tensor, raw=bytes(size), outputs=[output])


async def long_sequences(b: Bronze) -> None:
    """3,000 tokens, where one was tried at the start: nothing stops such a run in its midst."""
    await b.say(sequence(3000))


async def endless(b: Bronze) -> None:
    """A loop of 10^15 turns."""
    tensor = {"name": "x", "datatype": "INT64", "shape": [1], "parameters": {"binary_data_size": 8}}
    await b.say(tensors("turns", tensor, raw=(10**15).to_bytes(8, "little")))


async def endless_node(b: Bronze) -> None:
    """Two matrices of 6,000 x 6,000, multiplied by one node that nothing ends in its midst."""
    tensor = {"name": "x", "datatype": "INT64", "shape": [2], "parameters": {"binary_data_size": 16}}
    await b.say(tensors("square", tensor, raw=2 * (6000).to_bytes(8, "little")))


def apart(count: int) -> bytes:
    """A request to choose among so many boxes, of which none covers another."""
    corners = np.zeros((1, count, 4), np.float32)
    corners[0, :, 0] = np.arange(count)
    corners[0, :, 2:] = np.stack([np.arange(count) + 0.5, np.ones(count)], axis=1)
    scores = np.linspace(2.0, 3.0, count, dtype=np.float32)[None, None]
    inputs, raw = [], b""
    for name, array in (("boxes", corners), ("scores", scores)):
        more = {"parameters": {"binary_data_size": array.nbytes}}
        inputs.append({"name": name, "datatype": "FP32", "shape": list(array.shape), **more})
        raw += array.tobytes()
    return tensors("boxes", *inputs, raw=raw)


APART = apart(BOXES)


async def long_node(b: Bronze) -> None:
    """60,000 boxes, of which one node keeps all: it begins at once, and its trial, which keeps none, was short."""
    await b.say(APART)


async def shapes_never_seen(b: Bronze) -> None:
    """Another length with each request."""
    await b.say(sequence(1 + (b.next * 37) % 400))


ATTACKS = {
    "rubbish": Attack("random bytes", rubbish),
    "tls": Attack("TLS at a port without", tls),
    "http2": Attack("HTTP/2 at the port of HTTP/1", http2, refused=False),
    "headers": Attack("10,000 headers", many_headers),
    "header": Attack("a header of 1 MB", endless_header),
    "header-behind": Attack("the same behind a request", later_header),
    "spaces": Attack("15,000 spaces and a letter that none may have", spaces),
    "upgrades": Attack("another protocol, without an agreement", upgrades, refused=False),
    "lengths": Attack("two lengths of one body", two_lengths),
    "pipelined": Attack("2,000 requests in a packet, no answer read", pipelined, 4, refused=False),
    "pipelined-inference": Attack("20 pictures in a packet", pipelined_inference, 4, refused=False),
    "slow-header": Attack("50 headers, byte by byte", slow_header, 50, refused=False),
    "slow-body": Attack("50 bodies of 60 MB, byte by byte", slow_body, 50, refused=False),
    "torn-body": Attack("bodies that end before their length", torn_body, refused=False),
    "chunks": Attack("chunks of one byte", small_chunks, 4),
    "chunk-extension": Attack("a chunk with 1 MB of extension", chunk_extension, 4),
    "connections": Attack("more connections than the server takes", open_and_hold, 4, refused=False),
    "churn": Attack("connections that open and close", open_and_go, 8, refused=False),
    "half-closed": Attack("connections that are closed on one side", half_closed, 8, refused=False),
    "keys": Attack("keys that are guessed", guessed_keys, 16),
    "no-key": Attack("bodies of 4 MB without a key", nobodys_bodies),
    "gzip": Attack("60 KB that inflate to 60 MB", zip_bomb, 4),
    "gzip-large": Attack("400 KB that inflate to 400 MB", large_zip_bomb, 2),
    "deflate": Attack("the same by deflate", deflate_bomb, 2),
    "brotli": Attack("the same by brotli", brotli_bomb, 2),
    "gzip-torn": Attack("packed bodies that are none", torn_zip),
    "unread": Attack("answers of 8 MB, 20 at a time, not read", unread_answers, 20, refused=False),
    "filling-answers": Attack("answers of 30 MB on 6 connections", filling_answers, 6, refused=False),
    "filling-inputs": Attack("inputs of 30 MB on which the network fails", filling_inputs, 4),
    "versions": Attack("versions that there are not", versions),
    "cancelled": Attack("requests given up at once", cancelled, 8, refused=False),
    "flood": Attack("32 connections full of pictures", flood, 32, refused=False),
    "bodies": Attack("raw tensors of 16 MB that do not fit the network", large_bodies, 4),
    "rows": Attack("300 pictures in a request", many_rows, 2, refused=False),
    "long": Attack("sequences of 3,000 tokens, tried at one", long_sequences, 4, refused=False),
    "endless": Attack("a loop that never ends, 2 callers", endless, 2),
    "endless-node": Attack("a node that takes 10 s behind its inputs, 2 callers", endless_node, 2),
    "long-node": Attack("a node that takes seconds and begins at once, 2 callers", long_node, 2),
    "shapes": Attack("a new shape with each request", shapes_never_seen, 4, refused=False),
}

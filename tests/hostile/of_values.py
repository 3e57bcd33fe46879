"""Attacks by values: what no type takes, at the end of many that are right."""

from __future__ import annotations

import struct

from tritonclient.grpc import service_pb2 as pb

from tests.hostile.bronze import Attack, Bronze, Work, infer, tensors
from tests.hostile.over_grpc import calling
from tests.hostile.over_http import MIB

TEXT = "\U0001f600".encode() * (MIB // 4 - 2) + b"\xff"  # the last letter is none


def listed(datatype: str, values: bytes) -> bytes:
    """A request with these values in a list."""
    head = b'{"inputs": [{"name": "image", "datatype": "%s", "shape": [1], "data": [' % datatype.encode()
    return infer("small", head + values + b"]}]}")


def asking(data: bytes) -> Work:
    """An attack that asks for this all the time, on a connection that stays."""

    async def work(b: Bronze) -> None:
        async with b.line() as line:
            while not b.over:
                await b.ask(line, data)

    return work


def numbers() -> pb.ModelInferRequest:
    """32,000 that fit into a byte, and one that does not."""
    message = pb.ModelInferRequest(model_name="small")
    tensor = message.inputs.add(name="image", datatype="INT8", shape=[32_001])
    tensor.contents.int_contents.extend([0] * 32_000 + [300])
    return message


def text() -> bytes:
    """One text of a megabyte."""
    raw = struct.pack("<I", len(TEXT)) + TEXT
    head = {
        "name": "image", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(raw)},
    }  # fmt: skip
    return tensors("small", head, raw=raw)


LISTS = b"[" * 400 + b"1" + b"]" * 400 + b","
ATTACKS = {
    "byte-4k": Attack("4 KB of INT8, the last 300", asking(listed("INT8", b"0," * 1950 + b"300")), 2),
    "byte-32k": Attack("32 KB of INT8, the last 300", asking(listed("INT8", b"0," * 16_200 + b"300")), 2),
    "byte-grpc": Attack("32 KB of INT8 over gRPC, the last 300", calling("ModelInfer", numbers())),
    "word-32k": Attack("32 KB of UINT64, the last 2^64",
                       asking(listed("UINT64", b"0," * 16_200 + b"18446744073709551616")), 2),
    "wide": Attack("32 KB: 8,000 numbers and a text",
                   asking(listed("FP32", b"1," * 8000 + b'"' + b"x" * 16_000 + b'"')), 2),
    "byte-16m": Attack("16 MB of INT8, the last 300",
                       asking(listed("INT8", b"0," * 8_000_000 + b"300")), 2),
    "lists-16m": Attack("16 MB of lists in lists, which take 50 times as much",
                        asking(listed("FP32", LISTS * 20_000 + b"1")), 2),
    "text": Attack("a text of 1 MB, wrong at its end", asking(text()), 2),
}  # fmt: skip

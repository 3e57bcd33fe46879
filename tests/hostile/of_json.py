"""Attacks by what a request says: JSON, names, shapes, parameters, polling."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.hostile.bronze import Attack, Bronze, infer, request, tensors
from tests.hostile.over_http import BINARY, MIB, NOTHING, PICTURE, SIDE

NUMBERS = json.dumps({"inputs": [{**PICTURE, "data": [0.5] * 6000}]}).encode()  # 30 KB: read in place
BIG = NUMBERS.replace(b"[0.5", b"[" + b"0.5, " * 3_000_000 + b"0.5")  # 15 MB: in a process of its own
TOO_BIG = b'{"inputs": [' + b"0.25, " * (10 * MIB) + b"0]}"
DEEP = b'{"inputs": ' + b"[" * 15_000 + b"]" * 15_000 + b"}"
DEEP_BIG = b'{"inputs": ' + b"[" * (2 * MIB) + b"]" * (2 * MIB) + b"}"
DIGITS = (
    json.dumps({"inputs": [{**PICTURE, "data": ["DIGITS"]}]}).encode().replace(b'"DIGITS"', b"9" * 30_000)
)
ODD: tuple[Any, ...] = (-5, "high", [1], {"a": 1}, True, 1.5, 2**80, -(2**63), None, "")
NAMES = (
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a" * 5000,
    "small%20",
    "%F0%9F%92%A3",
    "small/../large",
    "SMALL",
    "-",
)


async def parameter(b: Bronze, **parameters: Any) -> None:
    """A picture with these parameters."""
    await b.say(tensors("small", BINARY, raw=NOTHING, parameters=parameters))


def saying(body: bytes, model: str = "small") -> Any:
    """An attack that sends this again and again."""

    async def work(b: Bronze) -> None:
        await b.say(infer(model, body))

    return work


async def json_flood(b: Bronze) -> None:
    """30 KB of numbers, which the server's own process reads."""
    async with b.line() as line:
        while not b.over:
            await b.ask(line, infer("small", NUMBERS))


async def json_answers(b: Bronze) -> None:
    """Answers of four million numbers, as JSON."""
    await b.say(tensors("size", {"name": "x", "datatype": "INT64", "shape": [1], "data": [4_000_000]}))


async def no_numbers(b: Bronze) -> None:
    """NaN, infinity, and numbers beyond every float."""
    body = json.dumps({"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": ["N"]}]}).encode()
    for number in (b"NaN", b"-Infinity", b"1e999", b"-1e400", b"1" + b"0" * 400):
        await b.say(infer("index", body.replace(b'"N"', number)))


async def many_tensors(b: Bronze) -> None:
    """A thousand inputs."""
    await b.say(
        tensors("small", *({"name": "x", "datatype": "FP32", "shape": [], "data": []} for _ in range(500)))
    )


async def many_parameters(b: Bronze) -> None:
    """Two thousand parameters."""
    await parameter(b, **{f"p{n}": n for n in range(1500)})


async def odd_parameters(b: Bronze) -> None:
    """Values of types that no parameter has."""
    for name in ("priority", "timeout", "slo_ms", "tenant", "binary_data_output", "shared_memory_region"):
        await parameter(b, **{name: ODD[b.next % len(ODD)]})


async def impossible_deadlines(b: Bronze) -> None:
    """A microsecond to answer."""
    await parameter(b, slo_ms=0.001, timeout=1)


async def huge_timeouts(b: Bronze) -> None:
    """Three hundred thousand years to answer, in the highest of all priorities."""
    await parameter(b, timeout=2**62, slo_ms=2**62, priority=1)


async def lying_shapes(b: Bronze) -> None:
    """Shapes that are none, that are empty, or that hold more than any memory."""
    for shape in (
        [2**62, 2**62],
        [-1, 3, SIDE, SIDE],
        [1] * 100,
        [0, 3, SIDE, SIDE],
        ["a"],
        [1.5],
        [2**31, 2],
        "1",
    ):
        await b.say(tensors("small", {**BINARY, "shape": shape}, raw=NOTHING))


async def lying_sizes(b: Bronze) -> None:
    """Sizes of raw tensors that do not add up."""
    for size in (0, 1, -1, 2**63, len(NOTHING) + 1, "many", None):
        await b.say(tensors("small", {**PICTURE, "parameters": {"binary_data_size": size}}, raw=NOTHING))


async def strings(b: Bronze) -> None:
    """Tensors of text whose lengths lie."""
    for raw in (b"\xff\xff\xff\xff", b"\x10\0\0\0abc", b"\0" * 400_000, b"\x01\0\0\0a" * 50_000, b"\x01"):
        tensor = {
            "name": "text",
            "datatype": "BYTES",
            "shape": [3],
            "parameters": {"binary_data_size": len(raw)},
        }
        await b.say(tensors("index", tensor, raw=raw))


async def failing_inputs(b: Bronze) -> None:
    """Inputs that the network fails on."""
    await b.say(tensors("index", {"name": "x", "datatype": "INT64", "shape": [1], "data": [99]}))


async def not_numbers(b: Bronze) -> None:
    """Logarithms of negative numbers."""
    await b.say(tensors("log", {"name": "x", "datatype": "FP32", "shape": [1], "data": [-1.0]}))


async def huge_outputs(b: Bronze) -> None:
    """An answer that no memory of the server's holds."""
    await b.say(tensors("size", {"name": "x", "datatype": "INT64", "shape": [1], "data": [50_000_000]}))


async def model_names(b: Bronze) -> None:
    """Names that are paths, or none at all."""
    await b.say(request("POST", f"/v2/models/{NAMES[b.next % len(NAMES)]}/infer", b"{}"))


async def new_names(b: Bronze) -> None:
    """Another network with each request, none of which there is."""
    async with b.line() as line:
        while not b.over:
            await b.ask(line, infer(f"network-{b.next}", b"{}"))


async def golds_name(b: Bronze) -> None:
    """Bronze's key with gold's name in every header and parameter."""
    named = {"x-tenant-id": "gold", "x-gateway-inference-fairness-id": "gold", "X-Forwarded-For": "127.0.0.1"}
    await b.say(request("POST", "/v2/eunomia/tenants/gold/keys", b"{}", named))
    await b.say(request("GET", "/v2/eunomia/tenants/gold", headers=named))


async def output_names(b: Bronze) -> None:
    """Outputs that there are not, or many times the same."""
    await b.say(tensors("small", BINARY, raw=NOTHING, outputs=[{"name": "gold"}]))
    await b.say(tensors("small", BINARY, raw=NOTHING, outputs=[{"name": "logits"}] * 60))
    await b.say(tensors("small", BINARY, raw=NOTHING, outputs=[{"name": "logits"}] * 600))


async def request_ids(b: Bronze) -> None:
    """Always the same, too long, or full of signs that end lines."""
    await b.say(
        tensors("small", BINARY, raw=NOTHING, id=("same", "a" * 30_000, "\r\n\0" * 60, "\ud800")[b.next % 4])
    )


async def loads(b: Bronze) -> None:
    """Unload and load gold's network, by turns."""
    async with b.line() as line:
        while not b.over:
            for what in ("unload", "load"):
                await b.ask(line, request("POST", f"/v2/repository/models/small/{what}", b"{}"))


def polling(*paths: str, method: str = "GET") -> Any:
    """An attack that asks for these pages all the time."""

    async def work(b: Bronze) -> None:
        async with b.line() as line:
            while not b.over:
                for path in paths:
                    await b.ask(line, request(method, path))

    return work


async def shared_memory(b: Bronze) -> None:
    """Gold's memory by its name, the machine's by paths, and regions without end."""
    for key in ("/gold:pictures", "/../etc/passwd", "gold:x", "/bronze:none", "/bronze:" + "a" * 500):
        body = json.dumps({"key": key, "offset": 2**62, "byte_size": 2**62}).encode()
        await b.say(request("POST", f"/v2/systemsharedmemory/region/r{b.next}/register", body))
    region = {"shared_memory_region": "pictures", "shared_memory_byte_size": len(NOTHING)}
    await b.say(tensors("small", {**PICTURE, "parameters": region}))


async def regions(b: Bronze) -> None:
    """30 MB in its own memory, the answer into it, and both given up while they are read."""
    number = b.next
    objects = [Path(f"/dev/shm/bronze:{what}-{os.getpid()}-{number}") for what in ("in", "out")]
    try:
        for path in objects:
            with path.open("wb") as file:
                file.truncate(30 * MIB)
            region = f"/v2/systemsharedmemory/region/{path.name[7:]}"
            body = json.dumps({"key": f"/{path.name}", "byte_size": 30 * MIB}).encode()
            await b.say(request("POST", f"{region}/register", body))
        source, target = ({"shared_memory_region": path.name[7:]} for path in objects)
        count = 30 * MIB // 8
        given = {"name": "x", "datatype": "INT64", "shape": [count]}
        given["parameters"] = {**source, "shared_memory_byte_size": 8 * count}
        wanted = {"name": "y", "parameters": {**target, "shared_memory_byte_size": 4 * count}}
        async with b.line() as line:
            line[1].write(tensors("index", given, outputs=[wanted]))
            await line[1].drain()
            for path in objects:
                await b.say(request("POST", f"/v2/systemsharedmemory/region/{path.name[7:]}/unregister"))
            os.truncate(objects[0], 100)
            await b.hear(line)
    finally:
        for path in objects:
            path.unlink(missing_ok=True)


async def many_regions(b: Bronze) -> None:
    """Regions without end, all of one object."""
    path = Path(f"/dev/shm/bronze:many-{os.getpid()}")
    path.write_bytes(bytes(4096))
    body = json.dumps({"key": f"/{path.name}", "byte_size": 4096}).encode()
    try:
        async with b.line() as line:
            while not b.over:
                await b.ask(
                    line, request("POST", f"/v2/systemsharedmemory/region/many{b.next}/register", body)
                )
    finally:
        path.unlink(missing_ok=True)
        await b.say(request("POST", "/v2/systemsharedmemory/unregister"))


async def policies(b: Bronze) -> None:
    """Another policy for the server, and its tenants' secrets."""
    await b.say(request("PUT", "/v2/eunomia/policy", b'{"name": "fcfs"}'))
    await b.say(request("GET", "/v2/eunomia/tenants"))
    await b.say(request("GET", "/v2/eunomia/twin"))


ATTACKS = {
    "json": Attack("15 MB of JSON", saying(BIG), 2),
    "json-large": Attack("60 MB of JSON", saying(TOO_BIG), 2),
    "json-deep": Attack("15,000 lists, one in the other", saying(DEEP)),
    "json-deep-large": Attack("two million lists, one in the other", saying(DEEP_BIG), 2),
    "json-digits": Attack("a number of 30,000 digits", saying(DIGITS)),
    "json-flood": Attack("32 connections full of 30 KB of numbers", json_flood, 32),
    "json-answers": Attack("answers of 4 million numbers as JSON", json_answers, 2),
    "json-numbers": Attack("NaN, infinity and 1e999", no_numbers),
    "tensors": Attack("500 inputs", many_tensors),
    "many-parameters": Attack("1,500 parameters", many_parameters, refused=False),
    "parameters": Attack("parameters of odd types, negative priorities", odd_parameters),
    "deadlines": Attack("deadlines of a microsecond", impossible_deadlines, refused=False),
    "timeouts": Attack("timeouts of 150,000 years", huge_timeouts, refused=False),
    "lying-shapes": Attack("shapes that lie", lying_shapes, 4),
    "lying-sizes": Attack("sizes of raw tensors that lie", lying_sizes, 4),
    "strings": Attack("text tensors whose lengths lie", strings, 4),
    "failing": Attack("inputs that fail", failing_inputs),
    "nan": Attack("inputs that give NaN", not_numbers, refused=False),
    "outputs": Attack("answers of 200 MB", huge_outputs, 2),
    "names": Attack("names that are paths", model_names),
    "new-names": Attack("a new name of a network with each request", new_names),
    "spoofed": Attack("gold's name with bronze's key", golds_name),
    "output-names": Attack("outputs that do not exist, or 600 times the same", output_names),
    "ids": Attack("request ids: the same, 30 KB, line ends", request_ids),
    "loads": Attack("unload and load of gold's network", loads),
    "statistics": Attack("16 connections ask for statistics", polling("/v2/models/stats", "/v2/models/small/config"),
                         16, refused=False),
    "index": Attack("16 connections ask for the index", polling("/v2/repository/index", method="POST"), 16,
                    refused=False),
    "pages": Attack("16 connections ask for the page, its state and the OpenAPI document",
                    polling("/", "/v2/eunomia/state", "/openapi.json"), 16, refused=False),
    "metrics": Attack("the operator's metrics", polling("/metrics", "/v2/eunomia/twin")),
    "memory": Attack("shared memory of gold and of the machine", shared_memory, 4),
    "regions": Attack("30 MB in and out of its own shared memory, given up meanwhile", regions, 4, refused=False),
    "many-regions": Attack("regions without end", many_regions, 1),
    "policies": Attack("another policy, the list of tenants", policies, 4),
}  # fmt: skip

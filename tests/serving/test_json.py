"""Large JSON: read and written by a process of its own, the tenants in turn, within bounds, after the key."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.devices.messages import DATATYPES
from eunomia.serving.devices.strings import BYTES, Strings
from eunomia.serving.fronts.json_process import JsonProcess
from eunomia.serving.fronts.json_turns import Turns
from eunomia.serving.protocol import infer, json_work
from eunomia.serving.protocol.errors import BadRequest, Refused, ServingError, TooLarge
from eunomia.serving.protocol.infer import (
    SMALL_BYTES,
    InferRequest,
    read_request,
    split_body,
)
from eunomia.serving.protocol.json_work import SMALL_NUMBERS, put_numbers_in
from eunomia.serving.protocol.strings import MAX_STRINGS
from eunomia.serving.protocol.written import Written, write_response
from eunomia.serving.server import Server
from eunomia.serving.tenants.grants import Grant, StaticDirectory, hash_key
from tests.patience import PATIENCE_S, until_async
from tests.serving.live import ADMIN, GOLD, SIDE, running
from tests.serving.made_up import JSON, examples

KEYS = {hash_key(GOLD): "gold", hash_key(ADMIN): "root"}
COUNT = 3 * SIDE * SIDE


def tensor(numbers: Any, shape: list[int], datatype: str = "FP32") -> dict[str, Any]:
    return {"name": "image", "datatype": datatype, "shape": shape, "data": numbers}


def post(
    server: Server, path: str, body: bytes, key: str | None = GOLD, **headers: str
) -> tuple[int, dict[str, Any]]:
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    sent = {**({"Authorization": f"Bearer {key}"} if key else {}), **headers}
    try:
        line.request("POST", path, body, sent)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        line.close()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Bytes of each JSON that this process reads on the way of a request, and numbers of each that it writes."""
    seen: list[int] = []
    reads, writes = json.loads, json_work.plain_numbers

    def loads(content: Any, **more: Any) -> Any:
        seen.append(len(content))
        return reads(content, **more)

    def plain(array: Any) -> Any:
        seen.append(array.size)
        return writes(array)

    monkeypatch.setattr(infer, "json", SimpleNamespace(loads=loads, dumps=json.dumps))
    monkeypatch.setattr(json_work, "plain_numbers", plain)
    yield seen


# --- the server ------------------------------------------------------------------------------------------


def test_the_event_loop_reads_no_large_json(tmp_path: Path, parsed: list[int]) -> None:
    image = np.random.default_rng(0).random((4, 3, SIDE, SIDE)).tolist()
    right = json.dumps({"inputs": [tensor(image, [4, 3, SIDE, SIDE])]}).encode()
    wrong = right.replace(b"[4,", b"[5,").replace(b"[4, ", b"[5, ")
    directory = StaticDirectory([Grant("gold"), Grant("root", role="admin")], KEYS)
    with running(tmp_path, directory=directory) as server:
        status, content = post(server, "/v2/models/small/infer", right)
        assert status == 200 and content["outputs"][0]["shape"] == [4, 10]
        status, content = post(server, "/v2/models/small/infer", wrong)
        assert status == 400 and "values given" in content["error"]
        status, content = post(server, "/v2/repository/index", b'{"ready": ' + b" " * 100_000 + b"true}")
        assert status == 413 and "at most" in content["error"]
        for path in ("keys", "keys/rotate"):
            status, _ = post(
                server, f"/v2/eunomia/tenants/gold/{path}", b"[" + b"1," * 50_000 + b"1]", key=None
            )
            assert status == 401
    assert len(right) > 4 * SMALL_BYTES and parsed and max(parsed) <= SMALL_BYTES


def test_json_beyond_the_bound_is_refused_before_it_is_read(tmp_path: Path, parsed: list[int]) -> None:
    body = json.dumps({"inputs": [tensor([0.25] * COUNT, [1, 3, SIDE, SIDE])]}).encode()
    with running(tmp_path, max_json_bytes=len(body) - 1) as server:
        status, content = post(server, "/v2/models/small/infer", body)
        assert status == 413 and content["error"].endswith("send raw tensors (binary_data_size)")
        assert not parsed
        head = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE],
                            "parameters": {"binary_data_size": 4 * COUNT}}]}  # fmt: skip
        text = json.dumps(head).encode()
        length = {"Inference-Header-Content-Length": str(len(text))}
        raw = np.full(COUNT, 0.25, np.float32).tobytes()
        assert post(server, "/v2/models/small/infer", text + raw, **length)[0] == 200


def test_what_cannot_be_read_counts_for_the_rate(tmp_path: Path, parsed: list[int]) -> None:
    grant = Grant("gold", rate_per_s=1e-6, burst=3.0)
    directory = StaticDirectory([grant, Grant("root", role="admin")], KEYS)
    with running(tmp_path, directory=directory) as server:
        seen = [post(server, "/v2/models/small/infer", b"{") for _ in range(5)]
        assert [status for status, _ in seen] == [400, 400, 400, 429, 429]
        assert len(parsed) == 3


def test_a_body_is_read_only_when_its_tenant_may_send_one(tmp_path: Path) -> None:
    """A tenant without tokens is refused while its body is still on the way."""
    directory = StaticDirectory([Grant("gold", rate_per_s=1e-6, burst=0.5)], KEYS)
    with running(tmp_path, directory=directory) as server:
        post(server, "/v2/models/small/infer", b"{")
        line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
        line.putrequest("POST", "/v2/models/small/infer")
        line.putheader("Authorization", f"Bearer {GOLD}")
        line.putheader("Content-Length", "1000000")
        line.endheaders()
        assert line.getresponse().status == 429
        line.close()


# --- the process -----------------------------------------------------------------------------------------


def test_the_process_says_what_the_plain_functions_say() -> None:
    """Every type, large and small, and back."""

    async def asked() -> None:
        work = JsonProcess(2**24)
        try:
            for datatype, dtype in DATATYPES.items():
                given: Any = (np.arange(20_000) % 2).astype(dtype)
                if datatype == BYTES:
                    given = Strings.of(np.full(MAX_STRINGS, "a text of some letters", object))
                listed = given.texts() if datatype == BYTES else given.tolist()
                body = json.dumps({"id": "a", "inputs": [tensor(listed, [len(listed)], datatype)]}).encode()
                assert len(body) > SMALL_BYTES
                request = await work.read("m", "", memoryview(body), None, "gold")
                plain = read_request("m", "", *split_body(memoryview(body), None))
                assert (request.request_id, request.inputs[0].datatype) == ("a", datatype)
                if datatype == BYTES:
                    assert request.inputs[0].data == plain.inputs[0].data == given
                else:
                    np.testing.assert_array_equal(request.inputs[0].data, plain.inputs[0].data)
                written = write_response(InferRequest("m"), "1", {"y": given}, {})
                assert given.size > SMALL_NUMBERS or datatype == BYTES
                assert bytes(await work.write(written, "gold")) == put_numbers_in(
                    write_response(InferRequest("m"), "1", {"y": given}, {}).content, written.numbers
                )
        finally:
            work.close()

    asyncio.run(asked())


def test_clients_that_give_the_length_of_all_of_their_json_may_send_as_much() -> None:
    """As those in C++ do. As it was, a picture of 224 x 224 as numbers was refused unless the length was left out."""
    picture = np.random.default_rng(0).random((1, 3, 224, 224), np.float32)
    body = json.dumps({"inputs": [tensor(picture.ravel().tolist(), list(picture.shape))]}).encode()
    raw = picture[0, 0, 0].tobytes()
    also = {"name": "y", "datatype": "FP32", "shape": [224], "parameters": {"binary_data_size": len(raw)}}
    both = json.dumps({"inputs": [tensor(picture.ravel().tolist(), list(picture.shape)), also]}).encode()

    async def asked() -> None:
        work = JsonProcess(2**24)
        try:
            for length in (None, len(body)):
                request = await work.read("m", "", memoryview(body), length, "gold")
                np.testing.assert_array_equal(request.inputs[0].data, picture)
            request = await work.read("m", "", memoryview(both + raw), len(both), "gold")
            np.testing.assert_array_equal(request.inputs[0].data, picture)
            np.testing.assert_array_equal(request.inputs[1].data, picture[0, 0, 0])
        finally:
            work.close()

    asyncio.run(asked())


@examples(2.0)
@given(content=JSON, more=st.integers(0, 3))
def test_any_large_json_is_read_or_refused_as_a_small_one_is(content: Any, more: int) -> None:
    body = json.dumps(content).encode()

    def outcome(work: Any) -> Any:
        try:
            request = work()
        except BadRequest as error:
            return str(error)
        return [(t.name, t.shape, repr(t.data)) for t in request.inputs], request.parameters

    def apart() -> InferRequest:
        rest, numbers = json_work.take_numbers_out(body)
        return read_request("m", "", rest, memoryview(b""), numbers)

    small = outcome(lambda: read_request("m", "", body, memoryview(b"")))
    large = outcome(apart)
    assert isinstance(small, str) == isinstance(large, str) and (isinstance(small, str) or small == large)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_no_thread_waits_for_the_process(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the system stops while it holds the interpreter stops the event loop: for up to 500 ms, as it was."""

    async def asked() -> None:
        work = JsonProcess(2**20)
        body = memoryview(json.dumps({"inputs": [tensor([1.5] * 20_000, [20_000])]}).encode())
        try:
            await work.read("m", "", body, None, "gold")
            monkeypatch.setattr(asyncio, "to_thread", None)
            for _ in range(3):
                request = await work.read("m", "", body, None, "gold")
                assert await work.write(
                    write_response(InferRequest(request.model), "1", {"y": np.zeros(9000)}, {}), "gold"
                )
            packed = memoryview(gzip.compress(bytes(body) + bytes(os.urandom(SMALL_BYTES))))
            assert (await work.inflate(packed, 2**20, "gold"))[: len(body)] == body
        finally:
            work.close()

    pytest.importorskip(loop).run(asked())


def test_who_waits_for_the_process_hears_that_the_server_ends() -> None:
    async def asked() -> None:
        work = JsonProcess(2**20)
        body = memoryview(json.dumps({"inputs": [tensor([1.5] * 20_000, [20_000])]}).encode())
        await work.read("m", "", body, None, "gold")
        assert work.small.process is not None
        work.small.process.send_signal(signal.SIGSTOP)
        waiting = asyncio.create_task(work.read("m", "", body, None, "gold"))
        await until_async(lambda: work.small.turns._busy)
        work.close()
        with pytest.raises((asyncio.CancelledError, ServingError)):
            await waiting

    asyncio.run(asked())


def test_a_process_that_dies_is_started_again_and_bounds_hold() -> None:
    async def asked() -> None:
        work = JsonProcess(2**20)
        body = memoryview(json.dumps({"inputs": [tensor([1.5] * 20_000, [20_000])]}).encode())
        try:
            assert (await work.read("m", "", body, None, "gold")).inputs[0].shape == (20_000,)
            assert work.small.process is not None
            work.small.process.kill()
            work.small.process.wait()
            with pytest.raises(ServingError, match="has ended"):
                await work.read("m", "", body, None, "gold")
            assert (await work.read("m", "", body, None, "gold")).inputs[0].shape == (20_000,)
            with pytest.raises(TooLarge, match="ask for raw tensors"):
                await work.write(Written({"outputs": [{}]}, [np.zeros(2**20)], []), "gold")
        finally:
            work.close()

    asyncio.run(asked())


# --- whose turn it is ------------------------------------------------------------------------------------


def test_tenants_take_turns_and_none_has_more_than_its_bytes_in_work() -> None:
    async def played() -> list[str]:
        turns, order = Turns(100), []
        gate = asyncio.Event()

        async def work(tenant: str, size: int = 10) -> None:
            async with turns.turn(tenant, size):
                order.append(tenant)
                await gate.wait()

        first = [asyncio.create_task(work("bronze")) for _ in range(10)]
        await until_async(lambda: order)
        with pytest.raises(Refused, match="100 bytes of JSON in work"):
            await work("bronze", 1)
        later = [asyncio.create_task(work("gold")) for _ in range(2)]
        await asyncio.sleep(0)
        first[1].cancel()
        gate.set()
        await asyncio.gather(*first, *later, return_exceptions=True)
        await work("bronze", 1000)  # one message may always try
        return order

    order = asyncio.run(played())
    assert order == ["bronze", "bronze", "gold", "bronze", "gold", *["bronze"] * 7]


def test_a_header_that_was_meant_for_another_body_is_named() -> None:
    """tritonclient writes it into the dict of headers that it is given, which its callers use again."""
    body = json.dumps({"inputs": [tensor([1.0], [1])]}).encode()
    says = f"ends the JSON after 20 of {len(body)} bytes; tritonclient adds that header to the dict"
    with pytest.raises(BadRequest, match=says):
        read_request("m", "", *split_body(memoryview(body), 20))
    with pytest.raises(BadRequest, match="the body is not JSON: [^;]*$"):
        read_request("m", "", *split_body(memoryview(body[:20]), 20))

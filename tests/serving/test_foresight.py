"""Large requests are refused by their first bytes if they do not fit."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.fronts.foresight import WORTH, bytes_to_judge
from eunomia.serving.server import Server
from eunomia.serving.tenants.holding import _Probe
from tests.patience import PATIENCE_S
from tests.serving.live import GOLD, SIDE, ask, running

ROWS = 64  # pictures of 48 KiB


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with running(folder, arena_bytes=64 * 1024**2, max_body_bytes=32 * 1024**2) as live:
        yield live


def request(shape: list[int], raw: bytes, **more: Any) -> tuple[bytes, bytes]:
    """Head with JSON, and the raw tensor behind it."""
    tensor = {
        "name": "image",
        "datatype": "FP32",
        "shape": shape,
        "parameters": {"binary_data_size": len(raw)},
    }
    text = json.dumps({"inputs": [{**tensor, **more}]}).encode()
    head = (
        f"POST /v2/models/small/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {GOLD}\r\n"
        f"Inference-Header-Content-Length: {len(text)}\r\nContent-Length: {len(text) + len(raw)}\r\n\r\n"
    )
    return head.encode() + text, raw


def answer(line: socket.socket) -> tuple[int, bytes]:
    """The next one."""
    with line.makefile("rb") as file:
        status, size = int(file.readline().split()[1]), 0
        while (header := file.readline().strip().lower()) != b"":
            if header.startswith(b"content-length:"):
                size = int(header.split(b":")[1])
        return status, file.read(size)


@pytest.mark.parametrize(
    "shape, more, words",
    [
        ([ROWS, 3, SIDE, SIDE + 1], {}, "bytes given, FP32"),
        ([3, ROWS, SIDE, SIDE], {}, "model 'small' takes [-1, 3, 64, 64]"),
        ([ROWS, 3, SIDE, SIDE], {"datatype": "INT32"}, "model 'small' takes FP32"),
        ([ROWS, 3, SIDE, SIDE], {"name": "picture"}, "takes the inputs image; given: picture"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_has_come(
    server: Server, shape: list[int], more: dict[str, Any], words: str
) -> None:
    """As it was, the server waited for the last byte, and put them together."""
    raw = bytes(4 * ROWS * 3 * SIDE * SIDE)
    with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as line:
        head, _ = request(shape, raw, **more)
        line.sendall(head + raw[:1000])
        status, said = answer(line)
        assert status == 400 and words in json.loads(said)["error"]
        line.sendall(raw[1000:])  # of no consequence: the next request is served
        image = bytes(4 * 3 * SIDE * SIDE)
        line.sendall(b"".join(request([1, 3, SIDE, SIDE], image)))
        assert answer(line)[0] == 200
    assert server.service.bodies.held == {}


def test_what_is_refused_early_is_counted_like_all_else(server: Server) -> None:
    """As it was, a wrong shape was counted in small requests only."""

    def counted() -> int:
        _, state = ask(server, "GET", "/v2/models/small/stats", GOLD)
        return int(state["model_stats"][0]["inference_stats"]["fail"]["count"])

    before = counted()
    head, raw = request([3, ROWS, SIDE, SIDE], bytes(4 * ROWS * 3 * SIDE * SIDE))
    with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as line:
        line.sendall(head + raw[:1000])
        assert answer(line)[0] == 400
    assert counted() == before + 1


def test_what_fits_is_served_all_the_same(server: Server) -> None:
    rng = np.random.default_rng(0)
    images = rng.random((ROWS, 3, SIDE, SIDE), np.float32)
    with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as line:
        line.sendall(b"".join(request(list(images.shape), images.tobytes())))
        status, said = answer(line)
    assert status == 200 and json.loads(said)["outputs"][0]["shape"] == [ROWS, 10]


def may_send_little(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on: 1,000 bytes."""
    smaller = replace(server.options.directory.by_name("gold"), max_request_bytes=1000)
    monkeypatch.setattr(server.service, "identify", lambda *_: smaller)


def test_what_fitted_before_is_refused_once_its_grant_has_changed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_what_fits_is_served_all_the_same(server)
    may_send_little(server, monkeypatch)
    head, raw = request([ROWS, 3, SIDE, SIDE], bytes(4 * ROWS * 3 * SIDE * SIDE))
    with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as line:
        line.sendall(head + raw[:1000])
        status, said = answer(line)
    assert status == 413 and "may send 1000" in json.loads(said)["error"]


@pytest.mark.parametrize(
    "size, length, wanted", [(WORTH, 100, 100), (WORTH - 1, 100, 0), (WORTH, None, 0), (WORTH, 40_000, 0)]
)
def test_only_large_bodies_with_short_json_are_judged(size: int, length: int | None, wanted: int) -> None:
    assert bytes_to_judge(size, length) == wanted


@pytest.mark.parametrize("status", [413, 429])
def test_a_size_that_is_refused_is_refused_before_it_has_come(
    server: Server, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Sixty-four pictures have run, and take too long all of a sudden; or they ran in vain."""
    for _ in range(2):  # whatever ran before: the first one's shape is new
        test_what_fits_is_served_all_the_same(server)
    holding, pool = server.service.holding, server.pool
    pair = server.service.pairs.number(server.options.directory.by_name("gold"), "small")
    job = Job(pair, pool.models["small"].network, 0.0, batch=ROWS, sizes=(3 * SIDE * SIDE,))
    pool.dispatcher.classify(job)
    if status == 413:
        monkeypatch.setattr(holding, "most_s", 1e-9)
        monkeypatch.setattr(holding, "helped", lambda tenant, job: False)  # as after the last cut
        monkeypatch.setattr("eunomia.serving.tenants.holding.LEAST_S", 0.0)
        monkeypatch.setattr("eunomia.serving.tenants.holding.USUAL", 0.0)
        monkeypatch.setitem(holding._probes, ("gold", job.network.index), _Probe(math.inf, 1.0))
    else:
        holding.vain.close("gold", job, 1.0, 1.0)
    starts = pool.dispatcher.starts
    try:
        with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as line:
            head, raw = request([ROWS, 3, SIDE, SIDE], bytes(4 * ROWS * 3 * SIDE * SIDE))
            line.sendall(head + raw[:1000])
            assert answer(line)[0] == status
    finally:
        holding.vain._closed.clear()
    assert pool.dispatcher.starts == starts and server.service.bodies.held == {}

"""Of a client that has gone nothing stays: what stands in a circle is hardly ever looked through."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("tritonclient.grpc")

from eunomia.serving.fronts.exchange import HttpExchange  # noqa: E402
from eunomia.serving.fronts.json_process import JsonProcess  # noqa: E402
from eunomia.serving.protocol.infer import SMALL_BYTES  # noqa: E402
from eunomia.serving.rpc.front import GrpcFront  # noqa: E402
from eunomia.serving.rpc.streams import Stream  # noqa: E402
from eunomia.serving.server import Server  # noqa: E402
from tests.patience import until  # noqa: E402
from tests.serving.live import GOLD, running  # noqa: E402
from tests.serving.speaking import OIP, client, message  # noqa: E402
from tests.serving.test_lane import connect, request  # noqa: E402


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server")) as live:
        yield live


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """No garbage collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def count(kind: type) -> int:
    """Its objects."""
    return sum(type(one) is kind for one in gc.get_objects())


async def forever(*_: Any) -> None:
    """What no answer comes of."""
    await asyncio.Event().wait()


def test_of_a_request_that_was_being_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, it and its task held each other and what was read, such as 16 MB of JSON."""
    monkeypatch.setattr(JsonProcess, "take_out", forever)
    with connect(server) as line:
        line.sendall(request({"inputs": [], "id": "a" * 2 * SMALL_BYTES}))
        until(lambda: count(HttpExchange))
    until(lambda: not count(HttpExchange))


def test_of_a_stream(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, of its last message and answer."""
    monkeypatch.setattr(GrpcFront, "_infer_one", forever)
    assert server.grpc_port is not None
    with client(server.grpc_port) as talk:
        number = talk.begin(OIP + "ModelStreamInfer", GOLD)
        talk.push(number, message(b""))
        until(lambda: count(Stream))
    until(lambda: not count(Stream))

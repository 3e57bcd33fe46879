"""A server whose networks are still loading: it says so, and serves nobody before all are there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.models.entry import Entry
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S, until_async
from tests.serving.live import GOLD, ask, options

tritongrpc = pytest.importorskip("tritonclient.grpc")
grpc = pytest.importorskip("grpc")


@asynccontextmanager
async def starting(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> AsyncIterator[tuple[Server, asyncio.Task[Server], asyncio.Event]]:
    """A server that has loaded one network, its start, and what lets it load the next."""
    plain, go_on, load = options(folder), asyncio.Event(), DevicePool.load

    async def waits(self: DevicePool, name: str, *rest: Any, **more: Any) -> Any:
        if name != "small":
            await go_on.wait()
        return await load(self, name, *rest, **more)

    monkeypatch.setattr(DevicePool, "load", waits)
    server = Server(
        replace(plain, networks=[*plain.networks, Entry("other", folder / "other.onnx")], **changes)
    )
    start = asyncio.create_task(server.__aenter__())
    try:
        await until_async(lambda: start.done() or "small" in server.service.repository.tried)
        yield server, start, go_on
    finally:
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)


def get(server: Server, path: str) -> tuple[int, str | None, Any]:
    """Status, when to ask again, and JSON."""
    with closing(HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)) as line:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, answer.headers["Retry-After"], json.loads(answer.read())


def test_ports_are_open_while_networks_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.onnx").write_bytes((options(tmp_path).networks[0].path).read_bytes())

    async def main() -> None:
        async with starting(tmp_path, monkeypatch) as (server, start, go_on):
            why = "networks are loading: 1 of 2"
            meanwhile = await asyncio.to_thread(
                lambda: [get(server, f"/v2/{p}") for p in ("health/live", "health/ready", "models/small")]
            )
            assert meanwhile == [
                (200, None, {"live": True}),
                (503, None, {"ready": False, "error": why}),
                (503, "1", {"error": why, "reason": "unavailable"}),
            ]
            infer = await asyncio.to_thread(ask, server, "POST", "/v2/models/small/infer", GOLD, {})
            assert infer == (503, {"error": why, "reason": "unavailable"})
            each = [
                (await asyncio.to_thread(get, server, f"/v2/models/{n}/ready"))[0] for n in ("small", "other")
            ]
            assert each == [200, 503]
            await asyncio.to_thread(over_grpc, server, why)
            go_on.set()
            await start
            assert [(await asyncio.to_thread(get, server, "/v2/health/ready"))[0]] == [200]
            assert (await asyncio.to_thread(ask, server, "GET", "/v2/models/other", GOLD))[0] == 200
            await server.__aexit__()

    asyncio.run(main())


def test_a_server_that_ends_while_it_starts_says_that_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients heard that its networks are loading, and came again."""
    (tmp_path / "other.onnx").write_bytes((options(tmp_path).networks[0].path).read_bytes())
    ends, close = asyncio.Event(), DevicePool.close

    async def main() -> None:
        async with starting(tmp_path, monkeypatch, grpc_port=None) as (server, start, _):

            async def waits(pool: DevicePool) -> None:
                await ends.wait()
                await close(pool)

            monkeypatch.setattr(DevicePool, "close", waits)
            start.cancel()
            await until_async(lambda: server.service.draining)
            said = [
                await asyncio.to_thread(get, server, f"/v2/{p}") for p in ("health/ready", "models/small")
            ]
            why = "the server is draining"
            assert [(status, told["error"]) for status, _, told in said] == [(503, why)] * 2
            infer = await asyncio.to_thread(ask, server, "POST", "/v2/models/small/infer", GOLD, {})
            assert infer == (503, {"error": why, "reason": "unavailable"})
            ends.set()

    asyncio.run(main())


def over_grpc(server: Server, why: str) -> None:
    """The same with a stock client."""
    with tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        assert client.is_server_live() and not client.is_server_ready()
        assert client.is_model_ready("small") and not client.is_model_ready("other")
        with pytest.raises(Exception, match=why) as refused:
            client.get_model_metadata("small", headers={"authorization": f"Bearer {GOLD}"})
        assert "UNAVAILABLE" in refused.value.status()
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        health = channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=PATIENCE_S)
        assert health == b"\x08\x02"  # NOT_SERVING


def test_a_start_that_fails_closes_its_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.onnx").write_bytes(b"no network")

    async def main() -> None:
        async with starting(tmp_path, monkeypatch, grpc_port=None) as (server, start, go_on):
            assert (await asyncio.to_thread(get, server, "/v2/health/live"))[0] == 200
            go_on.set()
            with pytest.raises(ModelError, match="model 'other' does not load: .*it is no ONNX file"):
                await start
            with pytest.raises(ConnectionRefusedError):
                await asyncio.to_thread(get, server, "/v2/health/live")

    asyncio.run(main())

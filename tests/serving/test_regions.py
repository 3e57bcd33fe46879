"""Shared memory among strangers: nobody but a tenant on the server's machine names it, and only what is its own."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eunomia.serving.fronts.caller import is_loopback
from eunomia.serving.fronts.grpc_door import host_of
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.regions import Regions
from eunomia.serving.server import Server
from eunomia.serving.tenants.grants import Grant
from tests.patience import PATIENCE_S
from tests.serving.live import GOLD, SIDE, SILVER, running

grpc = pytest.importorskip("grpc")
from tritonclient.grpc import service_pb2 as pb  # noqa: E402
from tritonclient.grpc import service_pb2_grpc as stubs  # noqa: E402

SIZE = 4 * 3 * SIDE * SIDE


def ask(server: Server, path: str, body: Any, key: str, **headers: str) -> tuple[int, str]:
    """Status and error over HTTP."""
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    try:
        line.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {key}", **headers})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read() or b"{}").get("error", "")
    finally:
        line.close()


def register(server: Server, key: str, name: str, **headers: str) -> tuple[int, str]:
    """A region ``mine`` at an object of this name."""
    content = {"key": name, "byte_size": SIZE}
    return ask(server, "/v2/systemsharedmemory/region/mine/register", content, key, **headers)


def register_rpc(server: Server, key: str, name: str) -> str:
    """The same over gRPC; the error."""
    message = pb.SystemSharedMemoryRegisterRequest(name="mine", key=name, byte_size=SIZE)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        try:
            stub.SystemSharedMemoryRegister(
                message, metadata=(("authorization", f"Bearer {key}"),), timeout=PATIENCE_S
            )
        except grpc.RpcError as error:
            return str(error.details())
    return ""


def test_nobody_reaches_memory_of_another_tenant_or_from_elsewhere(tmp_path: Path) -> None:
    memory = tmp_path / "objects"
    memory.mkdir()
    for name in ("gold:in", "silver:in", "eunomia-arena"):
        (memory / name).write_bytes(bytes(SIZE))
    with running(tmp_path, shared_memory=True) as server:
        server.service.regions._folder = str(memory)
        assert register(server, GOLD, "/gold:in", **{"X-Forwarded-For": "10.0.0.1"})[0] == 403
        for name in ("/gold:in", "gold:in", "/eunomia-arena", "/silver"):
            status, error = register(server, SILVER, name)
            assert status == 400 and "is not tenant 'silver's" in error
            assert "is not tenant 'silver's" in register_rpc(server, SILVER, name)
        assert register(server, GOLD, "/gold:in") == (200, "")
        assert register_rpc(server, SILVER, "/silver:in") == ""
        assert (memory / "gold:in").read_bytes() == bytes(SIZE)
        tensor = {"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], "parameters": {
            "shared_memory_region": "mine", "shared_memory_byte_size": SIZE}}  # fmt: skip
        body = {"inputs": [tensor]}
        assert ask(server, "/v2/models/small/infer", body, GOLD)[0] == 200
        assert ask(server, "/v2/models/small/infer", body, GOLD, Forwarded="for=10.0.0.1")[0] == 403


def test_it_is_off_unless_the_server_file_says_otherwise(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        status, error = register(server, GOLD, "/gold:in")
        assert status == 400 and "shared_memory = true" in error
        assert "shared_memory = true" in register_rpc(server, GOLD, "/gold:in")


def test_no_name_of_a_tenant_makes_a_key_of_another(tmp_path: Path) -> None:
    """Tenants 'a' and 'a.b' or 'a-b': their names share a beginning, their keys none."""
    for name in ("a:x", "a.b:x", "a-b:x"):
        (tmp_path / name).write_bytes(bytes(8))
    regions, tenants = Regions(str(tmp_path)), [Grant("a").name, "a.b", "a-b", "b"]
    opened = set()
    for tenant in tenants:
        for name in ("a:x", "/a.b:x", "a-b:x"):
            try:
                regions.register(tenant, name, name, 0, 8)
            except BadRequest:
                continue
            opened.add((tenant, name))
    assert opened == {("a", "a:x"), ("a.b", "/a.b:x"), ("a-b", "a-b:x")}
    for tenant in tenants:
        regions.unregister(tenant, "")


@pytest.mark.parametrize(
    "peer, local",
    [
        ("ipv4:127.0.0.1:4711", True), ("ipv6:%5B::1%5D:4711", True), ("unix:", True), ("unix:/tmp/x", True),
        ("ipv6:%5B::ffff:127.0.0.1%5D:1", True), ("ipv4:10.0.0.1:4711", False), ("ipv6:%5B2001:db8::1%5D:1", False),
        ("ipv4:128.127.0.1:1", False),
    ],
)  # fmt: skip
def test_who_is_local(peer: str, local: bool) -> None:
    assert is_loopback(host_of(SimpleNamespace(peer=lambda: peer))) == local
    assert is_loopback("127.0.0.53") and not is_loopback("12.7.0.1")

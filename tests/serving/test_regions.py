"""Shared memory among strangers: nobody but a tenant on the server's machine names it, and only what is its own."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import parser

from eunomia.serving.devices.copying import AT_ONCE_IN_BYTES
from eunomia.serving.fronts.caller import is_loopback
from eunomia.serving.protocol import closing
from eunomia.serving.protocol.errors import BadRequest, Refused
from eunomia.serving.protocol.infer import InputTensor, SharedRegion
from eunomia.serving.protocol.regions import MAX_REGIONS, Placing, Regions
from eunomia.serving.server import Server
from eunomia.serving.tenants.grants import Grant
from tests.patience import PATIENCE_S, until
from tests.serving.live import ADMIN, GOLD, SIDE, SILVER, running

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


def register_rpc(server: Server, key: str, name: str, *metadata: tuple[str, str]) -> str:
    """The same over gRPC; the error."""
    message = pb.SystemSharedMemoryRegisterRequest(name="mine", key=name, byte_size=SIZE)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        try:
            stub.SystemSharedMemoryRegister(
                message, metadata=(("authorization", f"Bearer {key}"), *metadata), timeout=PATIENCE_S
            )
        except grpc.RpcError as error:
            return str(error.details())
    return ""


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux has leases")
def test_nobody_waits_for_an_object_that_somebody_has_leased(tmp_path: Path) -> None:
    """The kernel lets who opens it wait for up to 45 s: so long everybody waited."""
    leased = tmp_path / "gold:in"
    leased.write_bytes(bytes(SIZE))
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # by which the holder learns of it
    with leased.open("r+b") as held, running(tmp_path, shared_memory=True) as server:
        server.service.regions._folder = str(tmp_path)
        try:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            pytest.skip(f"no lease is given here: {error}")
        assert register(server, GOLD, "/gold:in")[0] == 400
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        assert register(server, GOLD, "/gold:in")[0] == 200


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
        for name in ("forwarded", "x-forwarded-for"):  # by a proxy of this machine
            assert "without a proxy between" in register_rpc(server, SILVER, "/silver:in", (name, "10.0.0.1"))
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


def test_a_registration_of_wrong_types_is_shown(tmp_path: Path) -> None:
    with running(tmp_path, shared_memory=True) as server:
        content = {"key": 3, "offset": "0", "byte_size": 1.5}
        status, error = ask(server, "/v2/systemsharedmemory/region/mine/register", content, GOLD)
        assert status == 400 and "key is 3, offset '0', byte_size 1.5; a text and two whole numbers" in error


def test_no_name_of_a_tenant_makes_a_key_of_another(tmp_path: Path) -> None:
    """Tenants 'a' and 'a.b' or 'a-b': their names share a beginning, their keys none."""
    names = ("a:x", "/a.b:x", "a-b:x", "a@x", "a.b@x", "a@b:x", "a:b@x", "a@b@x")
    for name in names:
        (tmp_path / name.lstrip("/")).write_bytes(bytes(8))
    regions, tenants = Regions(str(tmp_path)), [Grant("a").name, "a.b", "a-b", "b", "a@b", "a:b"]
    opened = set()
    for tenant in tenants:
        for name in names:
            try:
                regions.register(tenant, name, name, 0, 8)
            except BadRequest:
                continue
            opened.add((tenant, name))
    assert opened == {("a", "a:x"), ("a.b", "/a.b:x"), ("a-b", "a-b:x"), ("a", "a@x"), ("a.b", "a.b@x")}
    for tenant in tenants:
        regions.unregister(tenant, "")


@pytest.mark.parametrize(
    "host, local",
    [
        ("127.0.0.1", True), ("127.0.0.53", True), ("::1", True), ("", True), ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False), ("2001:db8::1", False), ("128.127.0.1", False), ("12.7.0.1", False),
    ],
)  # fmt: skip
def test_who_is_local(host: str, local: bool) -> None:
    assert is_loopback(host) == local


COUNT = AT_ONCE_IN_BYTES // 4 + 1
ECHO = '<ir_version: 8, opset_import: ["" : 17]> echo (float[n] x) => (float[n] y) { y = Neg (x) }'


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """With a network of any size, and a folder in place of the machine's shared memory."""
    folder = tmp_path_factory.mktemp("server")
    memory = folder / "objects"
    memory.mkdir()
    (folder / "echo.onnx").write_bytes(parser.parse_model(ECHO).SerializeToString())
    with running(folder, shared_memory=True) as server:
        server.service.regions._folder = str(memory)
        assert ask(server, "/v2/repository/models/echo/load", {}, ADMIN)[0] == 200
        write(memory, "gold:in", 1.0)
        write(memory, "gold:out", 0.0)
        assert shared(server, "in", "gold:in")[0] == shared(server, "out", "gold:out")[0] == 200
        until(lambda: infer(server)[0] == 200)
        yield server, memory


def write(memory: Path, name: str, value: float) -> None:
    """An object full of one number."""
    (memory / name).write_bytes(np.full(COUNT, value, np.float32).tobytes())


def shared(server: Server, region: str, name: str, key: str = GOLD) -> tuple[int, str]:
    """A large region of this name at an object of that one."""
    content = {"key": name, "byte_size": 4 * COUNT}
    return ask(server, f"/v2/systemsharedmemory/region/{region}/register", content, key)


def infer(server: Server, source: str = "in", target: str = "") -> tuple[int, str]:
    """From one region to another, or into the answer."""
    size = {"shared_memory_byte_size": 4 * COUNT}
    tensor = {
        "name": "x",
        "datatype": "FP32",
        "shape": [COUNT],
        "parameters": {"shared_memory_region": source, **size},
    }
    output = {"binary_data": True} if not target else {"shared_memory_region": target, **size}
    body = {"inputs": [tensor], "outputs": [{"name": "y", "parameters": output}]}
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    line.request("POST", "/v2/models/echo/infer", json.dumps(body), {"Authorization": f"Bearer {GOLD}"})
    answer = line.getresponse()
    said = answer.read()
    line.close()
    return answer.status, "" if answer.status == 200 else json.loads(said)["error"]


class Held:
    """A method that waits in its thread until it may ``go``; ``begun``: it is there."""

    def __init__(self, method: Callable[..., None]) -> None:
        self.method, self.go, self.begun = method, threading.Event(), threading.Semaphore(0)

    def __call__(self, *given: Any) -> None:
        self.begun.release()
        assert self.go.wait(PATIENCE_S)
        self.method(*given)


def beside(server: Server, held: Held, meanwhile: Callable[[], None], **what: str) -> tuple[int, str]:
    """What a request is answered; the server serves others while its region is read or written."""
    answers: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: answers.append(infer(server, **what)))
    thread.start()
    assert held.begun.acquire(timeout=PATIENCE_S)
    try:
        meanwhile()
    finally:
        held.go.set()
    thread.join(PATIENCE_S)
    return answers[0]


def test_a_region_is_read_beside_the_loop_although_it_is_given_up(
    live: tuple[Server, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silver's object, opened meanwhile, gets the next free number of a file: gold must not read that."""
    server, memory = live
    held = Held(server.pool.answers._copy_in)
    monkeypatch.setattr(server.pool.answers, "_copy_in", held)
    (memory / "silver:secret").write_bytes(bytes([255]) * 4 * COUNT)
    write(memory, "gold:once", 3.0)
    assert shared(server, "once", "gold:once")[0] == 200

    def give_up() -> None:
        assert ask(server, "/v2/systemsharedmemory/region/once/unregister", {}, GOLD)[0] == 200
        assert shared(server, "secret", "silver:secret", SILVER)[0] == 200

    assert beside(server, held, give_up, source="once", target="out") == (200, "")
    assert (np.frombuffer((memory / "gold:out").read_bytes(), np.float32) == -3.0).all()
    assert ask(server, "/v2/systemsharedmemory/region/secret/unregister", {}, SILVER)[0] == 200


def test_a_region_that_shrinks_meanwhile_is_the_clients_fault(
    live: tuple[Server, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, memory = live
    held = Held(server.pool.answers._copy_in)
    with monkeypatch.context() as patch:
        patch.setattr(server.pool.answers, "_copy_in", held)
        status, error = beside(server, held, lambda: os.truncate(memory / "gold:in", 100))
    assert (status, error) == (400, "shared memory region 'in' has become smaller since it was registered")
    write(memory, "gold:in", 1.0)
    assert infer(server)[0] == 200
    until(lambda: server.pool.arena.free_bytes == server.pool.arena.room_bytes)


def test_a_region_is_written_beside_the_loop(
    live: tuple[Server, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, memory = live
    held, write_out = Held(lambda: None), Placing.carry_out

    def written(self: Placing) -> None:
        held()
        write_out(self)

    def live_and_given_up() -> None:
        assert ask(server, "/v2/systemsharedmemory/region/out/unregister", {}, GOLD)[0] == 200
        assert server.service.bodies.held == {"gold": 4 * COUNT}

    monkeypatch.setattr(Placing, "carry_out", written)
    assert beside(server, held, live_and_given_up, target="out") == (200, "")
    assert (np.frombuffer((memory / "gold:out").read_bytes(), np.float32) == -1.0).all()
    assert shared(server, "out", "gold:out")[0] == 200 and not server.service.bodies.held


def test_regions_of_all_tenants_are_few(tmp_path: Path) -> None:
    """One gets half of them, the next half of the rest; an object that a request still reads counts."""
    regions, got = Regions(str(tmp_path), owned=False), dict.fromkeys(("a", "b", "c"), 0)
    (tmp_path / "object").write_bytes(bytes(8))
    for tenant in got:
        with pytest.raises(Refused, match="none may have more than are left for the others"):
            while True:
                regions.register(tenant, str(got[tenant]), "object", 0, 8)
                got[tenant] += 1
    assert got == {"a": 64, "b": 32, "c": 16} and sum(got.values()) < MAX_REGIONS
    tensor = InputTensor("x", "UINT8", (8,), SharedRegion("0", 0, 8))
    reading = regions.tensor("a", tensor)
    regions.unregister("a", "")
    assert len(regions._opened) == 49
    del reading
    assert len(regions._opened) == 48
    regions.unregister("b", "")
    regions.unregister("c", "")
    assert not regions._opened


def test_an_object_is_closed_in_no_turn_of_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted before, it takes 0.14 ms a MiB: a tenant held all others for as long as it had memory."""
    (tmp_path / "large").write_bytes(bytes(SIZE))
    closed_by = dict[int, int]()  # those of the tests before this one, too

    def close(descriptor: int) -> None:
        closed_by[descriptor] = threading.get_ident()
        os.close(descriptor)

    monkeypatch.setattr(closing, "os", SimpleNamespace(close=close))
    regions = Regions(str(tmp_path), owned=False)
    regions.register("a", "mine", "large", 0, SIZE)
    (opened,) = regions._opened
    descriptor = opened.descriptor
    del opened
    regions.unregister("a", "mine")
    until(lambda: descriptor in closed_by)
    assert closed_by[descriptor] != threading.get_ident()

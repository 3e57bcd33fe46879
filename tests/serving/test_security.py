"""Every door has its role, every length its bound, and no secret is ever written down."""

from __future__ import annotations

import http.client
import json
import logging
import re
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from eunomia.serving.callers import Callers
from eunomia.serving.fronts.certificate import tls_context
from eunomia.serving.fronts.http import HttpFront
from eunomia.serving.protocol.errors import Unauthenticated
from eunomia.serving.server import Server
from eunomia.serving.tenants.connection import connect
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant, StaticDirectory, hash_key
from eunomia.serving.visit import Caller
from tests.certificates import self_signed
from tests.patience import PATIENCE_S
from tests.serving.live import ADMIN, GOLD, SILVER, running
from tests.serving.made_up import said
from tests.serving.process import process, write_server

pb = pytest.importorskip("tritonclient.grpc.service_pb2")
from tritonclient.grpc import service_pb2_grpc as stubs  # noqa: E402

# What anybody may ask; all else needs a key, and what ADMIN_ONLY names, an administrator's.
OPEN = {
    ("GET", "/"),
    ("GET", "/openapi.json"),
    ("GET", "/v2"),
    ("GET", "/v2/health/live"),
    ("GET", "/v2/health/ready"),
    ("GET", "/v2/models/{model}/ready"),
    ("GET", "/v2/models/{model}/versions/{version}/ready"),
}
ADMIN_ONLY = re.compile(
    r"/metrics(/triton)?|/v2/eunomia/(twin|tenants|policy|replicas).*|/v2/repository/models/.*"
)
OPEN_RPCS = {"ServerLive", "ServerReady", "ServerMetadata", "ModelReady"}
ADMIN_RPCS = {"RepositoryModelLoad", "RepositoryModelUnload"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server")) as live:
        yield live


def http_status(server: Server, method: str, path: str, headers: dict[str, str], body: bytes = b"{}") -> int:
    line = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    try:
        line.request(method, path, body if method in ("POST", "PUT") else None, headers)
        return line.getresponse().status
    finally:
        line.close()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_every_route_has_its_role(server: Server, record_property: Callable[[str, object], None]) -> None:
    app = HttpFront(server.service, 1000).application()
    routes = {
        (r.method, r.resource.canonical)
        for r in app.router.routes()
        if r.resource and r.method not in ("HEAD", "*")
    }
    assert routes > OPEN and len(routes) > 30
    roles: Counter[str] = Counter()
    for method, template in sorted(routes, key=lambda route: (route[1].endswith("/unload"), route)):
        path = template.format(model="small", version="1", region="r", tenant="nobody-there")
        keys = ({}, *map(bearer, ("eun_made-up", GOLD, ADMIN)))
        nobody, unknown, tenant, admin = (http_status(server, method, path, key) for key in keys)
        if (method, template) in OPEN:
            roles["anybody"] += 1
            assert {nobody, unknown, tenant, admin} == {200}, (method, template)
            continue
        only_admin = ADMIN_ONLY.fullmatch(template) is not None
        roles["administrator" if only_admin else "tenant"] += 1
        assert (nobody, unknown) == (401, 401) and admin not in (401, 403), (method, template)
        assert http_status(server, method, path, {"x-tenant-id": "root"}) == 401, (method, template)
        assert (tenant == 403) == only_admin and tenant != 401, (method, template)
    record_property("answers", said(roles))
    assert http_status(server, "POST", "/v2/repository/models/small/load", bearer(ADMIN)) == 200


def test_every_rpc_has_its_role(server: Server, record_property: Callable[[str, object], None]) -> None:
    service = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    seen: dict[str, list[Any]] = {}
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        for method in sorted(service.methods, key=lambda method: method.name == "RepositoryModelUnload"):
            message = getattr(pb, method.input_type.name)()
            for field in ("name", "model_name"):
                if field in method.input_type.fields_by_name:
                    setattr(message, field, "small")
            call = getattr(stub, method.name)
            keys = (None, "eun_made-up", GOLD, ADMIN)
            seen[method.name] = [answer(call, message, method.name, key) for key in keys]
    assert http_status(server, "POST", "/v2/repository/models/small/load", bearer(ADMIN)) == 200
    denied, forbidden = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED
    offered = {name: codes for name, codes in seen.items() if codes[3] is not grpc.StatusCode.UNIMPLEMENTED}
    assert set(offered) > OPEN_RPCS | ADMIN_RPCS and len(offered) >= 14
    for name, codes in offered.items():
        if name in OPEN_RPCS:
            assert codes == [grpc.StatusCode.OK] * 4, name
        else:
            assert codes[:2] == [denied, denied] and codes[3] not in (denied, forbidden), name
            assert (codes[2] is forbidden) == (name in ADMIN_RPCS), name
    record_property("answers", f"{len(offered)} RPCs")


def answer(call: Any, message: Any, name: str, key: str | None) -> Any:
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    try:
        if name == "ModelStreamInfer":
            (only,) = call(iter([message]), metadata=metadata, timeout=PATIENCE_S)
            return grpc.StatusCode.UNAUTHENTICATED if "key" in only.error_message else grpc.StatusCode.OK
        call(message, metadata=metadata, timeout=PATIENCE_S)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("anonymous", [False, True])
def test_a_key_that_may_not_use_a_network_does_not_hear_whether_it_is_ready(
    tmp_path: Path, anonymous: bool
) -> None:
    """As it was, readiness told each tenant which networks others have; without a key, probes ask of all."""
    grants = [Grant("gold"), Grant("silver", models=frozenset({"other"}))]
    directory = StaticDirectory(grants, {hash_key(GOLD): "gold", hash_key(SILVER): "silver"})
    with running(tmp_path, directory=directory, anonymous=anonymous) as live:
        for path in ("/v2/models/small/ready", "/v2/models/small/versions/1/ready"):
            found = [http_status(live, "GET", path, bearer(key) if key else {}) for key in (GOLD, SILVER, "")]
            assert found == [200, 404, 200]
        named = http_status(live, "GET", "/v2/models/small/ready", {"x-tenant-id": "silver"})
        assert named == (404 if anonymous else 200)
        with grpc.insecure_channel(f"127.0.0.1:{live.grpc_port}") as channel:
            ready = stubs.GRPCInferenceServiceStub(channel).ModelReady
            codes = [
                answer(ready, pb.ModelReadyRequest(name="small"), "ModelReady", key)
                for key in (GOLD, SILVER, None)
            ]
        assert codes == [grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.OK]


def test_a_name_alone_makes_nobody_an_administrator(tmp_path: Path) -> None:
    with running(tmp_path, anonymous=True) as live:
        for headers in ({"x-tenant-id": "root"}, {"x-gateway-inference-fairness-id": "root"}):
            assert http_status(live, "POST", "/v2/repository/models/small/unload", headers) == 401
            assert http_status(live, "PUT", "/v2/eunomia/policy", headers, b'{"name": "fcfs"}') == 401
        assert http_status(live, "POST", "/v2/repository/models/small/load", bearer(ADMIN)) == 200


@pytest.mark.parametrize(
    ("caller", "says"),
    [
        (Caller(tenant_id="gould"), "no tenant is called 'gould', and the server has no tenant 'default': name one of"),
        (Caller(), "the caller names no tenant, and the server has no tenant 'default': name one of its tenants"),
        (Caller(fairness_id="g" * 200), f"no tenant is called '{'g' * 99}, and"),
    ],
)  # fmt: skip
def test_who_names_no_tenant_of_an_anonymous_server_is_told_what_was_named(caller: Caller, says: str) -> None:
    callers = Callers()
    callers.directory, callers.anonymous = StaticDirectory([Grant("gold")]), True
    with pytest.raises(Unauthenticated, match=says):
        callers.identify(caller)


@pytest.mark.parametrize("headers, status", [
    ({"X-Long": "a" * 20_000}, 431),
    ({f"X-{n}": "a" for n in range(300)}, 431),
    ({"Inference-Header-Content-Length": "9" * 30}, 400),
    ({"Inference-Header-Content-Length": "-1"}, 400),
    ({"Inference-Header-Content-Length": "100000000"}, 400),
    ({"Content-Length": str(10**9)}, 413),
    ({"traceparent": "00-" + "z" * 5000}, 400),
])  # fmt: skip
def test_lengths_of_headers_and_bodies_are_bounded(
    server: Server, headers: dict[str, str], status: int
) -> None:
    assert http_status(server, "POST", "/v2/models/small/infer", {**bearer(GOLD), **headers}) == status
    assert http_status(server, "GET", "/v2/health/live", {}) == 200


def test_long_paths_and_names_are_refused(server: Server) -> None:
    for path in (
        "/v2/models/" + "a" * 20_000, "/v2/models/..%2f..%2fetc%2fpasswd", "/v2/models/%00",
        "/v2/systemsharedmemory/region/" + "a" * 5000 + "/status", "/v2/eunomia/tenants/%2e%2e/keys",
    ):  # fmt: skip
        status = http_status(server, "GET", path, bearer(ADMIN))
        assert 400 <= status < 500, path[:60]


def test_shapes_and_metadata_over_grpc_are_bounded(server: Server) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        key = ("authorization", f"Bearer {GOLD}")
        for shape in ([2**62, 2**62], [-1, 3, 64, 64], [1] * 100, [0, 3, 64, 64]):
            message = pb.ModelInferRequest(model_name="small")
            message.inputs.add(name="image", datatype="FP32", shape=shape)
            message.raw_input_contents.append(b"\0" * 64)
            with pytest.raises(grpc.RpcError) as caught:
                stub.ModelInfer(message, metadata=(key,), timeout=PATIENCE_S)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, shape
        with pytest.raises(grpc.RpcError) as caught:
            stub.ServerLive(pb.ServerLiveRequest(), metadata=(("x-long", "a" * 40_000),), timeout=PATIENCE_S)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    apart = [("grpc.use_local_subchannel_pool", 1)]  # as a head of that size ends its connection
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", apart) as channel:
        large = pb.ModelInferRequest(model_name="small", raw_input_contents=[b"\0" * 5 * 1024**2])
        with pytest.raises(grpc.RpcError) as caught:
            stubs.GRPCInferenceServiceStub(channel).ModelInfer(large, metadata=(key,), timeout=PATIENCE_S)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "at most 4194304 are taken" in str(caught.value.details())


def test_secrets_are_never_logged_shown_or_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    database = DatabaseDirectory(f"sqlite:///{tmp_path / 'tenants.db'}")
    database.put(Grant("root", role="admin"))
    key = database.issue_key("root")
    answers: list[bytes] = []
    with running(tmp_path, directory=database, ledger_dir=tmp_path / "ledger") as live:
        for method, path, body in (
            ("PUT", "/v2/eunomia/tenants/acme", b'{"weight": 2}'), ("POST", "/v2/eunomia/tenants/acme/keys", b"{}"),
            ("GET", "/v2/eunomia/tenants", b""), ("GET", "/v2/eunomia/tenants/root/keys", b""),
            ("GET", "/v2/eunomia/state", b""), ("GET", "/v2/eunomia/twin", b""), ("GET", "/metrics", b""),
            ("POST", "/v2/models/small/infer", b"{"), ("GET", "/v2/eunomia/policy", b""),
        ):  # fmt: skip
            line = http.client.HTTPConnection("127.0.0.1", live.http_port, timeout=PATIENCE_S)
            line.request(method, path, body or None, bearer(key))
            answers.append(line.getresponse().read())
            line.close()
        http_status(live, "GET", "/v2/models/stats", bearer(key + "x"))
    database.close()
    issued = json.loads(answers[1])["key"]
    assert not any(key.encode() in a for a in answers) and sum(issued.encode() in a for a in answers) == 1
    assert key not in caplog.text and issued not in caplog.text and len(caplog.records) > 0
    kept = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert key.encode() not in kept and issued.encode() not in kept


def test_a_database_password_is_not_in_the_complaint() -> None:
    from eunomia.core.errors import EunomiaError

    with pytest.raises(EunomiaError) as caught:
        DatabaseDirectory("postgresql://user:very-secret@127.0.0.1:1/none")
    assert "very-secret" not in str(caught.value) and "***" in str(caught.value)
    assert "very-secret" not in repr(connect("postgresql://user:very-secret@127.0.0.1:1/none"))


def test_the_process_writes_no_secret_to_its_terminal(tmp_path: Path) -> None:
    with process(write_server(tmp_path), tmp_path / "errors") as live:
        assert live.infer() == 200
        assert live.ask("/v2/eunomia/policy", {"name": "fcfs"}, method="PUT")[0] == 200
        assert live.ask("/v2/models/stats", key=GOLD + "x")[0] == 401
    text = (tmp_path / "errors").read_text()
    assert "policy 'fcfs' serves" in text
    assert GOLD not in text and ADMIN not in text


@pytest.mark.parametrize("ciphers, taken", [("ECDHE-ECDSA-AES128-SHA256", False), ("ECDHE+AESGCM", True)])
def test_tls_takes_no_cipher_that_can_be_told_by_its_padding(
    tmp_path: Path, ciphers: str, taken: bool
) -> None:
    context, stranger = tls_context(self_signed(tmp_path)), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    stranger.maximum_version = ssl.TLSVersion.TLSv1_2
    stranger.set_ciphers(ciphers)
    asked, answered = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = stranger.wrap_bio(answered, asked), context.wrap_bio(asked, answered, server_side=True)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    refused = nullcontext() if taken else pytest.raises(ssl.SSLError, match="NO_SHARED_CIPHER")
    with refused, suppress(ssl.SSLWantReadError):
        server.do_handshake()

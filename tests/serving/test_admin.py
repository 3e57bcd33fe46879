"""Tenants as administrators read and write them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.server import Server
from eunomia.serving.tenants.content import as_json, read_grant
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant, Promise
from eunomia.workload.tenant import Slo
from tests.patience import PATIENCE_S
from tests.serving.live import ADMIN, GOLD, ask, running

THREADS = 40  # more than the event loop has
ACME = Grant("acme", weight=3.0, rate_per_s=50.0, models=frozenset({"small"}),
             promises={"small": Promise(0.05, Slo(0.99), 2.0, 0.01), "*": Promise(1.0)})  # fmt: skip


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, DatabaseDirectory]]:
    folder = tmp_path_factory.mktemp("served")
    directory = DatabaseDirectory(f"sqlite:///{folder / 'tenants.db'}")
    directory.put(Grant("root", role="admin"))
    with running(folder, directory=directory) as server:
        yield server, directory
    directory.close()


@pytest.fixture
def served(one_server: tuple[Server, DatabaseDirectory]) -> tuple[Server, DatabaseDirectory, str]:
    """With root and, as it was, acme alone, and a new key of root's."""
    server, directory = one_server
    for grant in directory.all():
        if grant.name != "root":
            directory.remove(grant.name)
    directory.put(ACME)
    return server, directory, directory.issue_key("root")


def test_one_tenant_is_read_changed_and_written_back(served: tuple[Server, DatabaseDirectory, str]) -> None:
    server, directory, key = served
    place = "/v2/eunomia/tenants/acme"
    status, content = ask(server, "GET", place, key)
    assert status == 200 and content in ask(server, "GET", "/v2/eunomia/tenants", key)[1]
    assert ask(server, "PUT", place, key, content) == (200, content) and directory.by_name("acme") == ACME
    assert ask(server, "PUT", place, key, content | {"weight": 5.0})[0] == 200
    assert ask(server, "GET", place, key)[1] == content | {"weight": 5.0}
    status, refused = ask(server, "PUT", "/v2/eunomia/tenants/other", key, content)
    assert status == 400 and "the body is of tenant 'acme'" in refused["error"]


def test_a_body_replaces_a_tenant_whole(served: tuple[Server, DatabaseDirectory, str]) -> None:
    server, directory, key = served
    assert ask(server, "PUT", "/v2/eunomia/tenants/acme", key, {"weight": 5.0})[0] == 200
    assert directory.by_name("acme") == Grant("acme", weight=5.0)  # limits, models and promises are gone


def test_an_empty_body_changes_nothing(served: tuple[Server, DatabaseDirectory, str]) -> None:
    """As it was, it took all limits and objectives away."""
    server, directory, key = served
    head = f"PUT /v2/eunomia/tenants/acme HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n"
    with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as line:
        file = line.makefile("rb")
        line.sendall(f"{head}Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n".encode())
        assert file.readline().startswith(b"HTTP/1.1 100 ") and file.readline() == b"\r\n"
        line.sendall(b"0\r\n\r\n")  # as curl -T - does of nothing
        answer = file.read()
    assert answer.startswith(b"HTTP/1.1 400 ") and b"the body is empty; {} gives a tenant all" in answer
    status, content = ask(server, "PUT", "/v2/eunomia/tenants/acme", key)
    assert status == 400 and "the body is empty; {} gives a tenant all defaults" in content["error"]
    assert directory.by_name("acme") == ACME


def test_an_unknown_tenant_or_network_is_refused_with_what_there_is(
    served: tuple[Server, DatabaseDirectory, str],
) -> None:
    server, _, key = served
    calls = [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/keys"),
        ("POST", "/keys"),
        ("POST", "/keys/rotate"),
        ("DELETE", "/keys"),
    ]
    for method, more in calls:
        status, content = ask(server, method, f"/v2/eunomia/tenants/acmee{more}", key)
        assert (status, content["error"]) == (404, "unknown tenant 'acmee'; did you mean 'acme'?"), (
            method,
            more,
        )
    assert (
        "GET /v2/eunomia/tenants lists all" in ask(server, "GET", "/v2/eunomia/tenants/xyz", key)[1]["error"]
    )
    for verb in ("load", "unload"):
        status, content = ask(server, "POST", f"/v2/repository/models/smal/{verb}", key, {})
        assert (status, content["error"]) == (404, "Request for unknown model 'smal'; there are: small"), verb


def test_who_may_read_one_tenant(served: tuple[Server, DatabaseDirectory, str]) -> None:
    server, directory, key = served
    assert ask(server, "GET", "/v2/eunomia/tenants/nobody", key)[0] == 404
    tenant = directory.issue_key("acme")
    assert ask(server, "GET", "/v2/eunomia/tenants/acme", tenant)[0] == 403  # not even of itself
    assert ask(server, "GET", "/v2/eunomia/tenants/nobody", tenant)[0] == 403
    assert ask(server, "GET", "/v2/eunomia/tenants/acme", key + "x")[0] == 401


def test_tenants_of_a_file_can_be_read_too(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        status, content = ask(server, "GET", "/v2/eunomia/tenants/gold", ADMIN)
        assert (
            status == 200 and content["weight"] == 3.0 and content["objectives"]["*"]["slo"]["target"] == 0.9
        )
        assert ask(server, "GET", "/v2/eunomia/tenants/gold", GOLD)[0] == 403


def test_a_removed_tenant_leaves_no_memory_behind(
    served: tuple[Server, DatabaseDirectory, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, directory, key = served
    (tmp_path / "memory").write_bytes(bytes(64))
    regions = server.service.regions
    for name, value in (("_folder", str(tmp_path)), ("offered", True), ("_owned", False)):
        monkeypatch.setattr(regions, name, value)
    for tenant in ("acme", "root"):
        regions.register(tenant, "mine", "memory", 0, 64)
    assert ask(server, "DELETE", "/v2/eunomia/tenants/acme", key)[0] == 200
    assert regions.status("acme") == [] and len(regions.status("root")) == 1
    regions.unregister("root", "")


def test_an_administrator_sees_at_once_what_another_server_has_changed(
    served: tuple[Server, DatabaseDirectory, str],
) -> None:
    server, directory, key = served
    other = DatabaseDirectory(str(directory._engine.url))
    other.put(Grant("elsewhere"))
    assert ask(server, "GET", "/v2/eunomia/tenants/elsewhere", key)[0] == 200
    other.remove("elsewhere")
    assert ask(server, "POST", "/v2/eunomia/tenants/elsewhere/keys", key, {})[0] == 404
    assert ask(server, "GET", "/v2/eunomia/tenants/elsewhere", key)[0] == 404
    other.close()


@pytest.mark.parametrize("grows", [False, True])
def test_networks_that_nobody_serves_are_refused_as_in_the_file(tmp_path: Path, grows: bool) -> None:
    directory = DatabaseDirectory(f"sqlite:///{tmp_path / 'tenants.db'}")
    directory.put(Grant("root", role="admin"))
    key = directory.issue_key("root")
    with running(tmp_path, directory=directory, models_dir=tmp_path if grows else None) as server:
        for content, named in (({"models": ["small", "smal"]}, "'smal' (models)"),
                               ({"objectives": {"big": {"deadline_s": 1.0}}}, "'big' (objectives)")):  # fmt: skip
            status, answer = ask(server, "PUT", "/v2/eunomia/tenants/acme", key, content)
            assert status == (200 if grows else 400)  # into a folder they may come yet
            if not grows:
                assert named in answer["error"] and answer["error"].endswith("none of the networks: small")
                assert directory.by_name("acme") is None
    directory.close()


def test_revoking_says_whether_there_was_such_a_key(served: tuple[Server, DatabaseDirectory, str]) -> None:
    server, directory, key = served
    place = "/v2/eunomia/tenants/acme/keys"
    one = directory.issue_key("acme")
    assert ask(server, "DELETE", f"{place}?hint=eun_none", key)[0] == 404
    assert ask(server, "DELETE", f"{place}?hint={one[:8]}", key) == (200, {"revoked": 1})
    assert ask(server, "DELETE", f"{place}?hint={one[:8]}", key)[0] == 404
    assert ask(server, "DELETE", place, key) == (200, {"revoked": 0})


SLO_99 = {"target": 0.99}


@pytest.mark.parametrize("content, says", [
    ({"models": ["\ud800"]}, "model"), ({"models": ["a\0"]}, "model"), ({"models": ["x" * 101]}, "model"),
    ({"models": [""]}, "model"), ({"models": ["../x"]}, "model"), ({"models": "small"}, "models must be"),
    ({"objectives": {"\0": {"deadline_s": 1.0}}}, "model"), ({"objectives": {"x" * 101: {"deadline_s": 1.0}}}, "model"),
    ({"max_concurrency": 1.5}, "max_concurrency is 1.5; a whole number"), ({"max_queue": 2.5}, "a whole number"),
    ({"max_queue": 10**7}, "max_queue"), ({"max_request_bytes": 2**41}, "max_request_bytes"),
    ({"burst": 1e16}, "burst"), ({"max_block_s": -1}, "max_block_s"), ({"device_s_per_day": 0}, "device_s_per_day"),
    ({"weight": float("nan")}, "weight"), ({"weight": 10**400}, "weight"), ({"weight": True}, "weight"),
    *(({"objectives": {"small": {"deadline_s": 1.0, "slo": SLO_99 | {key: value}}}}, key) for key, value in (
        ("window_requests", 1.5), ("window_requests", True), ("percentile", "x"),
        ("target", float("inf")), ("target", 10**400), ("window_s", float("inf")), ("window_s", True), ("kind", 3))),
], ids=lambda given: str(given)[:40].encode("unicode_escape").decode())  # fmt: skip
def test_what_no_tenant_can_be_granted(content: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        read_grant("acme", content)


def test_the_largest_limits_fit_into_either_database(url: str) -> None:
    content = {
        "max_concurrency": 10**6,
        "max_queue": 10**6,
        "max_request_bytes": 2**40,
        "max_block_s": 0,
        "device_s_per_day": 86400.0,
        "models": ["x" * 100],
    }
    grant, directory = read_grant("a" * 80, content), DatabaseDirectory(url)
    directory.put(grant)
    directory.refresh()
    assert directory.by_name("a" * 80) == grant and directory.remove("a" * 80)
    directory.close()


def test_names_that_no_tenant_has(served: tuple[Server, DatabaseDirectory, str]) -> None:
    server, _, key = served
    for name in ("%00", "%ff", "a" * 81, "..%2fx", "%ed%a0%80"):
        place = f"/v2/eunomia/tenants/{name}"
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/keys"), ("POST", "/keys"),
                             ("POST", "/keys/rotate"), ("DELETE", "/keys")):  # fmt: skip
            assert ask(server, method, place + path, key)[0] == 404, (method, name, path)
        assert ask(server, "DELETE", f"/v2/eunomia/tenants/acme/keys?hint={name}", key)[0] == 400
    assert ask(server, "DELETE", "/v2/eunomia/tenants/acme/keys?hint=", key)[0] == 400  # not: all of them


def test_what_a_database_cannot_hold_is_the_callers_fault(url: str) -> None:
    directory = DatabaseDirectory(url)
    if url.startswith("postgresql"):
        for change in (directory.remove, directory.revoke_keys):
            with pytest.raises(ConfigError, match="cannot hold"):
                change("\0")
    with pytest.raises(EunomiaError):
        directory.put(Grant("acme", weight=-1.0))
    directory.close()


def test_objectives_are_read_under_their_former_name_and_written_under_the_new_one() -> None:
    agreed = {"small": {"deadline_s": 1.0, "slo": SLO_99}}
    former, now = read_grant("acme", {"promises": agreed}), read_grant("acme", {"objectives": agreed})
    assert former == now and former.promises["small"].deadline_s == 1.0
    assert as_json(now)["objectives"]["small"]["deadline_s"] == 1.0 and "promises" not in as_json(now)
    with pytest.raises(BadRequest, match="promises is the former name of objectives"):
        read_grant("acme", {"promises": agreed, "objectives": agreed})


@pytest.mark.parametrize("method, path, what", [("PUT", "/a", "put"), ("GET", "", "catch_up")])
def test_who_waits_for_the_database_leaves_threads_to_others(
    served: tuple[Server, DatabaseDirectory, str],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    what: str,
) -> None:
    """As it was, some changes while another program held the file let large requests wait for 40 s, whosever."""
    server, _, key = served
    waiting, goes_on = threading.Event(), threading.Event()

    def waits(*_: object) -> bool:
        waiting.set()
        return goes_on.wait(PATIENCE_S)

    with monkeypatch.context() as patch, ThreadPoolExecutor(THREADS) as clients:
        patch.setattr(DatabaseDirectory, what, waits)
        try:
            asked = [
                clients.submit(ask, server, method, f"/v2/eunomia/tenants{path}", key, {})
                for _ in range(THREADS)
            ]
            assert waiting.wait(PATIENCE_S)
            for _ in range(20):  # the folder is looked through in a thread
                assert ask(server, "POST", "/v2/repository/index", key)[0] == 200
        finally:
            goes_on.set()
        assert {one.result(PATIENCE_S)[0] for one in asked} == {200}

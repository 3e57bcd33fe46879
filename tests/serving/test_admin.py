"""Tenants as administrators read and write them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from eunomia.serving.server import Server
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant, Promise
from eunomia.workload.tenant import Slo
from tests.serving.live import ADMIN, GOLD, running

ACME = Grant("acme", weight=3.0, rate_per_s=50.0, models=frozenset({"small"}),
             promises={"small": Promise(0.05, Slo(0.99), 2.0, 0.01), "*": Promise(1.0)})  # fmt: skip


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Server, DatabaseDirectory, str]]:
    directory = DatabaseDirectory(f"sqlite:///{tmp_path / 'tenants.db'}")
    directory.put(Grant("root", role="admin"))
    directory.put(ACME)
    with running(tmp_path, directory=directory) as server:
        yield server, directory, directory.issue_key("root")
    directory.close()


def ask(server: Server, method: str, path: str, key: str, body: Any = None) -> tuple[int, Any]:
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    try:
        sent = None if body is None else json.dumps(body)
        line.request(method, path, sent, {"Authorization": f"Bearer {key}"})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        line.close()


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


def test_who_may_read_one_tenant(served: tuple[Server, DatabaseDirectory, str], tmp_path: Path) -> None:
    server, directory, key = served
    assert ask(server, "GET", "/v2/eunomia/tenants/nobody", key)[0] == 404
    tenant = directory.issue_key("acme")
    assert ask(server, "GET", "/v2/eunomia/tenants/acme", tenant)[0] == 403  # not even of itself
    assert ask(server, "GET", "/v2/eunomia/tenants/nobody", tenant)[0] == 403
    assert ask(server, "GET", "/v2/eunomia/tenants/acme", key + "x")[0] == 401


def test_tenants_of_a_file_can_be_read_too(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        status, content = ask(server, "GET", "/v2/eunomia/tenants/gold", ADMIN)
        assert status == 200 and content["weight"] == 3.0 and content["promises"]["*"]["slo"]["target"] == 0.9
        assert ask(server, "GET", "/v2/eunomia/tenants/gold", GOLD)[0] == 403


def test_an_administrator_sees_at_once_what_another_server_has_changed(
    served: tuple[Server, DatabaseDirectory, str], tmp_path: Path
) -> None:
    server, _, key = served
    other = DatabaseDirectory(f"sqlite:///{tmp_path / 'tenants.db'}")
    other.put(Grant("elsewhere"))
    assert ask(server, "GET", "/v2/eunomia/tenants/elsewhere", key)[0] == 200
    other.remove("elsewhere")
    assert ask(server, "POST", "/v2/eunomia/tenants/elsewhere/keys", key, {})[0] == 404
    assert ask(server, "GET", "/v2/eunomia/tenants/elsewhere", key)[0] == 404
    other.close()

"""Requests made up from the OpenAPI document: many are wrong, none may break the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.serving import made_up
from eunomia.serving.fronts.openapi import document
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import read_request
from eunomia.serving.server import Server
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant
from tests.serving.live import running

pytest.importorskip("schemathesis")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    folder = tmp_path_factory.mktemp("server")
    database = DatabaseDirectory(f"sqlite:///{folder / 'tenants.db'}")
    database.put(Grant("root", role="admin"))
    key = database.issue_key("root")
    with running(folder, directory=database) as live:
        yield live, key
    database.close()


def test_every_route_is_in_the_document(server: tuple[Server, str]) -> None:
    from eunomia.serving.fronts.http import HttpFront

    app = HttpFront(server[0].service, 1000).application()
    routes = {
        (r.method.lower(), r.resource.canonical)
        for r in app.router.routes()
        if r.resource and r.method != "HEAD"
    }
    written = {(method, path) for path, operations in document()["paths"].items() for method in operations}
    assert routes - written == {("get", "/"), ("get", "/openapi.json")} and not written - routes


def test_made_up_requests_never_get_a_5xx_of_the_inside(server: tuple[Server, str]) -> None:
    live, key = server
    known = {"model": "small", "version": "1", "tenant": "gold"}
    found = made_up.from_document(f"127.0.0.1:{live.http_port}", key, 8, known, "root")
    assert [seen.faults for seen in found if seen.faults] == []
    assert len(found) > 30 and all(seen.tried for seen in found)
    assert live.pool.arena.free_bytes == 16 * 1024**2  # nothing leaked


@settings(max_examples=400, deadline=None)
@given(
    body=st.binary(max_size=300) | st.text(max_size=300).map(lambda t: t.encode()),
    header=st.none() | st.integers(-5, 400),
)
def test_any_bytes_are_read_or_refused_in_words(body: bytes, header: int | None) -> None:
    try:
        read_request("m", "", memoryview(body), header)
    except BadRequest as error:
        assert str(error)


@settings(max_examples=400, deadline=None)
@given(content=made_up.JSON, tail=st.binary(max_size=50))
def test_any_json_is_read_or_refused_in_words(content: Any, tail: bytes) -> None:
    header = json.dumps(content).encode()
    try:
        read_request("m", "", memoryview(header + tail), len(header))
    except BadRequest as error:
        assert str(error)

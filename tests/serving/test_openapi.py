"""Requests made up from the OpenAPI document: many are wrong, none may break the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eunomia.serving.openapi import document
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import read_request
from eunomia.serving.server import Server
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant
from tests.serving.live import running

schemathesis = pytest.importorskip("schemathesis")


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
    from eunomia.serving.http import HttpFront

    app = HttpFront(server[0].service, 1000).application()
    routes = {
        (r.method.lower(), r.resource.canonical)
        for r in app.router.routes()
        if r.resource and r.method != "HEAD"
    }
    written = {(method, path) for path, operations in document()["paths"].items() for method in operations}
    assert routes - written == {("get", "/"), ("get", "/openapi.json")} and not written - routes


def keep(case: Any) -> bool:
    """Requests that would end the session under test stay out: they work, that is the trouble."""
    tenant = str((case.path_parameters or {}).get("tenant", ""))
    return not case.path.endswith("/unload") and tenant != "root"


def test_made_up_requests_never_get_a_5xx_of_the_inside(server: tuple[Server, str]) -> None:
    live, key = server
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{live.http_port}/openapi.json")
    headers = {"Authorization": f"Bearer {key}"}
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy())
        @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        def ask(case: Any) -> None:
            if not keep(case):
                return
            answer = case.call(headers=headers)
            assert answer.status_code < 500 or answer.status_code in (503, 504), (case, answer.text)
            if answer.status_code >= 400 and answer.headers.get("Content-Type", "").startswith(
                "application/json"
            ):
                assert len(answer.json()["error"]) > 3

        ask()
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


KEYS = ("inputs", "outputs", "name", "shape", "datatype", "data", "parameters", "binary_data_size", "id",
        "shared_memory_region", "shared_memory_byte_size")  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=30,
)


@settings(max_examples=400, deadline=None)
@given(content=JSON, tail=st.binary(max_size=50))
def test_any_json_is_read_or_refused_in_words(content: Any, tail: bytes) -> None:
    header = json.dumps(content).encode()
    try:
        read_request("m", "", memoryview(header + tail), len(header))
    except BadRequest as error:
        assert str(error)

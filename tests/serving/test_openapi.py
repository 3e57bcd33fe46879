"""Requests made up from the OpenAPI document: many are wrong, none may break the server."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.fronts.openapi import document
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import read_request, split_body
from eunomia.serving.server import Server
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant
from tests.serving.live import running
from tests.serving.made_up import JSON, examples, said

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


@pytest.fixture(scope="module")
def schema(server: tuple[Server, str]) -> Any:
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{server[0].http_port}/openapi.json")


def test_every_route_is_in_the_document(server: tuple[Server, str]) -> None:
    from eunomia.serving.fronts.http import HttpFront

    app = HttpFront(server[0].service, 1000).application()
    routes = {
        (r.method.lower(), r.resource.canonical)
        for r in app.router.routes()
        if r.resource and r.method not in ("HEAD", "*")
    }
    written = {(method, path) for path, operations in document()["paths"].items() for method in operations}
    assert routes - written == {("get", "/"), ("get", "/openapi.json")} and not written - routes


KNOWN = {"model": "small", "version": "1", "tenant": "gold"}  # what the server has
ENDS = ("post", "/v2/repository/models/{model}/unload"), ("delete", "/v2/eunomia/tenants/{tenant}")
LATER = {503, 504}  # refused in words: the server cannot do it now, or not in the time that was given


@pytest.mark.parametrize("path, method", [
    (path, method) for path, operations in document()["paths"].items() for method in operations
])  # fmt: skip
def test_made_up_requests_never_get_a_5xx_of_the_inside(
    server: tuple[Server, str], schema: Any, path: str, method: str,
    record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    live, key = server
    seen: Counter[int] = Counter()

    @examples(0.16)
    @given(case=schema[path][method].as_strategy())
    def ask(case: Any) -> None:
        names = case.path_parameters or {}
        if seen.total() % 2 and (method, path) not in ENDS:  # every other one about something that is there
            names.update({name: KNOWN[name] for name in names if name in KNOWN})
        if names.get("tenant") == "root":
            return
        answer = case.call(headers={"Authorization": f"Bearer {key}"})
        seen[answer.status_code] += 1
        assert answer.status_code < 500 or answer.status_code in LATER, answer.text
        if answer.status_code >= 400 and "json" in answer.headers.get("Content-Type", ""):
            assert len(answer.json()["error"]) > 3

    ask()
    record_property("answers", said(seen))
    assert seen.total() and live.pool.arena.free_bytes == 16 * 1024**2  # nothing leaked


@examples(8.0)
@given(
    body=st.binary(max_size=300) | st.text(max_size=300).map(lambda t: t.encode()),
    header=st.none() | st.integers(-5, 400),
)
def test_any_bytes_are_read_or_refused_in_words(body: bytes, header: int | None) -> None:
    try:
        read_request("m", "", *split_body(memoryview(body), header))
    except BadRequest as error:
        assert str(error)


@examples(8.0)
@given(content=JSON, tail=st.binary(max_size=50))
def test_any_json_is_read_or_refused_in_words(content: Any, tail: bytes) -> None:
    header = json.dumps(content).encode()
    try:
        read_request("m", "", *split_body(memoryview(header + tail), len(header)))
    except BadRequest as error:
        assert str(error)

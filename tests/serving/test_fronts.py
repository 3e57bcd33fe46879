"""What every front must hold, a newcomer too: what it serves is what it documents."""

from __future__ import annotations

import importlib
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from eunomia.serving.fronts import FRONTS
from eunomia.serving.fronts.openapi import document
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S

PAGE = ("get", "/")  # for people, not in the document


def status(url: str) -> int:
    try:
        with urlopen(url, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.mark.parametrize("name", FRONTS)
def test_routes_and_document_agree_and_every_route_answers(name: str, plain: Server) -> None:
    module, _, attribute = FRONTS[name].partition(":")
    made = getattr(importlib.import_module(module), attribute)
    front = made(plain.service)
    routes = {(route.method.lower(), route.path) for route in front.routes()} - {PAGE}
    assert routes == {(method, path) for path, found in front.PATHS.items() for method in found}
    assert front.PATHS.items() <= document()["paths"].items()
    for method, path in routes:
        if method == "get" and "{" not in path:
            assert status(f"http://127.0.0.1:{plain.http_port}{path}") not in (404, 405, 500)

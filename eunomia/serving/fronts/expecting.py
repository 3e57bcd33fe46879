"""``Expect: 100-continue``: a client that asks before it sends its body hears yes once its key is known.

aiohttp says yes before anything of ours runs. So its routes say nothing, and ``go_on`` is called when the request has
its turn: who has no valid key gets its 401 instead, and sends no body. Clients in Go 1.19 and Java would then send the
next request where the body has its place: that answer ends the connection. Likewise the library's own name and log
lines.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from aiohttp import web
from aiohttp.hdrs import EXPECT, SERVER
from aiohttp.http import HttpVersion11
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.web_request import BaseRequest

from eunomia.serving.fronts.in_words import Slashed
from eunomia.serving.protocol.errors import ServingError

log = logging.getLogger("eunomia.serving")
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
OURS = "eunomia"
EVERYWHERE = "/{path:.*}"
WENT_ON = web.RequestKey("went_on", bool)


class NotMet(ServingError):
    """The client expects something else than a word to go on."""

    http, grpc, reason = 417, "INVALID_ARGUMENT", "expectation"


def quiet(routes: Iterable[web.AbstractRouteDef]) -> list[web.RouteDef]:
    """The same routes, which leave the answer to ``go_on``."""
    return [
        web.RouteDef(r.method, r.path, r.handler, {**r.kwargs, "expect_handler": _nothing})
        for r in routes
        if isinstance(r, web.RouteDef)
    ]


def elsewhere() -> list[web.RouteDef]:
    """Add last: every other path or method has its 404 or 405 without aiohttp's word to go on."""
    return quiet([web.route("*", EVERYWHERE, _nowhere)])


async def _nowhere(request: web.Request) -> web.StreamResponse:
    if methods := await _methods(request):
        raise web.HTTPMethodNotAllowed(request.method, methods)
    path = request.rel_url.raw_path
    shorter = path.rstrip("/")
    if shorter and shorter != path:
        url = request.rel_url.with_path(shorter, encoded=True)
        if await _methods(request.clone(rel_url=url)):
            raise Slashed(url.path)
    raise web.HTTPNotFound


async def _methods(request: web.Request) -> set[str]:
    """Those by which its path is served."""
    methods: set[str] = set()
    for resource in request.app.router.resources():
        if resource.canonical != "/{path}":
            methods |= (await resource.resolve(request))[1]
    return methods


async def _nothing(_: web.Request) -> None:
    pass


def go_on(request: web.Request) -> None:
    """The body may come, if the client waits to hear that; raises NotMet."""
    expected = request.headers.get(EXPECT)
    if expected is None or request.version < HttpVersion11:  # RFC 9110, 10.1.1: older ones do not read it
        return
    if expected.strip().lower() != "100-continue":
        raise NotMet(f"Expect is {expected!r:.50}; '100-continue' is what can be met: leave the header out")
    if request.transport is not None and request.body_exists:
        request[WENT_ON] = True
        request.transport.write(GO_ON)


def still_waits(request: BaseRequest) -> bool:
    """Whether its client has not heard that the body may come: it may send that or its next request."""
    return EXPECT in request.headers and request.body_exists and WENT_ON not in request


async def unnamed(_: web.Request, response: web.StreamResponse) -> None:
    """Before an answer leaves: which library writes it, in which version, is nobody's business."""
    response.headers[SERVER] = OURS


def is_our_fault(record: logging.LogRecord) -> bool:
    """Logging filter: whoever sends what is no HTTP (a gRPC client at the wrong port) fills no log with tracebacks."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BadHttpMessage):
        log.debug("what a client sent is no HTTP: %.200r", error.message)
        return False
    return True

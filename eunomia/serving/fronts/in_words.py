"""Every failure over HTTP as JSON with one sentence."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable

from aiohttp import web

from eunomia.serving.protocol.errors import (
    FEWER,
    ServingError,
    TooLarge,
    forget_frames,
    not_offered,
    too_large,
    without_folders,
)

log = logging.getLogger("eunomia.serving")
ADMIN = "/v2/eunomia/"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Slashed(web.HTTPNotFound):
    """Nothing is served there, but at ``meant``, without the last slash."""

    def __init__(self, meant: str) -> None:
        super().__init__()
        self.meant = meant


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure as ``{"error": one sentence}``; nothing of the inside leaks."""
    if (request.content_length or 0) > request.client_max_size:
        return error_response(too_large(request.content_length or 0, request.client_max_size, FEWER))
    try:
        return await handler(request)
    except ServingError as error:
        return error_response(error, whole=request.path.startswith(ADMIN) or request.path.endswith("/load"))
    except web.HTTPRequestEntityTooLarge as error:
        return error_response(TooLarge(f"the body is larger than the server takes: {error.text or ''}"[:200]))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        allowed = error.allowed_methods if isinstance(error, web.HTTPMethodNotAllowed) else ()
        known = error.status in (404, 405)
        meant = error.meant if isinstance(error, Slashed) else ""
        said = not_offered(request.method, request.path, allowed, meant) if known else {"error": error.reason}
        headers = {"Allow": ", ".join(sorted(allowed))} if allowed else None
        return web.json_response(said, status=error.status, headers=headers)
    except ConnectionResetError:  # the client went away in the middle of its body; nobody reads this
        return web.json_response({"error": "the client has gone away"}, status=499)
    except Exception:
        log.exception("a handler failed")
        return web.json_response({"error": "the server has failed; its log says more"}, status=500)


def error_response(error: ServingError, *, whole: bool = False) -> web.Response:
    """The response for a deliberate error; ``whole``: with the folders of the server's files, for administrators."""
    forget_frames(error)
    status, headers, text = error_facts(error, whole=whole)
    return web.Response(status=status, text=text, headers=headers)


def error_facts(error: ServingError, *, whole: bool = False) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of such a response."""
    headers = {"Content-Type": "application/json; charset=utf-8"}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
        headers["Retry-After-Ms"] = str(max(1, math.ceil(error.retry_after_s * 1e3)))
    text = str(error) if whole else without_folders(str(error))
    return error.http, headers, json.dumps({"error": text, "reason": error.reason})

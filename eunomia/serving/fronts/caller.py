"""The caller of a request, from HTTP headers."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.visit import Caller

FORWARDED = ("forwarded", "x-forwarded-for")  # whoever stands behind a proxy may be anywhere
FAIRNESS = ("x-gateway-inference-fairness-id", "x-llm-d-inference-fairness-id")
WHO = ("authorization", "x-api-key", "x-tenant-id", *FAIRNESS)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own; an empty one is of a Unix socket."""
    return host in ("", "::1") or host.startswith(("127.", "::ffff:127."))


def caller_of(http: web.Request) -> Caller:
    """Key and names in the headers; raises BadRequest where they say two things."""
    for name in WHO:
        if len({*http.headers.getall(name, ())}) > 1:
            raise BadRequest(f"{name} has two values: send it once, with one of them")
    return caller_from(http.headers, http.remote or "unknown")


def caller_from(headers: Mapping[str, str], remote: str) -> Caller:
    """The same, of headers by name in small letters, and an address."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    bearer = key.strip() if scheme.lower() == "bearer" and key.strip() else None
    fairness = next((headers[name] for name in FAIRNESS if name in headers), None)
    return Caller(
        bearer or headers.get("x-api-key"),
        fairness,
        headers.get("x-tenant-id"),
        traceparent=headers.get("traceparent"),
        local=is_loopback(remote) and not any(name in headers for name in FORWARDED),
    )

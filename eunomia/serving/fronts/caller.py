"""The caller of a request, from HTTP headers."""

from __future__ import annotations

from aiohttp import web

from eunomia.serving.service import Caller

FAIRNESS = ("x-gateway-inference-fairness-id", "x-llm-d-inference-fairness-id")


def caller_of(http: web.Request) -> Caller:
    """Key and names in the headers."""
    scheme, _, key = http.headers.get("Authorization", "").partition(" ")
    bearer = key.strip() if scheme.lower() == "bearer" and key.strip() else None
    fairness = next((http.headers[name] for name in FAIRNESS if name in http.headers), None)
    return Caller(
        bearer or http.headers.get("x-api-key"),
        fairness,
        http.headers.get("x-tenant-id"),
        traceparent=http.headers.get("traceparent"),
    )

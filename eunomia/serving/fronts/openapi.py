"""The OpenAPI document of the HTTP side: what can be asked, with which answers."""

from __future__ import annotations

import json
from functools import cache

from eunomia.core.data import Json
from eunomia.core.version import __version__
from eunomia.serving.devices.messages import DATATYPES, MAX_TENSORS
from eunomia.serving.devices.ports import MAX_NAME, MAX_RANK
from eunomia.serving.fronts import fronts
from eunomia.serving.protocol.infer import MAX_TEXT
from eunomia.serving.tenants.content import LIMITS, MOST, SLO

ERROR: Json = {
    "type": "object", "required": ["error"],
    "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
}  # fmt: skip
PARAMETERS: Json = {
    "type": "object", "additionalProperties": True,
    "properties": {
        "priority": {"type": "integer", "minimum": 0, "description": "1 = first among the tenant's own, 0 = default"},
        "timeout": {"type": "integer", "minimum": 0, "description":
                    "microseconds, then the request is given up; 0 = not given"},
        "slo_ms": {"type": "number", "minimum": 0, "description":
                   "deadline in milliseconds from its arrival, as far as the tenant may claim it; 0 = not given"},
    },
}  # fmt: skip
INPUT: Json = {
    "type": "object", "required": ["name", "shape", "datatype"],
    "properties": {
        "name": {"type": "string", "maxLength": MAX_NAME},
        "shape": {"type": "array", "maxItems": MAX_RANK, "items": {"type": "integer", "minimum": 0}},
        "datatype": {"type": "string", "enum": list(DATATYPES)},
        "data": {"type": "array", "items": {}},
        "parameters": {"type": "object"},
    },
}  # fmt: skip
INFER: Json = {
    "type": "object", "required": ["inputs"],
    "properties": {
        "id": {"type": "string", "maxLength": MAX_TEXT}, "parameters": PARAMETERS,
        "inputs": {"type": "array", "maxItems": MAX_TENSORS, "items": INPUT},
        "outputs": {
            "type": "array", "maxItems": MAX_TENSORS,
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "maxLength": MAX_NAME}, "parameters": {"type": "object"}}},
        },
    },
}  # fmt: skip
SLO_KINDS: Json = {"target": {"type": "number"}, **{
    key: {"type": "string" if kind is str else "number"} for key, kind in SLO.items() if key != "target"
}}  # fmt: skip
LIMIT_TYPES: Json = {
    key: {
        "type": ["integer" if kind is int else "number", "null"],
        "exclusiveMinimum": 0,
        **({"maximum": MOST[key]} if key in MOST else {}),
    }
    for key, kind in LIMITS.items()
}
OBJECTIVES: Json = {
    "type": "object", "additionalProperties": {
        "type": "object", "required": ["deadline_s"], "additionalProperties": False,
        "properties": {
            "deadline_s": {"type": "number", "exclusiveMinimum": 0},
            "min_deadline_s": {"type": ["number", "null"], "minimum": 0, "description":
                               "shortest deadline that clients may claim; null = deadline_s, 0 = any"},
            "priority": {"type": "number", "exclusiveMinimum": 0},
            "slo": {"type": ["object", "null"], "properties": SLO_KINDS, "required": ["target"]},
        },
    },
}  # fmt: skip
TENANT: Json = {
    "type": "object", "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "description": "as in the address"},
        "role": {"type": "string", "enum": ["tenant", "admin"]},
        **LIMIT_TYPES,
        "models": {"type": ["array", "null"], "items": {"type": "string"}},
        "objectives": OBJECTIVES,
        "promises": {**OBJECTIVES, "deprecated": True, "description": "the former name of objectives"},
    },
}  # fmt: skip


POLICY: Json = {
    "type": "object", "required": ["name"], "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "maxLength": 200},
        "files": {"type": "object", "additionalProperties": {"type": "string", "description": "base64"}},
        "evidence": {"type": "object"}, "instead_of": {"type": ["string", "null"]},
    },
}  # fmt: skip


@cache
def document_text() -> str:
    """The document as JSON, made once."""
    return json.dumps(document())


def document() -> Json:
    """The whole document, version 3.1."""
    paths: Json = {
        "/v2": {"get": operation("Name, version, extensions")},
        "/v2/health/live": {"get": operation("200 = the process answers")},
        "/v2/health/ready": {"get": operation("200 = requests are welcome", also=(503,))},
        "/v2/repository/index": {"post": operation("Networks and their state", keyed=True, body={"type": "object"})},
        "/v2/repository/models/{model}/load": {"post": operation("Load anew", keyed=True, names=("model",))},
        "/v2/repository/models/{model}/unload": {"post": operation("Out of service", keyed=True, names=("model",))},
        "/v2/models/stats": {"get": operation("Statistics of all networks", keyed=True)},
        "/v2/systemsharedmemory/status": {"get": operation("The caller's regions", keyed=True)},
        "/v2/systemsharedmemory/unregister": {"post": operation("Forget all regions", keyed=True)},
        "/v2/systemsharedmemory/region/{region}/register": {
            "post": operation("Register a region", keyed=True, names=("region",), body={
                "type": "object", "required": ["key", "byte_size"], "properties": {
                    "key": {"type": "string"}, "offset": {"type": "integer", "minimum": 0},
                    "byte_size": {"type": "integer", "minimum": 1}}})
        },
        "/v2/systemsharedmemory/region/{region}/status": {
            "get": operation("One region", keyed=True, names=("region",))
        },
        "/v2/systemsharedmemory/region/{region}/unregister": {
            "post": operation("Forget a region", keyed=True, names=("region",))
        },
        "/metrics": {"get": operation("Prometheus' text, or OpenMetrics", keyed=True)},
        "/metrics/triton": {"get": operation("The same by Triton's names", keyed=True)},
    }  # fmt: skip
    for prefix, names in (("/v2/models/{model}", ("model",)),
                          ("/v2/models/{model}/versions/{version}", ("model", "version"))):  # fmt: skip
        paths[prefix] = {"get": operation("Inputs and outputs", keyed=True, names=names)}
        paths[f"{prefix}/ready"] = {"get": operation("200 = ready", names=names, also=(503,))}
        paths[f"{prefix}/config"] = {"get": operation("Configuration", keyed=True, names=names)}
        paths[f"{prefix}/stats"] = {"get": operation("Statistics", keyed=True, names=names)}
        paths[f"{prefix}/infer"] = {
            "post": operation(
                "Run a network", keyed=True, names=names, body=INFER, also=(413, 429, 500, 503, 504)
            )
        }
    for front in fronts():
        paths |= front.PATHS
    return {
        "openapi": "3.1.0",
        "info": {"title": "Eunomia", "version": __version__, "description": "The Open Inference Protocol, and tenants"},
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }  # fmt: skip


def operation(
    summary: str, *, keyed: bool = False, names: tuple[str, ...] = (), body: Json | None = None,
    also: tuple[int, ...] = (),
) -> Json:  # fmt: skip
    """One operation; every answer that is not 200 carries one sentence."""
    statuses = {*((400, 401, 403, 404, 413, 503) if keyed else (404,)), *also}
    written: Json = {
        "summary": summary,
        "responses": {"200": {"description": "done"}, **{
            str(status): {"description": "refused", "content": {"application/json": {"schema": ERROR}}}
            for status in sorted(statuses)
        }},
    }  # fmt: skip
    if keyed:
        written["security"] = [{"key": []}]
    if names:
        written["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in names
        ]
    if body is not None:
        written["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return written

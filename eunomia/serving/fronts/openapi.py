"""The OpenAPI document of the HTTP side: what can be asked, with which answers."""

from __future__ import annotations

from eunomia.core.data import Json
from eunomia.core.version import __version__
from eunomia.serving.devices.messages import DATATYPES
from eunomia.serving.protocol.infer import MAX_NAME, MAX_RANK, MAX_TENSORS
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
        "id": {"type": "string", "maxLength": MAX_NAME}, "parameters": PARAMETERS,
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
TENANT: Json = {
    "type": "object", "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "description": "as in the address"},
        "role": {"type": "string", "enum": ["tenant", "admin"]},
        **LIMIT_TYPES,
        "models": {"type": ["array", "null"], "items": {"type": "string"}},
        "promises": {"type": "object", "additionalProperties": {
            "type": "object", "required": ["deadline_s"], "additionalProperties": False,
            "properties": {
                "deadline_s": {"type": "number", "exclusiveMinimum": 0},
                "min_deadline_s": {"type": ["number", "null"], "minimum": 0, "description":
                                   "shortest deadline that clients may claim; null = deadline_s, 0 = any"},
                "priority": {"type": "number", "exclusiveMinimum": 0},
                "slo": {"type": ["object", "null"], "properties": SLO_KINDS, "required": ["target"]},
            },
        }},
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


def document() -> Json:
    """The whole document, version 3.1."""
    paths: Json = {
        "/v2": {"get": _operation("Name, version, extensions")},
        "/v2/health/live": {"get": _operation("200 = the process answers")},
        "/v2/health/ready": {"get": _operation("200 = requests are welcome", also=(503,))},
        "/v2/repository/index": {"post": _operation("Networks and their state", keyed=True, body={"type": "object"})},
        "/v2/repository/models/{model}/load": {"post": _operation("Load anew", keyed=True, names=("model",))},
        "/v2/repository/models/{model}/unload": {"post": _operation("Out of service", keyed=True, names=("model",))},
        "/v2/models/stats": {"get": _operation("Statistics of all networks", keyed=True)},
        "/v2/systemsharedmemory/status": {"get": _operation("The caller's regions", keyed=True)},
        "/v2/systemsharedmemory/unregister": {"post": _operation("Forget all regions", keyed=True)},
        "/v2/systemsharedmemory/region/{region}/register": {
            "post": _operation("Register a region", keyed=True, names=("region",), body={
                "type": "object", "required": ["key", "byte_size"], "properties": {
                    "key": {"type": "string"}, "offset": {"type": "integer", "minimum": 0},
                    "byte_size": {"type": "integer", "minimum": 1}}})
        },
        "/v2/systemsharedmemory/region/{region}/status": {
            "get": _operation("One region", keyed=True, names=("region",))
        },
        "/v2/systemsharedmemory/region/{region}/unregister": {
            "post": _operation("Forget a region", keyed=True, names=("region",))
        },
        "/v2/eunomia/state": {"get": _operation("What the live page draws", keyed=True)},
        "/v2/eunomia/twin": {"get": _operation("Block times and recorded traffic, for a digital twin", keyed=True)},
        "/v2/eunomia/tenants": {"get": _operation("All tenants", keyed=True)},
        "/v2/eunomia/tenants/{tenant}": {
            "get": _operation("What a tenant was granted", keyed=True, names=("tenant",)),
            "put": _operation("Add a tenant, or replace it whole: what the body leaves out goes back to its default",
                              keyed=True, names=("tenant",), body=TENANT),
            "delete": _operation("Forget a tenant", keyed=True, names=("tenant",)),
        },
        "/v2/eunomia/tenants/{tenant}/keys": {
            "get": _operation("Keys, never in the clear", keyed=True, names=("tenant",)),
            "post": _operation("A new key, shown once; older ones stay", keyed=True, names=("tenant",), body={
                "type": "object", "additionalProperties": False,
                "properties": {"lifetime_s": {"type": "number", "exclusiveMinimum": 0}}}),
            "delete": _operation("Revoke all keys, or those of ?hint=, for good", keyed=True, names=("tenant",)),
        },
        "/v2/eunomia/tenants/{tenant}/keys/rotate": {
            "post": _operation("A new key; older ones end after grace_s, by default 0: at once", keyed=True,
                               names=("tenant",), body={
                "type": "object", "additionalProperties": False,
                "properties": {"grace_s": {"type": "number", "minimum": 0, "default": 0}}})
        },
        "/v2/eunomia/policy": {
            "get": _operation("The policy that serves, and those before it", keyed=True),
            "put": _operation("Put another policy in: a registered name, or the files of a checkpoint", keyed=True,
                              also=(409,), body=POLICY),
        },
        "/v2/eunomia/policy/rollback": {"post": _operation("Back to the policy before", keyed=True)},
        "/metrics": {"get": _operation("Prometheus' text", keyed=True)},
    }  # fmt: skip
    for prefix, names in (("/v2/models/{model}", ("model",)),
                          ("/v2/models/{model}/versions/{version}", ("model", "version"))):  # fmt: skip
        paths[prefix] = {"get": _operation("Inputs and outputs", keyed=True, names=names)}
        paths[f"{prefix}/ready"] = {"get": _operation("200 = ready", names=names, also=(503,))}
        paths[f"{prefix}/config"] = {"get": _operation("Configuration", keyed=True, names=names)}
        paths[f"{prefix}/stats"] = {"get": _operation("Statistics", keyed=True, names=names)}
        paths[f"{prefix}/infer"] = {
            "post": _operation(
                "Run a network", keyed=True, names=names, body=INFER, also=(413, 429, 500, 503, 504)
            )
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Eunomia", "version": __version__, "description": "The Open Inference Protocol, and tenants"},
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }  # fmt: skip


def _operation(
    summary: str, *, keyed: bool = False, names: tuple[str, ...] = (), body: Json | None = None,
    also: tuple[int, ...] = (),
) -> Json:  # fmt: skip
    """One operation; every answer that is not 200 carries one sentence."""
    statuses = {*((400, 401, 403, 404, 413, 503) if keyed else (404,)), *also}
    operation: Json = {
        "summary": summary,
        "responses": {"200": {"description": "done"}, **{
            str(status): {"description": "refused", "content": {"application/json": {"schema": ERROR}}}
            for status in sorted(statuses)
        }},
    }  # fmt: skip
    if keyed:
        operation["security"] = [{"key": []}]
    if names:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in names
        ]
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return operation

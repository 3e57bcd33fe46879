"""Every endpoint and every RPC, asked without a key, with a wrong one, with a tenant's and with an administrator's."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# What anybody may ask; all else needs a key, and what ADMIN_ONLY names, an administrator's.
OPEN = {
    ("GET", "/"), ("GET", "/openapi.json"), ("GET", "/v2"), ("GET", "/v2/health/live"), ("GET", "/v2/health/ready"),
    ("GET", "/v2/models/{model}/ready"), ("GET", "/v2/models/{model}/versions/{version}/ready"),
}  # fmt: skip
ADMIN_ONLY = re.compile(r"/metrics|/v2/eunomia/(twin|tenants|policy).*|/v2/repository/models/.*")
OPEN_RPCS = {"ServerLive", "ServerReady", "ServerMetadata", "ModelReady"}
ADMIN_RPCS = {"RepositoryModelLoad", "RepositoryModelUnload"}
WRONG_KEY = "eun_made-up"
DENIED, FORBIDDEN = {"401", "UNAUTHENTICATED"}, {"403", "PERMISSION_DENIED"}
NAMES = {"model": "small", "version": "1", "region": "nowhere", "tenant": "nobody-there"}


@dataclass(frozen=True)
class Door:
    """An endpoint, the role it needs (``anybody``, ``tenant`` or ``admin``), and what each key was told."""

    name: str
    needs: str
    seen: tuple[str, str, str, str]  # no key, wrong key, tenant, administrator

    @property
    def fault(self) -> str:
        """Why it is not as it should be; empty when it is. Keys that open it may still hear of a wrong request."""
        closed = DENIED | FORBIDDEN
        if self.needs == "anybody":
            return "closed to somebody" if closed & set(self.seen) else ""
        if not set(self.seen[:2]) <= DENIED:
            return "open without a key"
        if self.needs == "admin" and self.seen[2] not in FORBIDDEN:
            return "open to a tenant"
        if self.needs == "tenant" and self.seen[2] in closed:
            return "closed to a tenant"
        return "closed to an administrator" if self.seen[3] in closed else ""


def needs_of(method: str, template: str) -> str:
    """The role that an endpoint needs."""
    if (method, template) in OPEN:
        return "anybody"
    return "admin" if ADMIN_ONLY.fullmatch(template) else "tenant"


def endpoints(document: dict[str, Any]) -> list[tuple[str, str]]:
    """(method, path) of everything in an OpenAPI document, and the two that are not in it; what ends things, last."""
    found = {
        (method.upper(), path) for path, operations in document["paths"].items() for method in operations
    }
    found |= {("GET", "/"), ("GET", "/openapi.json")}
    return sorted(found, key=lambda door: (door[0] == "DELETE" or door[1].endswith("/unload"), door))


def ask_doors(address: str, doors: Iterable[tuple[str, str]], tenant_key: str, admin_key: str) -> list[Door]:
    """All four keys at every endpoint."""
    keys = ("", WRONG_KEY, tenant_key, admin_key)
    return [
        Door(f"{method} {path}", needs_of(method, path),
             tuple(_status(address, method, path.format(**NAMES), key) for key in keys))  # type: ignore[arg-type]
        for method, path in doors
    ]  # fmt: skip


def _status(address: str, method: str, path: str, key: str) -> str:
    line = http.client.HTTPConnection(address, timeout=60)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        line.request(method, path, b"{}" if method in ("POST", "PUT") else None, headers)
        return str(line.getresponse().status)
    finally:
        line.close()


def ask_rpcs(address: str, tenant_key: str, admin_key: str) -> list[Door]:
    """All four keys at every RPC that is offered; one that does not exist says so to an administrator."""
    import grpc
    from tritonclient.grpc import service_pb2 as pb
    from tritonclient.grpc import service_pb2_grpc as stubs

    methods = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
    found = []
    with grpc.insecure_channel(address) as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        for method in sorted(methods, key=lambda m: (m.name == "RepositoryModelUnload", m.name)):
            message = getattr(pb, method.input_type.name)()
            for field in ("name", "model_name"):
                if field in method.input_type.fields_by_name:
                    setattr(message, field, "small")
            call = getattr(stub, method.name)
            seen = tuple(
                _code(call, message, method.name, key) for key in ("", WRONG_KEY, tenant_key, admin_key)
            )
            needs = (
                "anybody" if method.name in OPEN_RPCS else "admin" if method.name in ADMIN_RPCS else "tenant"
            )
            if seen[3] != "UNIMPLEMENTED":
                found.append(Door(method.name, needs, seen))  # type: ignore[arg-type]
    return found


def _code(call: Any, message: Any, name: str, key: str) -> str:
    import grpc

    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    try:
        if name == "ModelStreamInfer":
            (only,) = call(iter([message]), metadata=metadata, timeout=60)
            return "UNAUTHENTICATED" if "key" in only.error_message else "OK"
        call(message, metadata=metadata, timeout=60)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def grouped(doors: Iterable[Door]) -> list[list[str]]:
    """Lines of a table: endpoints that need the same and were told the same stand together; faults by themselves."""
    groups: dict[tuple[str, tuple[str, str, str, str], str], list[str]] = {}
    for door in doors:
        groups.setdefault((door.needs, door.seen, door.fault), []).append(f"`{door.name}`")
    return [[", ".join(names), needs, *seen, f"**{fault}**" if fault else "yes"]
            for (needs, seen, fault), names in groups.items()]  # fmt: skip

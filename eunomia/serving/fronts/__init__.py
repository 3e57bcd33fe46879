"""The doors of the server: HTTP, gRPC, administration, the live page, policies, the OpenAPI document.

A *front* is a class in a file of its own: ``routes()`` gives its routes, ``PATHS`` their part of the OpenAPI document.
The table lists those that HTTP serves beside the protocol.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, ClassVar, Protocol

from eunomia.core.data import Json

if TYPE_CHECKING:
    from aiohttp import web

    from eunomia.serving.service import Service


class Front(Protocol):
    """Some routes with what the OpenAPI document says of them."""

    PATHS: ClassVar[Json]

    def __init__(self, service: Service) -> None: ...

    def routes(self) -> list[web.RouteDef]:
        """What to add to the application."""
        ...


FRONTS: dict[str, str] = {
    "device_memory": "eunomia.serving.fronts.device_memory:DeviceMemoryFront",
    "admin": "eunomia.serving.fronts.admin:AdminFront",
    "live": "eunomia.serving.fronts.live:LiveFront",
    "replicas": "eunomia.serving.fronts.replicas:ReplicasFront",
    "policy": "eunomia.serving.fronts.policy:PolicyFront",
}


def fronts() -> list[type[Front]]:
    """The classes of the table, imported now."""
    found = []
    for path in FRONTS.values():
        module, _, name = path.partition(":")
        found.append(getattr(importlib.import_module(module), name))
    return found

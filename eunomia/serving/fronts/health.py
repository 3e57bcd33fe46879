"""``grpc.health.v1``, by which Kubernetes, Envoy and grpcurl ask whether a server wants requests.

The messages are built here from their published definition: a name in, a number out. Both RPCs need no key; callers
without one are told apart by their address.
"""

from __future__ import annotations

import asyncio

import grpc
from google.protobuf.message import DecodeError

from eunomia.serving.fronts.grpc import caller_of
from eunomia.serving.fronts.grpc_door import Door
from eunomia.serving.protocol.described import Definition
from eunomia.serving.protocol.errors import BadRequest, ServingError
from eunomia.serving.protocol.rpc_types import Call, Response
from eunomia.serving.service import Service

SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
LOOK_S = 1.0  # between two looks of whoever watches


DEFINITION = Definition(
    "grpc.health.v1",
    "Health",
    {
        "HealthCheckRequest": {"service": (1, "string")},
        "HealthCheckResponse": {"status": (1, "ServingStatus")},
    },
    (
        ("Check", "HealthCheckRequest", "HealthCheckResponse", ""),
        ("Watch", "HealthCheckRequest", "HealthCheckResponse", "answers"),
    ),
    enums={"ServingStatus": ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")},
)
NAME = DEFINITION.name
REQUEST, RESPONSE = DEFINITION.classes().values()


class HealthFront:
    """``Check`` and ``Watch``; ``services``: the names of what this server serves."""

    def __init__(self, service: Service, door: Door, services: tuple[str, ...]) -> None:
        self.service, self.door = service, door
        self._known = ("", NAME, *services)

    def handler(self) -> grpc.GenericRpcHandler:
        """What a server serves."""
        return self.door.served({"Check": self.check}, {"Watch": self.watch}, NAME)

    async def check(self, _: object, context: Call) -> Response:
        """The state now; an unknown service is NOT_FOUND."""
        status = self._status(await self._asked(context, self._who(context)))
        if status == SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return RESPONSE(status=status)

    async def watch(self, _: object, context: Call) -> Response:
        """The state now, and again whenever it has changed."""
        with self.door.watches.now(who := self._who(context)):
            name, told = await self._asked(context, who), 0
            while True:
                if told != (status := self._status(name)):
                    told = status
                    await context.write(RESPONSE(status=status))
                await asyncio.sleep(LOOK_S)

    def _who(self, context: Call) -> str:
        """The tenant, or for a caller without a valid key its address."""
        try:
            return self.service.tenant_of(caller_of(context))
        except ServingError:
            return self.door.stranger(context)

    async def _asked(self, context: Call, who: str) -> str:
        data = await self.door.read(context, who)
        try:
            return str(REQUEST.FromString(data).service)
        except DecodeError:
            raise BadRequest("the message is no HealthCheckRequest") from None

    def _status(self, name: str) -> int:
        if name not in self._known:
            return SERVICE_UNKNOWN
        return SERVING if self.service.ready else NOT_SERVING

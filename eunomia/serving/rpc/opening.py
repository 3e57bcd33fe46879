"""The gRPC port: the services that it offers, and how a call finds its own."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from eunomia.serving.fronts.connections import Connections
from eunomia.serving.fronts.exchange import Inference
from eunomia.serving.fronts.hearing import Hearing
from eunomia.serving.fronts.reception import Reception
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.fronts.started import must_have_started
from eunomia.serving.http2.call import Call, Taker
from eunomia.serving.http2.line import House, Line
from eunomia.serving.protocol.errors import NoCall, Unspoken
from eunomia.serving.rpc.ending import refuse
from eunomia.serving.rpc.front import SERVICE, GrpcFront
from eunomia.serving.rpc.health import DEFINITION, HealthFront
from eunomia.serving.rpc.reflection import ReflectionFront, files_of
from eunomia.serving.rpc.serving import Serving
from eunomia.serving.rpc.streams import Places
from eunomia.serving.rpc.unary import Common
from eunomia.serving.tenants.circle import STRANGERS

AT_ONCE = 16  # connections that hear in one turn that the server leaves
GRPC = ("application/grpc", "application/grpc+proto")


class RpcPort:
    """Serves at these sockets until it is closed."""

    def __init__(
        self,
        inference: Inference,
        sockets: Sequence[socket.socket],
        tls: ssl.SSLContext | None,
    ) -> None:
        service, json, limits = inference.service, inference.json, inference.connections.limits
        slots = Places.slots(limits.buffered_bytes)
        common = Common(service.bodies, limits.body_s, json.inflate, inference.later)
        serving = Serving(Places(common, *slots, turns(service.rota), limits.idle_s))
        front = GrpcFront(inference, serving)
        health = HealthFront(service, serving, (SERVICE.full_name,))
        reflection = ReflectionFront(serving, [*files_of(SERVICE.file), DEFINITION.file()])
        self._methods = front.methods() | health.methods() | reflection.methods()
        self._rota, self._service = service.rota, service
        service.grpc_port = sockets[0].getsockname()[1]
        self.connections = connections = Connections(limits)
        connections.idles = lambda one: isinstance(one, Line) and one.idles
        house = House(connections, service.bodies, self.serve, refuse, lambda: service.leaving)
        connections.hearing = hearing = Hearing(service.rota.begin)
        made = sockets, connections, lambda: Line(house, service.rota)
        self.reception = Reception(*made, service.rota, hearing, tls)

    def serve(self, call: Call) -> Taker:
        """Whoever serves it; raises ServingError."""
        kind = call.fields.get("content-type", "").partition(";")[0]
        if call.fields[":method"] != "POST" or kind not in GRPC:
            raise NoCall(
                f"content-type is {kind!r:.50}: calls are POST requests of {GRPC[0]}; JSON goes to the HTTP port"
            )
        method = self._methods.get(path := call.fields[":path"])
        if method is None:
            raise Unspoken(f"there is no method {path!r:.200} here")
        must_have_started(self._service, path)
        return method(call)

    def leave(self) -> None:
        """Another process serves: those who are here hear that they shall go there."""
        self._leave(self.connections.of(Line))

    def _leave(self, lines: list[Line]) -> None:
        """A few of them now."""
        for line in lines[-AT_ONCE:]:
            line.leave()
        del lines[-AT_ONCE:]
        if lines:
            self._rota.join(STRANGERS, partial(self._leave, lines))


def turns(rota: Rota) -> Callable[[str], Awaitable[None]]:
    """A message that is here waits for its tenant's turn; ``rota`` hears for how long."""

    async def turn(tenant: str) -> None:
        began_s, come = time.perf_counter(), asyncio.get_running_loop().create_future()
        rota.do(tenant, partial(_come, come))
        await come
        rota.waited(time.perf_counter() - began_s)

    return turn


def _come(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)

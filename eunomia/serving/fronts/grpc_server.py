"""The gRPC library's server: its bounds, the services that it offers, and its port."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import grpc

from eunomia.serving.fronts.connections import ConnectionLimits
from eunomia.serving.fronts.grpc import SERVICE, GrpcFront
from eunomia.serving.fronts.grpc_door import Door, DoorLimits
from eunomia.serving.fronts.grpc_wire import STREAMS
from eunomia.serving.fronts.health import DEFINITION, HealthFront
from eunomia.serving.fronts.json_process import JsonProcess
from eunomia.serving.fronts.reflection import ReflectionFront, files_of
from eunomia.serving.service import Service
from eunomia.serving.takeover.sockets import cut


async def open_grpc(
    service: Service,
    json: JsonProcess,
    limits: ConnectionLimits,
    largest: int,
    address: str,
    tls: tuple[bytes, ...] | None,
) -> tuple[Any, int]:
    """A server that serves, and its port; ``tls``: certificate and key. Raises RuntimeError for a port that is taken.

    Connections end after ``age_s``: calls on them go on, and new ones get a new connection, in a new process if one has
    taken over. The library reads nothing that it would refuse.
    """
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", largest),
            ("grpc.max_send_message_length", -1),  # an answer is bounded by the room of its tenant
            ("grpc.max_metadata_size", 16384),
            ("grpc.so_reuseport", 1),  # for a successor; others are refused before
            ("grpc.server_handshake_timeout_ms", int(limits.head_s * 1e3)),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.max_connection_idle_ms", int(limits.idle_s * 1e3)),
            ("grpc.max_connection_age_ms", int(limits.age_s * 1e3)),
            ("grpc.max_allowed_incoming_connections", limits.most),
            ("grpc.http2.bdp_probe", 0),  # a message that nobody reads gets the least window
            ("grpc.max_concurrent_streams", STREAMS),  # clients keep further calls until one ends
            ("grpc.http.overload_protection", 0),  # it counts streams that have ended, and refuses others
            ("grpc.per_message_decompression", 0),  # the library inflates without a bound; the door has one
        ]
    )
    bounds = DoorLimits.within(limits.buffered_bytes, largest, limits.body_s, limits.idle_s)
    turn = timed(json.rounds.turn, service.books.front.waited)
    door = Door(bounds, json.inflate, turn, service.books.turns.begin)
    front = GrpcFront(service, door, json, largest)
    health = HealthFront(service, door, (SERVICE.full_name,))
    reflection = ReflectionFront(door, [*files_of(SERVICE.file), DEFINITION.file()])
    server.add_generic_rpc_handlers((front.handler(), health.handler(), *reflection.handlers()))
    if tls is None:
        port = server.add_insecure_port(address)
    else:
        certificate, key = tls
        port = server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
    front.untaken.cut = partial(cut, port)
    await server.start()
    door.wire.watch(port, limits.most)
    return server, port


def timed(
    turn: Callable[[str], Awaitable[None]], waited: Callable[[float], None]
) -> Callable[[str], Awaitable[None]]:
    """The same; ``waited`` gets the seconds for which a message that is here waits for its turn."""

    async def measured(tenant: str) -> None:
        began_s = time.perf_counter()
        await turn(tenant)
        waited(time.perf_counter() - began_s)

    return measured

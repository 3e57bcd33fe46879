"""A connection without a network: what the server does with it is noted."""

from __future__ import annotations

import asyncio
import gc
import math
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from aiohttp import web

from eunomia.serving.fronts.connections import ConnectionLimits, Connections
from eunomia.serving.fronts.exchange import Inference
from eunomia.serving.fronts.json_process import JsonProcess
from eunomia.serving.fronts.lane import Lane
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.observe.turns import Turns
from eunomia.serving.protocol.errors import BadRequest, Unauthenticated
from eunomia.serving.tenants.bodies import Bodies

MIB = 1024**2


class Wire(asyncio.Transport):
    """``reads``: whether it does now; ``sent``: answers."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.aborted, self.ended, self.sent = True, False, False, list[bytes]()
        self.closed, self.waits = False, 0

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended, "as with sockets, nothing can be written behind the end"
        self.sent.append(bytes(data))

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def get_write_buffer_size(self) -> int:
        return self.waits

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = high, low

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.aborted

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 1) if name == "peername" else default

    def close(self) -> None:
        """Nothing waits to be sent."""
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class Encrypted(Wire):
    """Over TLS."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "sslcontext" else super().get_extra_info(name, default)


class Deaf:
    """A service that knows a key or none, and no network."""

    def __init__(self, known: bool) -> None:
        self.bodies, self._known = Bodies(512 * MIB), known
        self.requests, self.leaving, self.starting, self.grpc_port = list[Any](), False, str, 0
        self.rota = Rota(Turns(), math.inf)

    def knock(self, *_: Any) -> str:
        if not self._known:
            raise Unauthenticated("an API key is needed")
        return "gold"

    def unreadable(self, *_: Any) -> None:
        """It counts nothing."""

    def enter(self, request: Any, *_: Any) -> Any:
        self.requests.append(request)
        raise BadRequest("no such network")

    async def infer(self, request: Any, *_: Any) -> Any:
        return self.enter(request)


async def nothing(_: web.BaseRequest) -> web.Response:
    """aiohttp's part."""
    return web.Response()


def lane(known: bool = True, handler: Callable[[web.BaseRequest], Awaitable[web.Response]] = nothing) -> Lane:
    """In a running loop; its transport is for the caller to set."""
    service: Any = Deaf(known)
    return Lane(
        web.Server(handler),
        Inference(service, JsonProcess(16 * MIB), 64 * MIB, Connections(ConnectionLimits())),
    )


def is_gone_after(main: Callable[[], Coroutine[None, None, weakref.ref[object]]]) -> bool:
    """Whether what ``main`` names lives no longer than it runs, though nobody looks for circles."""
    gc.disable()
    try:
        return asyncio.run(main())() is None
    finally:
        gc.enable()

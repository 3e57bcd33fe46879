"""``grpc.health.v1``, by which Kubernetes, Envoy and grpcurl ask whether a server wants requests.

The messages are built here from their published definition: a name in, a number out. Both RPCs need no key; callers
without one are told apart by their address.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial

from google.protobuf.message import DecodeError

from eunomia.serving.http2.call import Call, Taker
from eunomia.serving.protocol.described import Definition
from eunomia.serving.protocol.errors import BadRequest, Expired, NotFound, ServingError, TooLarge
from eunomia.serving.protocol.packed import inflate
from eunomia.serving.protocol.rpc_types import Response
from eunomia.serving.rpc.caller import caller_of, check_only, timeout_s
from eunomia.serving.rpc.ending import refuse
from eunomia.serving.rpc.serving import Serving
from eunomia.serving.rpc.unary import OF_STRANGERS, serialized
from eunomia.serving.service import Service
from eunomia.serving.tenants.circle import STRANGERS, stranger_at

SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
LOOK_S = 1.0  # between two looks of whoever watches
AT_ONCE = 16  # of them, that hear of a change in one turn


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


class Watch:
    """A call that gets the state of a service, now and whenever it has changed; no task waits for that."""

    def __init__(
        self,
        call: Call,
        place: AbstractContextManager[None],
        asked: Callable[[Watch], None],
        gone: Callable[[Watch], None],
    ) -> None:
        """``place``: among those who watch; raises Refused. ``asked``: ``name`` is known; ``gone``: nobody watches."""
        self.call, self.name, self._asked, self._gone = call, "", asked, gone
        self._told = 0
        self._message, self._came, self._packed = bytearray(), False, False
        left_s = timeout_s(call.fields.get("grpc-timeout"))
        self._place = ExitStack()
        self._place.enter_context(place)
        self._late = (
            None if left_s == math.inf else asyncio.get_running_loop().call_later(left_s, self._expire)
        )

    def begin(self, size: int, *, packed: bool) -> None:
        """Its message comes; raises ServingError."""
        check_only(self.call, came=self._came, packed=packed)
        if size > OF_STRANGERS:
            raise TooLarge(f"the message has {size} bytes; at most {OF_STRANGERS} are taken here")
        self._came, self._packed = True, packed

    def take(self, data: memoryview) -> None:
        """Some of it."""
        self._message += data

    def whole(self) -> None:
        """The name is known; raises BadRequest or TooLarge."""
        message = bytes(self._message)
        self.name = name_in(inflate(message, OF_STRANGERS) if self._packed else message)
        self._asked(self)

    def end(self) -> None:
        """No more come; raises BadRequest where none came."""
        if not self._came:
            raise BadRequest("the call has no message")

    def gone(self) -> None:
        """Nobody watches any more."""
        self._place.close()
        self._gone(self)
        if self._late is not None:
            self._late.cancel()

    def _expire(self) -> None:
        refuse(self.call, Expired("the call's own deadline has passed"))
        self.gone()

    def tell(self, status: int) -> None:
        """What the state is; nothing where that was said before."""
        if status != self._told:
            self._told = status
            self.call.send([serialized(RESPONSE(status=status))])


class HealthFront:
    """``Check`` and ``Watch``; ``services``: the names of what this server serves."""

    def __init__(self, service: Service, serving: Serving, services: tuple[str, ...]) -> None:
        self.service, self._serving = service, serving
        self._known = ("", NAME, *services)
        self._watches = set[Watch]()
        self._looks = False
        self._ready: bool | None = None  # what those who watch know; None = not all the same

    def methods(self) -> dict[str, Callable[[Call], Taker]]:
        """What serves a call, by path."""
        return {f"/{NAME}/Check": self._check, f"/{NAME}/Watch": self._watch}

    def _check(self, call: Call) -> Taker:
        """The state now; an unknown service is NOT_FOUND."""
        return self._serving.unary(call, self._who(call), self._state)

    def _watch(self, call: Call) -> Taker:
        """The state now, and again whenever it has changed."""
        return Watch(call, self._serving.watching(self._who(call)), self._asked, self._watches.discard)

    def _who(self, call: Call) -> str:
        """The tenant, or for a caller without a valid key its address."""
        try:
            call.tenant = self.service.tenant_of(caller_of(call))
            return call.tenant
        except ServingError:
            return stranger_at(call.host)

    def _state(self, data: bytes, _: Call) -> Response:
        status = self._status(name_in(data))
        if status == SERVICE_UNKNOWN:
            raise NotFound("no such service")
        return RESPONSE(status=status)

    def _asked(self, watch: Watch) -> None:
        self._watches.add(watch)
        watch.tell(self._status(watch.name))
        if self.service.ready != self._ready:
            self._ready = None  # it knows something else than the others
        if not self._looks:
            self._looks, self._ready = True, self.service.ready
            asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Whether the state has changed; those who watch hear it in their turns."""
        if self.service.ready != self._ready:
            self._ready = self.service.ready
            self._tell([*self._watches])
        self._looks = bool(self._watches)
        if self._looks:
            asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _tell(self, watches: list[Watch]) -> None:
        """A few of them now."""
        for watch in watches[-AT_ONCE:]:
            watch.tell(self._status(watch.name))
        del watches[-AT_ONCE:]
        if watches:
            self.service.rota.join(STRANGERS, partial(self._tell, watches))

    def _status(self, name: str) -> int:
        if name not in self._known:
            return SERVICE_UNKNOWN
        return SERVING if self.service.ready else NOT_SERVING


def name_in(data: bytes) -> str:
    """The service that is asked about; raises BadRequest."""
    try:
        return str(REQUEST.FromString(data).service)
    except DecodeError:
        raise BadRequest("the message is no HealthCheckRequest") from None

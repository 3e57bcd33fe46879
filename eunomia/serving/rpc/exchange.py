"""One ``ModelInfer`` call: read, served and answered without a task, as over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from eunomia.serving.fronts.body import LARGE
from eunomia.serving.fronts.exchange import Exchange, Inference
from eunomia.serving.fronts.json_process import AT_ONCE_BYTES, JsonProcess
from eunomia.serving.fronts.reading import reading
from eunomia.serving.http2.call import NOBODY, Call
from eunomia.serving.http2.outlet import CALL_BYTES
from eunomia.serving.protocol.errors import FEWER, BadRequest, Expired, TooLarge
from eunomia.serving.protocol.infer import SMALL_BYTES, InferRequest
from eunomia.serving.protocol.packed import room_of
from eunomia.serving.protocol.pieces import Pieces
from eunomia.serving.protocol.rpc import parse_message, read_again, read_message, split_message, write_message
from eunomia.serving.rpc.caller import caller_of, check_only
from eunomia.serving.rpc.foresight import Sight
from eunomia.serving.visit import Served


class RpcExchange(Exchange):
    """``refuse`` ends a call with an error."""

    def __init__(self, inference: Inference, call: Call, refuse: Callable[[Call, Exception], None]) -> None:
        """Raises ServingError: it may not come in."""
        super().__init__(inference, caller_of(call), "")
        self._call, self._most, self._refuse = call, inference.most_bytes, refuse
        self.tenant = call.tenant = self._service.knock(self._caller, "")
        self._room = self._service.bodies.open(self.tenant)
        self._room.need(CALL_BYTES)
        self._sight = Sight(inference, self._caller, self.tenant)
        self._came = self._packed = False
        call.awaited = True
        body_s = inference.connections.limits.body_s
        self._late = asyncio.get_running_loop().call_later(body_s, self._expire, body_s)

    def begin(self, size: int, *, packed: bool) -> None:
        """Its message comes; raises ServingError."""
        check_only(self._call, came=self._came, packed=packed)
        self._came, self._packed = True, packed
        if size > self._most:
            with reading(self._service, self.tenant, ""):
                raise TooLarge(f"the message has {size} bytes; at most {self._most} are taken here{FEWER}")
        assert self._room is not None, "nothing has been read"
        self._room.need(CALL_BYTES + size + (room_of(size, self._most) if packed else 0))
        self._sight.begin(size, packed=packed)

    def take(self, data: memoryview) -> None:
        """Some of it; raises ServingError."""
        self.body.add(data)
        self._sight.take(data)

    def whole(self) -> None:
        """The end of the call says that there is no other."""

    def end(self) -> None:
        """All is here; raises BadRequest where nothing came."""
        self._late.cancel()
        if not self._came:
            raise BadRequest("the call has no message")
        self.serve()

    def gone(self) -> None:
        """Nobody waits for the answer any more."""
        self._late.cancel()
        self.abandon()

    def _expire(self, body_s: float) -> None:
        self._fail(Expired(f"the message has not arrived within {body_s:g} s"))

    def _read_now(self, body: Pieces) -> InferRequest | None:
        if self._packed:
            return None
        if self._sight.parted is not None:
            text, at = self._sight.parted
            return read_again(text, [body[at:]], self.tenant)
        rest, raw = split_message(body, self._inference.json.most_bytes)
        return read_again(bytes(rest.joined()), raw, self.tenant) if len(rest) <= AT_ONCE_BYTES else None

    async def _read(self, body: Pieces) -> InferRequest:
        if self._packed:
            packed = body.joined() if len(body) < LARGE else await asyncio.to_thread(body.whole)
            body = Pieces([await self._inference.json.inflate(packed, self._most, self.tenant)])
        return await read_beside(body, self._inference.json, self.tenant)

    def _write_now(self, request: InferRequest, served: Served) -> bool:
        self._let_go()
        self._call.answer(write_message(request, served.version, served.outputs, served.in_regions))
        return True

    def _say(self, error: Exception) -> None:
        self._call.taker = NOBODY
        self._refuse(self._call, error)


async def read_beside(body: Pieces, json: JsonProcess, tenant: str) -> InferRequest:
    """A request of any size; numbers one by one are read in a round of its tenant's, or by a process of its own.

    Raises ServingError.
    """
    rest, raw = split_message(body, json.most_bytes)
    if len(rest) <= SMALL_BYTES:
        await json.rounds.turn(tenant)
        return read_again(bytes(rest.joined()), raw, tenant)
    whole = rest.joined() if len(rest) < LARGE else await asyncio.to_thread(rest.whole)
    left, numbers = await json.take_out("rpc", whole, tenant)
    return read_message(parse_message(left), raw, numbers)

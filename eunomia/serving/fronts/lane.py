"""Connections of HTTP: inference requests are served here at once, all else is aiohttp's.

Before the order of an inference request no task is started and no stream is filled. Others, and those not in plain
form (``head``), go to aiohttp, which has the connection until it has answered; for good if more comes before that.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import cast

from aiohttp import web
from aiohttp.web_request import BaseRequest

from eunomia.serving.fronts.caller import caller_from
from eunomia.serving.fronts.exchange import HttpExchange, Inference, Pieces, ending, failure
from eunomia.serving.fronts.expecting import still_waits
from eunomia.serving.fronts.head import END, MOST, MOST_FIELDS, Head, fault_of, read_head
from eunomia.serving.fronts.http import LARGE_ANSWER
from eunomia.serving.fronts.in_turn import InTurn
from eunomia.serving.fronts.lingering import LINGER_BYTES, Farewell, say_no_more
from eunomia.serving.fronts.mode import Mode
from eunomia.serving.fronts.parts import PLAIN, Leaving
from eunomia.serving.fronts.still_there import StillThere
from eunomia.serving.fronts.untaken import Untaken
from eunomia.serving.fronts.waiting import Waiting
from eunomia.serving.protocol.errors import ServingError
from eunomia.serving.visit import Caller

FOREVER_S = 1e8  # connections without requests are ended by ``connections``
KNOWN_BYTES = 2048  # of a head that is kept, in case the next is the same
AHEAD = 64 * 1024  # bytes behind a request that has no answer yet
AT_ONCE = 8  # requests in one round of the loop


class Lane(InTurn):
    """One connection."""

    __slots__ = (
        "_due",
        "_exchange",
        "_inference",
        "_known",
        "_last",
        "_left",
        "_linger",
        "_mode",
        "_parts",
        "_tail",
        "_there",
        "_untaken",
    )

    def __init__(self, server: web.Server, inference: Inference) -> None:
        super().__init__(
            server,
            inference.service.rota,
            inference.connections,
            loop=asyncio.get_running_loop(),
            access_log=None,
            max_field_size=MOST,
            keepalive_timeout=FOREVER_S,
            auto_decompress=False,  # ``body_of`` inflates, within bounds
        )
        self._inference, self._mode = inference, Mode.HEAD
        self._tail = Waiting()  # that nobody has looked at
        self._last = self._due = False  # its last answer has been sent; the next round looks at it
        self._left = 0  # bytes of the present request that have not come yet
        self._exchange: HttpExchange | None = None
        self._known: tuple[bytes, Head, Caller] | None = None  # the last request's; holds a key
        self._untaken = Untaken()  # of a large answer on its way
        self._linger: Farewell | None = None
        self._there: StillThere | None = None  # of a client that sends no more
        self._parts: Leaving | None = None  # of a large answer

    def _received(self, data: bytes) -> None:
        if not data:
            super()._received(data)
        elif self._mode is Mode.ALL:
            self._parse(data)
        elif self._mode is Mode.BODY:
            self._body(data)
        elif self._mode is Mode.FED:
            self._feed(data)
        elif self._mode is Mode.SKIP:
            self._skip(data)
        elif self._mode is Mode.GONE:
            self._throw_away(data)
        else:
            self._tail.add(data)
            if self._due:
                self._hold()
            else:
                self._go_on()

    def _lost(self, exc: BaseException | None) -> None:
        """Nobody waits for the answer any more."""
        self._abandon()
        self._known, self._tail = None, Waiting()
        self._untaken.free()
        for timer in (self._linger, self._there):
            if timer is not None:
                timer.cancel()
        self._there = self._parts = None  # a circle, with the rest of an answer, would stay for long
        super()._lost(exc)

    def _abandon(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.abandon()

    @property
    def _unwanted(self) -> bool:
        return self._mode in (Mode.SKIP, Mode.GONE)

    def pause_writing(self) -> None:
        """The client takes less than it is sent: what waits for it holds room of its tenant's."""
        super().pause_writing()
        if not self._untaken and self.transport is not None:
            try:
                self._waits_to_leave(self.transport.get_write_buffer_size())
            except ServingError:
                self.transport.abort()

    def resume_writing(self) -> None:
        """The client has taken its answers."""
        super().resume_writing()
        if self._parts is None or not self._parts.go_on():
            self._untaken.free()
            self._go_on()

    # --- what comes ------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Take up a few of the requests of which the head is here, the others in the next round of the loop."""
        for _ in range(AT_ONCE):
            if not self._tail or self._mode is not Mode.HEAD or self.writing_paused or not self._next():
                break
            if self._tail and self._rota.over:
                self._soon()
                break
        else:
            self._soon()
        self._hold()
        if self._there is not None and self.transport is not None and not self._answers_wait():
            self.transport.close()

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self._line_up()

    def go(self) -> None:
        """The turn that it waited for."""
        super().go()
        if self._due and self.transport is not None:
            self._due = False
            self._go_on()

    def _much(self) -> bool:
        return len(self._tail) > AHEAD or super()._much()

    def _next(self) -> bool:
        """Give the next request to whom it belongs; False = its head is not all here."""
        end = self._tail.find(END) + len(END)
        if end < len(END) or end > MOST:
            self._take_only(self._tail.first(MOST + 1))
            return False
        raw = self._tail.first(end)
        if self._known is not None and self._known[0] == raw:
            self._begin(self._known[1], self._known[2], end)
            return True
        head = read_head(raw) if raw.count(b"\n") <= MOST_FIELDS + 2 else None
        if head is None:
            if self._take_only(raw):
                self._mode = Mode.ALL  # aiohttp has the connection for good
                self._parse(self._tail.take_all())
        elif head.infers is None:
            self._give_one(end + head.size)
        else:
            caller = caller_from(head.headers, self._remote())
            self._known = (raw, head, caller) if end <= KNOWN_BYTES else None
            self._begin(head, caller, end)
        return True

    def _take_only(self, data: bytes) -> bool:
        """Whether these bytes may be, or become, the head of a request; else the connection ends in one sentence."""
        fault = fault_of(data)
        if fault is None or self.transport is None:
            return True
        self._mode, self._left, grpc_port = Mode.GONE, LINGER_BYTES, self._inference.service.grpc_port
        self._linger = Farewell(self.transport, fault, grpc_port, self._tail.take_all())
        return False

    def _throw_away(self, data: bytes) -> None:
        if self._linger is not None:
            self._linger.hear(data)

    def _begin(self, head: Head, caller: Caller, end: int) -> None:
        """An inference request: may its body come?"""
        self.connections.begun(self, self)
        self._tail.take(end)
        self._left, self._mode = head.size, Mode.BODY
        exchange = self._exchange = HttpExchange(self._inference, head, caller, self._answered)
        try:
            exchange.knock()
        except ServingError as error:
            self._refuse(error)
            return
        if exchange.tenant:
            self.knows(exchange.tenant)
        self._tenant = exchange.tenant
        self._body(self._tail.take(self._left))

    def _refuse(self, error: ServingError) -> None:
        """Without waiting for its body, of which nothing is kept."""
        self._abandon()
        self._send(failure(error))
        self._mode = Mode.SKIP
        self._skip(self._tail.take(self._left))

    def _body(self, data: bytes) -> None:
        assert self._exchange is not None, "its body comes"
        try:
            self._exchange.take(self._own(data))
        except ServingError as error:
            self._refuse(error)
            return
        if not self._left:
            self._mode = Mode.BUSY
            self._read_up()
            self._exchange.serve()

    def _skip(self, data: bytes) -> None:
        self._own(data)
        if not self._left:
            self._over()

    def _own(self, data: bytes) -> bytes:
        """What of it belongs to the present body; the rest waits."""
        if len(data) > self._left:
            self._tail.add(data[self._left :])
            data = data[: self._left]
        self._left -= len(data)
        return data

    # --- answers ---------------------------------------------------------------------------------------

    def _answered(self, pieces: Pieces) -> None:
        """The answer of the present request is there."""
        exchange, self._exchange = self._exchange, None
        size = sum(map(len, pieces))
        if size > LARGE_ANSWER and exchange is not None and self.transport is not None:
            try:
                self._waits_to_leave(size, exchange.tenant)
            except ServingError as error:
                pieces = failure(error)
            if size > PLAIN or not self._plain:
                self._send_in_parts(self._with_end(pieces))
                return
        self._send(pieces)
        self._over()

    def _send_in_parts(self, pieces: Pieces) -> None:
        join = partial(self._rota.join, self.who)
        self._parts = Leaving(pieces, self._write, self._stuck, join, self._over)
        self._parts.go()

    def _stuck(self) -> bool:
        return self.writing_paused or self.transport is None

    def _waits_to_leave(self, size: int, tenant: str = "") -> None:
        """So many bytes hold room of its tenant's until they are taken, and no longer than a body may take; Refused."""
        assert self.transport is not None, "somebody is there"
        room = self._inference.service.bodies.leaving(tenant or self._tenant)
        self._untaken.hold(room, size, self.connections.limits.body_s, self.transport.abort)

    def _send(self, pieces: Pieces) -> None:
        self._write(self._with_end(pieces))

    def _write(self, pieces: Pieces) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.writelines(pieces)

    def _with_end(self, pieces: Pieces) -> Pieces:
        """The connection's last answer, if the server leaves or the client sends no more."""
        silent = self._there is not None and self._tail.find(END) < 0
        if silent or (self._inference.service.leaving and not self._tail):
            pieces, self._last = ending(pieces), True
        return pieces

    def _over(self) -> None:
        """A request has been dealt with."""
        if not self.writing_paused:
            self._untaken.free()
        self.connections.over(self)
        self._mode = Mode.HEAD
        if self._last and self.transport is not None:
            self.transport.close()
        elif self._tail:
            self._soon()

    # --- a client that sends no more ---------------------------------------------------------------------

    def _stays(self) -> bool:
        if (stays := self._answers_wait()) and self._there is None and self.transport is not None:
            self._there = StillThere(self.transport, self._awaits)
            self.transport = cast(asyncio.Transport, self._there)
        return stays

    def _answers_wait(self) -> bool:
        """Whether there is a request of which the head is here, and the body if it has begun."""
        if self._mode is Mode.HEAD:
            return self._tail.find(END) >= 0
        if self._mode is Mode.ALL:
            return self.has_requests
        return self._mode in (Mode.BUSY, Mode.FED) and not self._left

    def _awaits(self) -> bool:
        due = self._mode is Mode.BUSY or (self._mode in (Mode.FED, Mode.ALL) and self.in_silence)
        return due and not self.writing_paused

    # --- what the watch over connections asks -----------------------------------------------------------

    @property
    def total_bytes(self) -> int:
        """Of the body so far."""
        return self._exchange.body.size if self._exchange is not None else 0

    def is_eof(self) -> bool:
        """Whether the body is here."""
        return not self._left

    # --- what is aiohttp's ------------------------------------------------------------------------------

    def _give_one(self, size: int) -> None:
        """The next request, so many bytes long."""
        data = self._tail.take(size)
        self._left, self._mode = size - len(data), Mode.FED
        self._read_up()
        if self._tail:  # more comes before the answer
            self._mode = Mode.ALL
            self._parse(data + self._tail.take_all())
            return
        super()._received(data)

    def _feed(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._mode = Mode.ALL
            self._parse(data)
            return
        super()._received(data)

    async def finish_response(
        self, request: BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """aiohttp has answered: if that was all it was given, the next request is looked at here."""
        if self._inference.service.leaving or (self._there is not None and not self.has_more):
            resp.force_close()
        found = await super().finish_response(request, resp, start_time)
        if self._mode is Mode.FED:
            self._mode = Mode.ALL if self._left else Mode.HEAD
        if still_waits(request) and self.transport is not None:
            say_no_more(self.transport)
        return found

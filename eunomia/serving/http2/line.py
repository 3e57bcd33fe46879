"""A connection over HTTP/2: its calls, each served in its tenant's turn.

Whose a call is is known from its head, before any of its bytes. A client may send a megabyte of a call at once, and
more as soon as a message of that length may come. Frames that belong to no message cost time alone; a connection with
very many more of them than its calls account for ends.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from eunomia.serving.fronts.connections import Connections
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.http2 import frames
from eunomia.serving.http2.call import NOBODY, Call, Taker
from eunomia.serving.http2.framed import Framed
from eunomia.serving.http2.frames import Code, Fault, Kind
from eunomia.serving.http2.greeting import GREETING, IN_ALL, STREAMS
from eunomia.serving.http2.heads import BEGIN, Heads, end, fault_behind, fault_of
from eunomia.serving.http2.outlet import Outlet
from eunomia.serving.http2.past import Past
from eunomia.serving.tenants.bodies import Bodies

log = logging.getLogger("eunomia.serving")
EXHAUSTED = 8  # gRPC's RESOURCE_EXHAUSTED
FREE, PER_S, PER_CALL, PER_BYTE = 2000.0, 100.0, 32.0, 1 / 1024  # frames that belong to no message
IDLE = 0.9  # of the time without a call after which a connection is cut
VAIN_BYTES = 64  # of a head for nothing, that count like a frame
LEAVES_S = 1.0  # from the word that the server leaves until it takes no more calls
NO_HEADS = Heads()  # of connections that are gone


@dataclass(frozen=True)
class House:
    """What all connections share. ``serve``: gives a call its taker, raises ServingError; ``refuse`` ends it so.

    ``leaving``: whether another process serves.
    """

    connections: Connections
    bodies: Bodies
    serve: Callable[[Call], Taker]
    refuse: Callable[[Call, Exception], None]
    leaving: Callable[[], bool]


class Line(Framed):
    """One connection."""

    def __init__(self, house: House, rota: Rota) -> None:
        super().__init__(house.connections, rota)
        self._house, self._heads = house, Heads()
        self.outlet = Outlet(house.bodies, house.connections.limits.body_s, self._closed, self.join)
        self.calls: dict[int, Call] = {}
        self._past = Past()
        self._call: Call | None = None  # whose bytes come
        self._last = 0  # the newest call's number
        self._leaves = False  # no newer ones are taken up
        self._room = IN_ALL
        self._idle: asyncio.TimerHandle | None = None
        self._vain = self._earned = self._rested_s = 0.0

    # --- what the system says --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there."""
        super().connection_made(transport)
        self.outlet.transport = self.transport

    def served(self) -> None:
        """It speaks HTTP/2: so does this side."""
        self.outlet.say(GREETING)
        super().served()
        if self._house.leaving():
            self.leave()
        self._look_idle(IDLE * self.connections.limits.idle_s)

    def rests(self) -> None:
        """It has no call."""
        super().rests()
        self._rested_s = time.monotonic()

    def _look_idle(self, idle_s: float) -> None:
        """Who has long had no call hears that it ends, before it is cut."""
        if self.transport is None or self._leaves:
            return
        left_s = self._rested_s + idle_s - time.monotonic()
        if not self.calls and left_s <= 0:
            self._takes_no_more()
        else:
            wait_s = max(left_s, idle_s / 2) if self.calls else left_s
            self._idle = asyncio.get_running_loop().call_later(wait_s, self._look_idle, idle_s)

    def lost(self) -> None:
        """Nobody waits for an answer any more."""
        if self._idle is not None:
            self._idle.cancel()
        self.outlet.unstick()
        self.outlet.transport, self._heads = None, NO_HEADS
        self.end_each(chain([call.lost for call in self.calls.values()], [self.outlet.end]))

    def pause_writing(self) -> None:
        """The client takes less than it is sent."""
        super().pause_writing()
        self.outlet.stick(self.payer)

    def resume_writing(self) -> None:
        """It has taken what there was."""
        super().resume_writing()
        self.outlet.unstick()
        self.outlet.go_on()

    def before(self) -> None:
        """Steps follow: what they say leaves together."""
        self.outlet.together()

    def after(self) -> None:
        """They are done."""
        self.outlet.flush()

    # --- its end ---------------------------------------------------------------------------------------

    def leave(self) -> None:
        """The server leaves: soon no more calls come, and the last of those that are here ends the connection."""
        if self.transport is not None and self.greeted and not self._leaves:
            self.outlet.say(frames.goaway(frames.MOST_WINDOW, Code.NO_ERROR, "the server leaves"))
            asyncio.get_running_loop().call_later(LEAVES_S, self._takes_no_more)

    def _takes_no_more(self) -> None:
        if self.transport is not None and not self._leaves:
            self._leaves = True
            self.outlet.say(frames.goaway(self._last, Code.NO_ERROR))
            self._end_if_idle()

    def close(self) -> None:
        """Nothing more is taken up or said; what was said leaves."""
        self.outlet.flush()
        super().close()
        self.outlet.transport = None

    def _end_if_idle(self) -> None:
        if self._leaves and not self.calls:
            self.close()

    def force_close(self) -> None:
        """It ends, and what it has begun with it."""
        if self.transport is not None:
            self.outlet.say(frames.goaway(self._last, Code.NO_ERROR))
            self.transport.close()

    def fault(self, fault: Fault) -> None:
        """The client does what it may not: the connection ends."""
        log.debug("a connection over gRPC from %s ends: %s", self.address, fault)
        if fault.stream > self._last:
            self._tell(fault)
        self.outlet.say(frames.goaway(self._last, fault.code, str(fault)))
        if fault.stream:
            self._hear_no_more()
            return
        self.close()
        self.end_each(iter([call.lost for call in self.calls.values()]))

    def _tell(self, fault: Fault) -> None:
        """The call that hears why."""
        self._last = fault.stream
        self.outlet.headers(fault.stream, BEGIN + end(EXHAUSTED, str(fault)), last=True)
        self.outlet.say(frames.reset(fault.stream, Code.NO_ERROR))

    def _hear_no_more(self) -> None:
        """What comes is not understood any more, but a proxy's other calls, as far as they are here, are answered."""
        self._leaves = self.deaf = True
        half = [call for call in self.calls.values() if not call.half]
        codes = [Code.REFUSED_STREAM if call.awaited else Code.CANCEL for call in half]
        cuts = [partial(call.cut, code) for call, code in zip(half, codes, strict=True)]
        self.end_each(iter([*cuts, self._end_if_idle]))

    def is_eof(self) -> bool:
        """Whether there is a call of which more has come than bytes."""
        return not self.calls or not all(call.arriving for call in self.calls.values())

    @property
    def idles(self) -> bool:
        """Whether each of its calls is without a key, or waits for its client."""
        return all(not call.tenant or (call.done and call.out) for call in self.calls.values())

    # --- messages --------------------------------------------------------------------------------------

    def data(self, stream: int, size: int) -> bool:
        """So many bytes follow of a call; False = they are nobody's. Raises Fault."""
        if not stream or stream > self._last:
            raise Fault(Code.PROTOCOL_ERROR, "bytes of a call that has not begun")
        self._room -= size
        if self._room < 0:
            raise Fault(Code.FLOW_CONTROL_ERROR, "more bytes than the window of the connection")
        self._earned += size * PER_BYTE
        if self._room < IN_ALL // 2:
            self.outlet.say(frames.more(0, IN_ALL - self._room))
            self._room = IN_ALL
        self._call = call = self.calls.get(stream)
        if call is None:
            if self._past.ended(stream):
                self.outlet.say(frames.reset(stream, Code.STREAM_CLOSED))
            return False
        if call.half or not call.covers(size):
            call.cut(Code.STREAM_CLOSED if call.half else Code.FLOW_CONTROL_ERROR)
            return False
        return True

    def bytes_of(self, data: memoryview) -> int:
        """Of the call that ``data`` named; how many were taken up."""
        if (call := self._call) is None:
            return len(data)
        if call.exceeds(len(data)):
            call.cut(Code.PROTOCOL_ERROR)
            return len(data)
        self._try(call, lambda: call.take(data))
        call.came += call.used
        return call.used

    def frame_over(self, *, last: bool) -> None:
        """The bytes that ``data`` named are here; ``last``: the client has sent all of the call."""
        if self._call is not None and last:
            self._half(self._call)
        elif self._call is not None:
            self._call.ask()

    def _half(self, call: Call) -> None:
        if call.closed:
            return
        self.read_up()
        if call.torn:
            call.taker.gone()
            call.cut(Code.PROTOCOL_ERROR)
        else:
            self._try(call, call.end)

    def _try(self, call: Call, what: Callable[[], None]) -> None:
        if call.closed:
            return
        try:
            what()
        except Exception as error:  # of one call: the others go on
            taker, call.taker = call.taker, NOBODY
            taker.gone()
            self._house.refuse(call, error)

    # --- heads -----------------------------------------------------------------------------------------

    def head(self, stream: int, block: bytes, *, last: bool) -> None:
        """A header block: a call begins, or ends. Raises Fault."""
        fields = self._heads.read(block)
        if (open_ := self.calls.get(stream)) is not None:
            if not last or open_.half:
                code = Code.STREAM_CLOSED if open_.half else Code.PROTOCOL_ERROR
                raise Fault(code, "a second head of a call ends it")
            if fault_behind(fields):
                open_.cut(Code.PROTOCOL_ERROR)
            self._half(open_)
        elif stream <= self._last:
            self._past.must_allow(stream)
            self.vain(len(block))  # of a call that has been answered
        else:
            self._last = stream
            if self._leaves or len(self.calls) >= STREAMS:
                self._reset(stream, Code.REFUSED_STREAM, len(block))
            elif fault_of(fields):
                self._reset(stream, Code.PROTOCOL_ERROR, len(block))
            else:
                self._begin_call(Call(self.outlet, stream, fields, self.address), last=last)

    def _reset(self, stream: int, code: Code, size: int) -> None:
        self.outlet.say(frames.reset(stream, code))
        self._past.add(stream, may_come=True)
        self.vain(size)

    def _begin_call(self, call: Call, *, last: bool) -> None:
        self._earned += PER_CALL
        self.calls[call.number] = call
        self.begun()
        self._try(call, lambda: self._serve(call))
        if last:
            self._half(call)

    def _serve(self, call: Call) -> None:
        call.taker = self._house.serve(call)
        if call.tenant:
            self.knows(call.tenant)

    def _closed(self, number: int) -> None:
        """Nothing is left of it."""
        self.outlet.forget(number)
        if (call := self.calls.pop(number, None)) is not None:
            self._past.add(number, may_come=not call.half)
        if self._call is not None and self._call.number == number:
            self._call = None
            self.nobodys()
        if not self.calls:
            self.rests()
            self._end_if_idle()

    # --- all else --------------------------------------------------------------------------------------

    def control(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        """Any other frame; raises Fault."""
        if kind == Kind.PING:
            if stream:
                raise Fault(Code.PROTOCOL_ERROR, "a ping is the connection's")
            if len(content) != 8:
                raise Fault(Code.FRAME_SIZE_ERROR, "a ping has 8 bytes")
            if not flags & frames.ACK:
                self.outlet.say(frames.frame(Kind.PING, frames.ACK, 0, content))
        elif kind == Kind.WINDOW_UPDATE:
            self._widen(stream, frames.number(content, "a window"))
        elif kind == Kind.RST_STREAM:
            frames.number(content, "a reset")
            if not stream:  # C++ ends calls that it did not begin
                raise Fault(Code.PROTOCOL_ERROR, "a reset ends a call")
            if (call := self.calls.get(stream)) is not None:
                call.half = True
                call.lost()
        elif kind == Kind.SETTINGS:
            self._settings(flags, stream, content)
        elif kind == Kind.GOAWAY:
            if stream:
                raise Fault(Code.PROTOCOL_ERROR, "the end is the connection's")
            self._leaves = True
            self._end_if_idle()
        elif kind == Kind.PRIORITY:
            frames.check_priority(stream, content)
        elif kind == Kind.PUSH_PROMISE:
            raise Fault(Code.PROTOCOL_ERROR, "clients promise nothing")

    def _widen(self, stream: int, by: int) -> None:
        if stream > self._last:
            raise Fault(Code.PROTOCOL_ERROR, "a window of a call that has not begun")
        if stream and (call := self.calls.get(stream)) is None:
            return
        if not by:
            raise Fault(Code.PROTOCOL_ERROR, "a window grows by something")
        self.outlet.widen(call if stream else None, by)

    def _settings(self, flags: int, stream: int, content: bytes) -> None:
        if stream:
            raise Fault(Code.PROTOCOL_ERROR, "settings are those of the connection")
        if flags & frames.ACK:
            if content:
                raise Fault(Code.FRAME_SIZE_ERROR, "settings that are taken note of say nothing")
            return
        window = self.outlet.hear(content)
        self.outlet.resize(self.calls.values(), window)
        self.outlet.say(frames.frame(Kind.SETTINGS, frames.ACK, 0))
        self.outlet.go_on()  # behind that: a client counts by its new windows once they are taken note of

    def vain(self, size: int = 0) -> None:
        """A frame that belongs to no message, of so many bytes; raises Fault."""
        self._vain += 1 + size / VAIN_BYTES
        if self._vain < FREE:
            return
        allowed = FREE + self._earned + PER_S * (time.monotonic() - self.came_s) + self.outlet.sent * PER_BYTE
        if self._vain > allowed:
            raise Fault(Code.ENHANCE_YOUR_CALM, "very many frames belong to no message")

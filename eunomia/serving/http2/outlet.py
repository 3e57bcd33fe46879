"""What a connection over HTTP/2 sends: within the windows of its client, and counted while it cannot leave."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from eunomia.serving.http2.frames import (
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    LARGEST,
    LEAST_FRAME,
    MOST_FRAME,
    MOST_WINDOW,
    Code,
    Fault,
    Kind,
    Setting,
    frame,
    head,
    settings_in,
)
from eunomia.serving.protocol.errors import ServingError
from eunomia.serving.tenants.bodies import Bodies, Body
from eunomia.serving.tenants.circle import group_of

CALL_BYTES = 4096  # that a call holds beside its messages
EACH = 4096  # bytes that a message counts for: clients in Go and C++ answer it with pings and wider windows
AT_ONCE = 256 * 1024  # bytes handed to the system in one go: more wait until it has taken them


class Sending(Protocol):
    """A call that has something to send: ``out``, within its ``window``; ``done``: its end follows."""

    number: int
    tenant: str
    window: int
    out: deque[bytes | memoryview]
    done: bool
    closed: bool
    untaken: Body | None
    timer: asyncio.TimerHandle | None

    def taken(self) -> None:
        """Nothing waits any more."""

    def last(self) -> None:
        """Say the end."""

    def cut(self, code: Code) -> None:
        """It ends without."""


class Outlet:
    """Of one connection. ``closed`` hears the number of each call that is over.

    ``sent``: bytes of messages so far, and ``EACH`` for each of a stream.
    """

    def __init__(
        self,
        bodies: Bodies,
        most_s: float,
        closed: Callable[[int], None],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        self._bodies, self._most_s, self.closed, self._later = bodies, most_s, closed, later
        self._untaken: Body | None = None  # of what the system has not taken
        self._patience: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None
        self.first_window, self.largest = FIRST_WINDOW, LEAST_FRAME  # what the client takes
        self.window, self.sent, self.stuck = FIRST_WINDOW, 0, False
        self._waiting: dict[int, Sending] = {}  # that have something left to send
        self._said: list[bytes | memoryview] = []
        self._together = False  # what is said leaves with the rest of this step
        self._soon = False  # more leaves in the next turn of the event loop

    def say(self, data: bytes) -> None:
        """A frame that no window holds back."""
        self._said.append(data)
        self.soon()

    def soon(self) -> None:
        """What was said leaves now, or with the rest of this step."""
        if not self._together:
            self.flush()

    def together(self) -> None:
        """What is said from now on leaves with the next ``flush``."""
        self._together = True

    def flush(self) -> None:
        """It leaves now."""
        self._together = False
        said, self._said = self._said, []
        if said and self.transport is not None and not self.transport.is_closing():
            self.transport.writelines(said)

    def headers(self, number: int, block: bytes, *, last: bool) -> None:
        """Of a call; blocks are small."""
        self._said.append(frame(Kind.HEADERS, END_HEADERS | (END_STREAM if last else 0), number, block))

    def pump(self, call: Sending) -> None:
        """Send what the windows let out of it, and its end if that is all."""
        if call.closed:
            return
        budget = AT_ONCE
        while call.out and not self.stuck and budget > 0:
            size = min(self.window, call.window, self.largest, budget)
            if size <= 0:
                break
            budget -= self._data(call, size)
        if call.out:
            self._waiting[call.number] = call
            self._hold(call)
            if budget <= 0:
                self._go_on_later()
        else:
            self._waiting.pop(call.number, None)
            call.taken()
            if call.done:
                call.last()
        self.soon()

    def _go_on_later(self) -> None:
        if not self._soon:
            self._soon = True
            self._later(self._next)

    def _next(self) -> None:
        self._soon = False
        self.go_on()

    def _data(self, call: Sending, most: int) -> int:
        """One frame of at most so many bytes; returns how many."""
        pieces, size, out = list[bytes | memoryview](), 0, call.out
        while out and size < most:
            piece = out.popleft()
            if len(piece) > most - size:
                view = memoryview(piece)
                out.appendleft(view[most - size :])
                piece = view[: most - size]
            size += len(piece)
            pieces.append(piece)
        self._said.append(head(Kind.DATA, 0, call.number, size))
        self._said.extend(pieces)
        self.window -= size
        call.window -= size
        self.sent += size
        return size

    def _hold(self, call: Sending) -> None:
        """It holds room of its tenant's until it is taken, and no longer than a body may take."""
        try:
            if call.untaken is None:
                call.untaken = self._bodies.leaving(call.tenant)
                loop = asyncio.get_running_loop()
                call.timer = loop.call_later(self._most_s, call.cut, Code.CANCEL)
            call.untaken.need(CALL_BYTES + sum(map(len, call.out)))
        except ServingError:
            call.cut(Code.ENHANCE_YOUR_CALM)

    def go_on(self) -> None:
        """The client takes more: the one that has waited longest sends some, and others when it is their turn."""
        for number, call in [*self._waiting.items()]:
            if self.stuck or self.window <= 0:
                return
            if call.window > 0 and self._waiting.pop(number, None) is not None:
                self.pump(call)
                break
        if self._waiting and not self.stuck and any(call.window > 0 for call in self._waiting.values()):
            self._go_on_later()

    def stick(self, tenants: str) -> None:
        """The system takes no more, for the client takes none: what waits holds room for a while, of one of these."""
        self.stuck = True
        if self._untaken is None and self.transport is not None:
            payer = group_of(tenants, lambda one: self._bodies.held.get(one, 0))
            self._untaken = self._bodies.leaving(payer)
            self._patience = asyncio.get_running_loop().call_later(self._most_s, self.transport.abort)
            try:
                self._untaken.need(self.transport.get_write_buffer_size())
            except ServingError:
                self.transport.abort()

    def unstick(self) -> None:
        """It takes more, or has gone."""
        self.stuck = False
        untaken, self._untaken = self._untaken, None
        if untaken is not None:
            untaken.close()
        if self._patience is not None:
            self._patience.cancel()

    def end(self) -> None:
        """Nobody is there any more: whom it holds is held no longer."""
        self.unstick()
        self.transport = None
        self.closed, self._later = _nothing, _nothing

    def forget(self, number: int) -> None:
        """That call is over."""
        self._waiting.pop(number, None)

    def widen(self, call: Sending | None, by: int) -> None:
        """The client takes so many bytes more, of one call or in all; raises Fault."""
        if call is None:
            self.window += by
            if self.window > MOST_WINDOW:
                raise Fault(Code.FLOW_CONTROL_ERROR, "the window is too large")
            self.go_on()
            return
        call.window += by
        if call.window > MOST_WINDOW:
            call.cut(Code.FLOW_CONTROL_ERROR)
        elif call.out:
            self.pump(call)

    def hear(self, content: bytes) -> int:
        """The client's settings; returns the window that calls shall have. Raises Fault."""
        window = self.first_window
        for name, value in settings_in(content):
            if name == Setting.INITIAL_WINDOW_SIZE:
                if value > MOST_WINDOW:
                    raise Fault(Code.FLOW_CONTROL_ERROR, "a window is at most 2^31 - 1")
                window = value
            elif name == Setting.ENABLE_PUSH and value > 1:
                raise Fault(Code.PROTOCOL_ERROR, "ENABLE_PUSH is 0 or 1")
            elif name == Setting.MAX_FRAME_SIZE:
                if not LEAST_FRAME <= value <= MOST_FRAME:
                    raise Fault(Code.PROTOCOL_ERROR, "a frame has 16,384 to 16,777,215 bytes")
                self.largest = min(value, LARGEST)
        return window

    def resize(self, calls: Iterable[Sending], size: int) -> None:
        """Calls begin with this window, and those that are open change by the difference; raises Fault."""
        by, self.first_window = size - self.first_window, size
        for call in calls:
            call.window += by
            if call.window > MOST_WINDOW:
                raise Fault(Code.FLOW_CONTROL_ERROR, "the window of a call is too large")


def _nothing(_: object) -> None:
    pass

"""A connection that takes up what has come in this turn of the event loop or in a later one: ``rota`` says which."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

from eunomia.serving.fronts.address import place_of
from eunomia.serving.fronts.connections import Connections
from eunomia.serving.fronts.few_records import FewRecords, few_records
from eunomia.serving.fronts.hearing import UNCOUNTED, UNCOUNTED_TLS, Hearing, Standing
from eunomia.serving.fronts.records import FRAMING
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.fronts.waiting import Waiting
from eunomia.serving.tenants.carried import Carried
from eunomia.serving.tenants.circle import STRANGERS

log = logging.getLogger("eunomia.serving")
LINGER_S, LINGER_BYTES = 1.0, 1024**2  # until a client has read why it is turned away; what it still sends
READ_S, READ_TLS_S = 1e-4, 5e-4  # of the next turn's processor, for one connection that is read again
TASK_S = 1e-4  # the same, for a call that ends: it may have a task, which ends then


class InTurn(Standing, asyncio.Protocol):
    """One connection. ``tail``: bytes that have come; ``said``: how many in all."""

    def __init__(self, connections: Connections, rota: Rota) -> None:
        self.connections, self._rota = connections, rota
        self.transport: asyncio.Transport | None = None
        self.address, self.came_s, self.said = "", time.monotonic(), 0.0
        self.tail = Waiting()
        self._carried = Carried()  # tenants whose calls came with a valid key
        self._plain, self._lingers = True, False  # without TLS; it has had its last word
        self._few: FewRecords | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._thrown = 0  # bytes since then
        self._lined = self._behind = False  # it stands in a queue; it is not read
        self._stuck = False  # its client takes nothing
        self._has_something = self._left_late = False
        self._heard_by: Hearing | None = None
        self._since_s = self._waited_s = 0.0

    # --- what a connection is --------------------------------------------------------------------------

    def step(self) -> bool:
        """Take up the next of what is here; False = that is not all here."""
        raise NotImplementedError

    def before(self) -> None:
        """Steps follow."""

    def after(self) -> None:
        """They are done."""

    def lost(self) -> None:
        """Nobody is there any more."""

    def force_close(self) -> None:
        """It ends."""
        raise NotImplementedError

    @property
    def total_bytes(self) -> int:
        """Bytes that come are counted by tenant, and not here."""
        return 0

    def is_eof(self) -> bool:
        """Whether it holds more than what comes."""
        raise NotImplementedError

    # --- what the system says --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there."""
        self._rota.begin()
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = place_of(str(peer[0])) if isinstance(peer, tuple) else ""
        self._plain = transport.get_extra_info("sslcontext") is None
        self._few = few_records(transport, self._rota, self._read_later)
        self.transport.set_write_buffer_limits(UNCOUNTED if self._plain else UNCOUNTED_TLS)
        self.come_in()
        self.connections.came(self, self.address)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Of many that end at once, some have to wait for that."""
        self._rota.begin()
        self.connections.gone(self)
        self._forget()
        self.transport, self.tail = None, Waiting()
        if self._linger is not None:
            self._linger.cancel()
        self._rota.do(self.who, self.lost)

    def data_received(self, data: bytes) -> None:
        """Bytes of whatever comes next."""
        self._rota.begin()
        self.said += FRAMING * len(data)
        left = self._few is not None and self._few.stopped()
        if self._lingers:
            self._throw_away(len(data))
            return
        self.tail.add(data)
        if self._behind:
            return
        if not self._rota.over and self._take_up() and not left:
            self._rest()
        elif self._stop() or self._behind:
            self._line_up()

    def _read_later(self) -> None:
        if self._stop():
            self._line_up()

    def eof_received(self) -> bool:
        """No more comes; whether the connection stays until its turn."""
        self._rota.begin()
        if self._plain and self.tail and self._behind:
            self._left_late = True
            return True
        return False

    def pause_writing(self) -> None:
        """Nothing is read from who takes nothing."""
        self._stuck = True
        self._stop()

    def resume_writing(self) -> None:
        """It takes more."""
        self._stuck = False
        if self._behind:
            self._line_up()

    # --- turns -----------------------------------------------------------------------------------------

    def _take_up(self) -> bool:
        """What is here, at least a step; False = some is left for another turn."""
        whole = True
        self.before()
        while self.transport is not None and not self.transport.is_closing() and self.step():
            if self._rota.over or self._stuck:
                whole = False
                break
        self.after()
        return whole

    def _stop(self) -> bool:
        """Nothing is read until its turn; False = so it is already, or it has left."""
        if self.transport is None or self._behind or self.transport.is_closing():
            return False
        self._behind = True
        self.transport.pause_reading()
        return True

    def _rest(self) -> None:
        """Of a crowd, it is not read before it is known to have something."""
        if (crowd := self._crowd()) is not None and self._stop():
            self._stand(crowd)

    def _crowd(self) -> Hearing | None:
        return self.connections.hearing if self._plain and self.connections.crowded(self) else None

    def _line_up(self) -> None:
        if not self._lined and not self._stuck:
            self._lined, self._since_s = True, time.perf_counter()
            self._rota.join(self.who, self.go)

    @property
    def who(self) -> str:
        """The tenants of its calls, or what stands for a caller without a key."""
        return self._carried.name or self.connections.newcomer_at(self.address)

    @property
    def payer(self) -> str:
        """Who pays for what waits on it: callers without a key do so together."""
        return self._carried.name or STRANGERS

    def join(self, work: Callable[[], None]) -> None:
        """In a turn of its own."""
        self._rota.join(self.who, work)

    def end_each(self, ends: Iterator[Callable[[], None]]) -> None:
        """Of many calls: as many as this turn has time for, in their order, and the others in later ones."""
        for end in ends:
            try:
                end()
            except Exception:  # of one: the others end all the same
                log.exception("a call did not end as it should")
            self._rota.owe(TASK_S)
            if self._rota.full:
                self.join(partial(self.end_each, ends))
                return

    def go(self) -> None:
        """The turn that it waited for."""
        self._lined = False
        self._waited_s += time.perf_counter() - self._since_s
        if self.transport is None or self.transport.is_closing() or self._stuck:
            return
        self._forget()
        known, self._has_something = self._has_something, False
        if self.tail and not self._take_up():
            self._line_up()
            return
        if self.transport is None or self.transport.is_closing():
            return
        if self._left_late:
            self.transport.close()
            return
        if not known and (crowd := self._crowd()) is not None:
            self._stand(crowd)
            return
        self._behind = False
        self._rota.owe(READ_S if self._plain else READ_TLS_S)
        if self._few is not None:
            self._few.go_on()
        self.transport.resume_reading()

    # --- what the watches ask --------------------------------------------------------------------------

    def read_up(self) -> None:
        """All of a call is here."""
        self._rota.waited(self._waited_s)
        self._waited_s = 0.0

    def knows(self, tenant: str) -> None:
        """A call has a valid key."""
        if self._carried.add(tenant):
            self.connections.knows(self, self._carried.name)

    def served(self) -> None:
        """It speaks as it should: it may wait before its first call."""
        self.begun()
        self.rests()

    def begun(self) -> None:
        """A call has begun."""
        self.connections.begun(self, self)

    def rests(self) -> None:
        """It has no call."""
        self.connections.over(self)

    def close(self) -> None:
        """Nothing more is taken up: closed at once, it would lose what it was sent with what was not read."""
        if self.transport is None or self._lingers:
            return
        self._lingers = True
        self.tail = Waiting()
        if self._plain and self.transport.can_write_eof():
            self.transport.write_eof()
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(LINGER_S, self.transport.abort)
            if self._behind and not self._stuck:
                self._line_up()
        else:
            self.transport.close()

    def _throw_away(self, size: int) -> None:
        self._thrown += size
        if self._thrown > LINGER_BYTES and self.transport is not None:
            self.transport.abort()

    @property
    def reads(self) -> bool:
        """Whether what comes is taken up at once."""
        return not self._behind

"""A connection that does what there is to do in this turn of the event loop or in a later one: ``rota`` says which."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

from aiohttp import web

from eunomia.serving.fronts.address import place_of
from eunomia.serving.fronts.connections import Connections
from eunomia.serving.fronts.dense import DenseHandler
from eunomia.serving.fronts.few_records import FewRecords, few_records
from eunomia.serving.fronts.hearing import UNCOUNTED, UNCOUNTED_TLS, Hearing, Standing
from eunomia.serving.fronts.records import FRAMING
from eunomia.serving.fronts.rota import MOST_S, Rota
from eunomia.serving.tenants.carried import Carried

MUCH = 64 * 1024  # bytes: of such pieces the loop hands over one after the other
READ_S, READ_TLS_S = 1e-4, 5e-4  # of the next turn's processor, for one connection that is read again


class InTurn(Standing, DenseHandler):
    """One connection; ``_tenant``: of the last request that was let in."""

    __slots__ = (
        "_behind",
        "_carried",
        "_ends",
        "_few",
        "_has_something",
        "_heard_by",
        "_late",
        "_lined",
        "_lost_later",
        "_plain",
        "_rota",
        "_since_s",
        "_tenant",
        "_waited_s",
        "address",
        "came_s",
        "connections",
        "said",
    )

    def __init__(self, server: web.Server, rota: Rota, connections: Connections, **options: Any) -> None:
        super().__init__(server, **options)
        self._rota, self.connections, self._tenant = rota, connections, ""
        self._carried = Carried()
        self.address, self._plain = "", False  # without TLS
        self._few: FewRecords | None = None
        self._lined = False  # it stands in a queue
        self.said, self.came_s = 0.0, time.monotonic()  # bytes, those of records and frames around them too
        self._heard_by: Hearing | None = None
        self._has_something = False  # which it does, as far as is known
        self._since_s = self._waited_s = 0.0  # since when, and how long the present request has in all
        self._behind, self._late = False, b""  # nothing is read until its turn; what came all the same
        self._ends = False  # as soon as it is its turn
        self._lost_later: tuple[BaseException | None] | None = (
            None  # it is gone, and that is still to be said
        )

    def _received(self, data: bytes) -> None:
        """What has come is taken up."""
        self._read(data)

    def _lost(self, exc: BaseException | None) -> None:
        """Nobody is there any more."""
        if exc is not None:
            exc.__traceback__ = None  # its frames hold what came, in a circle with this object
        super().connection_lost(exc)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there."""
        self._rota.begin()
        super().connection_made(transport)
        self.address, self._plain = self._remote(), transport.get_extra_info("sslcontext") is None
        self._few = few_records(transport, self._rota, self._read_later)
        cast(asyncio.Transport, transport).set_write_buffer_limits(
            UNCOUNTED if self._plain else UNCOUNTED_TLS
        )
        self.come_in()
        self.connections.came(self, self.address)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Of many that end at once, some have to wait for that."""
        self._rota.begin()
        self.connections.gone(self)
        self._forget()
        self._late = b""
        if self._rota.over:
            self._lost_later = (exc,)
            self._line_up()
        else:
            self._lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of whatever comes next; without any, aiohttp goes on with what it holds, and looks at once."""
        self._rota.begin()
        left = self._few is not None and self._few.stopped()
        if not data:
            self._received(data)
            return
        self.said += FRAMING * len(data)
        if not self._unwanted and (self._behind or self._rota.over):
            self._late += data
        else:
            self._received(data)
            if not (left or self._unwanted) and (len(data) < MUCH or not self._rota.over):
                self._rest()
                return
        self._read_later()

    def _read_later(self) -> None:
        if self._stop_reading():
            self._line_up()

    @property
    def _unwanted(self) -> bool:
        """Whether what comes is thrown away: it is read last."""
        return False

    def _crowd(self) -> Hearing | None:
        """Where it stands until it has something, if it is one of very many."""
        return self.connections.hearing if self._plain and self.connections.crowded(self) else None

    def _stop_reading(self) -> bool:
        """Until its turn; False = it waits for that already, or has left."""
        if self.transport is None or self._behind or self.transport.is_closing():
            return False
        self._behind = True
        self.transport.pause_reading()
        return True

    @property
    def reads(self) -> bool:
        """Whether what comes is taken up at once."""
        return not (self._behind or self._held or self._full)

    def _rest(self) -> None:
        """Of a crowd, it is not read before it is known to have something."""
        crowd = self._crowd()
        if crowd is not None and self.transport is not None and self._stop_reading():
            self._stand(crowd)

    def go(self) -> None:
        """The turn that it waited for."""
        self._lined = False
        self._waited_s += time.perf_counter() - self._since_s
        if (lost := self._lost_later) is not None:
            self._lost_later = None
            self._lost(*lost)
            return
        if self._ends and self.transport is not None:
            self._ends = self._behind = False
            self._take_late()
            if not self._stays():
                self.transport.close()
            return
        self._forget()
        unwanted, known, self._has_something = self._unwanted, self._has_something, False
        behind, self._behind = self._behind, False
        self._parse_on()
        if behind:
            self._take_late()
            if self.transport is not None and not (self._held or self._full or self._behind):
                if not known and (crowd := self._crowd()) is not None and not self.transport.is_closing():
                    self._behind = True
                    self.transport.pause_reading()  # ``_parse_on`` may have resumed it
                    self._stand(crowd)
                    return
                self._rota.owe(MOST_S if unwanted else READ_S if self._plain else READ_TLS_S)
                if self._few is not None and not unwanted:
                    self._few.go_on()
                self.transport.resume_reading()

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """No more comes; whether the connection stays for answers, or as others have ended in this turn."""
        self._rota.begin()
        transport = self.transport
        plain = transport is not None and transport.get_extra_info("sslcontext") is None
        if self._rota.over and plain:
            self._ends = True
            self._line_up()
            return True
        self._take_late()
        super().eof_received()
        return plain and self._stays()

    def _stays(self) -> bool:
        """Whether whole requests wait for their answers: the last of them ends the connection."""
        return False

    def _take_late(self) -> None:
        late, self._late = self._late, b""
        if late and self.transport is not None:
            try:
                self._received(late)
            except Exception:  # as the loop does with what it hands over itself
                self.transport.abort()
                raise

    def knows(self, tenant: str) -> None:
        """A request on it has a valid key."""
        if self._carried.add(tenant):
            self.connections.knows(self, self._carried.name)

    def _line_up(self) -> None:
        if not self._lined:
            self._lined, self._since_s = True, time.perf_counter()
            self._rota.join(self.who, self.go)

    @property
    def who(self) -> str:
        """The tenants of requests that were let in, or a newcomer at its address."""
        return self._carried.name or self.connections.newcomer_at(self.address)

    def _read_up(self) -> None:
        """The present request is here."""
        self._rota.waited(self._waited_s)
        self._waited_s = 0.0

    def _parse_soon(self) -> None:
        self._parsing = True
        self._line_up()

    @property
    def _full(self) -> bool:
        return self._behind or super()._full

    def _resume_transport_reading(self) -> None:
        """aiohttp wants more: ``go`` sees to it if this connection waits for its turn."""
        if not self._behind:
            super()._resume_transport_reading()

    def _remote(self) -> str:
        peer = self.transport.get_extra_info("peername") if self.transport is not None else None
        return place_of(str(peer[0])) if isinstance(peer, tuple) else ""

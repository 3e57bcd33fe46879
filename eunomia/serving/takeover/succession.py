"""A server between the one before it and the one after it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Sequence
from typing import Protocol

from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.models.again import load_again
from eunomia.serving.service import Service
from eunomia.serving.takeover.line import Estate, Predecessor, Successors, address_of

log = logging.getLogger("eunomia.serving")
EVERY_S = 0.1
NOBODY = (
    "; --takeover found no server of this user that has this very host and http_port, or it is still starting"
)
HANDSHAKE_S = 2.0  # connections that have begun are counted by then; with TLS it takes longer


class Serves(Protocol):
    """What it needs of its server; ``listening``: at HTTP, and at gRPC."""

    http_port: int
    service: Service
    pool: DevicePool
    listening: Sequence[socket.socket]
    listening_rpc: Sequence[socket.socket]

    @property
    def connected(self) -> int:
        """Connections, of both protocols."""

    def stop_listening(self) -> None:
        """No new connections, and those over HTTP end with their next answer."""


class Succession:
    """``over``: another process serves here; this one is to finish and leave."""

    def __init__(self, server: Serves, host: str) -> None:
        self._server, self._host, self.over = server, host, asyncio.Event()
        self._lost = asyncio.Event()  # that process has ended
        self._before: Predecessor | None = None
        self._successors: Successors | None = None
        self._heir: asyncio.Task[None] | None = None

    async def find(self) -> Estate | None:
        """What the server that runs at this address hands over; None = there is none. Raises OutputError."""
        self._before = await Predecessor.find(address_of(self._host, self._server.http_port))
        return self._before.estate if self._before is not None else None

    async def load(self, models: Sequence[str], everything: bool = False) -> None:
        """What was loaded here before, and on the server that runs, as far as files are there. Raises OutputError."""
        networks = self._server.service.repository
        await load_again(networks, [*models, *(networks.names if everything else ())])
        if self._before is not None:
            self._before.still()

    async def begin(self) -> None:
        """This one serves: new connections come here alone, and the server before leaves when its own have ended.

        Raises OutputError.
        """
        if self._before is None:
            self._await_next()
            return
        lock = self._before.estate.lock
        if self._server.service.ledger is None and lock is not None:
            os.close(lock)  # who comes to that ledger may have it
        await self._before.leaves()
        self._heir = asyncio.create_task(self._inherit(self._before))

    async def _inherit(self, before: Predecessor) -> None:
        await before.gone()
        before.close()
        self._alone()
        self._await_next()

    def _await_next(self) -> None:
        try:
            where = address_of(self._host, self._server.http_port)
            self._successors = Successors(where, self._hand_over, self._leave, self._alone, self._lost.set)
        except OSError as error:
            log.warning("no other process can take over from this one: %s", error)

    def _hand_over(self) -> Estate:
        """The ledger is not summed up while another process may write, too."""
        service = self._server.service
        if service.ledger is not None:
            service.ledger.share()
        listening = [one.fileno() for one in self._server.listening]
        names = {entry.name: None for entry in service.repository.entries(ready_only=True)}
        rpc = [one.fileno() for one in self._server.listening_rpc]
        return Estate(
            listening, rpc, service.ledger.lock if service.ledger is not None else None, list(names)
        )

    def _alone(self) -> None:
        """The other process has ended. Where its lines cannot be read now, the next start reads them."""
        try:
            if self._server.service.ledger is not None:
                self._server.service.ledger.keep()
        except OSError as error:
            log.error("what the server before wrote into the ledger does not count yet: %s", error)

    async def _leave(self) -> None:
        self._server.pool.sparing.stop()
        self._server.stop_listening()
        self.over.set()

    async def last(self, most_s: float, least_s: float = HANDSHAKE_S) -> None:
        """After another process has taken over: until nobody is connected any more, it has ended, or it takes too long.

        ``least_s``: connections that are counted later may have begun.
        """
        begin_s = time.monotonic()
        while (
            not self._lost.is_set()
            and (spent_s := time.monotonic() - begin_s) < most_s
            and (spent_s < least_s or self._server.pool.busy or self._server.connected)
        ):
            await asyncio.sleep(EVERY_S)

    def close(self) -> None:
        """Everything is written down: who comes after may count it."""
        if self._heir is not None:
            self._heir.cancel()
        for line in (self._before, self._successors):
            if line is not None:
                line.close()

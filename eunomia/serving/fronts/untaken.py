"""Answers over gRPC that their clients do not take: they hold room of their tenant's, and not for ever.

The library keeps an answer until the client's window lets it out, and offers no way to take it back: a status cannot
be sent behind a message that waits. So the connection ends on which an answer was not taken in time, as over HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile

from eunomia.serving.protocol.rpc_types import Call
from eunomia.serving.tenants.bodies import Bodies, Body

log = logging.getLogger("eunomia.serving")
EVERY_S = 1.0
CALL_BYTES = 16 * 1024  # of a call that has not ended, beside its answer


class Untaken:
    """``most_s``: for an answer to be taken; ``cut`` ends the connections of such peers, in a thread."""

    def __init__(self, bodies: Bodies, most_s: float) -> None:
        self._bodies, self._most_s = bodies, most_s
        self.cut: Callable[[set[str]], None] = lambda peers: None
        self._since: dict[Body, tuple[float, Call]] = {}  # the oldest first
        self._armed = False

    def until_taken(self, context: Call, tenant: str, size: int) -> None:
        """The answer of a call that ends with it holds room until then; raises Refused."""
        room = self._open(context, tenant, size)
        context.add_done_callback(lambda _: self._close(room))

    @contextmanager
    def taking(self, context: Call, tenant: str, size: int) -> Iterator[None]:
        """Around the sending of one of many; raises Refused."""
        room = self._open(context, tenant, size)
        try:
            yield
        finally:
            self._close(room)

    def _open(self, context: Call, tenant: str, size: int) -> Body:
        room, loop = self._bodies.leaving(tenant), asyncio.get_running_loop()
        room.need(size + CALL_BYTES)
        self._since[room] = loop.time(), context
        if not self._armed:
            self._armed = True
            loop.call_later(EVERY_S, self._look)
        return room

    def _close(self, room: Body) -> None:
        room.close()
        self._since.pop(room, None)

    def _look(self) -> None:
        loop, peers = asyncio.get_running_loop(), set[str]()
        before_s = loop.time() - self._most_s
        for room, (_, context) in list(takewhile(lambda one: one[1][0] <= before_s, self._since.items())):
            peers.add(context.peer())
            del self._since[room]  # its room comes back when the connection is gone
        if peers:
            log.info("%d connections over gRPC end: an answer was not taken on them", len(peers))
            loop.run_in_executor(None, self.cut, peers)
        self._armed = bool(self._since)
        if self._armed:
            loop.call_later(EVERY_S, self._look)

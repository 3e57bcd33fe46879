"""Connections over TLS that bring much and say nothing: a key that changes costs 10 us, and nothing bounds how often.

The TLS library takes in whatever comes, 256 KB in one turn of the event loop: ten thousand such records take 100 ms of
it. But the kernel counts what each connection has brought, and ``Lane`` what was said. Who has brought far more is cut
at the second look: at the first it may not be taken up yet. A byte may have a record of its own, as some clients
write JSON. Nobody is barred for it: other tenants may be behind the same address. Only Linux counts so.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Protocol

from eunomia.serving.fronts.received import read_from

log = logging.getLogger("eunomia.serving")
EVERY_S, SOON_S, AT_ONCE = 0.05, 2e-3, 16  # between two looks, between their parts; connections in one part
GREETING, PER_S = (
    48 * 1024,
    4096,
)  # bytes of a handshake, certificates of a client among them; of pings and the like
FRAMING = 64.0  # of a byte that was said: its record, and what stands around that
HELD = 2 * 1024**2  # that the loop may hold of one which takes up nothing now
COUNTED = sys.platform == "linux"


class Secure(Protocol):
    """A connection over TLS. ``said``: bytes that its records are worth; ``came_s``: when it came."""

    said: float
    came_s: float
    address: str

    @property
    def transport(self) -> asyncio.Transport | None:
        """None = it has gone."""
        ...

    @property
    def descriptor(self) -> int:
        """-1 = it has gone."""
        ...

    @property
    def reads(self) -> bool:
        """Whether what comes is taken up at once."""
        ...

    def force_close(self) -> None:
        """End it."""
        ...


class Records:
    """``ended``: connections that were cut."""

    def __init__(self, here: Callable[[], Iterable[Secure]]) -> None:
        self.ended = 0
        self._here, self._next = here, 0
        self._suspects: set[Secure] = set()
        if COUNTED:
            asyncio.get_running_loop().call_later(EVERY_S, self._look)

    def _look(self) -> None:
        try:
            self._looked()
        finally:  # whatever happens, it looks again
            asyncio.get_running_loop().call_later(SOON_S if self._next else EVERY_S, self._look)

    def _looked(self) -> None:
        now_s, seen = time.monotonic(), 0
        for one in list(islice(self._here(), self._next, self._next + AT_ONCE)):
            seen += 1
            if (beyond := self.beyond(one, read_from(one.descriptor), now_s)) <= 0.0:
                self._suspects.discard(one)
            elif one in self._suspects:
                self._cut(one, beyond)
            else:
                self._suspects.add(one)
        self._next = self._next + seen if seen == AT_ONCE else 0
        if not self._next:
            self._suspects.intersection_update(self._here())

    @staticmethod
    def beyond(one: Secure, read: int, now_s: float) -> float:
        """Bytes that nothing accounts for."""
        allowed = one.said + GREETING + PER_S * (now_s - one.came_s)
        return read - allowed - (0 if one.reads else HELD)

    def _cut(self, one: Secure, beyond: float) -> None:
        self.ended += 1
        self._suspects.discard(one)
        if self.ended in (1, 100, 10_000):
            text = "a connection over TLS from %s ends: %.0f KB said nothing (%d times so far)"
            log.warning(text, one.address, beyond / 1e3, self.ended)
        if one.transport is not None:
            one.transport.abort()  # to be closed, it would wait for the other side's goodbye
        one.force_close()

"""Records of TLS, a few at a time: a byte may have one of its own, and a loop opens all that have come in one go.

256 KB of such records take it 50 to 100 ms. So the library says that there are no more once ``FEW`` have been read.
It says so, too, where the turn has taken up enough and is not this connection's. Then the connection stands in the
queue of its tenant, and is read on when it is its turn.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from eunomia.serving.fronts.rota import Rota

FEW = 64  # of 16 KB, as most clients write them, a megabyte


class FewRecords(ssl.SSLObject):
    """What a context makes for each connection; all at once until ``by_turns`` is called."""

    _rota: Rota | None = None
    _later: Callable[[], None]
    _taken = 0  # since somebody heard of them
    _left = _its_turn = False

    def by_turns(self, rota: Rota, later: Callable[[], None]) -> None:
        """From now on; ``later``: called where nothing is read, for another turn."""
        self._rota, self._later = rota, later

    def read(self, len: int = 1024, buffer: bytearray | None = None) -> int | bytes:  # type: ignore[override]
        """As the library has it; SSLWantReadError also where there are more, for another turn."""
        if self._rota is not None:
            if not self._taken:
                self._rota.begin()
            if self._taken >= FEW or (not self._its_turn and self._rota.over):
                self._left = self._taken > 0
                if not self._left:
                    self._later()
                raise ssl.SSLWantReadError
        found = super().read(len, buffer)
        self._taken += 1
        return found

    def stopped(self) -> bool:
        """Whether there may be more than was handed over; those that follow count anew."""
        left, self._left, self._taken, self._its_turn = self._left, False, 0, False
        return left

    def go_on(self) -> None:
        """It is its turn."""
        self._its_turn = True


def few_records(transport: asyncio.BaseTransport, rota: Rota, later: Callable[[], None]) -> FewRecords | None:
    """Of a connection that has come; None = it is without TLS."""
    found = transport.get_extra_info("ssl_object")
    if not isinstance(found, FewRecords):
        return None
    found.by_turns(rota, later)
    return found

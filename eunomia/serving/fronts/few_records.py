"""Records of TLS, a few at a time: a byte may have one of its own, and a loop opens all that have come in one go.

256 KB of such records take it 50 to 100 ms. So the library says that there are no more once ``FEW`` have been read; or
``LEAST``, where the turn has taken up enough and it is not this connection's. That one stands in the queue of its
tenant then, and is read on when it is its turn.
"""

from __future__ import annotations

import asyncio
import ssl

from eunomia.serving.fronts.rota import Rota

FEW, LEAST = 64, 4  # of 16 KB, as most clients write them, a megabyte and a picture


class FewRecords(ssl.SSLObject):
    """What a context makes for each connection; all at once until ``by_turns`` is called."""

    _rota: Rota | None = None
    _taken = 0  # since somebody heard of them
    _left = _its_turn = False

    def by_turns(self, rota: Rota) -> None:
        """From now on."""
        self._rota = rota

    def read(self, len: int = 1024, buffer: bytearray | None = None) -> int | bytes:  # type: ignore[override]
        """As the library has it; SSLWantReadError also where there are more, for another turn."""
        if self._rota is not None:
            if not self._taken:
                self._rota.begin()
            elif self._taken >= FEW or (self._taken >= LEAST and not self._its_turn and self._rota.over):
                self._left = True
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


def few_records(transport: asyncio.BaseTransport, rota: Rota) -> FewRecords | None:
    """Of a connection that has come; None = it is without TLS."""
    found = transport.get_extra_info("ssl_object")
    if not isinstance(found, FewRecords):
        return None
    found.by_turns(rota)
    return found

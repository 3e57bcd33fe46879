"""Whether a client that sends no more still waits for its answers: one that has gone looks the same.

The system tells only whoever sends something. So the first letters of an answer leave before it is ready, one at a time
and ever later: a client that waits reads on, for one that has gone the connection ends with the second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

START = b"HTTP/1."  # of every answer
FIRST_S, LONGER = 1e-3, 5.0  # between the first two letters, and how many times that between the next
Piece = bytes | bytearray | memoryview


class StillThere:
    """The connection's transport, for which it stands. ``awaited``: whether the next bytes to leave begin an answer."""

    __slots__ = ("_awaited", "_sent", "_timer", "_transport")

    def __init__(self, transport: asyncio.Transport, awaited: Callable[[], bool]) -> None:
        self._transport, self._awaited, self._sent = transport, awaited, 0
        self._timer: asyncio.TimerHandle | None = None
        self._look(FIRST_S)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: Piece) -> None:
        """What of it has not left yet."""
        self._transport.write(self._rest(data))

    def writelines(self, pieces: Iterable[Piece]) -> None:
        """The same."""
        first, *others = pieces
        self._transport.writelines([self._rest(first), *others])

    def cancel(self) -> None:
        """Nobody asks any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, wait_s: float) -> None:
        if self._transport.is_closing():
            return
        if self._sent < len(START) and self._awaited():
            self._transport.write(START[self._sent : self._sent + 1])
            self._sent += 1
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._look, LONGER * wait_s)

    def _rest(self, data: Piece) -> Piece:
        sent, self._sent = self._sent, 0
        return memoryview(data)[sent:] if sent else data

"""Answers that leave in parts: over TLS, one of 30 MB takes 20 ms of encryption, and the library takes no breath.

Without TLS the system copies 3 MB in one go, and several connections may wait for that in one turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

PART = 256 * 1024  # bytes that leave in one turn of the event loop
PLAIN = 4 * PART  # what leaves whole without TLS


class Parts:
    """What is left of one answer."""

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        self._left = deque(memoryview(piece) for piece in pieces if len(piece))

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(self) -> list[bytes | memoryview]:
        """The next part."""
        found, room = list[bytes | memoryview](), PART
        while self._left and room:
            piece = self._left.popleft()
            if len(piece) > room:
                self._left.appendleft(piece[room:])
                piece = piece[:room]
            found.append(piece)
            room -= len(piece)
        return found

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """All parts, in pieces of at most that size."""
        while self:
            yield from self.take()


class Leaving:
    """An answer of which a part leaves in each turn.

    ``send`` hands a part to the system; ``stuck``: it takes none now; ``join``: a turn comes; ``over``: all has left.
    """

    def __init__(
        self,
        pieces: Sequence[bytes | memoryview],
        send: Callable[[list[bytes | memoryview]], None],
        stuck: Callable[[], bool],
        join: Callable[[Callable[[], None]], None],
        over: Callable[[], None],
    ) -> None:
        self._parts, self._due = Parts(pieces), False
        self._send, self._stuck, self._join, self._over = send, stuck, join, over

    def go(self) -> None:
        """A part, unless the system takes none: ``go_on`` follows when it does."""
        self._due = False
        if self._parts and not self._stuck():
            self._send(self._parts.take())
            if not self._parts:
                self._over()
            elif not self._stuck():
                self.go_on()

    def go_on(self) -> bool:
        """In a turn of its own; False = nothing is left."""
        if self._parts and not self._due:
            self._due = True
            self._join(self.go)
        return bool(self._parts)

"""An answer that its client has not taken: it holds room of its tenant's, and no longer than a body may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from eunomia.serving.tenants.bodies import Body


class Untaken:
    """True while there is one."""

    __slots__ = ("_end", "_room")

    def __init__(self) -> None:
        self._room: Body | None = None
        self._end: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return self._room is not None

    def hold(self, room: Body, size: int, most_s: float, abort: Callable[[], object]) -> None:
        """So many bytes; ``abort`` ends what takes longer. Raises Refused."""
        self._room, self._end = room, asyncio.get_running_loop().call_later(most_s, abort)
        room.need(size)

    def free(self) -> None:
        """It has been taken, or never will be."""
        if self._room is not None and self._end is not None:
            self._room.close()
            self._end.cancel()
        self._room = self._end = None

"""Networks come and go one after the other: whose turn it is, and how long others wait for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from eunomia.serving.protocol.errors import Unavailable

PATIENT_S = 30.0  # clients wait 60 s at least
AGAIN_S = 5.0


class Turn(asyncio.Lock):
    """A lock that knows who has it: a network's name, nobody's where a device cuts one anew."""

    def __init__(self) -> None:
        super().__init__()
        self._who, self._since_s = "", 0.0

    async def acquire(self) -> Literal[True]:
        """Wait for it, however long."""
        await super().acquire()
        self._who, self._since_s = "", asyncio.get_running_loop().time()
        return True

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Inside the block it is this network's.

        Raises Unavailable once the one before has had it for ``PATIENT_S``: of a queue that moves, everybody comes in.
        """
        entering = asyncio.ensure_future(self.acquire())
        try:
            while not entering.done():
                if (left_s := PATIENT_S - self._held_s) <= 0:
                    raise Unavailable(self._why(name), retry_after_s=AGAIN_S)
                await asyncio.wait((entering,), timeout=left_s)  # another may have it by then
        except BaseException:
            if not entering.cancel() and not entering.cancelled():  # it has just come in
                self.release()
            raise
        entering.result()  # whoever ends all tasks has ended this one, too
        self._who = name
        try:
            yield
        finally:
            self.release()

    def _why(self, name: str) -> str:
        what = f"another network is loading ({self._who}, " if self._who else "another network is cut anew ("
        return f"model '{name}' has to wait: {what}for {self._held_s:.0f} s); ask again"

    @property
    def _held_s(self) -> float:
        """How long somebody has had it."""
        return asyncio.get_running_loop().time() - self._since_s if self.locked() else 0.0

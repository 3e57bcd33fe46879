"""What other servers change in a shared directory is in force here soon after."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, runtime_checkable

log = logging.getLogger("eunomia.serving")
FOLLOW_S = 5.0  # a key that was revoked through one server is dead on all others after this


@runtime_checkable
class Shared(Protocol):
    """A directory that others change, too."""

    def catch_up(self) -> bool:
        """Read anew what has changed; whether anything has. Blocks; raises when it cannot be read."""


async def follow(
    directory: Shared, every_s: float = FOLLOW_S, then: Callable[[], None] = lambda: None
) -> None:
    """Catch up for ever, in a thread: nothing waits for it. What cannot be read leaves the last known in force.

    ``then``: called after each look, whoever has read the change first.
    """
    lost = False
    while True:
        await asyncio.sleep(every_s)
        try:
            if await asyncio.to_thread(directory.catch_up):
                log.info("tenants or keys were changed through another server; they are read anew")
            if lost:
                log.warning("tenants and keys can be read again")
            lost = False
            then()
        except Exception as error:  # whatever it is, the next time may be better
            if not lost:
                log.warning("tenants and keys cannot be read, the last known stay in force: %s", error)
            lost = True

"""Work that goes on when who asked for it has gone away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial

from eunomia.serving.protocol.errors import NotFound, ServingError

log = logging.getLogger("eunomia.serving")


async def to_the_end(work: Coroutine[object, object, None], *, tell: bool = True) -> None:
    """Raises what it raises. ``tell``: the log has that too, for who asked may have gone."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(partial(_say, tell))
    await asyncio.shield(task)


def _say(tell: bool, task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and tell and not isinstance(error, NotFound):
        log.warning("%s", error, exc_info=None if isinstance(error, ServingError) else error)

"""The token for programs that others start: until Ctrl-C."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from eunomia.sharing.shares.desk import Desk
from eunomia.sharing.shares.front import Front
from eunomia.sharing.shares.scheduler import ShareScheduler
from eunomia.sharing.shares.spec import ShareSpec, check_together
from eunomia.sharing.shares.token import CLIENT, SOCKET


async def serve_token(specs: Sequence[ShareSpec], path: Path, say: Callable[[str], None]) -> None:
    """Listen at ``path``; ``say`` how to connect. Raises ConfigError for promises that cannot be kept."""
    check_together(specs)
    desk = Desk(ShareScheduler())
    async with Front(desk, specs).listening(path.absolute()):
        desk.open()
        for spec in specs:
            say(f"{SOCKET}={shlex.quote(str(path.absolute()))} {CLIENT}={spec.name} YOUR-PROGRAM")
        await asyncio.Event().wait()

"""Networks of a folder that were loaded before this server started: loaded again before its ports open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from eunomia.serving.models.repository import AWAY_S, Repository
from eunomia.serving.protocol.errors import ServingError, Unavailable

log = logging.getLogger("eunomia.serving")
GONE = "network '%s' was loaded before, and has no file now: a start that finds one loads it"
DROPPED = "network '%s' served until now, and neither the server file nor models_dir has it: nobody can ask it any more"
TRIES = 30  # with a device that has died, and comes back


async def load_again(networks: Repository, others: Iterable[str] = ()) -> None:
    """Load what is remembered, in the versions that served, and ``others`` in their newest.

    A network that does not load holds nobody up: the reason is in the index, and the next start tries it again, as it
    does without a file: a folder may not be mounted yet. Of several versions the newest one that loads serves.
    """
    wanted = dict(networks.remembered)
    for name in dict.fromkeys([*wanted, *others]):
        if networks.ready_versions(name):
            continue
        if not networks.has(name):
            log.warning(GONE if name in wanted else DROPPED, name)
            continue
        only = sorted(wanted.get(name, ()), key=int)
        left = only or [entry.version for entry in reversed(networks.versions(name))]
        while not await _loads(networks, name, only) and len(left) > 1:
            left.pop()
            only = left


async def _loads(networks: Repository, name: str, versions: Sequence[str]) -> bool:
    """Whether one of these versions, or the newest without any, serves now."""
    for tries in range(1, TRIES + 1):
        try:
            await networks.load(name, versions, tell=False)
            break
        except Exception as error:  # whatever it is: a start that fails would fail for ever
            if isinstance(error, Unavailable) and error.retry_after_s is not None and tries < TRIES:
                await asyncio.sleep(AWAY_S)
                continue
            known = isinstance(error, ServingError)
            before = (
                "was loaded before, and does not load now" if name in networks.remembered else "does not load"
            )
            log.warning("network '%s' %s: %s", name, before, error, exc_info=None if known else error)
            break
    return bool(networks.ready_versions(name))

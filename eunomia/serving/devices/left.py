"""What killed servers left in the cache goes when a server starts that is the only one to use it.

Each holds a lock there, shared with the others, which ends with its process. Who gets it for itself is alone: nobody
needs what is not whole, nor a cut by sizes that clients chose.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

from eunomia.serving.blocks.optimise import SCRATCH
from eunomia.serving.devices.cutting import BLOCKS, CHOSEN, drop_chosen

USED = ".used"


def use(cache: Path) -> Callable[[], None]:
    """Until what comes back is called, or this process ends, no other server takes anything away."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / USED).open("ab")
    except OSError:  # who cannot write there leaves nothing; those who have to say so
        return lambda: None
    with contextlib.suppress(OSError):  # some file systems have no locks
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _tidy(cache)
        fcntl.flock(lock, fcntl.LOCK_SH)
    return lock.close


def _tidy(cache: Path) -> None:
    for left in cache.glob(f"{SCRATCH}*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
    for mark in cache.glob(f"*{BLOCKS}/{CHOSEN}"):
        drop_chosen(mark.parent)

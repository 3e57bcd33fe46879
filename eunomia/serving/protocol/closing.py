"""Files are closed beside the event loop.

Where nobody else has a deleted file open, the system takes its memory back within ``close``: 0.14 ms a MiB.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue


@cache
def closer() -> Callable[[int], None]:
    """Closes a descriptor soon; may be called from ``__del__``, in whatever the interpreter was doing."""
    leaving = SimpleQueue[int]()

    def close_all() -> None:
        while True:
            descriptor = leaving.get()
            with contextlib.suppress(OSError):
                os.close(descriptor)

    threading.Thread(target=close_all, name="closer", daemon=True).start()
    return leaving.put

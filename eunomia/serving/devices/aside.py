"""Orders to a device's process that do not wait for its run: a thread of its own reads them from a pipe.

``END``: the run with this number is to end in its midst. ``FETCH``: tensors of this request, which waits between two
blocks, are wanted at this place of the arena, of this size. On the line they would stand behind the run and the one
queued after it; the device that wants them would idle so long.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from collections.abc import Callable, Mapping

ORDER = struct.Struct("<4q")  # what, number of the run or request, offset and size of the room
END, FETCH = 0, 1
log = logging.getLogger("eunomia.serving")
Obey = Callable[[int, int, int], None]  # number, offset, size


def order(pipe: int, what: int, number: int, offset: int = 0, size: int = 0) -> bool:
    """One order; False when nobody reads any more, or not fast enough."""
    try:
        os.write(pipe, ORDER.pack(what, number, offset, size))
    except OSError:
        return False
    return True


def listen(pipe: int, obey: Mapping[int, Obey]) -> None:
    """In a thread of its own: do what the front end orders, until that is gone."""
    threading.Thread(target=_listen, args=(pipe, obey), daemon=True).start()


def _listen(pipe: int, obey: Mapping[int, Obey]) -> None:
    while len(read := _read(pipe)) == ORDER.size:
        what, number, offset, size = ORDER.unpack(read)
        try:
            obey[what](number, offset, size)
        except BrokenPipeError:  # the front end is gone
            return
        except Exception:  # a process that hears nothing more would count as alive
            log.exception("a device's process ends: it could not obey an order")
            os._exit(1)


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, ORDER.size)
    except OSError:  # closed
        return b""

"""Memory that a process has used once stays with it."""

from __future__ import annotations

import ctypes

KEPT_BYTES = 256 * 1024**2
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)


def keep_freed_memory() -> bool:
    """Tell the C library to reuse freed blocks of any size, instead of giving them back; True if it listens.

    By default a body of 600 KB is mapped anew for every copy, and each of its pages faults: about 0.45 ms of processor
    time a request, against 0.03 ms. At most ``KEPT_BYTES`` stay unused. Only glibc has this call.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, KEPT_BYTES) and mallopt(M_TRIM_THRESHOLD, KEPT_BYTES))

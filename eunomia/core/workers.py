"""What every worker process does first: it leaves Ctrl-C to its parent, and ends with it."""

from __future__ import annotations

import ctypes
import os
import signal

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl


def follow_parent(parent: int) -> None:
    """Ignore SIGINT; end by SIGTERM when ``parent``, the process that started this one, is killed.

    Where the system has no such call (macOS), the worker ends when it next looks for work. On Linux it ends with the
    parent's thread that started it, so this thread must live as long as the worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGTERM)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # it was killed before the call
        os._exit(1)

"""Work that comes after all other work of its core, and a process that the kernel ends before others."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def come_last() -> None:
    """From now on this thread runs when nobody else wants its core; on Linux alone."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def end_first() -> None:
    """Where memory runs out, the kernel ends this process before others; on Linux alone."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")

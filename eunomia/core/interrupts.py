"""Ctrl-C that nobody can swallow: it is noted beside being raised.

Python raises KeyboardInterrupt wherever it happens to be. numba, while it compiles, may drop it or raise another error
in its place. Loops that go on for long therefore ask :func:`check`, and so does who is about to report an error.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # the exit status after Ctrl-C
_noted = False


@contextmanager
def noted() -> Iterator[None]:
    """Note Ctrl-C inside, in the main thread; an ignored signal and a handler of somebody else's stay as they are."""
    global _noted
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        _noted = False
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def check() -> None:
    """Raise KeyboardInterrupt if one came."""
    if _noted:
        raise KeyboardInterrupt


def _note(number: int, frame: FrameType | None) -> None:
    global _noted
    _noted = True
    signal.default_int_handler(number, frame)

"""Waiting in tests: for a condition, never for a span of time.

The bound only keeps a broken test from hanging; no test may pass or fail by it on a machine that is merely slow.
``tests/test_slow_machines.py`` forbids clocks and sleeps elsewhere.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_S = 300.0  # for what must happen
PAUSE_S = 0.01  # between two looks


def until(condition: Callable[[], T], process: subprocess.Popen[Any] | None = None) -> T:
    """The condition's value as soon as it is true; AssertionError when ``process`` ends before that."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        over = process is not None and process.poll() is not None
        if found := condition():
            return found
        assert not over, f"the process ended with {process.returncode if process else None} before"
        assert time.monotonic() < end_s, f"it did not become true in {PATIENCE_S:.0f} s"
        time.sleep(PAUSE_S)


def work(seconds: float) -> None:
    """So much processor time of this thread, whoever else wants the core."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


async def pauses(count: int) -> None:
    """So many turns of the event loop with nothing to do in between."""
    for _ in range(count):
        await asyncio.sleep(PAUSE_S)


async def until_async(condition: Callable[[], T]) -> T:
    """``until`` beside other tasks of an event loop."""
    end_s = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end_s, f"it did not become true in {PATIENCE_S:.0f} s"
        await asyncio.sleep(PAUSE_S)
    return found

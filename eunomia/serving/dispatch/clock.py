"""Time as the dispatcher reads it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since the server started."""

    def now_s(self) -> float:
        """The time now; never goes backwards."""

    def of(self, monotonic_s: float) -> float:
        """The time of a stamp that a device took on the machine's monotonic clock."""


class WallClock:
    """The monotonic clock, so that a changed system date moves nothing."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def now_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def of(self, monotonic_s: float) -> float:
        """All processes of a machine read the same monotonic clock."""
        return monotonic_s - self._start


class ManualClock:
    """A clock that a test or a replay sets."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        """What was set."""
        return self.time_s

    def of(self, monotonic_s: float) -> float:
        """The stamp itself."""
        return monotonic_s

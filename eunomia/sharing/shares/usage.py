"""What one client used of late, and how long its next burst may be."""

from __future__ import annotations

from collections import deque


class Usage:
    """When a client held the device, as far back as a sliding window reaches. Spans are added in order of time."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self._spans: deque[tuple[float, float]] = deque()  # (start, end), apart

    def add(self, start_s: float, end_s: float) -> None:
        """One hold."""
        if end_s > start_s:
            self._spans.append((start_s, end_s))

    def used_s(self, now_s: float) -> float:
        """Seconds held within the window that ends now."""
        since_s = now_s - self.window_s
        while self._spans and self._spans[0][1] <= since_s:
            self._spans.popleft()
        return sum(end - max(start, since_s) for start, end in self._spans)

    def falls_to(self, level_s: float, now_s: float) -> float:
        """From when on no more than ``level_s`` lie within the window, if nothing is added."""
        excess_s = self.used_s(now_s) - level_s
        at_s = now_s
        for start, end in self._spans:
            if excess_s <= 0.0:
                break
            oldest_s = max(start, now_s - self.window_s)
            at_s = min(end, oldest_s + excess_s) + self.window_s
            excess_s -= end - oldest_s
        return at_s


class Bursts:
    """Device time between two synchronisations of a client: what it needs in one piece."""

    def __init__(self, memory_s: float) -> None:
        self.memory_s = memory_s
        self._seen: deque[tuple[float, float]] = deque()  # (when, seconds)

    def add(self, now_s: float, burst_s: float, cut: bool) -> None:
        """One burst; ``cut``: the quota ran out inside it, so it may be longer and counts twice."""
        self._seen.append((now_s, 2.0 * burst_s if cut else burst_s))

    def predicted_s(self, now_s: float) -> float | None:
        """The longest of the last ``memory_s``; None if there was none."""
        while self._seen and self._seen[0][0] < now_s - self.memory_s:
            self._seen.popleft()
        return max((burst_s for _, burst_s in self._seen), default=None)

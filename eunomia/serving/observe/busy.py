"""What a tenant may know of the others: which share of the devices' time they had, one number for ten seconds.

It is of whole spans of that length, rounded to tenths: a number that moved with each run would tell when others' came.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

SPAN_S = 10.0


class Busy:
    """Seconds of devices by span and tenant; of the present span and the one before."""

    def __init__(self) -> None:
        self._spans: dict[int, defaultdict[str, float]] = {}

    def ran(self, tenant: str, start_s: float, end_s: float) -> None:
        """A device has run something of this tenant's."""
        self._spans.setdefault(int(end_s // SPAN_S), defaultdict(float))[tenant] += end_s - start_s
        if len(self._spans) > 2:
            del self._spans[min(self._spans)]

    def others(self, tenant: str, now_s: float, devices: int) -> float:
        """The share of the last whole span that all others had."""
        last: Mapping[str, float] = self._spans.get(int(now_s // SPAN_S) - 1, {})
        taken_s = sum(seconds for whose, seconds in last.items() if whose != tenant)
        return round(min(taken_s / (SPAN_S * max(devices, 1)), 1.0), 1)

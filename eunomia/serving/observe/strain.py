"""Signs that the machine made a request late, and no choice of the policy.

Blocks that take longer than they use to: something else runs on the device's cores, or on their memory. A front end
that is late: its thread waits for a processor, or has more to read than it can.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from eunomia.serving.observe.front import FrontEnd
from eunomia.serving.observe.retired import Retired

STRETCHED = 1.4  # times their means: from there on blocks are called slow; their own spread is less
LATE_S, LATE_SHARE = 5e-3, 0.1  # from there on, and of the deadline, the front end is called late
KEPT, RECENT_S = 64, 3.0  # latest requests that are looked at
SUFFERS = ("late", "hopeless", "expired")  # outcomes that a slow machine may explain


class Strain:
    """``note`` each answer, then ``of`` a miss."""

    def __init__(self, front: FrontEnd) -> None:
        self._front = front
        self._latest: deque[tuple[float, float]] = deque(maxlen=KEPT)  # when, device time over the usual

    def note(self, request: Retired, now_s: float) -> None:
        """How long it took devices, against the means of its blocks."""
        stretch = _stretch(request)
        if math.isfinite(stretch):
            self._latest.append((now_s, stretch))

    def of(self, request: Retired, now_s: float) -> str:
        """What the machine did to this one, in words; empty where it shows nothing."""
        if request.outcome not in SUFFERS:
            return ""
        recent = [stretch for at_s, stretch in self._latest if at_s > now_s - RECENT_S]
        own, late_s = _stretch(request), self._front.late_s
        stretch = max(median(recent) if recent else 0.0, own if math.isfinite(own) else 0.0)
        signs = []
        if stretch >= STRETCHED:
            signs.append(f"blocks took {stretch:.1f} times their means")
        if late_s >= max(LATE_S, LATE_SHARE * request.deadline_s):
            signs.append(f"the front end was {late_s * 1e3:.0f} ms late")
        return f"the machine was busy: {', '.join(signs)}" if signs else ""


def _stretch(request: Retired) -> float:
    """What its blocks took over their means; nan where nobody knows."""
    known = request.answered and request.expected_s > 0.0
    return request.work_s / request.expected_s if known else math.nan

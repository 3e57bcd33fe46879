"""How far the front end is behind: the one thread that reads all requests and writes all answers.

A request arrives when the server has read it. What its client waits before that stands in no response time here, and in
overload it is most of all. Two figures show it. *Busy*: the share of time in which the thread ran, or waited for a
processor. *Late*: how long bytes of a request over HTTP, or a message over gRPC, were here and waited for their turn.
Bytes that nobody has read yet, in the memory of the system or of gRPC's library, are seen by nobody: only *busy* tells.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from eunomia.core.data import Json
from eunomia.serving.observe.turns import EDGES_S, family

log = logging.getLogger("eunomia.serving")
EVERY_S, SAMPLES = 0.25, 12  # between two looks; looks that a figure is made of: 3 s
FULL = 0.85  # of the time: from there on requests queue before they are read
AGAIN_S = 60.0  # between two warnings
CROWDED = "the front end is full: clients wait before their requests arrive"
ADVICE = (
    "send fewer bytes per request (raw tensors, shared memory), give the server a core that no device has, "
    "or add a server (replicas)"
)


class _Look(NamedTuple):
    """Since the look before: seconds, of these busy, and the longest wait."""

    span_s: float
    busy_s: float
    late_s: float


class FrontEnd(Collector):
    """``waited`` for each request; ``look`` every so often, in the event loop's thread."""

    def __init__(self) -> None:
        self.waits, self.waits_s = [0] * (len(EDGES_S) + 1), 0.0
        self.busy_s = 0.0
        self._longest_s = 0.0  # wait since the last look
        self._looks: deque[_Look] = deque(maxlen=SAMPLES)
        self._last: tuple[float, float] | None = None
        self._warned_s = -AGAIN_S

    def waited(self, seconds: float) -> None:
        """A request was here for so long before its turn came."""
        self.waits[bisect_left(EDGES_S, seconds) if seconds > EDGES_S[0] else 0] += 1
        self.waits_s += seconds
        self._longest_s = max(self._longest_s, seconds)

    def look(self, now_s: float, used_s: float, late_s: float = 0.0) -> None:
        """``used_s``: busy since whenever; ``late_s``: this look's own lateness."""
        last, self._last = self._last, (now_s, used_s)
        longest_s, self._longest_s = max(self._longest_s, late_s), 0.0
        if last is None or now_s <= last[0]:
            return
        busy_s = min(max(used_s - last[1], 0.0), now_s - last[0])
        self.busy_s += busy_s
        self._looks.append(_Look(now_s - last[0], busy_s, longest_s))
        if self.remark and now_s - self._warned_s >= AGAIN_S:
            self._warned_s = now_s
            log.warning(self.remark)

    async def keep(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Look again and again, until cancelled."""
        while True:
            due_s = clock() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self.look(clock(), used_s(), max(clock() - due_s, 0.0))

    @property
    def busy(self) -> float:
        """Share of the last seconds."""
        looks = tuple(self._looks)  # in one piece: metrics are written in another thread
        span_s = sum(look.span_s for look in looks)
        return sum(look.busy_s for look in looks) / span_s if span_s else 0.0

    @property
    def late_s(self) -> float:
        """The longest wait of the last seconds."""
        return max((look.late_s for look in tuple(self._looks)), default=0.0)

    @property
    def remark(self) -> str:
        """What an operator must know; empty while there is nothing."""
        if len(self._looks) < SAMPLES or self.busy < FULL:
            return ""
        return (
            f"the front end is full (busy {self.busy:.0%} of the last seconds, {self.late_s * 1e3:.0f} ms late): "
            f"clients wait before their requests arrive, which no response time here contains; {ADVICE}"
        )

    def facts(self, *, coarse: bool = False) -> Json:
        """For people and their programs; ``coarse``: so that nobody sees in them what one other client does."""
        return {
            "busy": round(self.busy, 1 if coarse else 3),
            "late_ms": round(self.late_s * 1e3, -1 if coarse else 1),
            "full": bool(self.remark),
            "remark": CROWDED * bool(self.remark) if coarse else self.remark,
        }

    def collect(self) -> Iterator[HistogramMetricFamily | CounterMetricFamily | GaugeMetricFamily]:
        """As Prometheus reads them."""
        yield CounterMetricFamily(
            "eunomia_front_end_busy_seconds",
            "Time in which the front end's thread ran or waited for a processor; its rate is the share of time",
            value=self.busy_s,
        )
        yield GaugeMetricFamily(
            "eunomia_front_end_busy_ratio",
            f"The same as a share of the last {EVERY_S * SAMPLES:g} s; from {FULL:g} on, clients wait outside",
            value=self.busy,
        )
        yield family(
            "eunomia_front_end_late_seconds",
            "Requests that were here and waited to be read; no part of eunomia_request_seconds",
            self.waits,
            self.waits_s,
        )


def used_s() -> float:
    """Time in which this thread ran, and, where the kernel says it, in which it waited for a processor."""
    try:
        text = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text()
        return time.thread_time() + int(text.split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return time.thread_time()

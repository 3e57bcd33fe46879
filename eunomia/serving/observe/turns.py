"""How long one turn of the event loop takes of its thread's processor: so long does everybody else wait.

Time in which the machine runs something else does not count here but in ``waited``. The loop has no hook for its turns.
So whatever starts work calls ``begin``, and from then on the clock is read once a turn, until one has done next to
nothing. Turns that nobody announced fall into one reading together: no turn is longer than the reading that it is in.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

QUIET_S = 5e-5  # of processor time: a turn with less has done nothing
MS = (0.5, 1, 2, 3, 4, 5, 7.5, 10, 15, 20, 30, 50, 75, 100, 200, 500, 1000)
EDGES_S = tuple(ms / 1e3 for ms in MS)


class Turns(Collector):
    """``held``, ``waited``: turns by the first edge that they do not exceed, the last one beyond all edges.

    ``worked`` hears of each turn's processor time.
    """

    def __init__(self) -> None:
        self.worked: Callable[[float], None] = lambda seconds: None
        self.held, self.waited = [[0] * (len(EDGES_S) + 1) for _ in range(2)]
        self.held_s = self.waited_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching = False  # another reading follows in the next turn
        self._cpu_s = self._wall_s = 0.0  # at the last reading

    def beyond(self, most_s: float) -> bool:
        """Whether this turn has taken more of the processor, once it has begun; all else since the last reading counts.

        It cannot where less time has passed at all, and the system need not be asked for the processor's.
        """
        return time.perf_counter() - self._wall_s > most_s and time.thread_time() - self._cpu_s > most_s

    def begin(self) -> None:
        """Work is about to start; called in the event loop."""
        if self._watching and self._loop is not None and not self._loop.is_closed():
            return
        self._watching, loop = True, asyncio.get_running_loop()
        last_s, self._cpu_s, self._wall_s = self._cpu_s, time.thread_time(), time.perf_counter()
        if loop is self._loop:
            self._holds(self._cpu_s - last_s)
        self._loop = loop
        loop.call_soon(self._turn, True)

    def _turn(self, first: bool = False) -> None:
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        held_s, took_s = cpu_s - self._cpu_s, wall_s - self._wall_s
        self._cpu_s, self._wall_s = cpu_s, wall_s
        self._holds(held_s)
        self.worked(held_s)
        waited_s = max(took_s - held_s, 0.0)
        self.waited[bisect_left(EDGES_S, waited_s) if waited_s > EDGES_S[0] else 0] += 1
        self.waited_s += waited_s
        self._watching = first or held_s > QUIET_S
        if self._watching and self._loop is not None:
            self._loop.call_soon(self._turn)

    def _holds(self, seconds: float) -> None:
        self.held[bisect_left(EDGES_S, seconds) if seconds > EDGES_S[0] else 0] += 1
        self.held_s += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Both as Prometheus reads them."""
        yield family(
            "eunomia_loop_held_seconds",
            "Processor time of the event loop's thread in one turn of it, at most: others wait no longer",
            self.held,
            self.held_s,
        )
        yield family(
            "eunomia_loop_waited_seconds",
            "Of one turn of the event loop, time in which its thread did not run",
            self.waited,
            self.waited_s,
        )


def family(name: str, text: str, counts: Sequence[int], total_s: float) -> HistogramMetricFamily:
    """Counts by edge as a histogram."""
    below, rows = 0, list[tuple[str, float]]()
    for edge, count in zip([*map(str, EDGES_S), "+Inf"], counts, strict=True):
        below += count
        rows.append((edge, float(below)))
    return HistogramMetricFamily(name, text, buckets=rows, sum_value=total_s)

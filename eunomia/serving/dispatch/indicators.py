"""The service-level indicator of one (tenant, model) pair, kept up to date request by request."""

from __future__ import annotations

import math
from collections import deque

from eunomia.workload.tenant import Slo


class Indicator:
    """Windowed SLI of one pair, with the simulator's formulas (docs/metrics.md).

    Pairs without an SLO are measured by hit rate over 100 requests, with gap 0. ``observe`` costs O(1)
    for shares and throughput, O(window log window) for a percentile.
    """

    def __init__(self, slo: Slo | None) -> None:
        self.slo = slo
        self._measured = slo or Slo(0.0)
        timed = self._measured.kind == "throughput"
        self._window: deque[float] = deque(maxlen=None if timed else self._measured.window_requests)
        self._sum = 0.0
        self.sli = math.nan

    @property
    def count(self) -> int:
        """Requests in the window."""
        return len(self._window)

    @property
    def gap(self) -> float:
        """Signed shortfall: positive = the target is missed; 0 without SLO or data."""
        return 0.0 if self.slo is None or math.isnan(self.sli) else self.slo.gap(self.sli)

    def observe(self, now_s: float, response_s: float, *, hit: bool, dropped: bool) -> None:
        """One request has left: finished, or refused or dropped after it was accepted."""
        kind = self._measured.kind
        if kind == "hit_rate":
            self._push(float(hit))
        elif kind == "drop_rate":
            self._push(float(dropped))
        elif not dropped:
            self._push(now_s if kind == "throughput" else response_s)
        self.refresh(now_s)

    def refresh(self, now_s: float) -> None:
        """Read the indicator anew; only throughput changes with time alone."""
        slo, window = self._measured, self._window
        if slo.kind == "throughput":
            while window and window[0] <= now_s - slo.window_s:
                window.popleft()
            self.sli = len(window) / min(slo.window_s, max(now_s, 1e-9)) if window else math.nan
        elif not window:
            self.sli = math.nan
        elif slo.kind == "latency_percentile":
            rank = max(1, math.ceil(slo.percentile / 100.0 * len(window)))
            self.sli = sorted(window)[rank - 1]
        else:
            self.sli = self._sum / len(window)

    def content(self) -> list[float]:
        """What the window holds, oldest first, for the ledger."""
        return list(self._window)

    def restore(self, values: list[float]) -> None:
        """Take up a window from the ledger."""
        self._window.clear()
        self._sum = 0.0
        for value in values:
            self._push(value)

    def _push(self, value: float) -> None:
        if self._window.maxlen is not None and len(self._window) == self._window.maxlen:
            self._sum -= self._window[0]
        self._window.append(value)
        self._sum += value
        if len(self._window) == self._window.maxlen and value == self._window[0]:
            self._sum = math.fsum(self._window)  # now and then, so that rounding does not pile up

"""The service-level indicator of one (tenant, model) pair, kept up to date request by request."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from eunomia.serving.protocol.errors import Cancelled, InputFailed, InputRefused, NoRoom, TooLong
from eunomia.workload.tenant import Slo

Past: TypeAlias = tuple[float, float, str]  # wall clock, response time [s], outcome
# Of what clients answer for themselves; that some were given up late, or failed by the network, no line tells.
OF_CLIENTS = {error.reason for error in (Cancelled, InputFailed, InputRefused, NoRoom, TooLong)}


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
        if self._measured.kind == "throughput":
            if not dropped:
                self._push(now_s)
        elif (value := self._value(response_s, hit=hit, dropped=dropped)) is not None:
            self._push(value)
        self.refresh(now_s)

    def _value(self, response_s: float, *, hit: bool, dropped: bool) -> float | None:
        if self._measured.kind == "hit_rate":
            return float(hit)
        if self._measured.kind == "drop_rate":
            return float(dropped)
        return None if dropped else response_s

    def recall(self, past: Sequence[Past]) -> None:
        """Take up what the ledger has of a server before, oldest first. A throughput is measured anew."""
        most, values = self._window.maxlen, list[float]()
        for _, response_s, outcome in reversed(past):
            if most is None or len(values) == most:
                break
            if outcome in OF_CLIENTS:
                continue
            dropped = outcome not in ("hit", "late")
            if (value := self._value(response_s, hit=outcome == "hit", dropped=dropped)) is not None:
                values.append(value)
        for value in reversed(values):
            self._push(value)
        self.refresh(0.0)

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

    def _push(self, value: float) -> None:
        if self._window.maxlen is not None and len(self._window) == self._window.maxlen:
            self._sum -= self._window[0]
        self._window.append(value)
        self._sum += value
        if len(self._window) == self._window.maxlen and value == self._window[0]:
            self._sum = math.fsum(self._window)  # now and then, so that rounding does not pile up

"""Requests as columns: who asks for what, when, and until when it must be done."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eunomia.errors import ConfigError
from eunomia.workload.tenant import Agreement

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RequestTable:
    """All requests of one run, sorted by arrival time (ties keep their order).

    Closed-loop clients: where ``after[k] >= 0``, request k is sent ``arrival_s[k]`` seconds (think
    time) after request ``after[k]`` has left the system (finished or dropped), and the sort order
    does not apply to it; such rows stand behind all others. A request is the ``after`` of at most
    one other.
    """

    agreements: tuple[Agreement, ...]  # the (tenant, model) pairs, indexed by ``pair``
    pair: Ints  # (n,) index into agreements
    arrival_s: Floats  # (n,) time of arrival, or think time where after >= 0
    relative_deadline_s: Floats  # (n,) deadline minus arrival; inf = none
    priority: Floats = field(default_factory=lambda: np.empty(0))  # (n,) higher is more urgent
    deferrable: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))  # (n,)
    after: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # (n,) -1 = open loop

    def __post_init__(self) -> None:
        n = len(self.pair)
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("pair", np.ascontiguousarray(self.pair, np.int64))
        put("arrival_s", np.ascontiguousarray(self.arrival_s, np.float64))
        put("relative_deadline_s", np.ascontiguousarray(self.relative_deadline_s, np.float64))
        if not len(self.priority):
            default = np.array([a.priority for a in self.agreements], np.float64)
            put("priority", default[self.pair] if n else np.empty(0))
        if not len(self.deferrable):
            put("deferrable", np.zeros(n, np.bool_))
        if not len(self.after):
            put("after", np.full(n, -1, np.int64))
        put("priority", np.ascontiguousarray(self.priority, np.float64))
        self._check(n)

    def _check(self, n: int) -> None:
        for name in ("arrival_s", "relative_deadline_s", "priority", "deferrable", "after"):
            if len(getattr(self, name)) != n:
                raise ConfigError(f"requests: column {name} has {len(getattr(self, name))} rows, pair has {n}")
        if n == 0:
            return
        if self.pair.min() < 0 or self.pair.max() >= len(self.agreements):
            raise ConfigError(f"requests: pair index {self.pair.max()} but only {len(self.agreements)} agreements")
        if not np.isfinite(self.arrival_s).all() or self.arrival_s.min() < 0.0:
            worst = int(np.argmin(np.nan_to_num(self.arrival_s, nan=-np.inf)))
            raise ConfigError(f"request {worst} arrives at {self.arrival_s[worst]} s; times must be finite and >= 0")
        if not (self.relative_deadline_s > 0.0).all():
            worst = int(np.argmin(np.nan_to_num(self.relative_deadline_s, nan=-np.inf)))
            raise ConfigError(
                f"request {worst} has its deadline {self.relative_deadline_s[worst]} s after its arrival, "
                "in the past; deadlines must lie after the arrival"
            )
        closed = self.after >= 0
        open_arrivals = self.arrival_s[~closed]
        if (np.diff(open_arrivals) < 0.0).any():
            row = int(np.argmax(np.diff(open_arrivals) < 0.0)) + 1
            raise ConfigError(f"requests are not sorted by arrival: row {row} is earlier than the row before it")
        if closed.any():
            first = int(np.argmax(closed))
            if not closed[first:].all():
                raise ConfigError("requests: closed-loop rows must stand behind the open-loop rows")
            chained = self.after[closed]
            if len(np.unique(chained)) != len(chained) or (chained >= np.flatnonzero(closed)).any():
                raise ConfigError("requests: each request can start at most one other, which must stand behind it")

    def __len__(self) -> int:
        return len(self.pair)

"""Requests as columns: tenant and network, arrival, deadline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.core.errors import ConfigError
from eunomia.workload.tenant import Agreement

COLUMNS = ("pair", "arrival_s", "relative_deadline_s", "priority", "deferrable", "after", "size")


class Traffic(Protocol):
    """What is known of traffic before it comes: enough to draw other requests like it."""

    def draw(self, number: int) -> RequestTable:
        """Trace ``number`` (0, 1, ...) of the same traffic: never that of a run, whatever the run's seed."""

    def first(self, most: int) -> Self:
        """The same traffic, of which each trace has at most so many requests."""


@dataclass(frozen=True, eq=False)
class RequestTable:
    """All requests of one run, sorted by arrival time (ties keep their order).

    Closed-loop clients: where ``after[k] >= 0``, request k is sent ``arrival_s[k]`` seconds (think time)
    after request ``after[k]`` has finished or was dropped. The sort order does not apply to such rows; they
    stand behind all others. A request is the ``after`` of at most one other.

    ``size``: a model that the cost table holds as another size of the pair's network; most tables have none.
    Raises ConfigError for columns that break these rules.
    """

    agreements: tuple[Agreement, ...]  # the (tenant, model) pairs, indexed by ``pair``
    pair: Ints  # (n,) index into agreements
    arrival_s: Floats  # (n,) time of arrival, or think time where after >= 0
    relative_deadline_s: Floats  # (n,) deadline minus arrival; inf = none
    priority: Floats = field(default_factory=lambda: np.empty(0))  # (n,) higher is more urgent
    deferrable: Flags = field(default_factory=lambda: np.empty(0, np.bool_))  # (n,)
    after: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # (n,) -1 = open loop
    size: Ints = field(
        default_factory=lambda: np.empty(0, np.int64)
    )  # (n,) model of the cost table, -1 = the pair's
    stated: Traffic | None = None  # what they were drawn from; None = nothing is known but these rows

    def __post_init__(self) -> None:
        n = len(self.pair)
        self._put("pair", self.pair, np.int64)
        if n and (self.pair.min() < 0 or self.pair.max() >= len(self.agreements)):
            row = int(np.argmax((self.pair < 0) | (self.pair >= len(self.agreements))))
            raise ConfigError(
                f"request {row} has pair {self.pair[row]}, but there are {len(self.agreements)} agreements"
            )
        promised = np.array([a.priority for a in self.agreements], np.float64)
        self._put("arrival_s", self.arrival_s, np.float64)
        self._put("relative_deadline_s", self.relative_deadline_s, np.float64)
        self._put("priority", self.priority if len(self.priority) else promised[self.pair], np.float64)
        self._put("deferrable", self.deferrable if len(self.deferrable) else np.zeros(n), np.bool_)
        self._put("after", self.after if len(self.after) else np.full(n, -1), np.int64)
        self._put("size", self.size if len(self.size) else np.full(n, -1), np.int64)
        for name in COLUMNS[1:]:
            if len(getattr(self, name)) != n:
                raise ConfigError(
                    f"requests: column {name} has {len(getattr(self, name))} rows, pair has {n}"
                )
        if n:
            self._check_values()
            self._check_order()

    def _put(self, name: str, value: npt.ArrayLike, dtype: type[np.generic]) -> None:
        object.__setattr__(self, name, np.ascontiguousarray(value, dtype))

    def _check_values(self) -> None:
        wrong = ~np.isfinite(self.arrival_s) | (self.arrival_s < 0.0)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ConfigError(
                f"request {row} arrives at {self.arrival_s[row]} s; times must be finite and at least 0"
            )
        wrong = ~(self.relative_deadline_s > 0.0)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ConfigError(
                f"request {row} has its deadline {self.relative_deadline_s[row]} s after its arrival, "
                "in the past; deadlines must lie after the arrival"
            )
        wrong = ~(np.isfinite(self.priority) & (self.priority >= 0.0))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ConfigError(f"request {row} has priority {self.priority[row]}; it must be finite and >= 0")

    def _check_order(self) -> None:
        closed = self.after >= 0
        opened = len(closed) - int(closed.sum())
        if closed[:opened].any():
            raise ConfigError("requests: closed-loop rows must stand behind the open-loop rows")
        earlier = np.diff(self.arrival_s[:opened]) < 0.0
        if earlier.any():
            row = int(np.argmax(earlier)) + 1
            raise ConfigError(
                f"requests are not sorted by arrival: row {row} ({self.arrival_s[row]} s) "
                f"is earlier than the row before it ({self.arrival_s[row - 1]} s)"
            )
        chained = self.after[opened:]
        if len(np.unique(chained)) != len(chained) or (chained >= np.arange(opened, len(closed))).any():
            raise ConfigError(
                "requests: each request can start at most one other, which must stand behind it"
            )

    def __len__(self) -> int:
        return len(self.pair)

    @property
    def deadline_s(self) -> Floats:
        """Absolute deadlines, inf = none; nan for closed-loop rows, whose arrival the engine decides."""
        return np.where(self.after >= 0, np.nan, self.arrival_s + self.relative_deadline_s)

    def counts(self) -> Ints:
        """Requests per pair."""
        return np.bincount(self.pair, minlength=len(self.agreements)).astype(np.int64)

    def first(self, most: int | None) -> RequestTable:
        """The first ``most`` rows; tables with closed-loop rows stay whole."""
        if most is None or len(self) <= most or (self.after >= 0).any():
            return self
        stated = self.stated.first(most) if self.stated else None
        return RequestTable(
            self.agreements, self.pair[:most], self.arrival_s[:most], self.relative_deadline_s[:most],
            self.priority[:most], self.deferrable[:most], size=self.size[:most], stated=stated,
        )  # fmt: skip

    def equals(self, other: RequestTable) -> bool:
        """Whether both hold the same agreements and the same bits in every column."""
        return self.agreements == other.agreements and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in COLUMNS
        )

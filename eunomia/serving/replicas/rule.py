"""How one replica charges its tenants for what other replicas have done for them.

Source: Wang and Merchant, "Proportional-Share Scheduling for Distributed Storage Systems", FAST 2007: the start tag
of a flow moves by what other nodes have served of it. There the news is never late; here it is, and all replicas would
mend the same shortfall at once. So each charges a part of what is outstanding:

    rate = (done elsewhere - charged here) / (replicas * interval)     [s of service per s]

from one piece of news to the next. In the long run everything is charged once. A step of the traffic is charged after
some ``replicas`` intervals. The loop is stable: its gain at the phase of -180 degrees is below 1 for any number of
replicas.

While the others cannot be read, the last rates stay in force for ``hold_s``; after that nothing is charged, and every
replica is fair to its own traffic alone. News of a replica that come later than ``LATE`` times the usual lag change no
rate at once: by how much it was wrong meanwhile is forgotten, for to settle it would take from somebody all at once. A
replica that publishes no more while others do is gone; what it did is charged no further.

Does badly: replicas of unlike speed, as a second of any device counts the same; shares within some ``replicas``
intervals after the traffic has moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats

LATE = 4.0  # times what a charge lags behind


@dataclass(frozen=True)
class ReplicaOptions:
    """``name``: of this replica, "" = host and port; ``exchange_s``: between two looks at the others.

    ``hold_s``: so long the last known rates stay in force without news. ``memory_s``: of device time per
    replica; by what others have served, no tenant gets further ahead of those who wait here. ``group``: servers that
    look at each other; at other groups' totals they look every ``between_s``.
    """

    name: str = ""
    exchange_s: float = 0.25
    hold_s: float = 60.0
    memory_s: float = 0.25
    group: str = ""
    between_s: float = 0.25


@dataclass(frozen=True)
class News:
    """Of one other replica: totals by tenant since it was first seen, and over how long its last change goes."""

    totals: Mapping[str, float]
    gap_s: float = 0.0


class Accounts:
    """What each other replica has done for each tenant, and how much of it was charged here."""

    def __init__(self, interval_s: float, hold_s: float) -> None:
        self._interval_s, self._hold_s = interval_s, hold_s
        self.names: list[str] = []
        self._of: dict[str, int] = {}  # replica -> row
        self._charged, self._rates = np.zeros((0, 0)), np.zeros((0, 0))  # (replicas, tenants)
        self._rate, self._owed = np.zeros(0), np.zeros(0)  # of all replicas, by tenant
        self._news_s = self._settled_s = -math.inf

    def learned(self, news: Mapping[str, News], gone: Iterable[str], replicas: int, now_s: float) -> None:
        """The others could be read: what is new, and who is gone; ``replicas``: how many there are, with this one."""
        self._settle(now_s)
        lag_s = max(replicas, 1) * self._interval_s
        self._grow(news)
        for name, new in news.items():
            row = self._of[name]
            total = np.array([new.totals.get(tenant, 0.0) for tenant in self.names])
            outstanding = total - self._charged[row]
            gap_s = max(new.gap_s, now_s - self._news_s)
            if gap_s > self._hold_s:
                outstanding = np.zeros(len(total))
            elif gap_s > LATE * lag_s:
                outstanding = self._rates[row] * lag_s
            self._charged[row], self._rates[row] = total - outstanding, outstanding / lag_s
        for name in gone:
            if name in self._of:
                self._rates[self._of[name]] = 0.0
        self._rate = self._rates.sum(axis=0)
        self._news_s = self._settled_s = now_s

    def forget(self, names: Iterable[str]) -> None:
        """Replicas that will not be heard of again."""
        rows = [self._of.pop(name) for name in names if name in self._of]
        self._of = {name: n for n, name in enumerate(sorted(self._of, key=self._of.__getitem__))}
        self._charged, self._rates = np.delete(self._charged, rows, 0), np.delete(self._rates, rows, 0)
        self._rate = self._rates.sum(axis=0)

    def rates(self, now_s: float) -> dict[str, float]:
        """What is charged per second now, by tenant."""
        held = now_s <= self._news_s + self._hold_s
        return dict(zip(self.names, self._rate.tolist(), strict=True)) if held else {}

    def take(self, now_s: float) -> Floats:
        """What is to be charged since the last call, in the order of ``names``."""
        self._settle(now_s)
        owed, self._owed = self._owed, np.zeros(len(self._owed))
        return owed

    def _settle(self, now_s: float) -> None:
        span_s = min(now_s, self._news_s + self._hold_s) - self._settled_s
        if span_s > 0.0:
            self._owed = self._owed + self._rate * span_s
            self._charged += self._rates * span_s
            self._settled_s += span_s

    def _grow(self, news: Mapping[str, News]) -> None:
        """Room for new replicas and tenants."""
        known = set(self.names)
        fresh = list(dict.fromkeys(t for new in news.values() for t in new.totals if t not in known))
        rows = [name for name in news if name not in self._of]
        self._of.update({name: len(self._of) + n for n, name in enumerate(rows)})
        self.names = self.names + fresh
        more = ((0, len(rows)), (0, len(fresh)))
        self._charged, self._rates = np.pad(self._charged, more), np.pad(self._rates, more)
        self._owed = np.pad(self._owed, (0, len(fresh)))

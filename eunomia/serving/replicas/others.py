"""What the other replicas have published, added up over their restarts.

Who has not changed its row for ``patience`` looks is gone. It is forgotten once its row has been deleted, after an hour
(``tenants/board.py``). Its work stays in the sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from eunomia.serving.replicas.rule import News

Totals = Mapping[str, tuple[float, ...]]  # by tenant: device seconds, rows admitted, hits, misses
SERVED, ROWS, HITS, MISSES = range(4)
NOTHING = (0.0, 0.0, 0.0, 0.0)
AGAIN_S = 3600.0  # nobody is forgotten who has run for less


@dataclass(frozen=True)
class Published:
    """One replica's row. ``boot`` differs after each start; ``beat`` and ``at_s``: exchanges and seconds since."""

    boot: str
    beat: int
    at_s: float
    address: str
    totals: Totals


class Board(Protocol):
    """Where replicas meet: a table that all of them can read."""

    def exchange(self, name: str, mine: Published, group: str = "") -> Mapping[str, Published]:
        """Write one's own row; returns the group's rows as they were before, by name. Blocks; raises when it cannot."""


@dataclass
class _Seen:
    row: Published
    unchanged: int = 0  # looks since it changed
    gap_s: float = 0.0  # for which its last change stands
    done: dict[str, tuple[float, ...]] = field(default_factory=dict)  # since this replica was first seen


class Others:
    """All replicas but one's own."""

    def __init__(self, name: str, boot: str, patience: int = 3) -> None:
        self._name, self._boot, self._patience = name, boot, patience
        self._seen: dict[str, _Seen] = {}
        self._forgotten: dict[str, tuple[float, ...]] = {}  # what they have done, by tenant
        self._begun = False
        self._usurper: Published | None = None

    def read(self, rows: Mapping[str, Published]) -> list[str]:
        """A look; returns the names of those that are forgotten. What was done before the first look is no debt."""
        for name, row in rows.items():
            if name != self._name:
                self._read(name, row)
        self._begun = True
        forgotten = []
        for name, seen in self._seen.items():
            seen.unchanged += name not in rows
            if name not in rows and seen.unchanged >= self._patience:
                forgotten.append(name)
        for name in forgotten:
            for tenant, amounts in self._seen.pop(name).done.items():
                self._forgotten[tenant] = plus(self._forgotten.get(tenant, NOTHING), amounts)
        return forgotten

    def _read(self, name: str, row: Published) -> None:
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = _Seen(row, 0 if self._begun else self._patience)
            fresh = self._begun and row.at_s < AGAIN_S  # else it may have been here, and forgotten
            since = {} if fresh else row.totals
            seen.gap_s = row.at_s if self._begun else math.inf
            seen.done = {t: less(total, since.get(t, NOTHING)) for t, total in row.totals.items()}
            return
        if (row.boot, row.beat) == (seen.row.boot, seen.row.beat):
            seen.unchanged += 1
            return
        again = row.boot == seen.row.boot
        before = seen.row.totals if again else {}
        for tenant, total in row.totals.items():
            change = less(total, before.get(tenant, NOTHING))
            seen.done[tenant] = plus(seen.done.get(tenant, NOTHING), change)
        seen.gap_s = row.at_s - seen.row.at_s if again else row.at_s
        seen.row, seen.unchanged = row, 0

    def namesake(self, rows: Mapping[str, Published]) -> bool:
        """Whether another server that runs now has this replica's name."""
        row = rows.get(self._name)
        if row is None or row.boot == self._boot:
            return False
        before, self._usurper = self._usurper, row
        return before is not None and before != row

    def news(self, what: int) -> dict[str, News]:
        """Of those that had changed their rows at the last look."""
        return {
            name: News({t: amounts[what] for t, amounts in seen.done.items()}, seen.gap_s)
            for name, seen in self._seen.items()
            if seen.unchanged == 0 or math.isinf(seen.gap_s)
        }

    def alive(self) -> list[str]:
        """Names of those that still change their rows."""
        return sorted(name for name, seen in self._seen.items() if seen.unchanged < self._patience)

    def gone(self) -> list[str]:
        """Names of the others."""
        return sorted(name for name, seen in self._seen.items() if seen.unchanged >= self._patience)

    def rows(self) -> dict[str, Published]:
        """The last row of each."""
        return {name: seen.row for name, seen in self._seen.items()}

    def done(self, what: int) -> dict[str, float]:
        """Of all of them together, by tenant, since this replica's first look."""
        total = {tenant: amounts[what] for tenant, amounts in self._forgotten.items()}
        for seen in self._seen.values():
            for tenant, amounts in seen.done.items():
                total[tenant] = total.get(tenant, 0.0) + amounts[what]
        return total


def less(total: tuple[float, ...], before: tuple[float, ...]) -> tuple[float, ...]:
    """What came to it since."""
    return tuple(a - b for a, b in zip(total, before, strict=True))


def plus(total: tuple[float, ...], change: tuple[float, ...]) -> tuple[float, ...]:
    """The sum."""
    return tuple(a + b for a, b in zip(total, change, strict=True))

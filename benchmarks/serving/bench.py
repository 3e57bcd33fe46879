"""What the measuring commands of the server share: pieces that are kept, and how busy the machine was meanwhile.

``--set resume=yes`` goes on with a measurement that was cut off; without it everything is measured anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from benchmarks.kept import kept
from benchmarks.serving.machine import cores, pin
from benchmarks.table import Cell, Options, Table, table
from eunomia.engines.processes import Result

CALM_LOAD = 1.0  # before a measurement that fills the machine itself
QUIET_LOAD = 3.0  # above this load average (1 minute) wall-clock figures are marked provisional


class Bench:
    """One run of a benchmark, on the front end's core.

    ``crowded``: what is measured starts dozens of processes itself, so that only the load before it tells what else the
    machine did.
    """

    def __init__(self, name: str, options: Options, *, crowded: bool = False) -> None:
        self.name, self.again, self.quick = name, "resume" not in options.given, options.quick
        self.busiest = self.before = os.getloadavg()[0]
        self.crowded = crowded
        pin(cores().front)

    def piece(self, compute: Callable[[], Result], **what: object) -> Result:
        """A part of the measurement, kept on disk under ``what``; a table of anything that JSON can say."""
        what = {**what, "quick": self.quick}
        found = kept(f"serving-{self.name}", what, compute, "serving", self.again)
        self.look()
        return found

    def look(self) -> None:
        """Note how busy the machine is."""
        self.busiest = max(self.busiest, os.getloadavg()[0])

    def table(
        self, key: str, columns: str, rows: Iterable[Sequence[Cell]], notes: Iterable[str] = ()
    ) -> Table:
        """A table that says how far its times can be trusted."""
        return table(key, columns, rows, [*notes, self.verdict])

    @property
    def verdict(self) -> str:
        """How far wall-clock figures can be trusted."""
        self.look()
        on = f"on {os.cpu_count()} cores"
        if self.crowded and self.before < CALM_LOAD:
            return (
                f"Quiet machine: load average {self.before:.1f} {on} before the first server was started; up to "
                f"{self.busiest:.1f} with the servers' own processes."
            )
        if self.busiest < QUIET_LOAD:
            return f"Quiet machine: load average at most {self.busiest:.1f} {on}."
        return (
            f"**Provisional**: the machine was busy with other work, load average up to {self.busiest:.1f} {on}. "
            "Times say little; counts hold, and so do ratios of servers that took turns."
        )
